"""Times on a GPU, by a fake of CUDA's events: queued, and waited for once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from phasewise.mark.clock import CpuClock, EventClock


class Cuda:
    """``torch.cuda`` as far as the clock uses it; each recorded event is 2.5 ms after the one before."""

    def __init__(self, *, capturing: bool = False) -> None:
        self.synchronised = 0
        self.recorded = 0
        self.capturing = capturing

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self, device: Any = None) -> str:
        return f"stream of {device}"

    def synchronize(self, device: Any = None) -> None:
        self.synchronised += 1

    def Event(self, enable_timing: bool = False) -> Any:  # noqa: N802 - PyTorch's name
        assert enable_timing
        cuda = self

        class Event:
            def record(self, stream: Any = None) -> None:
                assert stream == "stream of cuda:1"
                cuda.recorded += 1
                self.at = 2.5 * cuda.recorded

            def elapsed_time(self, end_event: Any) -> float:
                assert cuda.synchronised
                return float(end_event.at - self.at)

        return Event()


def test_events_are_read_after_one_wait() -> None:
    cuda = Cuda()
    clock = EventClock(cuda, "cuda:1")
    moments = [clock.now() for _ in range(5)]
    assert cuda.synchronised == 0
    assert clock.seconds(list(pairwise(moments))) == [0.0025] * 4
    assert cuda.synchronised == 1


def test_there_is_no_moment_inside_of_a_capture() -> None:
    assert EventClock(Cuda(capturing=True), "cuda:1").now() is None


def test_the_cpus_clock_goes_on() -> None:
    clock = CpuClock()
    first, second = clock.now(), clock.now()
    assert clock.seconds([(first, second)])[0] >= 0
