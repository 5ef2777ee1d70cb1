"""How far predictions are from public measurements: the plain floor, and the calibrated value with its interval.

    python benchmarks/accuracy.py            every data set, about two minutes
    python benchmarks/accuracy.py splitwise  one of them
    python benchmarks/accuracy.py priors     the rows of predict/priors.json that these data sets give

Of each model and machine 10 points are drawn at random, by their settings alone; the fit sees those, and what is
assumed of the machine by other data sets; all other points are scored. That is done anew for each of the draws, and a
line is the mean over them. See benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))

from accuracy_sets import kernels, serving, splitwise, vidur
from accuracy_sets.common import DATA, Cell, Words
from accuracy_sets.models import bloom

from phasewise.judge.calibrate.fit import fit
from phasewise.judge.calibrate.interval import assumed_interval, hold_out, interval
from phasewise.predict.efficiency import Array, Efficiency, stack
from phasewise.predict.priors import prior

Chosen = npt.NDArray[np.bool_]

DRAWS = 20
SEED = 3


class Scores(NamedTuple):
    """Of held-out points, all draws together: absolute relative errors, whether covered, width of the interval."""

    line: Words
    phase: Words
    plain: Array
    calibrated: Array
    covered: Chosen
    width: Array


def score(cell: Cell, draws: int = DRAWS) -> Scores:
    """Calibrate on drawn points, score the others."""
    rng = np.random.default_rng(SEED)
    return _joined([_once(cell, _drawn(cell, rng)) for _ in range(draws)])


def _joined(scores: Sequence[Scores]) -> Scores:
    return Scores(*(np.concatenate(column) for column in zip(*scores, strict=True)))


def _drawn(cell: Cell, rng: np.random.Generator) -> Chosen:
    seen = np.zeros(len(cell.seconds), dtype=bool)
    for stratum, count in cell.draw.items():
        settings = np.unique(cell.point[cell.stratum == stratum])
        seen |= np.isin(cell.point, rng.choice(settings, count, replace=False))
    return seen


def _once(cell: Cell, seen: Chosen) -> Scores:
    known, unknown, new = cell.load.where(seen), cell.load.where(~seen), ~seen
    found = fit(known.under, cell.seconds[seen], cell.prior).efficiency.seconds(unknown)
    held = hold_out(known.under, cell.seconds[seen], cell.prior)
    each = np.array([one.seconds(unknown) for one in held.fits])[held.fold]
    low, high = np.zeros(new.sum()), np.full(new.sum(), np.inf)
    for phase in np.unique(cell.phase[new]):
        mine, theirs = cell.phase[seen] == phase, cell.phase[new] == phase
        ends = interval(each[mine][:, theirs], held.misses[mine])
        if ends:
            low[theirs], high[theirs] = ends
    measured = cell.seconds[new]
    return Scores(
        line=cell.line[new],
        phase=cell.phase[new],
        plain=np.abs(unknown.floor / measured - 1),
        calibrated=np.abs(found / measured - 1),
        covered=(low <= measured) & (measured <= high),
        width=np.sqrt(high / low) - 1,
    )


class Target(NamedTuple):
    """What the calibrated error of a kind of line must not exceed."""

    error: float
    by: Callable[[Array], float]
    words: str

    def verdict(self, errors: Array) -> str:
        found = self.by(errors)
        met = "met" if found <= self.error else "MISSED"
        return f"{self.words} {100 * found:.1f}%, at most {100 * self.error:.0f}%: {met}"


def mean(limit: float) -> Target:
    return Target(limit, lambda errors: float(np.mean(errors)), "mean")


def median(limit: float) -> Target:
    return Target(limit, lambda errors: float(np.median(errors)), "median")


def show(scores: Scores, targets: dict[str, Target], draws: int = DRAWS) -> None:
    """A line for each kind of point, then each phase against its target."""
    print(f"  {'':24}{'held out':>9}{'plain':>16}{'calibrated':>16}{'80% covers':>12}{'± width':>9}")
    lines = np.unique(scores.line)
    for line in lines if len(lines) > 1 else ():
        _row(line, scores, scores.line == line, draws)
    for phase in np.unique(scores.phase):
        _row(f"{phase}, all", scores, scores.phase == phase, draws)
    for start, target in targets.items():
        print(f"  {start}: {target.verdict(scores.calibrated[np.char.startswith(scores.line, start)])}")


def unseen(cell: Cell) -> None:
    """A line on what the prior alone says of all points, those of other data sets being all that it knows."""
    low, high = assumed_interval(cell.prior, cell.load)
    errors = np.abs(cell.prior.efficiency.seconds(cell.load) / cell.seconds - 1)
    covered = 100 * ((low <= cell.seconds) & (cell.seconds <= high)).mean()
    width = 100 * np.median(np.sqrt(high / low) - 1)
    print(f"  nothing seen (prior): {_pair(errors)}, 80% covers {covered:.0f}%, ± {width:.0f}%")


def _row(name: str, scores: Scores, which: Array, draws: int) -> None:
    plain, calibrated = scores.plain[which], scores.calibrated[which]
    print(
        f"  {name:24}{which.sum() / draws:9.0f}"
        f"{_pair(plain):>16}{_pair(calibrated):>16}{100 * scores.covered[which].mean():11.0f}%"
        f"{100 * np.median(scores.width[which]):8.0f}%"
    )


def _pair(errors: Array) -> str:
    return f"{100 * errors.mean():.1f} / {100 * np.median(errors):.1f}%"


def run_splitwise() -> None:
    print(f"\nsplitwise ({splitwise.EXCLUDED})")
    found, constants = [], []
    for cell in splitwise.cells(bloom()):
        print(f" {cell.subject}, 10 settings of {cell.point.max() + 1} seen, prefill and decode of each")
        found.append(score(cell))
        show(found[-1], {})
        unseen(cell)
        constants.append(_constant(cell))
        print(f"  a constant for decode, the median of the other points of its tp: {_pair(constants[-1])}")
    print(f" both models: a constant for decode {_pair(np.concatenate(constants))}")
    together = _joined(found)
    for phase, target in {"prefill": median(0.15), "decode": mean(0.05)}.items():
        print(f" both models, {phase}: {target.verdict(together.calibrated[together.phase == phase])}")
        print(f"  80% covers {100 * together.covered[together.phase == phase].mean():.0f}%")


def _constant(cell: Cell) -> Array:
    """Errors of saying, for each decode point, the median of the other points of its tensor parallel size."""
    errors: list[float] = []
    for line in np.unique(cell.line[cell.phase == "decode"]):
        seconds = cell.seconds[cell.line == line]
        errors += [abs(np.median(np.delete(seconds, i)) / took - 1) for i, took in enumerate(seconds)]
    return np.array(errors)


def run_vidur() -> None:
    print("\nvidur, matmuls of one layer, 10 settings of a model seen")
    cells = list(vidur.cells())
    found = [(cell.subject, score(cell, 5)) for cell in cells]
    for subject, one in found:
        parts = [
            f"{band} {_pair(one.calibrated[np.char.startswith(one.line, band)])}" for band in ("prefill", "decode")
        ]
        print(f"  {subject:32} {', '.join(parts)}")
    show(_joined([one for _, one in found]), {"prefill": mean(0.06), "decode": mean(0.04)}, 5)
    every = np.concatenate([cell.seconds for cell in cells])
    unseen(cells[0]._replace(load=stack([cell.load for cell in cells]), seconds=every))


def run_kernels() -> None:
    limits = {"h100-sxm": (0.09, 0.12), "a100-sxm-80gb": (0.13, 0.16)}
    for cell in kernels.gemm():
        machine = cell.subject.split()[-1]
        print(f"\n{cell.data}, {cell.subject}, 10 shapes seen")
        prefill, decode = limits[machine]
        show(score(cell), {"prefill": mean(prefill), "decode": mean(decode)})
        unseen(cell)
    for cell in kernels.mixtures():
        print(
            f"\n{cell.data} (expected distinct experts, power-law routing, at most 64 tokens), {cell.subject}, 10 seen"
        )
        show(score(cell), {"decode": mean(0.20)} if "whole" in cell.subject else {})
        unseen(cell)


def _of(runs: serving.Served, chosen: Chosen) -> Callable[[Efficiency], Array]:
    return lambda efficiency: runs.times(efficiency)[chosen]


def run_serving() -> None:
    runs = serving.served()
    print(f"\nserving, TPOT of {len(runs.seconds)} runs; the fit sees no run of the model that is scored")
    print(f"({runs.left_out} more are left out: as they say, their devices cannot share the model)")
    assumed = prior("hbm", without=("serving",))
    held = hold_out(runs.times, runs.seconds, assumed, runs.model)
    low, high = np.zeros(len(runs.seconds)), np.zeros(len(runs.seconds))
    for model in np.unique(runs.model):
        mine = runs.model == model
        others = hold_out(_of(runs, ~mine), runs.seconds[~mine], assumed, runs.model[~mine])
        each = np.array([runs.times(one)[mine] for one in others.fits])[others.fold]
        ends = interval(each, others.misses)
        assert ends is not None
        low[mine], high[mine] = ends
    scores = Scores(
        line=runs.model,
        phase=np.full(len(runs.seconds), "decode"),
        plain=np.abs(runs.floor / runs.seconds - 1),
        calibrated=np.abs(np.exp(-held.misses) - 1),
        covered=(low <= runs.seconds) & (runs.seconds <= high),
        width=np.sqrt(high / low) - 1,
    )
    show(scores, {}, 1)
    print(f"  {median(0.25).verdict(scores.calibrated)}")
    impossible = int((runs.floor > runs.seconds).sum())
    print(
        f"  {impossible} runs are faster than their floor, so not as they are described; they are scored all the same"
    )
    print(PEERS)


def all_cells() -> Iterator[Cell]:
    yield from splitwise.cells(bloom())
    yield from vidur.cells()
    yield from kernels.gemm()
    yield from kernels.mixtures()


def print_priors() -> None:
    """Fit each data set whole, with nothing but orders of magnitude before, and print what the points determined."""
    orders = prior("any")
    fits = [(f"{cell.data}, {cell.subject}", fit(cell.load.under, cell.seconds, orders)) for cell in all_cells()]
    runs = serving.served()
    fits.append(("serving", fit(runs.times, runs.seconds, orders)))
    for name, found in fits:
        shrunk = found.spread / orders.spread
        values = found.efficiency.__struct_fields__
        known = [f"{p}={getattr(found.efficiency, p):.3g}" for p, s in zip(values, shrunk, strict=True) if s < 0.5]
        print(f"{name}: {', '.join(known)} (scatter {100 * found.scatter:.0f}%)")


PEERS = """\
  peers, on 258 runs of the same file (mean / median): aiconfigurator 0.12.0 27 / 17%, five constants by
  leave-one-model-out 29 / 23%, plain roofline 69%; aiconfigurator on its own first sample of 249 38 / 20%"""

SETS = {"splitwise": run_splitwise, "vidur": run_vidur, "kernels": run_kernels, "serving": run_serving}


def main(asked: Sequence[str]) -> int:
    if not DATA.is_dir():
        print(f"skipped: no shared data ({DATA.name}/ is not beside this repository)")
        return 0
    if list(asked) == ["priors"]:
        print_priors()
        return 0
    unknown = [name for name in asked if name not in SETS]
    if unknown:
        print(f"{unknown[0]!r} is no data set: {', '.join(SETS)}, or priors", file=sys.stderr)
        return 2
    print("errors are mean / median of |predicted / measured - 1| over held-out points")
    for name in asked or SETS:
        SETS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
