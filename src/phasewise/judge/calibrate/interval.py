"""Intervals that cover what they claim, from points that the fit has not seen.

Each point is left out in turn (or each group of points), the rest is fitted, and the miss on what was left out is kept.
A prediction then lies between what those fits say of it, less and plus their misses: the jackknife+ of Barber, Candès,
Ramdas and Tibshirani (Annals of Statistics 49, 2021; arXiv 1905.02928), on logarithms. It assumes nothing of the form
or of the scatter, only that the new point is of the same kind as the measured ones. Guaranteed is 60% where 80% is
said; the paper, and benchmarks/accuracy.py here, find about 80%.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.judge.calibrate.fit import Times, fit
from phasewise.predict.efficiency import Array, Efficiency, Load, from_free
from phasewise.predict.priors import Prior

COVERAGE = 0.8
"""What every interval of a calibration claims."""

FEWEST = 4
"""Points of a phase below which no interval can claim 80%: with n points it claims at most n / (n + 1)."""

WITHIN_80 = 1.2816
"""Standard deviations on each side that hold 80% of a normal distribution."""

_DRAWS = 400

UNSEEN_SCATTER = 0.15
"""What a step is taken to scatter around its form when nothing was measured."""


class HeldOut(NamedTuple):
    """What each point looked like to a fit that had not seen it.

    Attributes:
        fits: the efficiency that was fitted without each fold, in the order of the folds.
        fold: number of the fold that each point was left out with, (points,).
        misses: log(measured / fitted without it), (points,).
    """

    fits: tuple[Efficiency, ...]
    fold: npt.NDArray[np.intp]
    misses: Array


def hold_out(times: Times, seconds: Array, prior: Prior, groups: npt.NDArray[np.generic] | None = None) -> HeldOut:
    """Leave each point out in turn, or all points of a group (points,) together."""
    labels, fold = np.unique(np.arange(len(seconds)) if groups is None else groups, return_inverse=True)
    fits, misses = [], np.zeros(len(seconds))
    for number in range(len(labels)):
        out = fold == number
        # With everything left out nothing is left to fit: then it is the prior that has not seen the points.
        without = fit(times, seconds, prior, ~out).efficiency if not out.all() else prior.efficiency
        misses[out] = np.log(seconds[out] / times(without)[out])
        fits.append(without)
    return HeldOut(tuple(fits), fold, misses)


def interval(predicted: Array, misses: Array, coverage: float = COVERAGE) -> tuple[Array, Array] | None:
    """Lower and upper ends, seconds (new points,); None when there are too few points to claim ``coverage``.

    Args:
        predicted: what the fit without each point says of the new points, seconds (points, new points).
        misses: of each point on the fit without it, (points,).
        coverage: fraction that is claimed.
    """
    count = len(misses)
    above, below = math.ceil(coverage * (count + 1)), math.floor((1 - coverage) * (count + 1) + 1e-9)
    if above > count or below < 1:
        return None
    logs, wide = np.log(predicted), np.abs(misses)[:, None]
    low, high = np.sort(logs - wide, axis=0)[below - 1], np.sort(logs + wide, axis=0)[above - 1]
    return np.exp(low), np.exp(high)


def assumed_interval(prior: Prior, load: Load, coverage: float = COVERAGE) -> tuple[Array, Array]:
    """Ends for steps of ``load`` when nothing was measured: quantiles over engines drawn from the prior.

    Every parameter varies on its own. The draws are always the same, so that the same question has the same answer.
    """
    rng = np.random.default_rng(0)
    drawn = prior.free + prior.spread * rng.standard_normal((_DRAWS, len(prior.free)))
    times = np.array([from_free(free).seconds(load) for free in drawn])
    logs = np.log(times) + UNSEEN_SCATTER * rng.standard_normal((_DRAWS, 1))
    low, high = np.quantile(logs, [(1 - coverage) / 2, (1 + coverage) / 2], axis=0)
    return np.exp(low), np.exp(high)
