"""What runs at a worker: rows are kept until they are known to have arrived, and nobody sends on alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import msgspec
import numpy as np
import pytest

from phasewise.engines import openai
from phasewise.engines.simulated import Plan as Planted
from phasewise.engines.simulated import SimulatedServer
from phasewise.isolate.crew import member as members
from phasewise.isolate.crew.common import common
from phasewise.isolate.crew.member import Member, Report
from phasewise.isolate.ledger.schema import Chunks, Frame
from phasewise.isolate.workload.plan import Plan

pytestmark = pytest.mark.alone


def share(count: int, apart: float) -> Plan:
    return Plan(
        keys=np.arange(count) * 2,
        prompt=np.full(count, 9),
        answer=np.full(count, 3),
        due_s=np.arange(count) * apart,
        seconds=600.0,
        salt=1,
    )


@contextmanager
def ready(plan: Plan) -> Iterator[Member]:
    with SimulatedServer(Planted()) as server, closing(openai.connect(server.url)) as engine:
        member = Member(4)
        assert member.connect(engine) == ""
        member.prepare(plan, 2, 5.0, 10)
        yield member


def until_done(member: Member, have: int) -> Report:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        report = member.report(have, 0.0)
        if report.done is not None:
            return report
        time.sleep(0.05)
    raise AssertionError("it does not end")


def keys(report: Report) -> list[int]:
    frames = [msgspec.msgpack.decode(frame, type=Frame) for frame in report.frames]
    assert {(row.trial, row.worker) for frame in frames for row in frame.requests} <= {(2, 4)}
    return [row.request for frame in frames for row in frame.requests]


def test_frames_are_given_until_they_are_acknowledged() -> None:
    with ready(share(20, 0.02)) as member:
        member.begin(time.perf_counter() + 0.1)
        every = until_done(member, 0)
        assert keys(every) == [2 * number for number in range(20)]
        assert every.first == 0
        again = member.report(0, 0.0)
        assert again.frames == every.frames
        some = member.report(2, 0.0)
        assert (some.first, some.frames) == (2, every.frames[2:])
        assert member.report(1, 0.0) == some  # what arrived late asks for what is gone
        assert member.report(len(every.frames), 0.0).frames == ()


def test_a_worker_that_nobody_asks_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "ALONE_S", 0.5)
    with ready(share(2000, 0.02)) as member:
        member.begin(time.perf_counter())
        time.sleep(2.0)
        report = member.report(0, 0.0)
    assert report.done is not None
    assert report.done.ending == "stopped"
    assert 0 < len(keys(report)) < 100


def test_a_worker_that_is_told_to_stop_stops_before_its_start_too() -> None:
    with ready(share(10, 0.1)) as member:
        member.begin(time.perf_counter() + 500.0)
        member.stop()
        report = until_done(member, 0)
    assert report.done is not None
    assert (report.done.sent, report.done.unsent) == (0, 10)


def test_a_failure_in_its_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with ready(share(3, 0.1)) as member:
        monkeypatch.setattr(members.Worker, "run", lambda worker, start: 1 / 0)
        member.begin(time.perf_counter())
        until = time.monotonic() + 30
        while not (fault := member.report(0, 0.0).fault) and time.monotonic() < until:
            time.sleep(0.02)
        assert fault == "ZeroDivisionError: division by zero"


def test_a_server_out_of_reach_is_a_sentence() -> None:
    with SimulatedServer(Planted()) as server, closing(openai.connect(server.url)) as engine:
        pass
    assert "connection refused" in Member(0).connect(engine)


def test_moments_move_and_times_stay() -> None:
    at = np.array([0.0, 1.0, 2.5])
    chunks = Chunks(0, 1, b"", at.tobytes(), b"r", b"t", b"k")
    moved = common(Frame(requests=[], chunks=[chunks]), lambda t: 1.0 + t * (1 + 1e-4))
    (found,) = moved.chunks
    assert np.frombuffer(found.at_s) == pytest.approx(1.0 + at * (1 + 1e-4), abs=1e-12)
    assert (found.read, found.tokens, found.kind, found.worker) == (b"r", b"t", b"k", 1)
