"""The recap that closes every report: prefill beside decode."""

from __future__ import annotations

from phasewise.record.observation import Phase
from phasewise.record.prediction import StepPrediction
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.remedies import Remedy
from phasewise.record.run import Run
from phasewise.report.view import findings, words
from phasewise.report.view.heading import PHASES, failed, measured, verdict_of
from phasewise.report.view.phases import headline_at, where
from phasewise.report.view.table import Cell, Table, columns, say

_ROWS = ("bound", "yardstick", "value", "floor", "fixes")
_MOST = 3


def recap(run: Run) -> Table:
    """Bound, yardstick, value, floor and fixes of each phase."""
    sides = [_column(run, phase) for phase in PHASES]
    rows = tuple((say(name), *(side[i] for side in sides)) for i, name in enumerate(_ROWS))
    return Table(title="Recap", columns=columns("", *PHASES), rows=rows)


def _column(run: Run, phase: Phase) -> tuple[Cell, ...]:
    verdict = verdict_of(run, phase)
    if verdict is None:
        return _unjudged(run, phase)
    text = f"{words.amount(verdict.headline)}{headline_at(verdict)}"
    if verdict.headline is None:
        text = f"{words.NOTHING}: {words.short(verdict.why_null)}" if verdict.why_null else words.NOTHING
    elif not verdict.believed:
        text += ", not to be believed"
    if failed(run, phase, voids=False):
        text += ", see the failed checks"
    value = Cell(text, verdict.headline)
    bound = words.bound(verdict.bound, verdict.rival)
    if verdict.shares:
        bound = f"{bound}: {words.share(verdict.shares[0].fraction.value)} of the step"
    floor = Cell(words.NOTHING)
    if verdict.floor is not None:
        text = f"{words.amount(verdict.floor)} of {words.amount(verdict.step)} {where(verdict)}"
        floor = Cell(text, verdict.floor)
    return (say(bound), say(verdict.yardstick.upper()), value, floor, say(_fixes(run, phase)))


def _unjudged(run: Run, phase: Phase) -> tuple[Cell, ...]:
    step = _predicted(run, phase)
    state = "not judged" if measured(run, phase) else "not measured"
    if step is None:
        return (Cell(state), Cell(words.NOTHING), Cell(state), Cell(words.NOTHING), Cell(_fixes(run, phase)))
    floor = f"{words.number(step.time_s, 's')} at {words.count(step.tokens)} tokens"
    return (
        say(f"{words.BOUNDS[step.bound]} (predicted)"),
        say("MFU" if step.bound == "compute" else "MBU"),
        Cell(state),
        Cell(f"{floor}{'' if phase == 'prefill' else ' of context'}", _floor(step)),
        Cell(_fixes(run, phase)),
    )


def _predicted(run: Run, phase: Phase) -> StepPrediction | None:
    if run.prediction is None:
        return None
    return run.prediction.prefill if phase == "prefill" else run.prediction.decode


def _floor(step: StepPrediction) -> Quantity:
    return predicted(step.time_s, "s", "floor of the counted step")


def _fixes(run: Run, phase: Phase) -> str:
    if not measured(run, phase):
        return "measure first: phasewise profile"
    found = [fix for fix in findings.fixes(run) if fix.phase == phase]
    if not found:
        return "none ranked"
    named = [f"{words.name(fix.name)} ({_buys(fix)})" for fix in found[:_MOST]]
    more = f"; {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(named) + more


def _buys(fix: Remedy) -> str:
    if fix.buys == "throughput":
        return f"frees {words.amount(fix.saves)} of the accelerator"
    return f"saves {words.amount(fix.saves)}"
