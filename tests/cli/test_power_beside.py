"""Power beside `load` and `sweep`, on the fake NVML and a server whose steps draw planted watts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_run import phasewise

import nvml_fake
from capped_server import CappedServer, Draws
from phasewise.engines.simulated.plan import Plan
from phasewise.record.power import PhasePower, PowerPhase
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run, load

IDLE_W, PREFILL_W, DECODE_W = 75.0, 650.0, 300.0
PLAN = Plan(prefill_per_token_s=1e-4, decode_overhead_s=8e-3, max_context=4096)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server's URL and the variables under which the command sees its GPU."""
    state, drawn = tmp_path / "nvml.json", tmp_path / "load"
    nvml_fake.write(state, nvml_fake.state(nvml_fake.gpu(load=str(drawn), idle_w=IDLE_W)))
    seen = nvml_fake.environment(state)
    with CappedServer(state, drawn, PLAN, Draws(prefill_w=PREFILL_W, decode_w=DECODE_W)) as server:
        yield server.url, {name: seen[name] for name in ("FAKE_NVML", "PYTHONPATH")}


def made(folder: Path) -> tuple[Run, Path]:
    path = next((folder / "phasewise-runs").iterdir())
    return load(path), path


def of(run: Run, phase: PowerPhase) -> PhasePower:
    assert run.power is not None
    assert phase in run.power.phases, run.power.missing
    return run.power.phases[phase]


def value(quantity: Quantity | None) -> float:
    assert quantity is not None
    return quantity.value


def monitored(path: Path, zero: float) -> str:
    """What nvidia-smi would have written of the readings beside the run."""
    import duckdb

    rows = duckdb.read_parquet(str(path / "telemetry.parquet")).project('"at", watts, utilisation').fetchall()
    lines = ["timestamp, index, power.draw.instant [W], utilization.gpu [%]"]
    for at, watts, busy in rows:
        when = datetime.fromtimestamp(zero + at, UTC).strftime("%Y/%m/%d %H:%M:%S.%f")
        lines.append(f"{when}, 0, {watts:.2f} W, {100 * busy:.0f} %")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_a_load_run_tells_watts_and_joules_of_all_its_tokens(tmp_path: Path, bench: tuple[str, dict[str, str]]) -> None:
    url, seen = bench
    flags = ("--users", "1", "--duration", "4s", "--prompt", "1000", "--answer", "40", "--warmup", "2", "--json")
    done = phasewise("load", url, *flags, cwd=tmp_path, **seen)
    assert done.code == 0, done.err
    run, path = made(tmp_path)
    found = of(run, "all")
    # One user: 0.1 s of prefill, then 39 steps of 8 ms.
    seconds = 0.1 + 39 * 0.008
    joules = PREFILL_W * 0.1 + DECODE_W * (seconds - 0.1)
    assert found.watts.value == pytest.approx(joules / seconds, rel=0.08)
    assert found.per_token is not None
    assert found.per_token.value == pytest.approx(joules / 1040, rel=0.1)
    assert found.tokens == 1040 * found.requests
    document: dict[str, Any] = done.document
    assert document["power"]["phases"]["all"]["watts"] == pytest.approx(found.watts.value)
    # Between its first token and its last nothing else runs: 8 ms a token at 300 W. A prompt's 0.1 s are too short.
    decode = of(run, "decode")
    assert decode.watts.value == pytest.approx(DECODE_W, rel=0.03)
    assert value(decode.per_token) == pytest.approx(DECODE_W * 8.1e-3, rel=0.05)
    assert run.power is not None
    assert "shorter than 0.2 s" in run.power.missing["mixed"]
    assert "cannot tell a prompt that is computed from one that waits" in run.power.boundary
    assert any("tokens of the answers alone" in note for note in run.power.notes)
    assert run.power.idle.watts is not None
    assert run.power.idle.watts.value == pytest.approx(IDLE_W, rel=0.02)
    assert {check.name for check in run.power.checks} >= {"throttling", "clock_drift"}

    assert run.load is not None
    (tmp_path / "smi.csv").write_text(monitored(path, run.load.starts[0]))
    joined = phasewise(
        "power", str(path), "--telemetry", "smi.csv", "--zone", "UTC", "--json", "--out", "joined", cwd=tmp_path
    ).document
    assert joined["power"]["phases"]["all"]["watts"] == pytest.approx(found.watts.value, rel=0.05)
    assert joined["power"]["phases"]["decode"]["watts"] == pytest.approx(DECODE_W, rel=0.05)
    failed = [check["name"] for check in joined["power"]["checks"] if check["status"] == "failed"]
    assert "spin_waiting" not in failed  # the warm-up is known to have run
    refused = phasewise("power", "sweep", str(path), cwd=tmp_path)
    assert refused.code == 2
    assert "holds no phase alone" in refused.err


@pytest.mark.slow
def test_throttled_by_heat_a_load_run_is_not_to_be_compared(tmp_path: Path) -> None:
    row = nvml_fake.ROW | {"power_w": 400.0, "sm_mhz": 1500, "gpu_pct": 100, "reasons": 0x20}
    idle = nvml_fake.ROW | {"power_w": 75.0, "sm_mhz": 1980}
    state = tmp_path / "nvml.json"
    nvml_fake.write(state, nvml_fake.state(nvml_fake.gpu(rows=[idle, row | {"t": 2.5}])))
    seen = {name: nvml_fake.environment(state)[name] for name in ("FAKE_NVML", "PYTHONPATH")}
    with CappedServer(state, tmp_path / "load", PLAN, Draws()) as server:
        began = time.monotonic()
        nvml_fake.change(state, lambda content: content.update(epoch=began))
        flags = ("--users", "1", "--duration", "3s", "--warmup", "0", "--answer", "20", "--json")
        done = phasewise("load", server.url, *flags, cwd=tmp_path, **seen)
    checks = {check["name"]: check for check in done.document["power"]["checks"]}
    assert checks["throttling"]["status"] == "failed"
    assert checks["throttling"]["voids"]
    assert done.code == 3


@pytest.mark.slow
def test_a_load_of_long_prompts_tells_the_time_with_one_in_the_air(
    tmp_path: Path, bench: tuple[str, dict[str, str]]
) -> None:
    """Three users with 0.35 s of prefill and 0.8 s of decode each: prompts follow each other into running decodes."""
    url, seen = bench
    flags = ("--users", "3", "--duration", "8s", "--prompt", "3500", "--answer", "100", "--warmup", "1", "--json")
    done = phasewise("load", url, *flags, cwd=tmp_path, **seen)
    assert done.code == 0, done.err
    run, _ = made(tmp_path)
    mixed = of(run, "mixed")
    # A prompt that is in the air has the engine to itself, or waits for a step of decode.
    assert mixed.watts.value == pytest.approx(PREFILL_W, rel=0.1)
    assert of(run, "all").watts.value < mixed.watts.value


@pytest.mark.slow
def test_a_sweep_tells_its_power_by_phase_and_by_batch(tmp_path: Path, bench: tuple[str, dict[str, str]]) -> None:
    url, seen = bench
    done = phasewise("sweep", url, "--budget", "20", "--max-batch", "8", "--json", cwd=tmp_path, **seen)
    assert done.code == 0, done.err
    run, path = made(tmp_path)
    assert run.power is not None
    prefill, decode, mixed = of(run, "prefill"), of(run, "decode"), of(run, "mixed")
    # Between two prompts it idles: that part is said, and belongs to the window.
    assert prefill.watts.value == pytest.approx(prefill.busy * PREFILL_W + (1 - prefill.busy) * IDLE_W, rel=0.08)
    assert decode.watts.value == pytest.approx(DECODE_W, rel=0.03)
    assert DECODE_W < mixed.watts.value < PREFILL_W
    assert value(prefill.per_token) == pytest.approx(prefill.joules.value / (prefill.tokens or 0))
    assert value(run.power.idle.watts) == pytest.approx(IDLE_W, rel=0.02)
    assert run.sweep is not None
    assert run.sweep.surface is not None
    step = {one.batch: one.step for one in run.sweep.surface.cells if one.prompt_tokens < 100}
    figures = {one.batch: one.figures for one in run.power.batches if one.prompt_tokens < 100}
    assert set(figures) >= {1, 2, 4, 8}
    per = {batch: value(one.per_token) for batch, one in figures.items() if one is not None}
    assert per[1] > per[2] > per[4] > per[8]
    for batch, joules in per.items():
        assert joules == pytest.approx(DECODE_W * value(step[batch]) / batch, rel=0.04)
    document: dict[str, Any] = done.document
    shown = {row["batch"]: row for row in document["power"]["batches"] if row["prompt_tokens"] < 100}
    assert shown[8]["j_per_token"] == pytest.approx(per[8])
    assert shown[8]["share_of_limit"] == pytest.approx(DECODE_W / 700, rel=0.03)
    assert {"throttling", "clock_drift"} <= {check["name"] for check in document["checks"]}
    text = phasewise("report", str(path), cwd=tmp_path).out
    assert "Decode by batch" in text
    assert "J per output token" in text

    assert run.envelope.zero is not None
    (tmp_path / "smi.csv").write_text(monitored(path, run.envelope.zero))
    joined = phasewise(
        "power", str(path), "--telemetry", "smi.csv", "--zone", "UTC", "--json", "--out", "joined", cwd=tmp_path
    ).document
    # A file holds no counter, and a reading every 50 ms of watts that jump is a rough mean of short windows.
    compared: tuple[tuple[PowerPhase, float], ...] = (("prefill", 0.2), ("decode", 0.05), ("mixed", 0.2))
    for phase, within in compared:
        assert joined["power"]["phases"][phase]["watts"] == pytest.approx(of(run, phase).watts.value, rel=within)
    assert [row["batch"] for row in joined["power"]["batches"]] == [one.batch for one in run.power.batches]
    assert "holds no phase alone" in phasewise("power", "sweep", str(path), cwd=tmp_path).err
    off = phasewise(
        "sweep", url, "--budget", "3", "--max-batch", "1", "--no-power", "--out", "off", "--json", cwd=tmp_path, **seen
    ).document
    assert off["power"]["phases"] is None
    assert os.path.exists(path / "telemetry.parquet")
