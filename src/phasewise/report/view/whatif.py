"""What changes would do to each phase: a table, and a line on each."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.quantity import predicted
from phasewise.record.whatif import Gain, Outcome, Trial, WhatIf
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, say

TOGETHER = "all together"
_WHY = "floor of the changed setup"


def table(found: WhatIf) -> Table:
    """Each phase before and after; one row a change."""
    trials = (*found.trials, *([found.together] if found.together else []))
    stalls = any(one.stall_s is not None for one in (found.before, *(t.outcome for t in trials if t.outcome)))
    heads = ("change", ">TTFT", ">TPOT", *([">longest gap"] if stalls else []), ">tokens/s", ">request")
    rows = [(say("as it is"), *_cells(found.before, stalls))]
    for trial in trials:
        name = TOGETHER if trial is found.together else words.name(trial.change)
        blank = (Cell("refused"), *(Cell("") for _ in heads[2:]))
        rows.append((say(name), *(_cells(trial.outcome, stalls) if trial.outcome else blank)))
    asked = found.before.batch
    note = f"TPOT and tokens/s at batch {asked}{', or the one of the change' if asked == 1 else ''}."
    gap = " The longest gap is that of a request whose step takes in another's prompt." if stalls else ""
    notes = " ".join(words.clean(one) for one in found.notes)
    return Table(title="What if", columns=columns(*heads), rows=tuple(rows), note=f"{note}{gap} {notes}".rstrip())


def _cells(one: Outcome, stalls: bool) -> Iterator[Cell]:
    yield _seconds(one.ttft_s)
    yield _seconds(one.tpot_s)
    if stalls:
        yield Cell(words.NOTHING) if one.stall_s is None else _seconds(one.stall_s)
    yield Cell(words.count(one.tokens_per_s), predicted(one.tokens_per_s, "token/s", _WHY))
    yield _seconds(one.total_s)


def _seconds(value: float) -> Cell:
    return Cell(words.number(value, "s"), predicted(value, "s", _WHY))


def lines(found: WhatIf) -> tuple[str, ...]:
    """What each change does to each phase, what owns the gain, and why one is refused."""
    trials = (*found.trials, *([found.together] if found.together else []))
    return tuple(_line(trial, TOGETHER if trial is found.together else trial.change) for trial in trials)


def _line(trial: Trial, name: str) -> str:
    if trial.prefill is None or trial.decode is None:
        return f"{words.name(name)}: refused: {words.clean(trial.refused)}."
    notes = "".join(f" {_sentence(note)}" for note in trial.notes)
    return f"{words.name(name)}: prefill {_gain(trial.prefill)}; decode {_gain(trial.decode)}.{notes}"


def _gain(gain: Gain) -> str:
    if not gain.owner:
        return "stays as it is"
    before, after = words.number(gain.owner_before_s, "s"), words.number(gain.owner_after_s, "s")
    owner = f"{words.name(gain.owner)} {before} → {after}"
    if gain.per == "token of the batch":
        return (
            f"TPOT {words.number(gain.before_s, 's')} → {words.number(gain.after_s, 's')}, but its tokens share the "
            f"step: {owner} for each"
        )
    ratio = gain.before_s / gain.after_s
    faster = f"{words.times(ratio)}, most of it {owner}" if ratio >= 1 else f"{words.times(1 / ratio)} slower: {owner}"
    return f"{words.number(gain.before_s, 's')} → {words.number(gain.after_s, 's')} ({faster})"


def _sentence(note: str) -> str:
    text = words.clean(note).rstrip(".")
    named = "=" in text.partition(" ")[0]
    return f"{text if named else text[:1].upper() + text[1:]}."
