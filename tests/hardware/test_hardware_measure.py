"""Measured ceilings: what is made of the rounds that programs report, how their failures end, and the real programs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hardware_programs import end, plant, plant_stages, round_of, stage

from phasewise.errors import MissingExtra, PhasewiseError, UsageError
from phasewise.hardware import catalogue, ceilings, child, host, measure_cpu, stages
from phasewise.hardware.detect import this_cpu
from phasewise.record.machine import Machine

GPU = Machine(name="NVIDIA RTX A4000", kind="gpu", local=True)


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path)


def test_best_is_the_value_and_calm_rounds_are_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        round_of("fp32", 90e9),
        round_of("read", 20e9),
        round_of("fp32", 100e9),
        round_of("fp32", 40e9, cpu_share=0.4),
        round_of("copy", 30e9),
        end(),
    ]
    plant_stages(monkeypatch, stage(lines=lines))
    found = ceilings.measure(this_cpu(), 1.0)
    peak = found.compute["fp32"]
    assert (peak.value, peak.low, peak.high, peak.unit, peak.provenance) == (100e9, 90e9, 100e9, "FLOP/s", "measured")
    assert peak.source.startswith("planted, a test, 2 threads, 20")
    assert found.bandwidth is not None
    assert found.copy_bandwidth is not None
    assert (found.bandwidth.value, found.bandwidth.unit) == (20e9, "B/s")
    assert found.copy_bandwidth.value == 30e9
    assert (found.basis, "too low" in found.how) == ("measured", False)


def test_a_dtype_slower_than_float32_is_no_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [round_of("fp32", 100e9), round_of("bf16", 60e9), round_of("int8", 400e9), end()]
    plant_stages(monkeypatch, stage(lines=lines))
    assert list(ceilings.measure(this_cpu(), 1.0).compute) == ["int8", "fp32"]


def test_the_better_of_two_stages_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ([round_of("fp32", rate), end(left_out={"fp8": "no such unit"})] for rate in (70e9, 50e9))
    plant_stages(monkeypatch, stage(0.5, lines=first), stage(0.5, lines=second))
    found = ceilings.measure(this_cpu(), 1.0)
    assert found.compute["fp32"].value == 70e9
    assert "fp8 was left out: no such unit." in found.how


def test_other_programs_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_stages(monkeypatch, stage(lines=[round_of("fp32", 70e9, cpu_share=0.65), end()]))
    found = ceilings.measure(this_cpu(), 1.0)
    assert "Other programs took 35% of the CPU time" in found.how
    assert found.compute["fp32"].low == 70e9


def test_a_crash_without_the_pinned_kernels_falls_back_to_them_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    both = stages.environments(2)
    assert [child.PINNED[0] in one for one in both] == [False, True]
    assert both[0]["OPENBLAS_NUM_THREADS"] == "2"
    lines = [round_of("fp32", 70e9), end()]
    plant_stages(monkeypatch, stage(lines=lines, environments=both, crash_without="OPENBLAS_CORETYPE"))
    found = ceilings.measure(this_cpu(), 1.0)
    assert found.compute["fp32"].value == 70e9
    assert "ran with OPENBLAS_CORETYPE" in found.how
    assert "because without: it was ended by SIGILL." in found.how


def test_nothing_pinned_means_one_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in child.PINNED:
        monkeypatch.delenv(name, raising=False)
    assert len(stages.environments(1)) == 1


def test_one_failing_stage_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    good = stage(0.5, lines=[round_of("read", 20e9), end()])
    bad = stage(0.5, lines=[round_of("fp32", 70e9)], dies="the product was wrong by 3")
    plant_stages(monkeypatch, bad, good)
    found = ceilings.measure(this_cpu(), 1.0)
    assert found.compute == {}  # a round without an end is not believed
    assert "planted matmuls could not be measured: the product was wrong by 3." in found.how


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"dies": "\x1b[31mout of memory"}, r"\[31mout of memory"),
        ({"dies": 7}, "exit code 7"),
        ({"lines": ["no json", "{}", '{"type":"round"}']}, "exit code 0"),
        ({"lines": [round_of("fp32", 1e9)]}, "exit code 0"),
    ],
)
def test_a_program_that_does_not_end_well_has_measured_nothing(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object], reason: str
) -> None:
    plant_stages(monkeypatch, stage(**arguments))
    with pytest.raises(PhasewiseError, match=reason) as told:
        ceilings.measure(this_cpu(), 1.0)
    assert str(told.value).isprintable()


def test_a_program_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "_LONGER", 0.2)
    plant_stages(monkeypatch, stage(sleep=60))
    begin = time.perf_counter()
    with pytest.raises(PhasewiseError, match="SIGKILL"):
        ceilings.measure(this_cpu(), 0.1)
    assert time.perf_counter() - begin < 30


def test_an_interrupted_measurement_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    popen = child.subprocess.Popen

    def remember(*arguments: object, **more: object) -> object:
        started.append(popen(*arguments, **more))  # type: ignore[call-overload]
        return started[-1]

    def interrupt(label: str, done: float) -> None:
        if started:
            raise KeyboardInterrupt

    monkeypatch.setattr(child.subprocess, "Popen", remember)
    plant_stages(monkeypatch, stage(lines=[round_of("fp32", 1e9)], sleep=0.1), stage(sleep=60))
    with pytest.raises(KeyboardInterrupt):
        ceilings.measure(this_cpu(), 1.0, interrupt)
    assert [process.returncode is not None for process in started] == [True]


def test_progress_goes_from_nothing_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [round_of("fp32", 1e9), round_of("fp32", 1e9), end()]
    plant_stages(monkeypatch, stage(0.5, lines=lines), stage(0.5, lines=lines))
    seen: list[float] = []
    ceilings.measure(this_cpu(), 1.0, lambda label, done: seen.append(done))
    assert seen == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]


def test_only_this_machine_can_be_measured() -> None:
    with pytest.raises(UsageError, match="only this machine"):
        ceilings.measure(catalogue.machine(catalogue.find("h100-sxm")))


def test_a_gpu_without_pytorch_is_not_measured_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install torch"):
        ceilings.measure(GPU)


def test_pytorch_on_another_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_stages(monkeypatch, stage(lines=[round_of("bf16", 1e12), end(device="NVIDIA L4")]))
    with pytest.raises(UsageError, match="computes on NVIDIA L4"):
        ceilings.measure(GPU, 1.0)
    for machine in (Machine(name="l4", kind="gpu", local=True), Machine(name="NVIDIA L4", kind="gpu", local=True)):
        assert ceilings.measure(machine, 1.0).compute["bf16"].value == 1e12


@pytest.mark.parametrize(
    ("cpu", "rows", "nbytes"),
    [
        (host.Cpu("", "", 2, 2, 32 * 2**20, 24 * 2**30, False), 2560, 256 * 2**20),
        (host.Cpu("", "", 96, 96, 384 * 2**20, 768 * 2**30, False), 8192, 8 * 384 * 2**20),
        (host.Cpu("", "", 4, 4, None, 2 * 2**30, False), 2048, 128 * 2**20),  # two arrays: an eighth of the memory
        (host.Cpu("", "", 4, 4, 2**20, None, False), 2048, 256 * 2**20),
    ],
)
def test_sizes_are_larger_than_the_caches_and_fit_the_memory(cpu: host.Cpu, rows: int, nbytes: int) -> None:
    planned = stages._cpu(cpu, torch=False)
    assert planned[0].arguments["sizes"] == (1024, rows)
    assert planned[-1].arguments["nbytes"] == nbytes
    assert 3 * 4 * rows**2 > (cpu.cache or 0)
    assert sum(one.share for one in planned) == pytest.approx(1.0)


def test_threads_that_share_cores_are_measured_both_ways() -> None:
    cpu = host.Cpu("", "", 8, 4, None, None, False)
    planned = stages._cpu(cpu, torch=True)
    assert [one.arguments.get("threads") for one in planned] == [4, 8, None, 8]
    assert planned[0].environments[0]["OMP_NUM_THREADS"] == "4"
    assert sum(one.share for one in planned) == pytest.approx(1.0)


def test_the_check_of_a_product_finds_a_wrong_one() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((300, 300), dtype=np.float32) for _ in range(2))
    measure_cpu.check(a, b, a @ b)
    for wrong in ((a @ b) * np.float32(1.001), np.zeros_like(a), a @ b.T, np.full_like(a, np.nan)):
        with pytest.raises(SystemExit, match="wrong by"):
            measure_cpu.check(a, b, wrong)


@pytest.mark.parametrize(("task", "quantities"), [("matmul", {"fp32"}), ("bandwidth", {"read", "copy"})])
def test_the_real_program_reports_every_round(task: str, quantities: set[str]) -> None:
    heard: list[child.Round] = []
    sizes = {"matmul": {"sizes": (256, 128)}, "bandwidth": {"nbytes": 2**20}}[task]
    ended = child.run(
        "phasewise.hardware.measure_cpu",
        {"type": task, "threads": 2, "seconds": 0.2} | sizes,
        child.environment(2, pinned=True),
        60,
        heard.append,
    )
    assert "numpy" in ended.by
    assert {one.quantity for one in heard} == quantities
    assert len(heard) == child.ROUNDS * len(quantities)
    assert all(one.rate > 0 and one.cpu_share > 0 for one in heard)


@pytest.mark.alone
@pytest.mark.slow
def test_the_real_thing_agrees_with_a_stopwatch() -> None:
    """An oracle with other calls: float32 matmuls of 1,024 rows, and memory copied by ``bytes``."""
    found = ceilings.measure(this_cpu(), 4.0)
    a = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    flops = 2 * 1024**3 / min(_seconds(lambda: a @ a) for _ in range(20))
    block = bytearray(np.random.default_rng(0).bytes(256 * 2**20))
    traffic = 2 * len(block) / min(_seconds(lambda: bytes(block)) for _ in range(5))
    assert 0.5 * flops < found.compute["fp32"].value < 8 * flops  # the stopwatch may run on pinned, slower kernels
    assert found.bandwidth is not None
    assert 0.3 * traffic < found.bandwidth.value < 20 * traffic * host.cpu().threads


def _seconds(call: object) -> float:
    begin = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - begin


def test_measuring_imports_no_heavy_library_here() -> None:
    code = (
        "import sys, phasewise.hardware.ceilings, phasewise.hardware.detect\n"
        "print({'numpy', 'scipy', 'torch'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
