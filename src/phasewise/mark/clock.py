"""When a forward began and ended: by CUDA events, which are queued like the work itself, or by the CPU's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol


class Clock(Protocol):
    """Takes the time without waiting for the work; the seconds between two moments are told later."""

    def now(self) -> Any:
        """A moment, in the order of the work that was queued."""

    def seconds(self, moments: Sequence[tuple[Any, Any]]) -> list[float]:
        """Seconds from the first to the second of each pair, once all of the work is done."""


class CpuClock:
    """For work that is done when its call returns."""

    now = staticmethod(time.perf_counter)

    def seconds(self, moments: Sequence[tuple[float, float]]) -> list[float]:
        """The differences."""
        return [end - begin for begin, end in moments]


class EventClock:
    """For work that is queued on a GPU: events on the current stream of ``device``, read after one wait at the end.

    A moment inside of a CUDA graph's capture would belong to the graph: it is none.
    """

    def __init__(self, cuda: Any, device: Any) -> None:
        self._cuda, self._device = cuda, device

    def now(self) -> Any:
        """An event in the stream."""
        if self._cuda.is_current_stream_capturing():
            return None
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def seconds(self, moments: Sequence[tuple[Any, Any]]) -> list[float]:
        """Wait for the device, then read the events; NaN where there was none. Resolution is about 0.5 µs."""
        self._cuda.synchronize(self._device)
        known = [(begin, end) for begin, end in moments]
        return [float("nan") if None in (a, b) else a.elapsed_time(b) / 1000 for a, b in known]


def clock(module: Any) -> Clock:
    """The clock for the device that the first parameter of ``module`` lies on."""
    import torch

    parameter = next(iter(module.parameters()), None)
    device = None if parameter is None else parameter.device
    if device is None or device.type != "cuda":
        return CpuClock()
    return EventClock(torch.cuda, device)
