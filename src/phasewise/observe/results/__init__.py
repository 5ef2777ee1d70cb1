"""One reader per tool whose results can be judged, found by content. A reader is a module with what `Reader` names.

A reader only translates: each number keeps the tool's own name and definition beside ours, and becomes a prefill pass
or a decode step only where its definition allows that. What it is worth is not its business (judge/reported.py).
"""

from __future__ import annotations

from typing import Protocol

from phasewise.observe.results.content import Content
from phasewise.record.results import Reported


class Reader(Protocol):
    """What a reader module has."""

    FORM: str
    """Name of the form, for the list that a refusal gives."""

    def sniff(self, content: Content) -> bool:
        """Whether the file is of this form."""

    def read(self, content: Content) -> Reported:
        """What it says.

        Raises:
            InputError: a number that no measurement gives, or a key that the form always has.
        """
