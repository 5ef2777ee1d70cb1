"""Requests handed to workers one by one: a sender as a loop here is, on one time, and what a lost worker costs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from crew_hands import Skewed
from ledger_kept import Kept

from phasewise.engines import openai
from phasewise.engines.exchange import Exchange
from phasewise.engines.loop import BROKEN_OFF
from phasewise.engines.openai import OpenAIServer
from phasewise.engines.simulated import Plan as Planted
from phasewise.engines.simulated import SimulatedServer
from phasewise.errors import EngineError
from phasewise.isolate.crew import crew as driver
from phasewise.isolate.crew import member as members
from phasewise.isolate.crew.afar import Afar
from phasewise.isolate.crew.crew import Crew
from phasewise.isolate.sweep import Sweep

pytestmark = pytest.mark.alone

STEADY = Planted(prefill_overhead_s=2e-3, prefill_per_token_s=0.0, decode_overhead_s=10e-3)


@contextmanager
def sending(
    hands: Sequence[Skewed], log: Path | None = None, book: Kept | None = None
) -> Iterator[tuple[Crew, Afar, OpenAIServer]]:
    with SimulatedServer(STEADY, log=log) as server, closing(openai.connect(server.url)) as engine:
        crew = Crew("test", hands)
        crew.connect(engine)
        afar = crew.sender(book)
        try:
            yield crew, afar, engine
        finally:
            afar.close()
            for hand in hands:
                hand.end()


def submit(afar: Afar, engine: OpenAIServer, keys: range, answer: int = 20, due: float = 0.0) -> None:
    for key in keys:
        afar.submit(engine.order(key, engine.prompt(50 + key), answer, due=due))


def collect(afar: Afar, count: int, seconds: float = 20.0) -> list[Exchange]:
    done: list[Exchange] = []
    until = time.perf_counter() + seconds
    while len(done) < count and time.perf_counter() < until:
        done += afar.step(time.perf_counter() + 0.5)
    assert len(done) == count
    return sorted(done, key=lambda one: one.key)


def test_times_of_other_clocks_are_ours_and_a_group_leaves_together(tmp_path: Path) -> None:
    """Clocks hours apart, 200 ppm fast and slow: what the server saw, by our clock, is what is told."""
    hands = [Skewed(0, offset=4000.0, drift=200e-6), Skewed(1, offset=-9000.0, drift=-200e-6), Skewed(2)]
    book = Kept()
    with sending(hands, tmp_path / "log", book) as (crew, afar, engine):
        submit(afar, engine, range(9))
        assert (afar.in_flight, afar.waiting) == (0, 9)
        done = collect(afar, 9)
        assert (afar.in_flight, afar.waiting) == (0, 0)
        due = time.perf_counter() + 0.3
        submit(afar, engine, range(9, 12), due=due)
        later = collect(afar, 3)
        lateness = afar.watch.lateness()
    record = crew.record()
    off = 2 * record.clock_error_s
    assert record.clock_error_s < 5e-3
    assert {one.worker for one in done} == {0, 1, 2}
    assert [len(hand.orders) for hand in hands] == [4, 4, 4]
    seen = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    log = {one["prompt_tokens"] - 50: one for one in seen if one["prompt_tokens"] >= 50}
    for one in [*done, *later]:
        steps = [step["written_at"] for step in log[one.key]["steps"]]
        assert not one.error
        assert (one.arrivals.at * 1e-9 > np.array(steps) - off).all()
        assert np.median(one.arrivals.at * 1e-9 - np.array(steps)) < off + 1e-3
        assert one.due - off <= one.sent_at <= log[one.key]["received_at"] + off
    assert np.ptp([one.due for one in done]) <= off
    assert [one.due for one in later] == pytest.approx([due] * 3, abs=off)
    assert record.due_error_s is not None
    assert record.due_error_s <= off
    assert [(one.requests, one.returned) for one in record.members] == [(4, 4)] * 3
    assert lateness.stamped
    assert lateness.reads > 0
    for key in range(12):  # events come before their request is over, from whom they are, on our time
        at = np.concatenate([arrivals.at for number, arrivals in book.events if number == key])
        (one,) = (one for one in [*done, *later] if one.key == key)
        assert at * 1e-9 == pytest.approx(one.arrivals.at * 1e-9, abs=2 * record.clock_error_s)
        assert {who for who, (number, _) in zip(book.workers, book.events, strict=True) if number == key} == {
            one.worker
        }


def test_a_worker_that_dies_fails_what_it_had_and_the_others_go_on() -> None:
    hands = [Skewed(0), Skewed(1, offset=100.0)]
    with sending(hands) as (crew, afar, engine):
        submit(afar, engine, range(6), answer=100)
        afar.step(time.perf_counter() + 0.3)
        hands[1].dies()
        done = collect(afar, 6)
        assert [one.error for one in done if one.worker == 0] == ["", "", ""]
        assert {one.error for one in done if one.worker == 1} == {"worker 1 was lost (its node was lost)"}
        submit(afar, engine, range(6, 9))
        assert [(one.worker, one.error) for one in collect(afar, 3)] == [(0, "")] * 3
    (lost,) = crew.lost
    assert (lost.worker, lost.requests, lost.in_flight, lost.share) == (1, 3, 3, 0.5)
    assert lost.from_s < 2.0
    assert [(one.requests, one.returned) for one in crew.record().members] == [(6, 6), (3, 0)]


def test_with_nobody_left_it_is_an_error() -> None:
    hands = [Skewed(0)]
    with sending(hands) as (_, afar, engine):
        submit(afar, engine, range(2))
        hands[0].dies()
        assert len(collect(afar, 2)) == 2
        began = time.perf_counter()
        assert afar.step(began + 0.1) == []
        assert time.perf_counter() >= began + 0.1
        submit(afar, engine, range(1))
        with pytest.raises(EngineError, match="every worker was lost, the last one because its node was lost"):
            afar.step(time.perf_counter() + 1)


def test_one_that_is_not_heard_for_a_while_loses_nothing_and_one_that_stays_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "ALONE_S", 1.5)
    hands = [Skewed(0), Skewed(1)]
    with sending(hands) as (crew, afar, engine):
        submit(afar, engine, range(4), answer=40)
        done = afar.step(time.perf_counter() + 0.2)
        hands[1].deaf = True
        time.sleep(0.2)
        done += afar.step(time.perf_counter() + 0.3)
        hands[1].deaf = False
        done += collect(afar, 4 - len(done))
        assert {one.error for one in done} == {""}
        assert not crew.lost
        submit(afar, engine, range(4), answer=300)
        afar.step(time.perf_counter() + 0.2)
        hands[1].deaf = True
        done = collect(afar, 4)
    assert sorted(one.error for one in done) == ["", ""] + ["worker 1 was lost (it did not answer any more)"] * 2


def test_broken_off_is_broken_off_everywhere_and_what_ended_before_is_told() -> None:
    hands = [Skewed(0), Skewed(1)]
    with sending(hands) as (_, afar, engine):
        submit(afar, engine, range(2), answer=2)
        submit(afar, engine, range(2, 6), answer=2000)
        afar.submit(engine.order(6, engine.prompt(20), 5, due=time.perf_counter() + 100.0))
        assert afar.step(time.perf_counter()) == []
        time.sleep(0.5)
        ended = afar.cancel()
        assert {one.error for one in ended} == {BROKEN_OFF}
        assert sorted(one.key for one in ended) == [2, 3, 4, 5]
        assert all(len(one.arrivals.at) > 10 for one in ended)
        assert afar.in_flight == 0
        assert sorted(one.key for one in afar.step(time.perf_counter() + 0.2)) == [0, 1]
        submit(afar, engine, range(7, 9))
        assert {one.error for one in collect(afar, 2)} == {""}


def test_a_worker_that_nobody_asks_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "ALONE_S", 0.4)
    hands = [Skewed(0)]
    with sending(hands) as (_, afar, engine):
        submit(afar, engine, range(1), answer=1000)
        afar.step(time.perf_counter() + 0.1)
        time.sleep(1.0)
        (one,) = collect(afar, 1)
    assert one.error == BROKEN_OFF
    assert 5 < len(one.arrivals.at) < 100


PLANTED = Planted(
    prefill_overhead_s=4e-3, prefill_per_token_s=30e-6, decode_overhead_s=10e-3, decode_per_request_s=2e-4
)


@pytest.mark.slow
def test_a_sweep_from_several_workers_finds_what_was_planted() -> None:
    hands = [Skewed(0, offset=1000.0), Skewed(1, offset=-500.0, drift=5e-6)]
    with SimulatedServer(PLANTED) as server, closing(openai.connect(server.url)) as engine:
        crew = Crew("test", hands)
        crew.connect(engine)
        sweep = Sweep(engine, budget_s=20, max_batch=8, max_prompt=256, sender=crew.sender)
        sweep.run()
        for hand in hands:
            hand.end()
    found = sweep.swept()
    assert found.surface is not None
    assert {cell.proof for cell in found.surface.cells} == {"passed"}
    assert {1, 2, 4, 8} <= {cell.batch for cell in found.surface.cells}
    assert found.surface.plane is not None
    assert found.surface.plane.base.value == pytest.approx(10e-3, rel=0.02)
    assert found.surface.plane.per_request.value == pytest.approx(2e-4, rel=0.1)
    assert found.mix is not None
    assert found.mix.stalls
    for stall in found.mix.stalls:
        assert stall.stall.value == pytest.approx(4e-3 + 30e-6 * stall.tokens, rel=0.1, abs=1e-3)
    assert not crew.lost
    shares = [one.returned for one in crew.record().members]
    assert min(shares) > 0.25 * sum(shares)


@pytest.mark.slow
def test_a_sweep_loses_only_what_a_lost_worker_had() -> None:
    hands = [Skewed(0), Skewed(1), Skewed(2)]
    with SimulatedServer(PLANTED) as server, closing(openai.connect(server.url)) as engine:
        crew = Crew("test", hands)
        crew.connect(engine)
        lost_at: list[float] = []

        def told(progress: object) -> None:
            if not lost_at and "batch 8" in str(progress):
                lost_at.append(time.perf_counter())
                hands[1].dead = True

        sweep = Sweep(engine, budget_s=20, max_batch=8, max_prompt=256, sender=crew.sender, progress=told)
        sweep.run()
        for hand in hands:
            hand.end()
    found, (lost,) = sweep.swept(), crew.lost
    assert lost.worker == 1
    assert lost.requests <= 4
    assert found.surface is not None
    assert {cell.batch: cell.proof for cell in found.surface.cells if cell.batch == 8}[8] == "passed"
    assert found.surface.plane is not None
    assert found.surface.plane.base.value == pytest.approx(10e-3, rel=0.02)
    checks = {check.name: check for check in sweep.observation().checks}
    assert checks["errors"].status == "failed"
    assert "worker 1 was lost" in checks["errors"].detail
