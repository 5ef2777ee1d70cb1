"""Several workers as one client: nothing twice, nothing forgotten, and what is lost is counted."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crew_hands import TAKES_S, Scripted, Threaded
from hypothesis import given
from hypothesis import strategies as st

from phasewise.engines import openai
from phasewise.engines.simulated import Plan as Planted
from phasewise.engines.simulated import SimulatedServer
from phasewise.errors import EngineError, Unreachable, UsageError
from phasewise.isolate.crew import crew as driver
from phasewise.isolate.crew.crew import Crew
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.workload import plan as plans
from phasewise.isolate.workload.arrivals import Arrivals
from phasewise.isolate.workload.plan import Bounds, Plan
from phasewise.isolate.workload.shapes import Shape, length
from phasewise.isolate.workload.worker import Done

pytestmark = pytest.mark.alone

SHAPES = (Shape(length("5..50"), length("2..8")),)


def open_loop(seconds: float = 2.0, rate: float = 100.0) -> Plan:
    arrivals = Arrivals(process="constant", rate=rate, burstiness=1.0, size=1, to_rate=0.0)
    return plans.open_loop(arrivals, SHAPES, Bounds(seconds=seconds), seed=1, salt=2)


def send(crew: Crew, plan: Plan, folder: Path, **given: Any) -> tuple[Done, ...]:
    told: dict[str, Any] = {
        "trial": 0,
        "drain_s": 5.0,
        "most": 100,
        "stopped": lambda: False,
        "tell": lambda s, e: None,
    }
    with Book(folder) as book:
        return crew.send(plan, book, **(told | given))


def requests(folder: Path) -> dict[str, np.ndarray]:
    return table.read(folder, "requests", "request, worker, due_s, sent_s, ended_s, ttft_s")


@given(
    st.integers(1, 9), st.integers(1, 200), st.integers(0, 12), st.lists(st.integers(0, 5), max_size=200), st.booleans()
)
def test_shares_are_the_plan_each_request_once(
    workers: int, count: int, users: int, blocks: list[int], timed: bool
) -> None:
    ends = np.minimum(np.arange(1, count + 1), len(blocks))
    plan = Plan(
        keys=np.arange(count) * 3,
        prompt=np.arange(count) + 1,
        answer=np.arange(count) + 2,
        due_s=np.arange(count) * 0.1 if not users else None,
        users=users,
        seconds=1e3,
        salt=1,
        blocks=plans.Blocks(ids=np.array(blocks, np.uint64)[: ends[-1]], ends=ends, tokens=16) if timed else None,
        texts=tuple(map(str, range(count))),
    )
    shares = [plan.share(worker, workers) for worker in range(workers)]
    assert sorted(key for share in shares for key in share.keys.tolist()) == plan.keys.tolist()
    for share in shares:
        for place, key in enumerate(share.keys.tolist()):
            whole = key // 3
            assert share.pieces(place) == plan.pieces(whole)
            assert share.user(place) == plan.user(whole)
            assert share.texts[place] == plan.texts[whole]
            assert (share.prompt[place], share.answer[place]) == (plan.prompt[whole], plan.answer[whole])
            if plan.due_s is not None and share.due_s is not None:
                assert share.due_s[place] == plan.due_s[whole]
    for one, other in itertools.combinations(shares, 2):  # a user waits for answers: one worker sees them all
        mine, yours = ({share.user(place) for place in range(len(share))} for share in (one, other))
        assert not users or not mine & yours


def test_rows_of_skewed_clocks_lie_on_one_time_and_due_times_are_kept(tmp_path: Path) -> None:
    """Clocks hours apart, one 300 ppm fast, one 300 ppm slow: worse than any that is sold."""
    hands = [
        Scripted(0, offset=5000.0, drift=300e-6), Scripted(1, offset=-7777.7, drift=-300e-6), Scripted(2)
    ]  # fmt: skip
    crew, plan = Crew("test", hands), open_loop()
    done = send(crew, plan, tmp_path)
    rows, record = requests(tmp_path), crew.record()
    assert plan.due_s is not None
    assert [one.worker for one in done] == [0, 1, 2]
    assert sorted(rows["request"].tolist()) == plan.keys.tolist()
    assert sorted(np.unique(rows["worker"]).tolist()) == [0, 1, 2]
    order = np.argsort(rows["request"])
    truth = np.array(
        [hands[int(w)].sent[int(r)] for w, r in zip(rows["worker"][order], rows["request"][order], strict=True)]
    )
    error = record.clock_error_s
    assert error < 1.0  # of clocks that are hours apart
    start = np.median(truth - rows["sent_s"][order])
    assert np.abs(truth - start - rows["sent_s"][order]).max() <= 2 * error  # each worker's is within one of ours
    assert np.abs(truth - start - plan.due_s).max() <= 2 * error
    assert record.due_error_s is not None
    assert np.abs(rows["due_s"][order] - plan.due_s).max() == pytest.approx(record.due_error_s, abs=1e-9)
    assert np.allclose(rows["ended_s"] - rows["sent_s"], TAKES_S, atol=1e-4)
    assert (rows["ttft_s"] == 0.05).all()  # what lasted on one clock is left alone
    tokens = table.read(tmp_path, "chunks", "request, at_s")
    assert np.allclose(np.sort(tokens["at_s"]), np.sort(rows["ended_s"]))
    assert [one.returned for one in record.members] == [len(plan.share(k, 3)) for k in range(3)]
    assert not record.lost


def test_a_worker_that_dies_costs_what_it_had_not_given(tmp_path: Path) -> None:
    hands = [Scripted(0), Scripted(1, dies_at=1.0), Scripted(2)]
    crew, plan = Crew("test", hands), open_loop(2.0)
    done = send(crew, plan, tmp_path)
    rows, (lost,) = requests(tmp_path), crew.lost
    assert [one.worker for one in done] == [0, 2]
    assert sorted(rows["request"][rows["worker"] != 1].tolist()) == [key for key in plan.keys.tolist() if key % 3 != 1]
    kept = rows["request"][rows["worker"] == 1]
    assert lost.worker == 1
    assert lost.where == "10.0.0.1"
    assert lost.requests == len(plan.share(1, 3)) - len(kept)
    assert len(kept) > 10
    assert 0 < lost.from_s < 1.1
    assert rows["ended_s"][rows["worker"] == 1].max() <= lost.from_s + 0.1
    assert lost.in_flight == 2
    assert lost.share == pytest.approx(1 / 3, abs=0.02)
    assert len(rows["request"]) + lost.requests == len(plan)
    again = tmp_path / "again"
    again.mkdir()
    send(crew, plan, again, trial=1)
    assert sorted(requests(again)["request"].tolist()) == plan.keys.tolist()  # two go on for three


def test_the_share_that_is_missing_of_a_closed_loop_is_of_its_users(tmp_path: Path) -> None:
    crew = Crew("test", [Scripted(0), Scripted(1, dies_at=0.4)])
    plan = plans.closed(5, SHAPES, Bounds(requests=100, seconds=10), seed=1, salt=2)
    send(crew, plan, tmp_path)
    assert crew.lost[0].share == pytest.approx(2 / 5)
    assert crew.record().due_error_s is None


def test_a_worker_that_is_not_heard_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """Answers that were on their way are lost; what was in them is given again, and taken once."""
    crew, plan = Crew("test", [Scripted(0), Scripted(1, deaf=(0.4, 1.6))]), open_loop(2.5)
    send(crew, plan, tmp_path)
    assert not crew.lost
    assert sorted(requests(tmp_path)["request"].tolist()) == plan.keys.tolist()


def test_one_that_stays_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "ALONE_S", 1.0)
    hands = [Scripted(0), Scripted(1, deaf=(0.4, 1e9))]
    crew, plan = Crew("test", hands), open_loop(2.5)
    send(crew, plan, tmp_path)
    assert crew.lost[0].why == "it did not answer any more"
    assert hands[1].asked[-1] == "report"
    assert len(requests(tmp_path)["request"]) + crew.lost[0].requests == len(plan)


def test_one_lost_before_the_start_takes_nothing_with_it(tmp_path: Path) -> None:
    crew, plan = Crew("test", [Scripted(0), Scripted(1, dies_at=-1), Scripted(2)]), open_loop(1.0)
    send(crew, plan, tmp_path)
    assert sorted(requests(tmp_path)["request"].tolist()) == plan.keys.tolist()
    assert [(one.worker, one.requests, one.share) for one in crew.lost] == [(1, 0, 0.0)]


def test_with_nobody_left_nothing_is_sent(tmp_path: Path) -> None:
    crew = Crew("test", [Scripted(0, dies_at=-1)])
    with pytest.raises(EngineError, match="every worker was lost"):
        send(crew, open_loop(1.0), tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_fault_at_a_worker_is_a_loss_that_says_why(tmp_path: Path) -> None:
    crew, plan = Crew("test", [Scripted(0), Scripted(1, fault="OSError: no more files")]), open_loop(1.0)
    send(crew, plan, tmp_path)
    assert crew.lost[0].why == "OSError: no more files"
    assert len(requests(tmp_path)["request"]) + crew.lost[0].requests == len(plan)


def test_stopping_stops_all_and_keeps_what_came(tmp_path: Path) -> None:
    hands = [Scripted(0), Scripted(1)]
    until = time.perf_counter() + 2.0
    told: list[tuple[int, int]] = []
    done = send(Crew("test", hands), open_loop(60.0, 20.0), tmp_path, stopped=lambda: time.perf_counter() > until,
                tell=lambda sent, ended: told.append((sent, ended)))  # fmt: skip
    assert [one.ending for one in done] == ["stopped", "stopped"]
    assert len(requests(tmp_path)["request"]) == sum(one.sent for one in done) == told[-1][1] > 5
    assert told[-1][0] == told[-1][1] + 4  # both say that two are in the air


def test_a_failure_here_stops_all(tmp_path: Path) -> None:
    hands = [Scripted(0), Scripted(1)]

    def fail(sent: int, ended: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(Crew("test", hands), open_loop(), tmp_path, tell=fail)
    assert all(hand.stopped for hand in hands)


def test_workers_that_cannot_take_part(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"worker 1 \(10.0.0.1\) has phasewise 0.0.0"):
        Crew("test", [Scripted(0), Scripted(1, version="0.0.0")])
    crew = Crew("test", [Scripted(0), Scripted(1, refused="no route")])
    with (
        SimulatedServer(Planted()) as server,
        closing(openai.connect(server.url)) as engine,
        pytest.raises(Unreachable, match=r"worker 1 .* no route"),
    ):
        crew.connect(engine)


def test_real_workers_send_the_plan_and_connections_are_shared_out(tmp_path: Path) -> None:
    hands = [Threaded(number) for number in range(3)]
    plan = open_loop(1.5, 40.0)
    with SimulatedServer(Planted()) as server, closing(openai.connect(server.url)) as engine:
        crew = Crew("test", hands)
        crew.connect(engine)
        done = send(crew, plan, tmp_path)
    for hand in hands:
        hand.end()
    table.merge(tmp_path)
    rows = table.read(tmp_path, "requests", "request, prompt_tokens, completion_tokens, error")
    assert [one.ending for one in done] == ["complete"] * 3
    assert rows["request"].tolist() == plan.keys.tolist()
    assert rows["prompt_tokens"].tolist() == plan.prompt.tolist()
    assert rows["completion_tokens"].tolist() == plan.answer.tolist()
    counted = table.read(tmp_path, "chunks", "request, tokens")
    assert int(counted["tokens"].sum()) == int(plan.answer.sum())
    assert crew.record().clock_error_s < 1.0
