"""How a load run ends: requests that we broke off did not fail, and those that nobody answered did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_run import COMMAND, environment, phasewise

from phasewise.engines.simulated import Plan, SimulatedServer

LONG_ANSWERS = Plan(prefill_overhead_s=2e-3, prefill_per_token_s=0.0, decode_overhead_s=10e-3, max_context=4096)
"""An answer of 200 tokens takes 2 s."""

LOAD = ("--rate", "10", "--arrivals", "constant", "--prompt", "32", "--answer", "200", "--warmup", "0")
GENEROUS = ("--ttft", "5s", "--tpot", "1s")


def interrupted(url: str, cwd: Path, after_s: float, *more: str) -> tuple[int, dict[str, Any]]:
    command = [*COMMAND, "load", url, *LOAD, "--duration", "30s", *more, "--json"]
    with subprocess.Popen(
        command, cwd=cwd, env=environment(cwd), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as client:
        threading.Timer(after_s, client.send_signal, (signal.SIGINT,)).start()
        out, _ = client.communicate(timeout=60)
    return client.returncode, json.loads(out)


@pytest.mark.slow
def test_what_ctrl_c_broke_off_missed_no_limit(tmp_path: Path) -> None:
    with SimulatedServer(LONG_ANSWERS) as server:
        code, found = interrupted(server.url, tmp_path, 8.0, *GENEROUS)
    assert code == 130
    assert found["failed"] == 0
    assert 10 <= found["broken_off"] <= 30  # two seconds of arrivals
    assert found["goodput"]["met"] == 1.0
    assert found["goodput"]["requests"] == found["window"]["requests"]
    # Of requests due after the first that was broken off, only short ones would be known.
    (run,) = (tmp_path / "phasewise-runs").iterdir()
    ((first,),) = duckdb.sql(f"SELECT min(due_s) FROM '{run}/requests.parquet' WHERE error IS NOT NULL").fetchall()
    assert found["window"]["end_s"] <= first + 1e-6
    assert found["steady"] in (True, None)


@pytest.mark.slow
def test_what_the_drain_broke_off_counts_where_a_limit_was_missed(tmp_path: Path) -> None:
    """10 ms a token: every answer that ran for 0.2 s when the run ended had missed a TPOT of 1 ms for sure."""
    with SimulatedServer(LONG_ANSWERS) as server:
        arguments = ("load", server.url, *LOAD, "--duration", "4s", "--drain", "0", "--json")
        fine = phasewise(*arguments, *GENEROUS, cwd=tmp_path).document
        missed = phasewise(*arguments, "--tpot", "1ms", cwd=tmp_path).document
    assert fine["goodput"]["met"] == 1.0
    assert fine["failed"] == missed["failed"] == 0
    assert missed["goodput"]["met"] == 0.0
    assert missed["goodput"]["requests"] > fine["goodput"]["requests"]
    assert missed["broken_off"] == pytest.approx(fine["broken_off"], abs=3)


@pytest.mark.slow
def test_a_server_that_dies_leaves_a_partial_run(tmp_path: Path) -> None:
    with SimulatedServer(Plan(decode_overhead_s=2e-3)) as server:
        threading.Timer(4.0, os.kill, (server.pid, signal.SIGKILL)).start()
        done = phasewise(
            "load", server.url, "--rate", "40", "--duration", "10s", "--answer", "4", "--warmup", "0", cwd=tmp_path
        )
    assert done.code == 3
    text = " ".join(done.out.split())
    assert "Partial run: 50 requests failed one after the other: Nothing listens at" in text
    assert "requests failed." in text[: text.index("Partial run")]
