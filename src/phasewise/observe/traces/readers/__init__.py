"""One reader per format, found by content. A reader is a module with what `Reader` names.

A reader fills `events.Trace` for one file: rank 0, times in ns since ``origin_ns`` (absolute Unix time where the file
has one, else its own zero), names and threads interned, what was wrong with the file in ``sources[0].faults``. Joining
several files, and giving them their ranks, is not its business (opening.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened

Progress = Callable[[str, float], None]
"""What is being read, and how far it is, 0 to 1."""


class Reader(Protocol):
    """What a reader module has."""

    FORM: str
    """Name of the format, for the list of formats that a refusal gives."""

    def sniff(self, opened: Opened) -> bool:
        """Whether the file is of this format, from its head alone."""

    def read(self, opened: Opened, progress: Progress) -> Trace:
        """Everything the file holds.

        Raises:
            InputError: nothing of it can be used.
        """
