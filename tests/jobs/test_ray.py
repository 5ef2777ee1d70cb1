"""Real Ray: two nodes drive one server; one of them is killed and nothing else is lost.

Needs Ray in this Python (``make ray``), or PHASEWISE_RAY_PYTHON to name one that has it and phasewise's dependencies.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from load_oracles import rows, server_log

PYTHON = os.environ.get("PHASEWISE_RAY_PYTHON") or (sys.executable if importlib.util.find_spec("ray") else "")
NETWORKS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))
"""A network of one's own, where only this machine answers: as root, and as anybody else."""
CLUSTER = Path(__file__).with_name("ray_cluster.py")

COUNT, APART_S = 300, 0.04
"""Requests and the time between them: 12 s. Each has a prompt of a length of its own, by which the server knows it."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not PYTHON, reason="skipped: no Ray here, see `make ray`"),
]


@pytest.fixture(scope="module")
def network() -> tuple[str, ...]:
    for way in NETWORKS:
        with suppress(OSError):
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                return way
    pytest.skip("skipped: no network namespace can be had here")


class Ended(NamedTuple):
    code: int
    killed_at: float | None
    document: dict[str, Any]
    folder: Path
    log: list[dict[str, Any]]


def drive(
    network: tuple[str, ...], folder: Path, kill: str = "", after_s: float = 3.0, arguments: tuple[str, ...] = ()
) -> Ended:
    """Run a load from two nodes."""
    plan = ["time,prompt_tokens,answer_tokens"]
    plan += [f"{number * APART_S},{prompt(number)},{answer(number)}" for number in range(COUNT)]
    (folder / "plan.csv").write_text("\n".join(plan))
    given = ["--replay", str(folder / "plan.csv"), "--warmup", "0", *arguments]
    ended = run(network, folder, verb="load", planted={}, arguments=given, kill=kill, after_s=after_s)
    return ended._replace(log=[one for one in ended.log if one["prompt_tokens"] >= prompt(0)])


def run(network: tuple[str, ...], folder: Path, **spec: Any) -> Ended:
    """Run a command from two nodes; see ray_cluster.py."""
    (folder / "spec.json").write_text(json.dumps(spec))
    ran = subprocess.run([*network, PYTHON, str(CLUSTER), str(folder)], capture_output=True, text=True, timeout=380)
    assert (folder / "ending.json").exists(), ran.stderr[-3000:]
    ending = json.loads((folder / "ending.json").read_text())
    printed = (folder / "document.json").read_text()
    assert printed, (folder / "stderr").read_text()[-3000:]
    saved = next((folder / "runs").iterdir())
    return Ended(ending["code"], ending["killed_at"], json.loads(printed), saved, server_log(folder / "log"))


def prompt(number: int) -> int:
    return 100 + number


def answer(number: int) -> int:
    return 5 + number % 25


def whole(folder: Path, where: str = "true") -> set[int]:
    """Requests that have a row as the plan wanted them, and all their tokens in chunks."""
    seen = rows(folder, "requests", "request, prompt_tokens, completion_tokens, error", where)
    for number, tokens_in, tokens_out, error in seen:
        assert (tokens_in, tokens_out, error) == (prompt(number), answer(number), None)
    counted = dict(rows(folder, "chunks", "request, sum(tokens)", "trial >= 0 GROUP BY trial, request"))
    numbers = [number for number, *_ in seen]
    assert len(numbers) == len(set(numbers))
    assert all(counted[number] == answer(number) for number in numbers)
    return set(numbers)


def test_two_nodes_send_one_plan(network: tuple[str, ...], tmp_path: Path) -> None:
    ended = drive(network, tmp_path)
    found, crew = ended.document, ended.document["crew"]
    assert ended.code in (0, 3)  # 3: a busy machine made a worker late, and the report says so
    assert ended.code == 0 or not found["client"]["believed"]
    assert found["status"] == "complete"
    assert (found["sent"], found["failed"], found["unsent"]) == (COUNT, 0, 0)
    assert whole(ended.folder) == set(range(COUNT))
    assert whole(ended.folder, "worker = 1") == set(range(1, COUNT, 2))
    assert sorted(one["prompt_tokens"] for one in ended.log) == [prompt(number) for number in range(COUNT)]
    assert len({one["where"] for one in crew["members"]}) == 2
    assert [one["returned"] for one in crew["members"]] == [COUNT // 2] * 2
    for one in crew["members"]:
        # The processes are of one machine, so their clocks are one: what is found of offset and drift is all error.
        assert one["round_trip_s"] / 2 <= one["clock_error_s"]
        assert (
            one["due_error_s"] <= 2 * one["clock_error_s"]
        )  # of the line that it was sent by, and of the one that tells
    # Two workers on one time: what the rows say of the moment of sending is what the server saw, for both alike.
    arrived = {one["prompt_tokens"] - prompt(0): one["received_at"] for one in ended.log}
    by_worker = [
        np.median(
            [
                arrived[number] - sent
                for number, sent in rows(ended.folder, "requests", "request, sent_s", f"worker = {k}")
            ]
        )
        for k in (0, 1)
    ]
    assert abs(by_worker[0] - by_worker[1]) < 2 * max(one["clock_error_s"] for one in crew["members"]) + 1e-3
    seen = rows(
        ended.folder,
        "requests",
        "ttft_s",
        f"due_s BETWEEN {found['window']['begin_s']!r} AND {found['window']['end_s']!r}",
    )
    assert found["ttft"]["points"]["p99"] == pytest.approx(float(np.percentile([t for (t,) in seen], 99)))


@pytest.mark.parametrize("kill", ["node", "actor"])
def test_a_node_that_is_killed_costs_only_what_it_had_not_given(
    network: tuple[str, ...], tmp_path: Path, kill: str
) -> None:
    ended = drive(network, tmp_path, kill)
    found, (lost,) = ended.document, ended.document["crew"]["lost"]
    assert ended.code == 3
    assert found["status"] == "partial"
    assert f"worker {lost['worker']} was lost" in found["run"]["reason"]
    mine, others = (set(range(k, COUNT, 2)) for k in (lost["worker"], 1 - lost["worker"]))
    kept = whole(ended.folder)
    assert others < kept  # nothing else is lost
    assert lost["requests"] == len(mine - kept)
    assert found["sent"] + lost["requests"] == COUNT
    assert found["failed"] == 0
    assert lost["share"] == pytest.approx(0.5, abs=0.02)
    assert "of the load was missing" in found["verdict"]["text"]
    # What the server had answered a second (and a bit, for a busy machine) before the end is in the rows.
    assert ended.killed_at is not None
    over = {
        one["prompt_tokens"] - prompt(0) for one in ended.log
        if len(one["steps"]) == one["answer_tokens"] and one["steps"][-1]["written_at"] < ended.killed_at - 1.2
    }  # fmt: skip
    assert len(over & mine) > 5
    assert over & mine <= kept


@pytest.mark.parametrize("kill", ["SIGINT", "SIGTERM"])
def test_a_stop_reaches_every_worker_and_keeps_what_came(network: tuple[str, ...], tmp_path: Path, kill: str) -> None:
    ended = drive(network, tmp_path, kill)
    found = ended.document
    assert ended.code == {"SIGINT": 130, "SIGTERM": 143}[kill]
    assert found["status"] == "interrupted"
    assert found["crew"]["lost"] == []
    assert 0 < found["sent"] < COUNT
    assert found["sent"] + found["unsent"] == COUNT
    assert ended.killed_at is not None
    assert max(one["received_at"] for one in ended.log) < ended.killed_at + 2.0
    assert {one["prompt_tokens"] - prompt(0) for one in ended.log} == {
        number for (number,) in rows(ended.folder, "requests", "request", "sent_s IS NOT NULL")
    }


STEP_S, PER_REQUEST_S = 12e-3, 3e-4


@pytest.mark.parametrize("kill", ["", "node"])
def test_a_sweep_from_two_nodes(network: tuple[str, ...], tmp_path: Path, kill: str) -> None:
    """Every batch is shared by both and held as one; a node that is killed costs the group that it was in."""
    planted = {"prefill_overhead_s": 4e-3, "prefill_per_token_s": 3e-5, "decode_overhead_s": STEP_S,
               "decode_per_request_s": PER_REQUEST_S, "decode_per_context_token_s": 0.0}  # fmt: skip
    arguments = ("--max-batch", "8", "--max-prompt", "256", "--budget", "25s")
    ended = run(network, tmp_path, verb="sweep", planted=planted, arguments=arguments, kill=kill, after_s=8.0)
    found, crew = ended.document, ended.document["crew"]
    assert (ended.code, found["status"]) == ((3, "partial") if kill else (0, "complete")), found["run"]
    assert len({one["where"] for one in crew["members"]}) == 2
    assert len(crew["lost"]) == bool(kill)
    cells = {cell["batch"]: cell for cell in found["decode"]["cells"] if cell["prompt_tokens"] < 64}
    assert {1, 2, 4, 8} <= set(cells)
    assert {cell["proof"] for cell in cells.values()} == {"passed"}
    assert found["decode"]["fit"]["base_s"] == pytest.approx(STEP_S, rel=0.03)
    assert cells[8]["step_s"] == pytest.approx(STEP_S + 8 * PER_REQUEST_S, rel=0.02)
    # Two machines, one clock: what is found of it is error, and what the server saw is what the rows say within that.
    error = max(one["clock_error_s"] for one in crew["members"])
    assert error < 5e-3
    seen = rows(ended.folder, "requests", "request, worker, prompt_tokens, completion_tokens, error")
    lost = sum(one["requests"] for one in crew["lost"])
    assert lost <= 4
    assert sum(error is not None for *_, error in seen) == lost
    assert {worker for _, worker, *_ in seen} == {0, 1}
    assert len({request for request, *_ in seen}) == len(seen)
    counted = dict(rows(ended.folder, "chunks", "request, sum(tokens)", "true GROUP BY request, trial"))
    for request, _, _, tokens, failed in seen:
        assert failed is not None or counted[request] == tokens
    answered = [one for one in ended.log if len(one["steps"]) == one["answer_tokens"]]
    kept = [(tokens_in, tokens_out) for *_, tokens_in, tokens_out, failed in seen if failed is None]
    every = [(one["prompt_tokens"], one["answer_tokens"]) for one in answered]
    for shape in kept:  # each row is an answer of the server's, and no two are the same
        every.remove(shape)


def test_workers_of_this_machine_alone(network: tuple[str, ...], tmp_path: Path) -> None:
    """``ray:local`` starts Ray and ends it, leaves nothing behind, and lets nobody else in."""
    program = (
        "import sys; sys.path.append(sys.argv.pop(1))\n"
        "from phasewise.engines.simulated import Plan, SimulatedServer; from phasewise.cli import run\n"
        "if __name__ == '__main__':\n"
        "    from ray_cluster import loopback_up; loopback_up()\n"
        "    with SimulatedServer(Plan()) as server:\n"
        "        sys.exit(run(['load', server.url, *sys.argv[1:]]))\n"
    )
    arguments = ("--users", "5", "--requests", "60", "--answer", "5", "--workers", "ray:local:2", "--json")
    ran = subprocess.run(
        [*network, PYTHON, "-c", program, str(CLUSTER.parent), *arguments],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode in (0, 3), ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    assert found["sent"] == 60
    assert [one["returned"] for one in found["crew"]["members"]] == [36, 24]  # users 0, 2, 4 and users 1, 3
    assert {path.name for path in tmp_path.iterdir()} == {"phasewise-runs"}
