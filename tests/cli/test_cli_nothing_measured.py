"""Ctrl-C before anything was measured: one sentence, 130, and no folder that would look like a run."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import COMMAND, environment

from phasewise.engines.simulated import Plan, SimulatedServer

SLOW = Plan(prefill_overhead_s=1e-3, prefill_per_token_s=4e-3, decode_overhead_s=1e-3, max_context=8192)
"""What asks who the server is takes some seconds, a prompt of 6,000 tokens half a minute."""


@pytest.fixture  # one for each: it works on what was broken off
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer(SLOW) as running:
        yield running


@pytest.mark.parametrize(
    "given",
    [
        ("load", "--users", "2", "--prompt", "6000"),
        ("load", "--users", "2", "--prompt", "6000", "--warmup", "0"),
        ("load", "--rate", "2", "--prompt", "6000", "--ttft", "1s", "--find-rate", "--warmup", "0"),
        ("profile", "--lengths", "6000", "--phase", "prefill"),
    ],
    ids=" ".join,
)
def test_ctrl_c_before_anything_is_measured_leaves_no_folder(
    server: SimulatedServer, tmp_path: Path, given: tuple[str, ...]
) -> None:
    verb, *more = given
    command = [*COMMAND, verb, server.url, *more, "--out", "runs", "--timeout", "90", "--no-power"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        threading.Thread(target=_interrupt, args=(client, tmp_path / "runs")).start()
        out, err = client.communicate(timeout=60)
    assert client.returncode == 130, err
    assert err.splitlines()[-1].startswith("phasewise: Interrupted: ")
    assert "Traceback" not in err
    assert "RECAP" not in out
    assert not (tmp_path / "runs").exists()


def _interrupt(client: subprocess.Popen[str], runs: Path) -> None:
    """When its run.json has been there for a second: it has sent what it warms up with, or the first of all."""
    until = time.monotonic() + 30
    while not any(runs.glob("*/run.json")) and client.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(1 if any(runs.glob("*/run.json")) else 0)
    client.send_signal(signal.SIGINT)
