"""Section of a load run: what was sent, how it was answered, and whether it held its limits."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.crew import Crew
from phasewise.record.quantity import Quantity

Holds = Literal["holds", "breaks", "undecided"]
"""The interval of the part that met the limits lies above the wanted part, below it, or across it."""

Breaks = Literal["ttft", "tpot"]


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be sent.

    Attributes:
        arrivals: how, in words: ``closed loop of 8 users``, ``Poisson, 2 requests a second``.
        lengths: of prompts and answers, in words.
        requests: how many; of a closed loop at most.
        prompt_tokens, answer_tokens: of all of them, answers as long as they may be.
        seconds: the time in which requests are sent.
        drain_s: the time that what is in the air may take after that.
        warmup, warmup_tokens: requests before the start that no figure uses, and their tokens in and out.
        seed: of arrivals and lengths; the prompts' content is of this run alone.
        users: of a closed loop; 0 in an open one.
        cut: which bounds took something away; empty for none.
        notes: what else a reader should know, a sentence each.
    """

    arrivals: str
    lengths: str
    requests: int
    prompt_tokens: int
    answer_tokens: int
    seconds: float
    drain_s: float
    warmup: int
    seed: int
    users: int = 0
    warmup_tokens: int = 0
    cut: str = ""
    notes: tuple[str, ...] = ()


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution over requests (over tokens, for ITL).

    Attributes:
        count: values in it.
        effective: how many independent values would tell as much, at least: those of requests that queue together are
            alike, and of few requests it cannot be told how much.
        mean: their mean.
        points: percentiles by name (``p50``), each with the interval that order statistics give it; ``high`` is None
            where there are too few values for an upper end.
        missing: why a percentile is not in ``points``, by name.
    """

    count: int
    effective: float
    mean: Quantity
    points: dict[str, Quantity]
    missing: dict[str, str] = {}


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time that counts, ``begin_s`` to ``end_s`` from the start, by ``rule``; ``requests`` were due in it."""

    begin_s: float
    end_s: float
    rule: str
    requests: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of each request, and of which part of them."""

    ttft_s: float | None
    tpot_s: float | None
    part: float


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests of the window met the limits; one that failed met none.

    Attributes:
        limits: what was asked.
        met: part of the requests that met all limits, with its interval.
        met_ttft, met_tpot: part that met each.
        rate: requests a second that met all; its interval is that of ``met``.
        holds: whether ``met`` is at least the wanted part.
        first: the limit that more requests broke; when none broke, the one that is nearer.
        nearness: per limit, what the wanted part of the requests needed, over the limit.
        requests: how many were held against the limits.
    """

    limits: Limits
    met: Quantity
    met_ttft: Quantity | None
    met_tpot: Quantity | None
    rate: Quantity
    holds: Holds
    first: Breaks
    nearness: dict[Breaks, float]
    requests: int = 0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Over the window: requests that ended in it, prompt tokens of requests whose first token came in it, answer tokens
    that came in it; ``offered`` are requests due in it."""

    offered: Quantity
    requests: Quantity
    tokens_in: Quantity | None
    tokens_out: Quantity | None


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the run: requests due in it, in flight at its end, and their medians; tokens that came in it."""

    begin_s: float
    end_s: float
    due: int
    failed: int
    in_flight: int
    ttft_s: float | None
    tpot_s: float | None
    tokens_out_per_s: float | None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One rate that was tried."""

    number: int
    rate: float
    requests: int
    failed: int
    goodput: Goodput
    achieved: float


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate that holds the limits lies between ``held`` and ``broke``, requests a second; None: not seen."""

    held: float | None
    broke: float | None
    text: str


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers kept up: the worst of them, and whether figures may be believed for all of that."""

    workers: int
    cpu_share: float
    slip_p99_s: float | None
    lag_p99_s: float | None
    believed: bool
    detail: str


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A load run.

    Attributes:
        plan: what was to be sent.
        sent, failed, unsent: requests of all workers; those of a lost one are in ``crew``.
        broken_off: requests that we ended ourselves, at the end of the drain or when the run was stopped: no figure is
            of them, but that those that had missed a limit by then count as such.
        reasons: why requests failed, and how many for each reason.
        window: whose requests the figures are of.
        ttft: send to first token. ttft_from_due: from when it should have been sent, the client's queue included.
        client_queue: between the two, connecting included.
        tpot: per request. itl: gap between reads over the tokens that came with the later one, once for each of them.
        icl: gap between reads, whatever came. e2e: send to end.
        rates: over the window.
        cached: part of the prompt tokens that the server took from a cache.
        goodput: None without limits.
        steady: whether as many were in flight at the end of the window as at its start; None when that cannot be told.
        moments: over time.
        trials, found: of ``--find-rate``.
        client: of the workers.
        crew: who they were, where there were several (``--workers``).
        trial: whose figures these are.
        starts: Unix time of each trial's start, from which the times of its rows count; -1 is the warm-up.
        rows: files beside run.json.
        missing: why a part is None, by its name.
    """

    plan: LoadPlan
    sent: int
    failed: int
    unsent: int
    reasons: dict[str, int]
    window: Window | None
    broken_off: int = 0
    ttft: Spread | None = None
    ttft_from_due: Spread | None = None
    client_queue: Spread | None = None
    tpot: Spread | None = None
    itl: Spread | None = None
    icl: Spread | None = None
    e2e: Spread | None = None
    rates: Rates | None = None
    cached: Quantity | None = None
    goodput: Goodput | None = None
    steady: bool | None = None
    moments: tuple[Moment, ...] = ()
    trials: tuple[Trial, ...] = ()
    found: Found | None = None
    client: Client | None = None
    crew: Crew | None = None
    trial: int = 0
    starts: dict[int, float] = {}
    rows: tuple[str, ...] = ()
    missing: dict[str, str] = {}

    @property
    def waited(self) -> Spread | None:
        """TTFT as a user has it: from when the request was due; of a closed loop, which has no schedule, from send."""
        return self.ttft if self.plan.users else self.ttft_from_due
