"""benchmarks/gpu on a CPU with a tiny shape: the whole script, its files, and its table against `phasewise predict`.

The table alone is held against hand arithmetic on made-up times, and the plan against the design's reference case.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from engines_python import ROOT, environment, python

GPU = ROOT / "benchmarks/gpu"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The parts of the script that need no torch."""
    import importlib

    monkeypatch.syspath_prepend(str(GPU))
    names = ("plan", "table", "predicted")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


def made_up(parts: dict[str, ModuleType]) -> dict[str, Any]:
    """Results in which every time is planted: prefill 5 ms + 10 µs·N + 0.2 ns·N², decode 6 ms + 1 µs·batch."""
    from phasewise.hardware import catalogue
    from phasewise.predict.roofline import roofs

    plan = parts["plan"].PLANS["llama-3-8b"]()
    machine = catalogue.machine(catalogue.find("h100-sxm"))
    model = parts["predicted"].of_config(plan.config, plan.shape, "bf16")
    subject = parts["predicted"].Subject(model, machine, roofs(model, machine))
    points = []
    for point in (*plan.of_the_seed(), *plan.sweeps()):
        n = point.tokens * point.batch
        prefill = 5e-3 + 10e-6 * n + 0.2e-9 * n * point.tokens
        seconds = prefill if point.phase == "prefill" else 6e-3 + 1e-6 * point.batch
        points.append(parts["predicted"].row(subject, point, "eager", (seconds,) * 6))
    return {
        "plan": plan._asdict(),
        "machine": msgspec.to_builtins(machine),
        "prediction": msgspec.to_builtins(subject.prediction(plan)),
        "points": points,
        "power": {"prefill": {"power.draw": 630.0}, "decode": {"power.draw": 350.0, "utilization.gpu": 100.0}},
        "traces": {"decode": {"kernels_per_step": 450.0, "graph_launches": 0, "steps": 4, "busy_fraction": 0.7}},
        "counters": {"prefill": {"compute": 0.8, "memory": 0.3}},
    }


def test_the_table_is_hand_arithmetic_on_the_points(parts: dict[str, ModuleType]) -> None:
    found = {row.key: row for row in parts["table"].rows(made_up(parts))}

    def eager(key: str) -> float:
        value = found[key].eager
        assert value is not None, key
        return float(value)

    assert eager("prefill") == pytest.approx(5e-3 + 20e-3 + 0.8e-3)
    assert eager("crossover") == pytest.approx(10e-6 / 0.2e-9, rel=1e-6)
    long = 32768
    assert eager("attention_long") == pytest.approx(
        0.2e-9 * long**2 / (5e-3 + 10e-6 * long + 0.2e-9 * long**2), rel=1e-6
    )
    assert eager("gain") == eager("gain_short") == pytest.approx(64 * 6.001 / 6.064)
    assert eager("prompts") == pytest.approx((5 + 80 + 0.2e-6 * 8000 * 2000) / 25.8)
    assert eager("decode_share") == pytest.approx(299 * 6.001 / (299 * 6.001 + 25.8))
    assert eager("launches") == 0
    assert eager("sol_prefill_compute") == 0.8
    assert eager("power_prefill") == pytest.approx(0.9)
    assert found["power_decode"].graphs == pytest.approx(0.5)
    assert found["utilisation"].graphs == 1
    assert found["sol_decode_memory"].eager is None
    assert {row.graphs for row in found.values() if row.unit == "s"} == {None}


def test_the_prediction_is_the_reference_case(parts: dict[str, ModuleType]) -> None:
    """design.md's figures for Llama 3 8B on an H100, counted."""
    found = {row.key: row.predicted for row in parts["table"].rows(made_up(parts))}
    # 29.3 ms of math; operation by operation lm_head and the writing of KV wait for memory.
    assert 29.2e-3 < found["prefill"] < 29.9e-3
    assert found["decode"] == pytest.approx(4.56e-3, rel=0.01)
    assert found["attention_short"] == pytest.approx(0.036, abs=0.003)
    assert found["attention_long"] == pytest.approx(0.375, abs=0.01)
    assert found["crossover"] == pytest.approx(53_250, rel=0.01)
    assert found["batch"] == pytest.approx(9.49e-3, rel=0.01)
    assert found["gain"] == pytest.approx(30.7, rel=0.01)
    assert found["prompts"] == pytest.approx(4, rel=0.01)
    assert found["decode_share"] > 0.95


def test_every_line_has_its_word_of_the_seed(parts: dict[str, ModuleType]) -> None:
    table = parts["table"]
    found = made_up(parts)
    assert {row.key for row in table.rows(found)} == table._SEED.keys()
    lines = table.text(found).splitlines()
    assert len(lines) == 2 + len(table._SEED)
    assert {line.count("|") for line in lines} == {6}


def run(tmp: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [python(), str(GPU / "run.py"), "--out", str(tmp / "out"), "--device", "cpu", "--shape", "tiny", *more]
    env = {**environment(tmp_made(tmp / "lent")), "XDG_CACHE_HOME": str(tmp / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=600)


def tmp_made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run."""
    tmp = tmp_path_factory.mktemp("gpu")
    done = run(tmp, "--ceilings", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp / "out"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_run_on_the_cpu(ran: Path) -> None:
    found = json.loads((ran / "results.json").read_bytes())
    assert found["status"] == "complete"
    assert [(one["phase"], one["tokens"], one["batch"]) for one in found["points"]] == [
        *(("prefill", 24, 1), ("decode", 24, 1), ("decode", 24, 4), ("decode", 8, 1), ("decode", 8, 4)),
        *(("prefill", 24, 4), ("prefill", 8, 1), ("prefill", 64, 1), ("decode", 64, 1), ("decode", 64, 4)),
    ]
    for one in found["points"]:
        assert one["mode"] == "eager"
        assert one["passes"] * one["seconds"]["value"] > 0.1  # loops of 200 ms, less a slow pass
        assert one["seconds"]["low"] <= one["seconds"]["value"] <= one["seconds"]["high"]
        floor = one["predicted"]["measured"]
        assert one["mfu"] == pytest.approx(floor["compute_s"] / one["seconds"]["value"])
        assert one["mbu"] == pytest.approx(floor["memory_s"] / one["seconds"]["value"])
    assert {"torch", "transformers"} <= found["card"]["versions"].keys()
    ceilings = found["machine"]["ceilings"][0]
    assert ceilings["basis"] == "measured"
    assert min(one["value"] for one in (ceilings["bandwidth"], ceilings["copy_bandwidth"])) > 1e8
    assert [line.split(":")[0] for line in found["transformers"]] == ["prefill", "decode"]
    told = " ".join(found["left_out"])
    assert told.count("CUDA graphs need a GPU") == len(found["points"])
    assert "ncu counts on a GPU" in told
    assert "nvidia-smi watches a GPU" in told


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_traces_read_back_as_what_was_run(ran: Path) -> None:
    traces = json.loads((ran / "results.json").read_bytes())["traces"]
    assert {name: one["steps"] for name, one in traces.items()} == {"prefill": 2, "decode": 4}
    assert traces["prefill"]["labels"] == [
        "phasewise:step prefill requests=1 tokens=24 context=24 squares=576 products=576"
    ]
    assert traces["decode"]["labels"] == ["phasewise:step decode requests=1 tokens=1 context=25 squares=1 products=25"]
    for one in traces.values():
        assert one["kernels_per_step"] > 20  # two layers of four matmuls, two norms, attention
        assert {"gemm", "attention", "norm"} <= one["families"].keys()
        assert 0 < one["floor_s"] < one["step_s"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_table_says_what_phasewise_predict_says(ran: Path) -> None:
    found = json.loads((ran / "results.json").read_bytes())
    ceilings = found["machine"]["ceilings"][0]
    peak = ceilings["compute"].get("bf16", ceilings["compute"]["fp32"])["value"]
    rates = ["--peak", f"{peak!r}FLOP/s", "--bandwidth", f"{ceilings['bandwidth']['value']!r}B/s"]

    def predicted(prompt: int, batch: int = 1) -> dict[str, Any]:
        program = [sys.executable, "-c", "from phasewise.cli import main; main()", "predict", str(ran / "config.json")]
        more = ["--prompt", str(prompt), "--answer", "8", "--batch", str(batch), "--json"]
        done = subprocess.run([*program, *rates, *more], capture_output=True, text=True, check=True)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    for one in found["points"]:
        said = predicted(one["tokens"], one["batch"])
        if one["phase"] == "decode" or one["batch"] == 1:
            assert one["predicted"]["measured"]["time_s"] == pytest.approx(said[one["phase"]]["time_s"]), one
    table = (ran / "notes.md").read_text(encoding="utf-8")
    said = predicted(24)
    for line, value in (
        ("prefill of 24 tokens", f"{1e6 * said['prefill']['time_s']:.3g} µs"),
        ("decode step at 24 tokens", f"{1e6 * said['decode']['time_s']:.3g} µs"),
        ("attention equals the rest at", f"{said['attention_crossover_tokens']:,.0f} tokens"),
        (
            "throughput of batch 4 over 1",
            f"×{next(r for r in said['batch'] if r['batch'] == 4)['throughput_gain']:.1f}",
        ),
        ("decode's part of 24 in, 8 out", f"{100 * said['request']['decode_share']:.3g}%"),
    ):
        assert f"| {line} |  | {value} |" in table, (line, value, table)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_there_is_no_time_for_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "--ceilings", "1", "--minutes", "0.05")
    assert done.returncode == 3, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/results.json").read_bytes())
    assert found["status"] == "partial"
    assert found["left_out"][-1] == "the rest: the time was up"
    assert "the time was up" in (tmp_path / "out/notes.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_is_ended_keeps_what_it_measured(tmp_path: Path) -> None:
    command = [
        python(),
        "-u",
        str(GPU / "run.py"),
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
        "--shape",
        "tiny",
    ]
    env = {**environment(tmp_made(tmp_path / "lent")), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen([*command, "--ceilings", "1"], stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("decode of 24 tokens, batch 1, eager:"):
                os.kill(child.pid, signal.SIGTERM)
        child.wait()
    assert child.returncode == 3
    found = json.loads((tmp_path / "out/results.json").read_bytes())
    assert (found["status"], len(found["points"]) >= 2) == ("partial", True)
    assert "SIGTERM" in found["left_out"][-1]


@pytest.mark.slow
def test_the_program_that_ncu_runs(tmp_path: Path) -> None:
    for phase in ("prefill", "decode"):
        command = [python(), str(GPU / "counters.py"), phase, "tiny", "cpu"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(tmp_made(tmp_path / phase)), check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_no_gpu_is_said_in_a_sentence(tmp_path: Path) -> None:
    command = [python(), str(GPU / "run.py"), "--out", str(tmp_path / "out")]
    env = {**environment(tmp_made(tmp_path / "lent")), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("--device cpu --shape tiny")
    assert not (tmp_path / "out").exists()
