"""The recap that closes the report of a trace."""

from __future__ import annotations

from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.record.trace import Traced, TracePart
from phasewise.report.view import findings, words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.table import Cell, Table, columns, say
from phasewise.report.view.traced import NOT_MEASURED, absent, bound, part, seen

_MOST_FIXES = 3


def recap(run: Run, found: Traced) -> Table:
    """Bound, yardstick, value, floor and fixes of prefill beside decode."""
    sides = [_column(run, found, phase) for phase in PHASES]
    names = ("bound", "yardstick", "value", "floor", "fixes")
    rows = tuple((say(name), *(side[i] for side in sides)) for i, name in enumerate(names))
    return Table(title="Recap", columns=columns("", *PHASES), rows=rows)


def _column(run: Run, found: Traced, phase: Phase) -> tuple[Cell, ...]:
    own, yardstick = found.phases[phase], say("MFU" if phase == "prefill" else "MBU")
    if not seen(own):
        return (say(absent(found)), yardstick, say(NOT_MEASURED), say(words.NOTHING), say("none ranked"))
    verdict = own.verdict
    if verdict is None:
        return (say("not judged"), yardstick, say("not judged"), say(words.NOTHING), say("none ranked"))
    first = verdict.utilisations[0] if verdict.utilisations else None
    value = say(f"{words.NOTHING}: {words.clean(verdict.why_null)}" if verdict.why_null else words.NOTHING)
    if first is not None:
        yardstick = say(first.yardstick.upper())
        value = Cell(f"{words.amount(first.value)}{', not to be believed' if verdict.alarm else ''}", first.value)
    text = bound(own)
    if verdict.parts:
        text = f"{text}; {part(verdict.parts[0], verdict)} {_share(verdict.parts[0])} of the step"
    floor = Cell(words.NOTHING)
    if verdict.floor is not None:
        floor = Cell(f"{words.amount(verdict.floor)} of {words.amount(verdict.step)}", verdict.floor)
    return (say(text), yardstick, value, floor, say(_fixes(run, phase)))


def _share(one: TracePart) -> str:
    return f"{one.seconds.one_sided} {words.share(one.fraction)}".lstrip()


def _fixes(run: Run, phase: Phase) -> str:
    ranked = [fix for fix in findings.fixes(run) if fix.phase == phase]
    named = [f"{words.name(fix.name)} (saves {words.amount(fix.saves)})" for fix in ranked[:_MOST_FIXES]]
    more = [f"{len(ranked) - _MOST_FIXES} more"] if len(ranked) > _MOST_FIXES else []
    return "; ".join(named + more) or "none ranked"
