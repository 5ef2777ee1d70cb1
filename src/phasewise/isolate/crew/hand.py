"""How a worker elsewhere is called, whatever carries the calls."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from phasewise.isolate.crew.clocks import Trip


class Gone(Exception):
    """The worker is lost for good; the text says how, in a few words."""


class Silent(Exception):
    """The worker did not answer this time; it may the next."""


class Hand(Protocol):
    """A `member.Member` in another process.

    Attributes:
        where: its machine, as it may be shown.
    """

    where: str

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; the future ends with its result, with what it raised, with `Gone` or with `Silent`."""

    def trip(self) -> Trip:
        """Read its clock between two readings of ours.

        Raises:
            Gone: it is lost.
            Silent: it did not answer at once.
        """
