"""When a forward began and ended: by CUDA events, which are queued like the work itself, or by the CPU's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from phasewise.errors import UsageError


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

    Inside of the capture of a CUDA graph an event would belong to the graph: there is no moment there, but None.
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
        """Wait for the device, then read the events, which count in about half microseconds."""
        self._cuda.synchronize(self._device)
        return [begin.elapsed_time(end) / 1000 for begin, end in moments]


def clock(module: Any) -> Clock:
    """The clock for the device that the first parameter of ``module`` lies on.

    Raises:
        UsageError: a device whose work is queued and that has no events of CUDA's (PyTorch's ROCm build has).
    """
    import torch

    parameter = next(iter(module.parameters()), None)
    if parameter is None or parameter.device.type == "cpu":
        return CpuClock()
    if parameter.device.type != "cuda":
        raise UsageError(f"Forwards are timed on a CPU or a CUDA device, and this model is on {parameter.device}.")
    return EventClock(torch.cuda, parameter.device)
