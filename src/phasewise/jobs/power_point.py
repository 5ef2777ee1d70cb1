"""One measurement of a power sweep: both phases alone, and the telemetry that lay beside their requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from phasewise.engines.base import Engine
from phasewise.hardware.power.guard_child import Now
from phasewise.isolate import plan
from phasewise.isolate.ledger.sheet import Sheet, Start
from phasewise.isolate.rows import Row
from phasewise.isolate.run import Isolation
from phasewise.jobs.sampled import of_requests
from phasewise.judge.clock_slope import Clocked
from phasewise.judge.drawn import Beside, Span
from phasewise.judge.power.power import judge
from phasewise.observe.telemetry.series import Series
from phasewise.record.observation import Observation, Phase
from phasewise.record.power import PhasePower
from phasewise.record.power_sweep import AtCap, Cap
from phasewise.record.quantity import Quantity, measured

PHASES: tuple[Phase, Phase] = ("prefill", "decode")

SLACK_S = 0.05
"""A request is held against readings up to this long before and after it: as often as they are taken."""


class Point(NamedTuple):
    """What was measured.

    With caps also which was asked for (mW), what the cards then had, whether it is the first one once more, and what
    somebody else did to it meanwhile.
    """

    isolation: Isolation
    asked: int = 0
    set: tuple[Now, ...] = ()
    again: bool = False
    disturbed: str = ""


class Window(NamedTuple):
    """A request of a phase, and the part of it that was that phase."""

    row: Row
    span: Span


def begin(
    engine: Engine,
    budget_s: float,
    prompt: int,
    progress: Callable[[str, float], None],
    book: Sheet | None,
    start: Start,
) -> Point:
    """A measurement of one prompt length, whose rows go into ``book``.

    Nothing is sent before ``run()`` of its isolation.
    """
    longest = plan.longest_prompt(engine.target.max_context, prompt, 1)
    isolation = Isolation(
        engine,
        budget_s=budget_s,
        lengths=(longest,),
        max_prompt=longest,
        progress=lambda now: progress(f"{now.phase}: {now.doing}", now.fraction),
        book=book,
        start=start,
    )
    return Point(isolation)


def counts(point: Point) -> bool:
    """Whether any request of it counts."""
    rows = point.isolation.rows()
    return any(windows(phase, rows, point.isolation.began) for phase in PHASES)


def cap(point: Point, beside: Beside, series: Sequence[Series]) -> Cap:
    """``point`` as one cap of the record, not yet held against the others; ``series`` are of the cards set."""
    seen = point.isolation.observation()
    judged = _judged(point, series)
    limit, enforced = min(now.limit for now in point.set), [now.enforced for now in point.set]
    least = min((one for one in enforced if one is not None), default=limit)
    return Cap(
        asked=_watts(point.asked, "asked for"),
        limit=_watts(limit, "read back from the driver after it was set"),
        enforced=_watts(least, "least limit that the driver enforces") if least < limit else None,
        prefill=_side("prefill", seen, point, beside, judged),
        decode=_side("decode", seen, point, beside, judged),
        again=point.again,
        disturbed=point.disturbed,
        doubts=tuple(f"{one.name}: {one.detail}" for one in seen.checks if one.voids and one.status == "failed"),
    )


def clocked(rows: Sequence[Row], zero: float, beside: Beside, what: tuple[str, ...] = ()) -> Iterator[Clocked]:
    """Each request that counts, with the clock that it ran at.

    ``rows`` have their times from ``zero``, on the clock of the readings; ``what`` ran is part of what makes requests
    comparable.
    """
    for phase in PHASES:
        for one in windows(phase, rows, zero):
            shape = (*what, one.row.prompt_tokens, one.row.max_tokens)
            seconds = one.row.ttft_s if phase == "prefill" else one.row.tpot_s
            if seconds is not None:
                yield Clocked(phase, shape, seconds, beside.drawn([one.span], SLACK_S))


def windows(phase: Phase, rows: Sequence[Row], zero: float) -> list[Window]:
    """The requests of ``phase`` that its figures rest on."""
    found = []
    for row in rows:
        if row.phase != phase or row.warmup:
            continue
        sent, first = zero + row.sent_at_s, zero + row.sent_at_s + row.ttft_s
        if phase == "prefill":
            found.append(Window(row, Span(sent, first)))
        else:
            found.append(Window(row, Span(first, zero + row.ended_at_s)))
    return found


def _side(
    phase: Phase, seen: Observation, point: Point, beside: Beside, judged: Mapping[Phase, PhasePower]
) -> AtCap | None:
    given = _time(phase, seen)
    if given is None:
        return None
    tokens, took = given
    ran = windows(phase, point.isolation.rows(), point.isolation.began)
    drawn, power = beside.drawn([one.span for one in ran]), judged.get(phase)
    if power is None:
        return AtCap(tokens=tokens, time=took, drawn=drawn)
    drawn = msgspec.structs.replace(drawn, watts=power.watts)  # by the counter, where there is one
    return AtCap(tokens=tokens, time=took, drawn=drawn, energy=power.per_token)


def _time(phase: Phase, seen: Observation) -> tuple[float, Quantity] | None:
    if phase == "decode":
        return (seen.decode.tpot_context, seen.decode.tpot) if seen.decode else None
    last = seen.prefill.points[-1] if seen.prefill else None
    return (last.tokens, last.ttft) if last else None


def _judged(point: Point, series: Sequence[Series]) -> dict[Phase, PhasePower]:
    """Power of each phase, all cards together, by the same windows and counters as beside every other run."""
    joined = of_requests(point.isolation.rows(), point.isolation.began)
    if not series or not joined.spans:
        return {}
    found = judge(series, joined, provenance="measured", how="", every=True).phases
    return {phase: found[phase] for phase in PHASES if phase in found}


def _watts(milliwatts: float, source: str) -> Quantity:
    return measured(milliwatts / 1000, "W", source)
