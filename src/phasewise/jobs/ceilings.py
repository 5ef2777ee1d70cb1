"""The job behind `phasewise ceilings`: this machine with what it really reaches."""

from __future__ import annotations

from phasewise.hardware import ceilings as measuring
from phasewise.hardware.detect import this_machine
from phasewise.record.machine import Machine


def ceilings(seconds: float | None, *, again: bool, progress: measuring.Progress | None = None) -> Machine:
    """This machine with its ceilings as kept; measured when there are none, with ``again``, or given ``seconds``.

    Raises:
        PhasewiseError: it cannot be measured.
    """
    return measuring.ensure(this_machine(), seconds or measuring.SECONDS, progress, again=again or seconds is not None)
