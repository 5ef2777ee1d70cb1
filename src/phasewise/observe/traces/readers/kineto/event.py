"""Events as Kineto writes them, decoded no further than the reader needs, and their times as exact nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Union

import msgspec
import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Bands, Copies, Ints, Kernels, Launches, Ops

CATEGORIES: dict[str, type] = {
    "kernel": Kernels,
    "gpu_memcpy": Copies,
    "gpu_memset": Copies,
    "cuda_runtime": Launches,
    "cuda_driver": Launches,
    "user_annotation": Bands,
    "cpu_op": Ops,
    # As PyTorch wrote them before 1.12.
    "Kernel": Kernels,
    "Memcpy": Copies,
    "Memset": Copies,
    "Runtime": Launches,
    "Operator": Ops,
}
"""The table that each category belongs to."""

_SKIPPED = (
    "python_function",
    "ac2g",
    "fwdbwd",
    "gpu_user_annotation",
    "cpu_instant_event",
    "cuda_sync",
    "cuda_event",
    "overhead",
    "Trace",
)
"""Categories that are often found and never needed: knowing them makes them cheap."""

EXACT_BELOW = 2.0**43
"""µs. Below it a float64 holds a time with three decimals so closely that rounding to ns gives it back exactly.

Its spacing there is at most 2^-10 µs, so it is less than half a nanosecond off. Kineto counts from the start of the
quarter of a year (`baseTimeNanoseconds`), 7.9e12 µs at most; traces of before 2024 count from 1970, 1.7e15 µs."""

LATEST = 9.2e15
"""µs. What is later has nanoseconds that do not fit 64 bits, and is no time."""

BAD = int(np.iinfo(np.int64).min)
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
    kernel: str = ""
    grid: list[int] = []
    block: list[int] = []
    dims: msgspec.Raw = msgspec.Raw(b"")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """An element of ``traceEvents``; ``ts`` and ``dur`` in µs, as float64 or with the digits of the file."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: Any = 0.0
    dur: Any = 0.0
    args: Args = NO_ARGS


class Decoders:
    """Decoders of lists of events, whose times are ``number``s.

    ``known`` takes the categories above only, and leaves unread what no table needs; ``whole`` takes any event. Both
    accept numbers in strings.
    """

    def __init__(self, number: type[float] | type[Decimal]) -> None:
        timed = [("ts", number, number(0)), ("dur", number, number(0))]
        fields = [("ph", str, ""), ("name", str, ""), ("pid", int | str, ""), ("tid", int | str, "")]
        kept = [_tagged(category, [*fields, *timed, ("args", Args, NO_ARGS)]) for category in CATEGORIES]
        known: Any = Union[tuple(kept + [_tagged(category, []) for category in _SKIPPED])]  # noqa: UP007
        whole: Any = msgspec.defstruct("Event", timed, bases=(Event,), gc=False)
        self.known: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[known], strict=False)
        self.whole: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[whole], strict=False)


def _tagged(category: str, fields: list[tuple[str, Any, Any]]) -> type[msgspec.Struct]:
    """An `Event` of one category, which its class knows."""
    return msgspec.defstruct("Event", fields, tag_field="cat", tag=category, namespace={"cat": category}, gc=False)


def nanoseconds(times: Sequence[Any]) -> Ints:
    """µs to the nearest ns; `BAD` for what is not finite or does not fit."""
    if times and isinstance(times[0], Decimal):
        return np.array([_exact(time) for time in times], dtype=np.int64)
    values = np.array(times, dtype=np.float64)
    good = np.abs(values) < LATEST
    # Whole and fraction apart: the product of the two at once has no bit left for a nanosecond.
    fraction, whole = np.modf(np.where(good, values, 0.0))
    return np.where(good, whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64), BAD)


def _exact(time: Decimal) -> int:
    if not time.is_finite() or not -LATEST < time < LATEST:
        return BAD
    return int((time * 1000).to_integral_value())
