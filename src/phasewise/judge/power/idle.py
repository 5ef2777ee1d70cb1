"""What the devices draw while nothing runs: before the first request and after the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasewise.observe.telemetry.series import Series
from phasewise.record.power import Idle
from phasewise.record.quantity import Provenance, Quantity

_LOOK_S, _BLIND_S = 10.0, 1.0
"""No further from the run than this: what a machine does hours before it is no baseline of it. Where readings do not
tell whether the device was busy, no further than the second."""

_CLEAR_S, _SETTLED_S = 0.05, 1.0
"""Left out right before the first request, and after the last: power is a mean of up to a second, clocks come down."""

_LEAST_S, _READINGS, _IDLE = 0.3, 3, 0.05


def idle(series: Sequence[Series], first: float, last: float, provenance: Provenance) -> Idle:
    """The baseline of all ``series`` together; ``first`` and ``last`` are when requests began and ended."""
    stretches = {"before": (first - _LOOK_S, first - _CLEAR_S), "after": (last + _SETTLED_S, last + _LOOK_S)}
    found: dict[str, Quantity] = {}
    why = []
    for name, (begin, end) in stretches.items():
        drawn = [_drawn(one, begin, end, name == "before") for one in series]
        if any(isinstance(one, str) for one in drawn):
            why.append(f"{name} the requests {next(one for one in drawn if isinstance(one, str))}")
            continue
        total = sum(one for one in drawn if not isinstance(one, str))
        found[name] = Quantity(value=total, unit="W", provenance=provenance, source=f"median, {name} the requests")
    if not found:
        return Idle(why_null="; ".join(why))
    mean = sum(one.value for one in found.values()) / len(found)
    low, high = min(one.value for one in found.values()), max(one.value for one in found.values())
    source = f"medians {' and '.join(found)} the requests"
    both = Quantity(value=mean, low=low, high=high, unit="W", provenance=provenance, source=source)
    return Idle(watts=both, before=found.get("before"), after=found.get("after"), why_null="; ".join(why))


def _drawn(series: Series, begin: float, end: float, before: bool) -> float | str:
    """Watts of one device while it idled next to the run, or why there is no baseline."""
    if not series.says("utilisation"):
        within = series.between(max(begin, end - _BLIND_S), end) if before else series.between(begin, begin + _BLIND_S)
    else:
        within = series.between(begin, end)
        busy = within.time[within.utilisation > _IDLE]
        if len(busy):
            quiet = (float(busy[-1]) + _SETTLED_S, end) if before else (begin, float(busy[0]))
            within = within.between(*quiet) if quiet[1] > quiet[0] else within.between(begin, begin)
            if not len(within.time):
                return f"{series.device.name} was not idle"
    if len(within.time) < _READINGS or within.time[-1] - within.time[0] < _LEAST_S:
        return "there are too few readings"
    return float(np.median(within.watts))
