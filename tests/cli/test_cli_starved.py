"""A client that cannot keep up says so and gives no verdict, whichever command it is: one rule, end to end.

The client is starved by being stopped for most of the time (SIGSTOP); the simulated server is not.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_run import COMMAND, environment, phasewise

from phasewise.engines.simulated import Plan, SimulatedServer

pytestmark = [pytest.mark.slow, pytest.mark.alone]

FAST = Plan(prefill_overhead_s=4e-3, prefill_per_token_s=1e-6, decode_overhead_s=5e-3, max_context=4096)

LONG, SHORT = (0.08, 0.02), (0.01, 0.001)
"""Seconds of each stop and between two: long ones hold bytes and requests up by far more than 20 ms, short ones most
sleeps of a millisecond."""


def starved(*arguments: str, cwd: Path, by: tuple[float, float] = LONG) -> dict[str, Any]:
    """The document of a command that hardly runs; it ends with exit code 3."""
    stopped, running = by
    with subprocess.Popen(
        [*COMMAND, *arguments, "--json", "--out", str(cwd / "runs")],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as client:
        deadline = time.monotonic() + 90
        while client.poll() is None and time.monotonic() < deadline:
            client.send_signal(signal.SIGSTOP)
            time.sleep(stopped)
            client.send_signal(signal.SIGCONT)
            time.sleep(running)
        assert client.stdout is not None
        found = json.loads(client.stdout.read())
    assert client.returncode == 3
    assert isinstance(found, dict)
    return found


def client_check(found: dict[str, Any]) -> dict[str, Any]:
    (check,) = [one for one in found["checks"] if one["name"] == "client"]
    return dict(check)


def test_a_starved_profile_is_withheld(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        found = starved("profile", server.url, "--budget", "4", "--max-prompt", "512", cwd=tmp_path, by=SHORT)
    check = client_check(found)
    assert (check["status"], check["voids"]) == ("failed", True)
    assert check["detail"].startswith("the client was the bottleneck: it was ")
    assert "the client was the bottleneck" in found["verdict"]["text"]


def test_a_starved_sweep_is_withheld(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        small = ("--max-batch", "2", "--max-prompt", "256")
        found = starved("sweep", server.url, "--budget", "6s", *small, cwd=tmp_path)
    check = client_check(found)
    assert (check["status"], check["voids"]) == ("failed", True)
    assert "it read bytes" in check["detail"]
    assert "the client was the bottleneck" in found["verdict"]["text"]


def test_a_starved_load_is_withheld(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        arguments = ("--rate", "20", "--duration", "3s", "--answer", "8", "--warmup", "0", "--ttft", "10s")
        found = starved("load", server.url, *arguments, cwd=tmp_path)
    assert not found["client"]["believed"]
    assert found["verdict"]["text"].startswith("No verdict: the client was the bottleneck: ")


def test_requests_that_wait_for_a_connection_are_the_clients_delay(tmp_path: Path) -> None:
    """20 requests a second through one connection that each holds for over 0.1 s."""
    with SimulatedServer(FAST) as server:
        arguments = ("--rate", "20", "--arrivals", "constant", "--duration", "2s", "--prompt", "32", "--answer", "24")
        done = phasewise(
            "load", server.url, *arguments, "--connections", "1", "--warmup", "0", "--ttft", "5s", cwd=tmp_path
        )
    assert done.code == 3
    text = " ".join(done.out.split())
    assert "No verdict: the client was the bottleneck: it sent " in text
    assert "allow more with --connections" in text


@pytest.mark.parametrize("allowed", [40])
def test_a_limit_of_open_files_is_the_clients_not_the_servers(tmp_path: Path, allowed: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))

    with SimulatedServer(FAST) as server:
        users = ("--users", "60", "--requests", "120", "--prompt", "32", "--answer", "8", "--warmup", "0")
        done = subprocess.run(
            [*COMMAND, "load", server.url, *users, "--ttft", "10s", "--out", str(tmp_path / "runs")],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=few,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    text = " ".join(done.stdout.split())
    assert "No verdict: the client was the bottleneck: the system had no socket for" in text
    assert "raise the limit with `ulimit -n`" in text
