"""Fit an efficiency to measured times: least squares on logarithms, drawn towards what is assumed of the machine.

Ten points cannot carry a dozen parameters, so each keeps its prior (a ridge on its free scale) until the points say
otherwise. How far a parameter's spread has shrunk says whether it was measured or is still assumed. The scatter of the
points around the fit is estimated along with it; large misses count less than in plain least squares (soft L1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.predict.efficiency import NAMES, Array, Efficiency, from_free
from phasewise.predict.priors import Prior

Times = Callable[[Efficiency], Array]
"""Gives the time of every point under an efficiency, seconds (points,)."""

SCATTER = 0.1
"""Where the estimate of the scatter starts: a step's form is good to about 10%."""

_LEAST, _MOST = 0.01, 0.4
_ROUNDS = 3

_USUAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


class Fit(NamedTuple):
    """What the points say.

    Attributes:
        efficiency: the middle.
        spread: standard deviation of each of ``efficiency.free()`` after the points were seen.
        scatter: standard deviation of log(measured / fitted) of one point.
    """

    efficiency: Efficiency
    spread: Array
    scatter: float


def fit(times: Times, seconds: Array, prior: Prior, which: npt.NDArray[np.bool_] | None = None) -> Fit:
    """Fit to the measured ``seconds`` (points,), or to those of them where ``which`` is true.

    Raises:
        ValueError: no points, or times that are not positive and finite.
    """
    which = np.ones(len(seconds), dtype=bool) if which is None else which
    if not which.any() or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError("seconds must be positive, finite and at least one")
    measured = np.log(seconds[which])

    def misses(at: Array) -> Array:
        return np.asarray(np.log(times(from_free(at))[which]) - measured)

    found = min((_descend(misses, prior, start) for start in _starts(prior)), key=lambda one: one.cost)
    return Fit(from_free(found.middle), found.spread, found.scatter)


class _Descent(NamedTuple):
    middle: Array
    spread: Array
    scatter: float
    cost: float


def _starts(prior: Prior) -> list[Array]:
    """Host time that hides behind the device has no slope to follow, so one descent starts where it does not hide."""
    shown = prior.free.copy()
    shown[NAMES.index("launch_s")] += 2 * prior.spread[NAMES.index("launch_s")]
    return [prior.free, shown]


def _descend(misses: Callable[[Array], Array], prior: Prior, start: Array) -> _Descent:
    from scipy.optimize import least_squares

    middle, scatter, count = start, SCATTER, len(misses(start))
    for _ in range(_ROUNDS):

        def residuals(at: Array, scatter: float = scatter) -> Array:
            return np.concatenate([_soft(misses(at) / scatter), (at - prior.free) / prior.spread])

        found = least_squares(residuals, middle, x_scale=prior.spread, max_nfev=60)
        middle = found.x
        slopes = np.asarray(found.jac, dtype=float)
        covariance, points = np.linalg.inv(slopes.T @ slopes), slopes[:count]
        spare = max(count - float(np.trace(points @ covariance @ points.T)), 1.0)
        used, usual = scatter, _USUAL * float(np.median(np.abs(misses(middle)))) * np.sqrt(count / spare)
        scatter = float(np.clip(usual, _LEAST, _MOST))
    # A scatter that fits everything must not win: its logarithm is the likelihood's price.
    return _Descent(middle, np.sqrt(np.diag(covariance)), scatter, float(found.cost) + count * math.log(used))


def _soft(misses: Array) -> Array:
    """Signed residuals whose squares grow like |x| where x is large."""
    return np.asarray(np.sign(misses) * np.sqrt(2 * (np.sqrt(1 + misses**2) - 1)))
