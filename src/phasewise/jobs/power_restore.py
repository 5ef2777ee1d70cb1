"""The job behind `phasewise power restore`: limits that a killed sweep has left, put back."""

from __future__ import annotations

from phasewise.errors import UsageError
from phasewise.hardware.power import held
from phasewise.jobs import power_caps
from phasewise.record.power_sweep import Held


def restore() -> tuple[Held, ...]:
    """Put back what was left; the cards as they were found and as they are now, none when nothing was left.

    Raises:
        UsageError: a sweep runs, whose guard does it at its end; or the file that says what was found is damaged.
    """
    try:
        done = held.recover()
    except held.Busy:
        raise UsageError("a power sweep is running: it puts the limits back when it ends.") from None
    return power_caps.held([back.card for back in done], done)


def left_over() -> tuple[Held, ...]:
    """The same before another command of the family; none, too, while a sweep runs.

    Raises:
        InputError: the file that says what was found is damaged or cannot be reached.
    """
    try:
        done = held.recover()
    except held.Busy:
        return ()
    return power_caps.held([back.card for back in done], done)
