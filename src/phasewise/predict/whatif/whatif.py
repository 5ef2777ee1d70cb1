"""Every change alone, and all of them together, against the setup as it is."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.predict.whatif.change import Change, Changed, Refused
from phasewise.predict.whatif.changes import CHANGES
from phasewise.predict.whatif.outcome import Full, outcome
from phasewise.predict.whatif.owner import decode_gain, prefill_gain
from phasewise.predict.whatif.setup import Setup
from phasewise.record.quantity import Quantity
from phasewise.record.whatif import Trial, WhatIf

Asked = Sequence[tuple[Change, str]]
"""Changes and their values, as ``changes.read`` gives them."""


def what_if(setup: Setup, asked: Asked) -> WhatIf:
    """What each of ``asked`` does to the phases of ``setup``, and what all of them do together.

    Raises:
        UsageError: a value that is none.
    """
    for change, _ in asked:
        setup = change.before(setup)
    before = outcome(setup)
    trials = tuple(_alone(setup, before, change, value) for change, value in asked)
    notes = (
        ("Every figure but those of graphs=on holds a launch for each kernel.",) if setup.launches == "eager" else ()
    )
    said = {note for trial in trials for note in trial.notes}
    return WhatIf(before=before.shown, trials=trials, together=_together(setup, before, asked, said), notes=notes)


def _alone(setup: Setup, before: Full, change: Change, value: str) -> Trial:
    name = f"{change.name}={value}"
    try:
        changed = change.apply(value, setup)
    except Refused as refused:
        return Trial(change=name, refused=str(refused))
    return _trial(name, before, changed)


def _together(setup: Setup, before: Full, asked: Asked, said: set[str]) -> Trial | None:
    """All of them made one after the other, in the order of the list; None when that is less than two.

    Of their notes those are left out that were ``said`` of one alone.
    """
    values = {change.name: value for change, value in asked}
    if len(values) < len(asked):
        return None
    made: list[str] = []
    notes: list[str] = []
    figures: dict[str, Quantity] = {}
    for change in CHANGES:
        if change.name not in values:
            continue
        name = f"{change.name}={values[change.name]}"
        try:
            changed = change.apply(values[change.name], setup)
        except Refused as refused:
            notes.append(f"without {name}: {refused}")
            continue
        setup = changed.setup
        made.append(name)
        notes += [f"{name}: {note}" for note in changed.notes if note not in said]
        figures |= changed.figures
    return _trial(", ".join(made), before, Changed(setup, tuple(notes), figures)) if len(made) > 1 else None


def _trial(name: str, before: Full, changed: Changed) -> Trial:
    after = outcome(changed.setup)
    notes = changed.notes
    was, now = before.shown, after.shown
    if now.devices != was.devices:
        each = f"{now.tokens_per_s / now.devices:,.0f} tokens/s each against {was.tokens_per_s / was.devices:,.0f}"
        notes = (*notes, f"{now.devices} devices in place of {was.devices}: {each}")
    if now.fits is False:
        notes = (*notes, "weights and KV cache do not fit in the memory of one device")
    return Trial(
        change=name,
        outcome=now,
        prefill=prefill_gain(before, after),
        decode=decode_gain(before, after),
        notes=notes,
        figures=dict(changed.figures),
    )
