"""`phasewise power sweep` from the outside, on the fake NVML and a server whose steps follow the fake's clock."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import nvml_fake
from capped_server import CappedServer, Draws
from phasewise.engines.simulated.plan import Plan
from writers import wait_for_end, writers

SRC = Path(__file__).parents[2] / "src"
FOUND = 650_000
PLAN = Plan(prefill_per_token_s=1e-4, max_context=4096)
WITHIN_S = 2.0
"""The guard's promise."""


class Bench:
    """A fake card, a server on it, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.load = folder, folder / "nvml.json", folder / "load"
        self.env = nvml_fake.environment(self.state, XDG_STATE_HOME=str(folder / "state"), NO_COLOR="1", COLUMNS="160")
        self.env["PYTHONPATH"] += os.pathsep + str(SRC)
        self.plant()

    def plant(self, *more: dict[str, Any], **about: Any) -> None:
        card = nvml_fake.gpu(**{"limit": FOUND, "load": str(self.load), **about})
        nvml_fake.write(self.state, nvml_fake.state(card, *more))

    def command(self, *arguments: str) -> list[str]:
        out = ["--out", str(self.folder / "runs")] if arguments[0] == "sweep" else []
        return [sys.executable, "-c", "from phasewise.cli import main; main()", "power", *arguments, *out]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), env=self.env, capture_output=True, text=True, check=False)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sets(self) -> list[int]:
        return [entry[3] for entry in nvml_fake.read(self.state)["sets"]]

    def limits(self) -> list[int]:
        return nvml_fake.limits(self.state)

    def left_over(self) -> bool:
        return (self.folder / "state" / "phasewise" / "power-limits.json").exists()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def url(bench: Bench) -> Iterator[str]:
    with CappedServer(bench.state, bench.load, PLAN, Draws(prefill_w=600.0, decode_w=280.0)) as server:
        yield server.url


def eventually(seen: Callable[[], bool], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if seen():
            return True
        time.sleep(0.01)
    return seen()


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.mark.alone
@pytest.mark.slow
def test_the_planted_truth_comes_back(bench: Bench, url: str) -> None:
    """Prefill follows the clock and would draw 600 W, decode does not and would draw 280 W: at 300 W only prefill can
    be slowed, by (525/225)^(1/3), the cube root of what is left of its dynamic power over 75 W of idling."""
    done = bench.run("sweep", url, "--set-limits", "--caps", "650,450,300", "--budget", "24s", "--settle", "0.2s",
                     "--prompt", "1024", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert [cap["limit_w"] for cap in told["caps"]] == [650, 450, 300, 650]
    assert told["caps"][3]["again"]
    assert told["verdict"]["phases"]["prefill"]["answer"] == "slows"
    assert told["verdict"]["phases"]["decode"]["answer"] == "never engaged"
    for cap in told["caps"]:
        share = min(1.0, (cap["limit_w"] - 75) / 525) ** (1 / 3)
        planted = PLAN.prefill_overhead_s + 1024 * PLAN.prefill_per_token_s
        assert cap["prefill"]["ttft_s"] == pytest.approx(planted / share, rel=0.02)
        assert cap["prefill"]["sm_hz"] == pytest.approx(1980e6 * share, rel=0.03)
        assert cap["prefill"]["highest_w"] == pytest.approx(min(600, cap["limit_w"]), rel=0.001)
        assert cap["prefill"]["engaged"] == ("yes" if cap["limit_w"] < 600 else "no")
        assert cap["decode"]["engaged"] == "no"
        tokens = 1024
        energy = min(600, cap["limit_w"]) * planted / share / tokens
        assert cap["prefill"]["energy_per_token"] == pytest.approx(energy, rel=0.06)
    lowest = told["caps"][2]
    assert lowest["prefill"]["ratio"] == pytest.approx((525 / 225) ** (1 / 3), rel=0.02)
    assert lowest["decode"]["ratio"] == pytest.approx(1.0, abs=0.02)
    assert told["knee"]["limit_w"] == 300
    assert told["slopes"]["prefill"]["follows"] == "clock"
    assert told["slopes"]["prefill"]["slope"] == pytest.approx(1.0, abs=0.1)
    assert told["cards"][0]["found_w"] == told["cards"][0]["restored_w"] == 650
    assert bench.limits() == [FOUND]
    assert bench.sets() == [650_000, 650_000, 450_000, 300_000, 650_000, 650_000]  # a trial, the caps, and back
    folder = next((bench.folder / "runs").iterdir())
    again = bench.run("sweep", str(folder), "--json")
    assert json.loads(again.stdout)["slopes"]["prefill"]["follows"] == "clock"


@pytest.mark.alone
@pytest.mark.slow
def test_the_h200_decode_that_never_meets_a_cap(bench: Bench, url: str) -> None:
    """Ma et al., arXiv 2605.11999 (notes/papers.md): decode draws 137 to 300 W of 700 W and no cap triggers. The series
    is replayed whatever the limit is, as a recorded one is; the lowest cap stays above what it draws."""
    rows = [
        {"t": i / 10, "power_w": 137 + 163 * (i % 10) / 9, "sm_mhz": 1980, "mem_mhz": 3201, "gpu_pct": 100}
        for i in range(1000)
    ]
    bench.plant(load=None, rows=rows, limit=700_000)
    done = bench.run("sweep", url, "--set-limits", "--caps", "700,350", "--budget", "12s", "--settle", "0s", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for phase in ("prefill", "decode"):
        assert told["verdict"]["phases"][phase]["answer"] == "never engaged"
    assert "it drew 300 W at most" in told["verdict"]["phases"]["decode"]["text"]
    assert told["slopes"]["decode"]["follows"] == "too little spread"


@pytest.mark.alone
@pytest.mark.slow
def test_heat_that_masquerades_as_the_cap(bench: Bench, url: str) -> None:
    hot = [{"t": 0, "power_w": 250, "sm_mhz": 1200, "reasons": 0x40}]
    bench.plant(load=None, rows=hot)
    done = bench.run("sweep", url, "--set-limits", "--caps", "650,350", "--budget", "12s", "--settle", "0s")
    assert "throttled by heat (thermal slowdown), not by a cap" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_without_the_flag_nothing_is_set(bench: Bench, url: str) -> None:
    done = bench.run("sweep", url, "--budget", "5s", "--json")
    assert done.returncode == 0, done.stderr
    assert bench.sets() == []
    told = json.loads(done.stdout)
    assert told["caps"] == []
    assert told["knee"] is None
    assert "--set-limits" in told["reasons"]["knee"]
    assert told["slopes"]["prefill"]["follows"] == "too little spread"


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("sets", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4))])
def test_killed_with_its_whole_group_at_each_set(bench: Bench, url: str, sets: int, signum: int) -> None:
    """The first set is the guard's trial, then each cap; the server is in a session of its own."""
    running = bench.start("sweep", url, "--set-limits", "--caps", "600,400,250", "--budget", "18s", "--settle", "0s")
    try:
        assert eventually(lambda: len(bench.sets()) >= sets, 30)
        if sets > 1:
            assert bench.limits() != [FOUND]
        os.killpg(running.pid, signum)
        killed = time.monotonic()
        assert eventually(lambda: bench.limits() == [FOUND] and not bench.left_over(), WITHIN_S)
        assert time.monotonic() - killed < WITHIN_S
        running.communicate(timeout=20)
        assert bench.limits() == [FOUND]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


@pytest.mark.slow
def test_killed_in_its_second_cap_it_keeps_the_requests_of_the_first(bench: Bench, url: str) -> None:
    """A trial for each cap, numbers and times that go on; the limit is back all the same."""
    running = bench.start("sweep", url, "--set-limits", "--caps", "600,400", "--budget", "15s", "--settle", "0s",
                          "--prompt", "256")  # fmt: skip

    def rows() -> list[tuple[Any, ...]]:
        parts = sorted(map(str, (bench.folder / "runs").glob("*/rows/requests-*.parquet")))
        if not parts:
            return []
        columns = "request, trial, phase, sent_s"
        return duckdb.read_parquet(parts).order("request").project(columns).fetchall()

    try:
        assert eventually(lambda: any(trial == 1 for _, trial, _, _ in rows()), 60)
    finally:
        children = writers(running.pid)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    wait_for_end(children)
    kept = rows()
    assert [number for number, _, _, _ in kept] == list(range(1, len(kept) + 1))
    assert [trial for _, trial, _, _ in kept] == sorted(trial for _, trial, _, _ in kept)
    assert {phase for _, trial, phase, _ in kept if trial == 0} >= {"prefill", "decode"}
    sent = [at for _, _, _, at in kept if at is not None]
    assert sent == sorted(sent)
    assert sent[0] >= 0
    assert eventually(lambda: bench.limits() == [FOUND], WITHIN_S)
    (folder,) = (bench.folder / "runs").iterdir()
    again = [*bench.command("sweep")[:3], "report", str(folder), "--json"]
    shown = subprocess.run(again, env=bench.env, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["status"] == "interrupted"


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_puts_back(bench: Bench, url: str) -> None:
    running = bench.start("sweep", url, "--set-limits", "--caps", "600,400,250", "--budget", "20s", "--settle", "0s",
                          "--json")  # fmt: skip
    assert eventually(lambda: len(bench.sets()) >= 3, 60)
    time.sleep(1.5)
    os.killpg(running.pid, signal.SIGINT)
    said, complaint = running.communicate(timeout=30)
    assert running.returncode == 130, complaint
    told = json.loads(said)
    assert told["status"] == "interrupted"
    assert [cap["limit_w"] for cap in told["caps"]] == [600, 400]
    assert told["cards"][0]["restored_w"] == 650
    assert bench.limits() == [FOUND]


def test_both_killed_and_then_restored(bench: Bench, url: str) -> None:
    running = bench.start("sweep", url, "--set-limits", "--caps", "600,400", "--budget", "20s", "--settle", "0s")
    assert eventually(lambda: len(bench.sets()) >= 3 or bench.limits() == [600_000], 30)
    guard = nvml_fake.read(bench.state)["sets"][0][1]
    os.kill(running.pid, signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert bench.limits() == [600_000]
    assert bench.left_over()
    done = bench.run("restore", "--json")
    assert done.returncode == 0
    (card,) = json.loads(done.stdout)["cards"]
    assert (card["met_w"], card["restored_w"]) == (600, 650)
    assert bench.limits() == [FOUND]
    assert bench.run("restore").stdout == "No limit is to be put back.\n"


def test_a_driver_that_ignores_the_limit_ends_the_sweep(bench: Bench, url: str) -> None:
    bench.plant(driver="ignores")
    done = bench.run("sweep", url, "--set-limits", "--caps", "600,400", "--budget", "20s", "--settle", "0s")
    assert done.returncode == 2
    assert "kept 650 W although 600 W was set" in one_sentence(done)
    assert bench.limits() == [FOUND]


@pytest.mark.parametrize(
    ("about", "arguments", "told"),
    [
        ({"mig": [1, 1]}, [], "split by MIG"),
        ({}, ["--caps", "100"], "200 to 700 W"),
        ({}, ["--caps", "watts"], "is not a list of watts"),
        ({}, ["--gpus", "7"], "no GPU '7'"),
        ({}, ["--gpus", ","], "names no card"),
        ({}, ["--budget", "3s"], "too little for 5 caps"),
        ({"lost": True}, [], "does not answer"),
    ],
)
def test_refused_in_one_sentence_and_nothing_is_set(
    bench: Bench, about: dict[str, Any], arguments: list[str], told: str
) -> None:
    bench.plant(**about)
    done = bench.run("sweep", "http://127.0.0.1:9", "--set-limits", *arguments)
    assert done.returncode == 2
    assert told in one_sentence(done)
    assert bench.sets() == []


def test_no_permission(bench: Bench, url: str) -> None:
    state = nvml_fake.state(nvml_fake.gpu(), nvmlDeviceSetPowerManagementLimit={"error": 4})
    nvml_fake.write(bench.state, state)
    done = bench.run("sweep", url, "--set-limits")
    assert done.returncode == 2
    assert "start it with sudo" in one_sentence(done)
    assert not (bench.folder / "runs").exists()


def test_one_of_several_cards_must_be_named(bench: Bench) -> None:
    bench.plant(nvml_fake.gpu(uuid="GPU-1"))
    done = bench.run("sweep", "http://127.0.0.1:9", "--set-limits")
    assert "this machine has 2 GPUs" in one_sentence(done)
    assert bench.sets() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name what to measure"),
        (["http://127.0.0.1:9", "--caps", "300"], "add --set-limits"),
        (["http://127.0.0.1:9", "--gpus", "0"], "add --set-limits"),
        (["http://192.0.2.7:80"], "is not this machine"),
        (["a", "b"], "is no run"),
        ([".", "--set-limits"], "needs a running engine"),
    ],
)
def test_mistakes(bench: Bench, arguments: list[str], told: str) -> None:
    done = bench.run("sweep", *arguments)
    assert done.returncode == 2
    assert told in one_sentence(done)


def test_without_a_gpu(bench: Bench) -> None:
    del bench.env["FAKE_NVML"]
    for more in ([], ["--set-limits"]):
        said = one_sentence(bench.run("sweep", "http://127.0.0.1:9", *more))
        assert re.search("no power limit can be read here|Nothing listens", said)
    assert bench.run("restore").stdout == "No limit is to be put back.\n"


def test_a_saved_sweep_is_shown_by_report_and_power_says_so(bench: Bench, url: str) -> None:
    made = bench.run("sweep", url, "--budget", "6")
    assert made.returncode in (0, 3), made.stderr
    (run,) = (bench.folder / "runs").iterdir()
    for arguments in ((str(run),), (str(run), "--telemetry", "smi.csv")):
        done = bench.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"phasewise report {run} shows it" in done.stderr


def test_a_damaged_file_of_limits_is_told_and_keeps_nothing_from_running(bench: Bench) -> None:
    file = bench.folder / "state" / "phasewise" / "power-limits.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    done = bench.run("show", "--for", "300ms")
    assert done.returncode == 0
    assert "power-limits.json is damaged" in done.stderr
    assert file.exists()
    assert bench.run("restore").returncode == 2
