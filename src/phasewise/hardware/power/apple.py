"""Apple silicon: powermetrics tells power to root only, so it is read from a file that root recorded."""

from __future__ import annotations

from phasewise.hardware.power.base import Meter, Unreadable

NAME = "powermetrics"


def open_meter() -> Meter:
    """None of its own.

    Raises:
        Unreadable: always, with the command to run.
    """
    command = "sudo powermetrics --samplers cpu_power,gpu_power -i 200 > power.txt"
    raise Unreadable(f"powermetrics tells power to root only: run {command} beside it, then give --telemetry power.txt")
