"""Least squares with intervals that cover what they claim on few, skewed samples.

Timings repeat at a handful of lengths, scatter by an absolute part (wake-ups) plus a part proportional to the time, and
stray upward only (a busy machine delays, nothing makes it early). So, in this order:

1. samples at one row of the design form a group; within groups the shape of the scatter, sqrt(absolute² +
   (relative·y)²), is estimated by maximum likelihood (Laplace, which outliers bend less than Gauss);
2. samples far above their group are left out and counted;
3. the groups' means are fitted with coefficients >= 0, each weighted by its variance: scatter over its samples, plus
   ``resolution``², an error that all samples of a group share and that repeating does not shrink;
4. intervals are profile intervals: all values that some non-negative solution attains while chi² grows by at most t².
   When the groups stray from the fit by more than their scatter explains (lack of fit), chi² is scaled down to what is
   expected (the scale factor of the Particle Data Group) and t gets the few degrees of freedom of that scale.

tests/test_fitting.py holds the simulation that these choices were made by.

Every single number that leaves this module is a Python float or int, never a numpy scalar: records are written as JSON.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

OUTLIER = 5.0
"""Samples this many standard deviations above the middle of their group are left out."""

ROUNDING = 1e-9
"""Part of a value below which the lower end of its interval is what rounding left of zero."""


class Interval(NamedTuple):
    """A value and the ends of its confidence interval; an end is infinite when the data set no bound."""

    value: float
    low: float
    high: float

    @property
    def relative(self) -> float:
        """Half the width over the value; infinite at value 0."""
        return (self.high - self.low) / (2 * self.value) if self.value > 0 else math.inf


class Scatter(NamedTuple):
    """Standard deviation of one sample: sqrt(absolute² + (relative · y)²), from ``degrees`` degrees of freedom."""

    absolute: float
    relative: float
    degrees: int

    def at(self, y: ArrayLike) -> Array:
        """Standard deviation of a sample whose expected value is ``y``."""
        return np.hypot(self.absolute, self.relative * np.asarray(y, dtype=float))


class Fit(NamedTuple):
    """Non-negative least squares over ``groups`` distinct rows.

    Attributes:
        values: the coefficients, p of them.
        design, means, variances: the groups as fitted: rows (m, p), mean of y (m,) and its variance (m,).
        growth: by how much chi² may grow inside the interval.
        lack_of_fit: chi² per degree of freedom; about 1 when scatter explains how far the groups are from the fit.
        scatter: of one sample.
        samples: how many were used.
        rejected: how many were left out as outliers.
    """

    values: tuple[float, ...]
    design: Array
    means: Array
    variances: Array
    growth: float
    lack_of_fit: float
    scatter: Scatter
    samples: int
    rejected: int

    def coefficient(self, index: int) -> Interval:
        """Coefficient ``index`` with its interval."""
        return self.at(np.eye(len(self.values))[index])

    def at(self, row: ArrayLike) -> Interval:
        """The linear combination ``row`` · coefficients with its interval, e.g. the prediction at that row."""
        direction = np.asarray(row, dtype=float)
        value = float(direction @ np.array(self.values))
        low, high = _profile(self, direction)
        if (direction >= 0).all() and low < ROUNDING * value:
            low = 0.0
        return Interval(value, float(min(low, value)), float(max(high, value)))

    @property
    def residual(self) -> float:
        """Median absolute relative error of the fit over the groups."""
        return float(np.median(np.abs(self.design @ np.array(self.values) / self.means - 1)))


def nonnegative(design: ArrayLike, y: ArrayLike, *, resolution: float = 0.0, confidence: float = 0.95) -> Fit:
    """Fit ``y`` (n,) > 0 as ``design`` (n, p) times coefficients >= 0; p is at most 4, equal rows form a group.

    ``resolution`` is a standard deviation, in the unit of y, that all samples of one group share.

    Raises:
        ValueError: fewer groups than coefficients, or shapes or values that cannot be fitted.
    """
    rows, times = np.asarray(design, dtype=float), np.asarray(y, dtype=float)
    if rows.ndim != 2 or times.shape != rows.shape[:1] or rows.shape[1] > 4:
        raise ValueError("design must be (n, p <= 4) and y (n,)")
    if not (np.isfinite(rows).all() and np.isfinite(times).all() and (times > 0).all()):
        raise ValueError("design must be finite, y positive and finite")
    groups, member = np.unique(rows, axis=0, return_inverse=True)
    member = member.reshape(-1)
    if len(groups) < rows.shape[1] or np.linalg.matrix_rank(groups / np.linalg.norm(groups, axis=0)) < rows.shape[1]:
        raise ValueError("fewer distinct rows than coefficients")
    kept, scatter = without_outliers(times, member)
    counts = np.bincount(member[kept], minlength=len(groups))
    means = np.bincount(member[kept], weights=times[kept], minlength=len(groups)) / counts
    variances = scatter.at(means) ** 2 / counts + resolution**2
    values, chi2 = _solve(groups, means, variances)
    freedom = len(groups) - rows.shape[1]
    return Fit(
        values=tuple(float(value) for value in values),
        design=groups,
        means=means,
        variances=variances,
        growth=_growth(chi2, freedom, scatter.degrees, confidence),
        lack_of_fit=chi2 / freedom if freedom else 1.0,
        scatter=scatter,
        samples=int(kept.sum()),
        rejected=int((~kept).sum()),
    )


def median_interval(samples: Sequence[float], scatter: Scatter | None = None, confidence: float = 0.95) -> Interval:
    """Median of positive ``samples`` with its interval.

    From six samples on by order statistics, which assume nothing about the distribution: the ends are the k-th smallest
    and largest with 2 P(Binomial(n, 1/2) < k) <= 1 - confidence. With fewer no order statistic covers 95%, and two or
    three samples do not know their own scatter: t times ``scatter``, which pools that of their like (``pooled``), times
    sqrt(pi/2n), the error of a median of many; that of a few is smaller. Never narrower than from the least sample to
    the greatest: pooled scatter leaves stragglers out. Without ``scatter`` it is the samples' own.
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(samples, dtype=float))
    n, middle = len(ordered), float(np.median(ordered))
    tails = bdtr(np.arange(n // 2), n, 0.5)
    rank = int(np.searchsorted(2 * tails, 1 - confidence, side="right"))
    if rank:
        return Interval(middle, float(ordered[rank - 1]), float(ordered[n - rank]))
    one = scatter or pooled([samples])
    if one.degrees == 0:
        return Interval(middle, 0.0, math.inf)
    half = student(confidence, one.degrees) * float(one.at(middle)) * math.sqrt(math.pi / (2 * n))
    return Interval(middle, max(0.0, min(float(ordered[0]), middle - half)), max(float(ordered[-1]), middle + half))


def pooled(groups: Sequence[Sequence[float]]) -> Scatter:
    """Scatter of one sample about the middle of its group, from all ``groups``, none of them empty, together."""
    if not groups:
        return Scatter(0.0, 1.0, 0)
    member = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return without_outliers(np.array([y for group in groups for y in group], dtype=float), member)[1]


def student(confidence: float, degrees: int) -> float:
    """Two-sided quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def without_outliers(y: Array, member: NDArray[np.intp]) -> tuple[NDArray[np.bool_], Scatter]:
    """Which of ``y`` (n,) stay, and their scatter; ``member`` (n,) numbers the group of each, 0 to m - 1."""
    # The lower middle: of two samples, it is the upper one that may be the outlier.
    middle = np.array([np.sort(y[member == g])[(np.sum(member == g) - 1) // 2] for g in range(member.max() + 1)])
    excess = y - middle[member]
    kept = np.ones(len(y), dtype=bool)
    for _ in range(5):
        shape = _scatter(y, member, kept).at(middle)[member]
        usual = excess[kept & (excess != 0)] / shape[kept & (excess != 0)]
        now = excess <= OUTLIER * shape * (np.median(np.abs(usual)) if usual.size else 1.0)
        if (now == kept).all():
            break
        kept = now
    return kept, _scatter(y, member, kept)


def _scatter(y: Array, member: NDArray[np.intp], kept: NDArray[np.bool_]) -> Scatter:
    """Shape by Laplace likelihood over a grid of ratios absolute : relative, size by the pooled variance."""
    y, member = y[kept], member[kept]
    counts = np.bincount(member)
    degrees = int((counts[counts > 0] - 1).sum())
    if degrees == 0:
        return Scatter(0.0, 1.0, 0)
    means = (np.bincount(member, weights=y) / np.maximum(counts, 1))[member]
    # A deviation from the mean of n samples is too small by sqrt(1 - 1/n) on average.
    repeated = counts[member] > 1
    deviation = np.abs(y - means)[repeated] / np.sqrt(1 - 1 / counts[member][repeated])
    level = means[repeated]
    best, ratio = math.inf, 0.0
    for candidate in np.geomspace(level.min() / 30, 30 * level.max(), 25):
        shape = np.hypot(candidate, level)
        loss = float(np.log(shape).mean() + math.log((deviation / shape).mean() + 1e-12))
        if loss < best - 1e-6:  # where the data cannot tell, as with one repeated group, the least ratio stands
            best, ratio = loss, float(candidate)
    size = math.sqrt(float((((y - means) / np.hypot(ratio, means)) ** 2).sum()) / degrees)
    size = max(size, 1e-7)  # keeps weights finite when a clock shows no scatter at all
    return Scatter(size * ratio, size, degrees)


def _growth(chi2: float, freedom: int, degrees: int, confidence: float) -> float:
    """By how much chi² may grow inside the interval."""
    from scipy.special import fdtri

    lack = chi2 / freedom * student(confidence, freedom) ** 2 if freedom else math.inf
    if degrees == 0:
        return lack
    by_scatter = student(confidence, degrees) ** 2
    if freedom == 0:
        return by_scatter
    by_scatter *= max(1.0, chi2 / freedom)
    # A test at 75%: with few groups real lack of fit often hides below a stricter one, and intervals come out short.
    return max(lack, by_scatter) if chi2 / freedom > fdtri(freedom, degrees, 0.75) else by_scatter


def _supports(p: int) -> list[list[int]]:
    """Every set of columns that may be free while the others are zero: 2^p - 1 of them, so no tolerance to tune."""
    return [list(s) for k in range(1, p + 1) for s in itertools.combinations(range(p), k)]


def _whitened(design: Array, means: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Rows over their standard deviations, columns of unit length, and those lengths."""
    weighted = design / np.sqrt(variances)[:, None]
    lengths = np.linalg.norm(weighted, axis=0)
    return weighted / lengths, means / np.sqrt(variances), lengths


def _solve(design: Array, means: Array, variances: Array) -> tuple[Array, float]:
    """The non-negative coefficients of least chi², and that chi²."""
    a, b, lengths = _whitened(design, means, variances)
    best, chi2 = np.zeros(a.shape[1]), float(b @ b)
    for support in _supports(a.shape[1]):
        part = np.linalg.lstsq(a[:, support], b, rcond=None)[0]
        rest = b - a[:, support] @ part
        if (part >= 0).all() and rest @ rest < chi2:
            best, chi2 = np.zeros(a.shape[1]), float(rest @ rest)
            best[support] = part
    return best / lengths, chi2


def _profile(fit: Fit, direction: Array) -> tuple[float, float]:
    """Least and greatest ``direction`` · θ over θ >= 0 whose chi² is within ``growth`` of the least.

    On each support θ is affine in v = direction · θ, θ = v·u + Z·w with w by least squares, so chi² is a parabola in v
    and the signs are linear bounds on v: each support gives a closed interval, and their union is the answer.
    """
    if not math.isfinite(fit.growth):
        return (0.0 if (direction >= 0).all() else -math.inf), math.inf
    a, b, lengths = _whitened(fit.design, fit.means, fit.variances)
    direction = direction / lengths
    rest = b - a @ (np.array(fit.values) * lengths)
    limit = float(rest @ rest) + fit.growth
    ends: list[float] = []
    for support in _supports(len(direction)):
        ends.extend(_segment(a[:, support], b, direction[support], limit))
    return (min(ends), max(ends)) if ends else (-math.inf, math.inf)


def _segment(a: Array, b: Array, direction: Array, limit: float) -> tuple[float, ...]:
    """Ends of v on one support; empty when none is feasible."""
    size = float(direction @ direction)
    if size == 0:
        return ()
    along = direction / size
    across = np.linalg.svd(direction[None, :])[2][1:].T
    solve = np.linalg.pinv(a @ across) if across.shape[1] else np.zeros((0, len(b)))
    slope, start = along - across @ (solve @ (a @ along)), across @ (solve @ b)
    e1, e0 = a @ slope, b - a @ start
    curve, mid = float(e1 @ e1), float(e1 @ e0)
    under = mid * mid - curve * (float(e0 @ e0) - limit)
    if under < 0 or curve == 0:
        return ()
    low, high = (mid - math.sqrt(under)) / curve, (mid + math.sqrt(under)) / curve
    for s, c in zip(slope, start, strict=True):
        if s > 0:
            low = max(low, -c / s)
        elif s < 0:
            high = min(high, -c / s)
        elif c < 0:
            return ()
    return (low, high) if low <= high else ()
