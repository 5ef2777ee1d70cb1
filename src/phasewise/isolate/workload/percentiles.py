"""Percentiles with the interval that their own order statistics give, and the part of requests that met something."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phasewise.record.load import Spread
from phasewise.record.quantity import Quantity
from phasewise.units import Unit

Values = NDArray[np.float64]

POINTS = (50.0, 90.0, 95.0, 99.0)

CONFIDENCE = 0.95

CARRIES = {f"p{percent:g}": round(100 / (100 - percent)) for percent in POINTS}
"""Values from which on a percentile is given: of so many, one is expected beyond it. Of fewer it would be a guess
between the largest and what nobody saw."""

_FEWEST, _MOST, _STRETCH = 4, 10, 10
"""Stretches that a run is cut into to see whether its requests are alike: so many at least and at most, and requests in
each where there are enough. Few and long ones, since a stretch must be longer than a queue lasts."""


def spread(values: Values, unit: Unit, what: str) -> Spread | None:
    """Mean and percentiles of ``values`` (n,), in the order of time, NaN left out; None for none.

    Percentiles are numpy's (linear between order statistics), of those that n carries.
    """
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    ordered = np.sort(values)
    likeness = inflation(values, float(np.median(values)))
    points, missing = {}, _missing(len(values))
    for percent in POINTS:
        if f"p{percent:g}" in missing:
            continue
        low, high = bounds(len(ordered), percent / 100, inflation(values, float(np.percentile(ordered, percent))))
        points[f"p{percent:g}"] = Quantity(
            value=float(np.percentile(ordered, percent)),
            low=None if low is None else float(ordered[low]),
            high=None if high is None else float(ordered[high]),
            unit=unit,
            provenance="measured",
            source=f"p{percent:g} of {what}",
        )
    mean = Quantity(value=float(values.mean()), unit=unit, provenance="measured", source=f"mean of {what}")
    return Spread(count=len(values), effective=len(values) / likeness, mean=mean, points=points, missing=missing)


def weighted(values: Values, weights: NDArray[np.int64], unit: Unit, what: str) -> Spread | None:
    """The same of ``values`` that count ``weights`` times each; no interval, for tokens of one step are one event."""
    counted = weights > 0
    values, weights = values[counted], weights[counted]
    if not len(values):
        return None
    order = np.argsort(values, kind="stable")
    ordered, upto = values[order], np.cumsum(weights[order])
    points, missing = {}, _missing(len(values))
    for percent in POINTS:
        if f"p{percent:g}" in missing:
            continue
        place = percent / 100 * (upto[-1] - 1)
        below, above = np.searchsorted(upto, [math.floor(place), math.ceil(place)], side="right")
        value = ordered[below] + (place - math.floor(place)) * (ordered[above] - ordered[below])
        points[f"p{percent:g}"] = Quantity(
            value=float(value), unit=unit, provenance="measured", source=f"p{percent:g} of {what}"
        )
    mean = float(np.dot(values, weights) / weights.sum())
    return Spread(
        count=int(upto[-1]),
        effective=float(len(values)),
        mean=Quantity(value=mean, unit=unit, provenance="measured", source=f"mean of {what}"),
        points=points,
        missing=missing,
    )


def _missing(count: int) -> dict[str, str]:
    """Percentiles that ``count`` values do not carry, and why."""
    few = f"{count} value{'s are' if count != 1 else ' is'} too few"
    short = {name: least for name, least in CARRIES.items() if count < least}
    return {name: f"{few}: {least} are needed for one to lie beyond it" for name, least in short.items()}


def bounds(count: int, part: float, likeness: float = 1.0) -> tuple[int | None, int | None]:
    """Places (from 0) of the order statistics between which the ``part`` quantile lies with 95% confidence.

    How many of ``count`` values lie below the quantile is binomial; each end leaves 2.5%. ``likeness`` widens the
    distance from the middle by its root, as if there were fewer values. None where no order statistic is so far out.
    """
    from scipy.stats import binom

    tail = (1 - CONFIDENCE) / 2
    effective = max(1, round(count / likeness))
    below, above = binom.ppf(tail, effective, part), binom.ppf(1 - tail, effective, part)
    # [X_(l), X_(u)] with ranks l, u from 1 covers the quantile with P(l <= B < u).
    low, high = int(below), int(above) + 1
    if likeness > 1:
        low = math.floor(low * count / effective)
        high = math.ceil(high * count / effective)
    return (low - 1 if low >= 1 else None), (high - 1 if high <= count else None)


def inflation(values: Values, at: float) -> float:
    """By what factor the share of ``values`` (in order of time) above ``at`` varies more than of independent ones.

    Requests that queue behind one another are alike, and an interval that ignores it is too narrow: behind a queue at
    80% load a 95% interval of 80 requests held the median in half of the runs. Batch means (Schmeiser 1982): what the
    shares of a few stretches of the run vary by, at least as independent ones do; times what few stretches leave unsure
    (the square of Student's over the normal quantile). Where all or none lie above, the stretches say nothing: 1.
    """
    from scipy.stats import norm, t

    above = values > at
    share = float(above.mean()) if len(values) else 0.0
    if not 0 < share < 1:
        return 1.0
    stretches = min(_MOST, max(_FEWEST, len(values) // _STRETCH))
    quantile = (1 + CONFIDENCE) / 2
    unsure = float(t.ppf(quantile, stretches - 1) / norm.ppf(quantile)) ** 2
    size = len(values) // stretches
    if size < 2:
        return unsure
    means = above[: size * stretches].reshape(stretches, size).mean(axis=1)
    return unsure * max(1.0, float(means.var(ddof=1)) * size / (share * (1 - share)))


def share(met: NDArray[np.bool_], what: str) -> Quantity:
    """Part of ``met`` (in order of time) that is True, with its interval (Clopper and Pearson 1934, widened alike)."""
    from scipy.stats import beta

    count, value = len(met), float(met.mean())
    effective = count / inflation(met.astype(np.float64), 0.5)
    hits, tail = value * effective, (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, effective - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, effective - hits)) if hits < effective else 1.0
    return Quantity(value=value, low=low, high=high, unit="1", provenance="measured", source=what)
