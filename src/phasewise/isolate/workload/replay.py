"""Requests of a log, sent again: at its times, at a rate, or by users of a closed loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.errors import InputError, UsageError
from phasewise.isolate.workload.arrivals import Arrivals
from phasewise.isolate.workload.plan import Blocks, Bounds, Keys, Plan, bounded
from phasewise.isolate.workload.shapes import Tokens

BLOCK_SIZES = (512, 16, 32, 64, 128, 256, 1024, 2048)
"""Tokens that an id may stand for, Mooncake's first: the size that fits the counts of a log's ids is taken."""

_FITS = 0.99
"""Part of the prompts whose number of ids must be what the block size makes it."""


class Logged(NamedTuple):
    """The rows of a log, one element each.

    ``time_s`` is None for a log that does not tell; ``ids`` of all prompts' blocks one after the other and
    ``counts`` of them per row, None without; ``texts`` are the prompts' own words, empty without.
    """

    name: str
    prompt: Tokens
    answer: Tokens
    time_s: NDArray[np.float64] | None
    ids: NDArray[np.uint64] | None = None
    counts: Keys | None = None
    texts: Sequence[str] = ()


class Slice(NamedTuple):
    """Which part of a log, in its own seconds from its first request, and how much faster it is sent."""

    begin: float = 0.0
    seconds: float | None = None
    speed: float = 1.0


def replay(
    log: Logged,
    part: Slice,
    bounds: Bounds,
    *,
    arrivals: Arrivals | None = None,
    users: int = 0,
    seed: int,
    salt: int,
) -> Plan:
    """The plan of a log's rows; their order is the log's, by time where it tells.

    Rows without an answer, or with an empty prompt, are asked for one token of it: no server takes less.

    Raises:
        UsageError: no times where they are needed, or nothing in the slice.
        InputError: ids that fit no size of block.
    """
    blocks = _blocks(log)
    order, due = _times(log, part)
    plan = Plan(
        keys=np.arange(len(log.prompt)),
        prompt=np.maximum(log.prompt, 1),
        answer=np.maximum(log.answer, 1),
        due_s=None,
        users=users,
        seconds=bounds.seconds,
        salt=salt,
        blocks=blocks,
        texts=tuple(log.texts),
    ).take(order)
    if arrivals is not None:
        due = arrivals.due(bounds.seconds, min(bounds.requests + 1, len(plan)), np.random.default_rng(seed))
        plan = plan.take(np.arange(len(due)))
    elif users:
        due = None
    elif due is None:
        raise UsageError(f"{log.name} does not tell time: say how to send it, with --rate 2 or --users 8.")
    return bounded(msgspec.structs.replace(plan, keys=np.arange(len(plan)), due_s=due), bounds)


def _times(log: Logged, part: Slice) -> tuple[Keys, NDArray[np.float64] | None]:
    """Rows in the slice, in order, and when each is due."""
    if log.time_s is None:
        if part.begin or part.seconds is not None or part.speed != 1.0:
            raise UsageError(f"{log.name} does not tell time: --from, --for and --speed mean nothing for it.")
        return np.arange(len(log.prompt)), None
    since = log.time_s - log.time_s.min()
    end = np.inf if part.seconds is None else part.begin + part.seconds
    order = np.argsort(since, kind="stable")
    order = order[(since[order] >= part.begin) & (since[order] < end)]
    if not len(order):
        lasting = "" if part.seconds is None else f" for {part.seconds:g} s"
        raise UsageError(
            f"{log.name} has no request from {part.begin:g} s on{lasting}: its last comes at {float(since.max()):g} s."
        )
    return order, (since[order] - part.begin) / part.speed


def _blocks(log: Logged) -> Blocks | None:
    if log.ids is None or log.counts is None or not len(log.ids):
        return None
    for size in BLOCK_SIZES:
        if (np.ceil(log.prompt / size) == log.counts).mean() >= _FITS:
            return Blocks(ids=log.ids, ends=np.cumsum(log.counts), tokens=size)
    raise InputError(
        f"{log.name} has as many hash_ids as no block size makes of its prompts (tried "
        f"{', '.join(map(str, sorted(BLOCK_SIZES)))}): leave hash_ids out, or correct them."
    )
