"""Which phase ran when, where many requests run at once, as their client saw them.

A request is in the air as a prompt from its sending to its first token, and decodes from there to its last. A sweep
holds one phase at a time, so its moments are known. Under a load both run at once, and a client cannot tell a prompt
that waits from one that is computed: only that there is none.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.judge.power.windows import FULL_S, JOINED_S, Interval, Span, union
from phasewise.observe.telemetry.series import Floats

Ints = NDArray[np.int64]

_INSTANT_S = 1e-5
"""No step is shorter, and Unix times tell no less than a microsecond apart."""

_ALIKE = 1.5
"""Prompts of text come out a little longer or shorter than asked for: up to this factor they are of one cell."""


class Flight(NamedTuple):
    """A request, seconds of one clock and tokens.

    Attributes:
        sent, ended: from its first byte to its end.
        first, last: its first and its last token; None where none came.
        asked: tokens of answer that it was sent for; 1 is a prompt alone.
        prompt: its tokens.
        computed: those that no cache had.
        answered: tokens of its answer; None where nobody counted.
        failed: it was refused, broke, or was broken off.
    """

    sent: float
    ended: float
    first: float | None
    last: float | None
    asked: int
    prompt: int
    computed: int
    answered: int | None
    failed: bool = False

    @property
    def aloft(self) -> Interval:
        """When it was in the air as a prompt."""
        return self.sent, self.ended if self.first is None else self.first


class Came(NamedTuple):
    """Tokens of answers: what came at which time, in rising order, and how long the step took that made it.

    ``tokens`` is None where nobody counted them.
    """

    at: Floats
    tokens: Floats | None
    step: Floats

    def between(self, begin: float, end: float) -> int | None:
        """Those made from ``begin`` to ``end``; of one whose step goes over an edge, the part on this side."""
        if self.tokens is None:
            return None
        longest = float(np.max(self.step, initial=0.0))
        first, last = np.searchsorted(self.at, [begin, end + longest], side="right")
        at, step = self.at[first:last], self.step[first:last]
        made = np.clip(np.minimum(end, at) - np.maximum(begin, at - step), 0.0, None)
        part = np.where(step > 0, made / np.where(step > 0, step, 1.0), at <= end)
        return round(float((self.tokens[first:last] * part).sum()))


NOTHING_COUNTED = Came(np.empty(0), None, np.empty(0))


def came(request: Ints, at: Floats, tokens: Floats) -> Came:
    """From the events of answers, those of one request in the order in which they came.

    Each was made in the time since the one before, but in no more than the request's usual gap: in the rest of it
    prompts were computed. A first token is a prefill's, and made when it came.
    """
    if not len(at):
        return Came(at, tokens, at)
    grouped = np.argsort(request, kind="stable")
    request, at, tokens = request[grouped], at[grouped], tokens[grouped]
    reads = np.flatnonzero(np.append(True, (np.diff(request) != 0) | (np.diff(at) != 0)))
    request, at, tokens = request[reads], at[reads], np.add.reduceat(tokens, reads)
    first = np.append(True, np.diff(request) != 0)
    gap = np.where(first, 0.0, np.append(0.0, np.diff(at)))
    step, order = np.minimum(gap, _usual(request, gap, first)), np.argsort(at, kind="stable")
    return Came(at[order], tokens[order], np.where(step < _INSTANT_S, 0.0, step)[order])


def _usual(request: Ints, gap: Floats, first: NDArray[np.bool_]) -> Floats:
    """The median gap of each one's request; ``request`` in rising order."""
    begins = np.flatnonzero(first)
    counts = np.diff(np.append(begins, len(gap)))
    by_length = gap[np.lexsort((gap, request))]  # of each request the nothing before its first token comes first
    return np.asarray(by_length[begins + counts // 2][np.cumsum(first) - 1], np.float64)


def whole(flights: Sequence[Flight]) -> list[Span]:
    """Every request from its sending to its end, of both phases together."""
    return [
        Span("all", one.sent, one.ended, None if one.answered is None else one.computed + one.answered)
        for one in flights
        if one.ended > one.sent
    ]


def swept(flights: Sequence[Flight], came: Came, cells: Sequence[tuple[int, int]]) -> list[Span]:
    """What a sweep held: prompts alone and together, batches in steady state, and prompts among running decodes.

    ``cells`` are the batches that were held, with the tokens of the prompts before them. A group of which a request
    failed is left out, as is the first one, which may compile, and the time in which a batch's prompts still run.
    """
    found: list[Span] = []
    for group in _groups(flights)[1:]:
        prompts, answers = [one for one in group if one.asked == 1], [one for one in group if one.asked > 1]
        if any(one.failed or one.first is None for one in group):
            continue
        if not answers:
            found += [Span("prefill", *one.aloft, one.computed) for one in prompts]
        elif prompts:
            found += _mixed(prompts, came, _steady(answers))
        elif span := _decode(answers, came, cells):
            found.append(span)
    return [span for span in found if span.end > span.begin]


def loaded(flights: Sequence[Flight], came: Came) -> list[Span]:
    """Stretches of a load in which only decodes ran, and those in which a prompt was in the air.

    A prompt that follows the one before within ``JOINED_S`` is of the same stretch.
    """
    mixed = _mixed(flights, came, (-math.inf, math.inf))
    told = [(one.first, one.last) for one in flights if one.first is not None and one.last is not None]
    firsts, lasts = np.sort([first for first, _ in told]), np.sort([last for _, last in told])
    found = []
    for begin, end in _without(union(told), [(span.begin, span.end) for span in mixed]):
        for since, until in _cut(begin, end):
            ran = int(np.searchsorted(firsts, until, side="left") - np.searchsorted(lasts, since, side="right"))
            found.append(Span("decode", since, until, came.between(since, until), requests=ran))
    return [*found, *mixed]


def _groups(flights: Sequence[Flight]) -> list[list[Flight]]:
    """Requests that were in the air together: the next group is sent when all of one have ended."""
    found: list[list[Flight]] = []
    until = -math.inf
    for one in sorted(flights, key=lambda flight: flight.sent):
        if one.sent >= until:
            found.append([])
        found[-1].append(one)
        until = max(until, one.ended)
    return found


def _steady(answers: Sequence[Flight]) -> Interval:
    """From the last first token to the first last one."""
    return max(one.first or 0.0 for one in answers), min(one.last or 0.0 for one in answers)


def _decode(answers: Sequence[Flight], came: Came, cells: Sequence[tuple[int, int]]) -> Span | None:
    """The steady part of a batch; None for one that is none of ``cells``."""
    prompt = statistics.median(one.prompt for one in answers)

    def apart(cell: tuple[int, int]) -> float:
        return abs(math.log(max(1, cell[1]) / max(1, prompt)))

    cell = min((one for one in cells if one[0] == len(answers)), key=apart, default=None)
    if cell is None or apart(cell) > math.log(_ALIKE):
        return None
    begin, end = _steady(answers)
    return Span("decode", begin, end, came.between(begin, end), requests=len(answers), cell=cell)


def _mixed(prompts: Sequence[Flight], came: Came, within: Interval) -> list[Span]:
    """Stretches in which a prompt is in the air, wholly ``within``; each goes on to the next that follows closely."""
    pieces = [one for one in union([one.aloft for one in prompts]) if within[0] <= one[0] and one[1] <= within[1]]
    computed = sorted((one.aloft[1], one.computed) for one in prompts)
    ends, tokens = np.array([end for end, _ in computed]), np.cumsum([0, *(count for _, count in computed)])
    found = []
    for (begin, end), after in zip(pieces, [*(begin for begin, _ in pieces[1:]), math.inf], strict=False):
        for since, until in _cut(begin, after if after - end <= JOINED_S else end):
            first, last = np.searchsorted(ends, [since, until], side="right")
            made, busy = came.between(since, until), min(end, until) - since
            count = None if made is None else made + int(tokens[last] - tokens[first])
            found.append(Span("mixed", since, until, count, requests=int(last - first), busy_s=max(0.0, busy)))
    return found


def _cut(begin: float, end: float) -> list[Interval]:
    """A long stretch in parts, whose scatter says how sure their mean is."""
    edges = np.linspace(begin, end, max(1, int((end - begin) / FULL_S)) + 1)
    return list(itertools.pairwise(map(float, edges)))


def _without(runs: Sequence[Interval], taken: Sequence[Interval]) -> Iterator[Interval]:
    """What of ``runs`` lies in none of ``taken``; each are in order and apart."""
    at = 0
    for since, until in runs:
        while at < len(taken) and taken[at][0] < until:
            begin, end = taken[at]
            if begin > since:
                yield since, begin
            since = max(since, end)
            if end > until:
                break  # it may reach into the next run
            at += 1
        if since < until:
            yield since, until
