"""A command that is killed outright: its rows are there, and its run says that it was cut short."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_run import COMMAND, environment, phasewise

from capture_server import Planted, Server
from phasewise.engines.simulated import Plan, SimulatedServer
from writers import wait_for_end, writers

MODERATE = Plan(prefill_overhead_s=4e-3, prefill_per_token_s=2e-5, decode_overhead_s=10e-3, max_context=4096)


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    files = sorted(map(str, (folder / "rows").glob(f"{table}-*.parquet")))
    if not files:
        return []
    with duckdb.connect() as connection:
        seen = connection.execute("SELECT * FROM read_parquet($1)", [files])
        names = [column[0] for column in seen.description or ()]
        return [dict(zip(names, one, strict=True)) for one in seen.fetchall()]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["profile", "sweep"])
def test_rows_of_a_killed_run(tmp_path: Path, verb: str) -> None:
    truth = tmp_path / "log"
    with SimulatedServer(MODERATE, log=truth) as server:
        command = [*COMMAND, verb, server.url, "--budget", "60", "--json"]
        with (tmp_path / "said").open("wb") as said:
            running = subprocess.Popen(
                command, cwd=tmp_path, env=environment(tmp_path), stdout=said, stderr=subprocess.STDOUT
            )
            folder = wait_for(tmp_path, "run.json", 1)
            began = time.monotonic()  # what came before is the probe's
            wait_for(tmp_path, "rows/requests-*.parquet", 12)
            children = writers(running.pid)
            at = time.monotonic()
            running.send_signal(signal.SIGKILL)
            running.wait()
    wait_for_end(children)
    log = [one for one in map(json.loads, truth.read_text().splitlines()) if one["received_at"] > began]
    requests, chunks = rows(folder, "requests"), rows(folder, "chunks")
    keys = {one["request"] for one in requests}
    assert len(keys) == len(requests)
    assert {one["phase"] for one in requests} <= {"prefill", "decode"}
    # What was over a second (and a bit, for a busy machine) before the end has a row, and all its tokens have theirs.
    made = [one for one in log if len(one["steps"]) == one["answer_tokens"]]
    over = [one for one in made if one["steps"][-1]["written_at"] < at - 1.2]
    kept = [(one["prompt_tokens"], one["completion_tokens"]) for one in requests]
    assert len(over) > 20
    for one in over:
        kept.remove((one["prompt_tokens"], one["answer_tokens"]))
    whole = sum(one["completion_tokens"] for one in requests)
    assert sum(one["tokens"] or 1 for one in chunks if one["request"] in keys) == whole
    if verb == "sweep":  # of streams that were in the air too
        steps = [step for one in log for step in one["steps"] if step["written_at"] < at - 1.2]
        assert sum(one["tokens"] or 1 for one in chunks) >= sum(step["tokens"] for step in steps)
    says_so(folder, tmp_path)


@pytest.mark.slow
def test_rows_of_a_killed_capture(tmp_path: Path) -> None:
    """Killed while it times decode: prompts are trial 0, numbered from 1, and the same clock goes on."""
    with Server(Planted(tmp_path / "traces")) as server:
        command = [*COMMAND, "capture", server.url, "--prompt", "100", "--budget", "5", "--json"]
        running = subprocess.Popen(
            command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        folder = wait_for(tmp_path, "rows/requests-*.parquet", 1)
        until = time.monotonic() + 60
        while not (decodes := [one for one in rows(folder, "requests") if one["phase"] == "decode"]):
            assert time.monotonic() < until, "no decode was timed"
            time.sleep(0.05)
        children = writers(running.pid)
        running.send_signal(signal.SIGKILL)
        running.wait()
    wait_for_end(children)
    requests = rows(folder, "requests")
    assert [one["prompt_tokens"] for one in requests if one["phase"] == "prefill"].count(100) >= 3
    assert sorted(one["request"] for one in requests) == list(range(1, len(requests) + 1))
    sent = [one["sent_s"] for one in sorted(requests, key=lambda one: one["request"])]
    assert sent == sorted(sent)
    assert len(decodes) >= 1
    says_so(folder, tmp_path)


def says_so(folder: Path, home: Path) -> None:
    """A report of the killed run says that it is one, and where its rows are."""
    shown = phasewise("report", str(folder), "--json", cwd=home)
    assert shown.code == 0
    assert shown.document["status"] == "interrupted"
    text = " ".join(phasewise("report", str(folder), cwd=home).out.split())
    assert "the rows of what it measured are in rows/" in text
    assert "HTML report" not in text


def wait_for(home: Path, pattern: str, count: int) -> Path:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for folder in home.glob("phasewise-runs/*"):
            if len(list(folder.glob(pattern))) >= count:
                return folder
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} came")
