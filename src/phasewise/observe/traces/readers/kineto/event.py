"""One Kineto event as the reader needs it, and its times as exact nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Ints

EXACT_BELOW = 2.0**43
"""µs. Below it a float64 holds a time with three decimals so closely that rounding to ns gives it back exactly.

Its spacing there is at most 2^-10 µs, which is under half a nanosecond off. Kineto counts from the start of the quarter
of a year (`baseTimeNanoseconds`), 7.9e12 µs at most; traces of before 2024 count from 1970, 1.7e15 µs."""

LATEST = 9.2e15
"""µs. Later times are no times: their nanoseconds do not fit 64 bits."""

BAD = np.iinfo(np.int64).min
"""ns of a time that is none."""


class Args(
    msgspec.Struct,
    gc=False,
    frozen=True,
    rename={"external": "External id", "graph": "graph id", "node": "graph node id", "dims": "Input Dims"},
):
    """What an event says beyond its time."""

    device: int = NOT_SAID
    stream: int = NOT_SAID
    correlation: int = NOT_SAID
    external: int = NOT_SAID
    graph: int = NOT_SAID
    node: int = 0
    bytes: int = 0
    kind: str | int = ""
    kernel: str = ""
    grid: list[int] = []
    block: list[int] = []
    dims: msgspec.Raw = msgspec.Raw(b"")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """An element of ``traceEvents``; times in µs as the file writes them."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: Args = NO_ARGS


class ExactEvent(Event, gc=False):
    """The same, with the digits of its times."""

    ts: Decimal = Decimal(0)
    dur: Decimal = Decimal(0)


def nanoseconds(times: Sequence[float | Decimal]) -> Ints:
    """µs to the nearest ns; `BAD` for what is not finite or does not fit."""
    if times and isinstance(times[0], Decimal):
        return np.array([_exact(time) for time in times], dtype=np.int64)
    values = np.array(times, dtype=np.float64)
    good = np.abs(values) < LATEST
    return np.where(good, np.rint(np.where(good, values, 0.0) * 1000), BAD).astype(np.int64)


def _exact(time: float | Decimal) -> int:
    if not math.isfinite(time) or abs(time) >= LATEST:
        return int(BAD)
    return int((Decimal(time) * 1000).to_integral_value())
