"""Rows beside a run: what they hold, and what is left of them when a run is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from load_oracles import rows, server_log

from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.isolate.workload.plan import Bounds
from phasewise.jobs.load import Options, Prepared, load
from phasewise.jobs.workload import Sending
from writers import wait_for_end, writers

COMMAND = (sys.executable, "-c", "from phasewise.cli import main; main()")


def start(url: str, out: Path) -> subprocess.Popen[str]:
    arguments = ("load", url, "--rate", "30", "--prompt", "30", "--answer", "60", "--out", str(out), "--warmup", "1")
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(out: Path, parts: int) -> Path:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for folder in out.glob("*-http-*"):
            if len(list((folder / "rows").glob("chunks-*.parquet"))) >= parts:
                return folder
        time.sleep(0.05)
    raise AssertionError("no rows were written")


def test_percentiles_are_those_of_the_rows_and_rows_those_of_the_server(tmp_path: Path) -> None:
    truth = tmp_path / "log"
    with SimulatedServer(Plan(), log=truth) as server:
        sending = Sending(rate=25, prompt="40..80", answer="2..30", bounds=Bounds(seconds=4))
        done = load(Prepared(Options(target=server.url, sending=sending, out=tmp_path, warmup=0)), lambda d, f: None)
    found = done.run.load
    assert found is not None
    assert found.window is not None
    inside = f"due_s BETWEEN {found.window.begin_s!r} AND {found.window.end_s!r} AND error IS NULL"
    seen = rows(done.folder, "requests", "ttft_s, tpot_s, ttft_s + sent_s - due_s, ended_s - sent_s", inside)
    for place, spread in enumerate((found.ttft, found.tpot, found.ttft_from_due, found.e2e)):
        values = [row[place] for row in seen if row[place] is not None]
        assert spread is not None
        assert spread.count == len(values) > 50
        assert ("p99" in spread.points) == (spread.count >= 100)
        for percent in (50, 90, 95):
            assert spread.points[f"p{percent}"].value == pytest.approx(float(np.percentile(values, percent)))
    log = server_log(truth)
    every = rows(done.folder, "requests", "request, prompt_tokens, completion_tokens, prompt_tokens_planned")
    assert len(every) == found.sent == found.plan.requests
    sent = sorted((one["prompt_tokens"], one["answer_tokens"]) for one in log[-len(every) :])
    assert sorted((prompt, answer) for _, prompt, answer, _ in every) == sent
    assert all(prompt == planned for _, prompt, _, planned in every)
    counted = dict(rows(done.folder, "chunks", "request, sum(tokens)", "trial >= 0 GROUP BY trial, request"))
    assert counted == {request: answer for request, _, answer, _ in every}


@pytest.mark.parametrize("killed", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_run_that_is_ended_keeps_its_rows(tmp_path: Path, killed: str) -> None:
    truth = tmp_path / "log"
    with SimulatedServer(Plan(), log=truth) as server:
        child = start(server.url, tmp_path / "runs")
        folder = wait_for(tmp_path / "runs", 4)
        children = writers(child.pid)
        at = time.monotonic()
        os.kill(child.pid, getattr(signal, killed))
        out, _ = child.communicate(timeout=30)
    if killed == "SIGKILL":
        assert child.returncode == -signal.SIGKILL
        wait_for_end(children)
    else:
        assert child.returncode == {"SIGINT": 130, "SIGTERM": 143}[killed]
        assert "Interrupted run" in out
        assert (folder / "requests.parquet").exists()
        assert not (folder / "rows").exists()
    envelope = json.loads((folder / "run.json").read_text())["envelope"]
    assert envelope["status"] == "interrupted"
    # All tokens that the server wrote until a second (and a bit, for a busy machine) before the end are there.
    steps = [step for one in server_log(truth) for step in one["steps"] if one["prompt_tokens"] == 30]
    written = sum(step["tokens"] for step in steps if step["written_at"] < at - 1.2)
    kept = rows(folder, "chunks", "tokens", "true")
    assert written > 100
    assert sum(tokens for (tokens,) in kept) >= written
    assert len(rows(folder, "requests")) > 0
