"""Fit an efficiency to measured times: least squares on logarithms, drawn towards what is assumed of the machine.

Ten points cannot carry a dozen parameters, so each keeps its prior (a ridge on its logarithm) until the points say
otherwise. How far a parameter's spread has shrunk says whether it was measured or is still assumed. The scatter of the
points around the fit is estimated along with it; large misses count less than in plain least squares (soft L1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.predict.efficiency import Array, Efficiency, from_logs
from phasewise.predict.priors import Prior

Times = Callable[[Efficiency], Array]
"""Gives the time of every point under an efficiency, seconds (points,)."""

SCATTER = 0.1
"""Where the estimate of the scatter starts: a step's form is good to about 10%."""

_LEAST, _MOST = 0.01, 0.4
_ROUNDS = 3


class Fit(NamedTuple):
    """What the points say.

    Attributes:
        efficiency: the middle.
        spread: standard deviation of each of ``efficiency.logs()`` after the points were seen.
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
    from scipy.optimize import least_squares

    which = np.ones(len(seconds), dtype=bool) if which is None else which
    if not which.any() or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError("seconds must be positive, finite and at least one")
    measured, count = np.log(seconds[which]), int(which.sum())
    logs, scatter = prior.logs, SCATTER

    def misses(at: Array) -> Array:
        return np.asarray(np.log(times(from_logs(at))[which]) - measured)

    for _ in range(_ROUNDS):

        def cost(at: Array, scatter: float = scatter) -> Array:
            return np.concatenate([_soft(misses(at) / scatter), (at - prior.logs) / prior.spread])

        found = least_squares(cost, logs, x_scale=prior.spread, max_nfev=60)
        logs = found.x
        covariance = np.linalg.inv(found.jac.T @ found.jac)
        points = found.jac[:count]
        free = max(count - float(np.trace(points @ covariance @ points.T)), 1.0)
        scatter = float(np.clip(np.sqrt(np.sum(misses(logs) ** 2) / free), _LEAST, _MOST))
    return Fit(from_logs(logs), np.sqrt(np.diag(covariance)), scatter)


def _soft(misses: Array) -> Array:
    """Signed residuals whose squares grow like |x| where x is large."""
    return np.asarray(np.sign(misses) * np.sqrt(2 * (np.sqrt(1 + misses**2) - 1)))
