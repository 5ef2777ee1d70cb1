"""When requests are sent: arrival processes in seconds from the start, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from phasewise.errors import UsageError

Times = NDArray[np.float64]

Process = Literal["constant", "poisson", "gamma", "burst", "ramp"]
"""Open loop: requests are sent whether or not the ones before were answered."""


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """An arrival process.

    Attributes:
        process: which.
        rate: requests a second on average; of a ramp at its start.
        burstiness: gamma: shape of the gaps, so that their coefficient of variation is 1/sqrt(burstiness); 1 is
            Poisson, less comes in clumps, more is more even (vLLM's definition).
        size: burst: requests at once; a burst follows every size/rate seconds.
        to_rate: ramp: requests a second at the end of the time.
    """

    process: Process
    rate: float
    burstiness: float = 1.0
    size: int = 1
    to_rate: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.rate, self.burstiness, self.to_rate)
        if not all(math.isfinite(number) and 0 <= number <= 1e6 for number in numbers):
            raise UsageError("rates and burstiness are numbers from 0 to 1,000,000: write --rate 2.5.")
        if self.rate <= 0 and self.to_rate <= 0:
            raise UsageError("a rate of 0 requests a second sends nothing: write --rate 2.5.")
        if self.process != "ramp" and self.rate <= 0:
            raise UsageError("only a ramp may start at a rate of 0: write --rate 2.5.")
        if self.burstiness <= 0 or self.size < 1:
            raise UsageError("burstiness and the size of a burst are above 0.")

    def due(self, seconds: float, most: int, random: Generator) -> Times:
        """When to send, ascending: at most ``most`` times, all of them below ``seconds``."""
        times = _PROCESSES[self.process](self, seconds, most, random)[:most]
        return times[times < seconds]


def _constant(arrivals: Arrivals, seconds: float, most: int, random: Generator) -> Times:
    count = min(most, math.ceil(seconds * arrivals.rate))
    return np.arange(count, dtype=np.float64) / arrivals.rate


def _gamma(arrivals: Arrivals, seconds: float, most: int, random: Generator) -> Times:
    """A renewal process whose gaps have mean 1/rate and shape ``burstiness``; the first comes after a gap."""
    shape = arrivals.burstiness if arrivals.process == "gamma" else 1.0
    times: Times = np.empty(0)
    end = 0.0
    while end < seconds and len(times) < most:
        expected = (seconds - end) * arrivals.rate
        count = min(most - len(times), int(expected + 4 * math.sqrt(expected / shape)) + 16)
        times = np.concatenate([times, end + np.cumsum(random.gamma(shape, 1 / (shape * arrivals.rate), count))])
        end = float(times[-1])
    return times


def _burst(arrivals: Arrivals, seconds: float, most: int, random: Generator) -> Times:
    count = min(most, math.ceil(seconds * arrivals.rate / arrivals.size) * arrivals.size)
    return np.floor(np.arange(count) / arrivals.size) * arrivals.size / arrivals.rate


def _ramp(arrivals: Arrivals, seconds: float, most: int, random: Generator) -> Times:
    """Poisson whose rate goes linearly from ``rate`` to ``to_rate`` over ``seconds``.

    Arrivals of a Poisson process of rate 1 at u, put where the expected number up to t, r·t + (q-r)·t²/2T, reaches u.
    """
    first, slope = arrivals.rate, (arrivals.to_rate - arrivals.rate) / seconds
    whole = (arrivals.rate + arrivals.to_rate) / 2 * seconds
    units = _gamma(Arrivals(process="poisson", rate=1.0), whole, most, random)
    units = units[units < whole]
    # The root of slope/2·t² + first·t - u = 0, in the form that is stable for a slope near 0.
    return 2 * units / (first + np.sqrt(np.maximum(0.0, first * first + 2 * slope * units)))


_PROCESSES: dict[Process, Callable[[Arrivals, float, int, Generator], Times]] = {
    "constant": _constant,
    "poisson": _gamma,
    "gamma": _gamma,
    "burst": _burst,
    "ramp": _ramp,
}
