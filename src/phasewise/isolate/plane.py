"""Step time = base + per request · batch + per token · Σcontext, and where it leaves that plane as the batch grows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from phasewise import fitting
from phasewise.isolate.prefill import quantity
from phasewise.record.sweep import Break, Broken, Plane

TIMESTAMP_S = 200e-6
"""Error of the time between two tokens as the client sees them, as a bound."""

LEAST_JUMP = 0.10
"""Part of the step before it from which a jump is told: there is no work that explains one."""

LEAST_BEND = 0.10
"""Part of the largest step that a bend must have added to be told."""

BETTER = 4.0
BETTER_BY = 30.0
"""By which factor, and by how much, chi² must fall for a break to be believed: the best of a dozen places for one falls
by 10 in some runs of mere noise."""

LEAST_REPEATS = 3
"""Windows beyond the first of each cell without which scatter is not known, and no break is sought."""

LEAST_BATCHES = 4
"""Different batches below which no break is sought: three fit any bend."""


class Sample(NamedTuple):
    """One steady window: requests, their tokens of context in all, seconds of a step, and steps in the window."""

    batch: int
    context: float
    seconds: float
    steps: int


Column = Callable[[Sample], float]

_COLUMNS: dict[str, Column] = {
    "base": lambda sample: 1.0,
    "per_request": lambda sample: float(sample.batch),
    "per_context_token": lambda sample: sample.context,
}


class _Candidate(NamedTuple):
    kind: Break
    after: int
    before: int
    fit: fitting.Fit

    @property
    def chi2(self) -> float:
        return _chi2(self.fit)


def fit(samples: Sequence[Sample]) -> Plane | None:
    """The plane through ``samples``, broken where it clearly is; None with fewer than two different rows.

    Coefficients that one batch, or one context, cannot tell apart are left at zero without an upper end.
    """
    for names in (tuple(_COLUMNS), ("base", "per_context_token"), ("base", "per_request")):
        try:
            whole = _fit(samples, [_COLUMNS[name] for name in names])
        except ValueError:
            continue
        broken = _broken(samples, whole) if len(names) == len(_COLUMNS) else None
        return _plane(samples, names, broken.fit if broken else whole, broken)
    return None


def _fit(samples: Sequence[Sample], columns: Sequence[Column]) -> fitting.Fit:
    """Raises ValueError when there are too few different rows."""
    rows = [[column(sample) for column in columns] for sample in samples]
    steps = min((sample.steps for sample in samples), default=1)
    return fitting.nonnegative(rows, [s.seconds for s in samples], resolution=TIMESTAMP_S / 2 / max(1, steps))


def _plane(samples: Sequence[Sample], names: Sequence[str], found: fitting.Fit, broken: _Candidate | None) -> Plane:
    source = f"fit of {found.samples} windows at {len(found.means)} batches and contexts"
    unknown = fitting.Interval(0.0, 0.0, math.inf)
    part = {name: found.coefficient(names.index(name)) if name in names else unknown for name in _COLUMNS}
    return Plane(
        base=quantity(part["base"], "s", source),
        per_request=quantity(part["per_request"], "s", source),
        per_context_token=quantity(part["per_context_token"], "s/token", source),
        residual=found.residual,
        largest_batch=max(sample.batch for sample in samples),
        broken=_told(samples, broken, source) if broken else None,
    )


def _broken(samples: Sequence[Sample], whole: fitting.Fit) -> _Candidate | None:
    """The break that explains the samples best; None when the whole plane does, or when it is too small to tell."""
    if whole.scatter.degrees < LEAST_REPEATS:
        return None
    candidates = [one for one in _candidates(samples) if one.fit.coefficient(3).low > 0]
    if not candidates:
        return None
    best = min(candidates, key=lambda one: one.chi2)
    left = _chi2(whole)
    if left < BETTER * best.chi2 or left - best.chi2 < BETTER_BY:
        return None
    extra = best.fit.values[3]
    if best.kind == "jump":
        return best if extra >= LEAST_JUMP * _before(samples, best) else None
    largest = max(sample.batch for sample in samples)
    most = max(sample.seconds for sample in samples if sample.batch == largest)
    return best if extra * (largest - best.after) >= LEAST_BEND * most else None


def _candidates(samples: Sequence[Sample]) -> Iterator[_Candidate]:
    """A jump between any two batches that follow each other, and a bend at any but the last.

    With one batch beyond it, a bend and a jump are the same: then it counts as a jump only when the next batch below is
    near (see `SurfaceRun`, which measures batches in between).
    """
    batches = sorted({sample.batch for sample in samples})
    if len(batches) < LEAST_BATCHES:
        return
    for place, (after, before) in enumerate(itertools.pairwise(batches)):
        kinds: list[tuple[Break, Column]] = [("jump", lambda s, at=after: float(s.batch > at))]  # type: ignore[misc]
        if 0 < place < len(batches) - 2:
            kinds.append(("knee", lambda s, at=after: max(0.0, s.batch - at)))  # type: ignore[misc]
        for kind, column in kinds:
            try:
                yield _Candidate(kind, after, before, _fit(samples, [*_COLUMNS.values(), column]))
            except ValueError:
                continue


def _chi2(found: fitting.Fit) -> float:
    errors = found.design @ np.array(found.values) - found.means
    return float((errors**2 / found.variances).sum())


def _before(samples: Sequence[Sample], one: _Candidate) -> float:
    """Fitted step of the last batch before the break, at the shortest context measured there."""
    context = min(sample.context for sample in samples if sample.batch == one.after)
    return float(one.fit.at([1.0, one.after, context, 0.0]).value)


def _told(samples: Sequence[Sample], one: _Candidate, source: str) -> Broken:
    extra = one.fit.coefficient(3)
    if one.kind == "jump":
        share = extra.value / _before(samples, one)
    else:
        context = min(sample.context for sample in samples if sample.batch == one.after) / one.after
        slope = one.fit.values[1] + one.fit.values[2] * context
        share = (slope + extra.value) / slope if slope > 0 else math.inf
    return Broken(kind=one.kind, after=one.after, before=one.before, extra=quantity(extra, "s", source), share=share)
