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
from phasewise.record.power import PhasePower
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


def together(run: Run) -> PhasePower:
    assert run.power is not None
    return run.power.phases["mixed"]


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
    found = together(run)
    # One user: 0.1 s of prefill, then 39 steps of 8 ms.
    seconds = 0.1 + 39 * 0.008
    joules = PREFILL_W * 0.1 + DECODE_W * (seconds - 0.1)
    assert found.watts.value == pytest.approx(joules / seconds, rel=0.08)
    assert found.per_token is not None
    assert found.per_token.value == pytest.approx(joules / 1040, rel=0.1)
    assert found.tokens == 1040 * found.requests
    document: dict[str, Any] = done.document
    assert document["power"]["phases"]["mixed"]["watts"] == pytest.approx(found.watts.value)
    assert run.power is not None
    assert any("tokens of the answers alone" in note for note in run.power.notes)
    assert run.power.idle.watts is not None
    assert run.power.idle.watts.value == pytest.approx(IDLE_W, rel=0.02)
    assert {check.name for check in run.power.checks} >= {"throttling", "clock_drift"}

    assert run.load is not None
    (tmp_path / "smi.csv").write_text(monitored(path, run.load.starts[0]))
    joined = phasewise(
        "power", str(path), "--telemetry", "smi.csv", "--zone", "UTC", "--json", "--out", "joined", cwd=tmp_path
    ).document
    assert joined["power"]["phases"]["mixed"]["watts"] == pytest.approx(found.watts.value, rel=0.05)
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
def test_a_sweep_holds_its_power_and_its_checks(tmp_path: Path, bench: tuple[str, dict[str, str]]) -> None:
    url, seen = bench
    done = phasewise("sweep", url, "--budget", "10", "--max-batch", "2", "--json", cwd=tmp_path, **seen)
    assert done.code == 0, done.err
    run, path = made(tmp_path)
    assert IDLE_W < DECODE_W * 0.9 < together(run).watts.value < PREFILL_W
    assert {"throttling", "clock_drift"} <= {check["name"] for check in done.document["checks"]}
    assert run.envelope.zero is not None
    (tmp_path / "smi.csv").write_text(monitored(path, run.envelope.zero))
    joined = phasewise(
        "power", str(path), "--telemetry", "smi.csv", "--zone", "UTC", "--json", "--out", "joined", cwd=tmp_path
    ).document
    assert joined["power"]["phases"]["mixed"]["watts"] == pytest.approx(together(run).watts.value, rel=0.05)
    assert "holds no phase alone" in phasewise("power", "sweep", str(path), cwd=tmp_path).err
    off = phasewise(
        "sweep", url, "--budget", "3", "--max-batch", "1", "--no-power", "--out", "off", "--json", cwd=tmp_path, **seen
    ).document
    assert off["power"]["phases"] is None
    assert os.path.exists(path / "telemetry.parquet")
