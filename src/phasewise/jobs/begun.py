"""Rows beside a run while it goes on, and a run.json that says so until there is a better one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.ledger.schema import PARTS
from phasewise.jobs.saved import why_not
from phasewise.record.run import Run, save

REQUESTS = "requests.parquet"
"""File of the requests, in a run's folder."""

UNTOLD = f"phasewise ended before it could say why, and the rows of what it measured are in {PARTS}/"
"""Reason of an interrupted run that nobody closed: it was killed, or is still running."""


def kept_apart(why: str, folder: Path) -> str:
    """``why`` rows did not become one file, and where those lie that were written; empty when they did."""
    parts = bool(why) and any((folder / PARTS).glob("*.parquet"))
    return f"{why}; the rows written until then are in {PARTS}/" if parts else why


class Rows:
    """Rows of one run. That they cannot be written is no reason to measure nothing.

    Attributes:
        book: takes them; None when it cannot.
        over: what was measured is to be kept.
    """

    def __init__(self, folder: Path) -> None:
        self.book: Book | None = None
        self.over = False
        self._folder = folder
        self._why = ""

    def open(self) -> None:
        """Begin to take rows."""
        self._why = why_not(self._open)

    def close(self, unused: Collection[int] = ()) -> str:
        """Make one file of each table; why that failed, else empty. ``unused`` is of `table.merge`."""
        self.over = True
        self._why = self._why or why_not(self._end) or why_not(lambda: table.merge(self._folder, unused))
        return kept_apart(self._why, self._folder)

    def discard(self) -> None:
        """Nothing was measured: take away what there is."""
        with suppress(OSError):
            self._end()
        table.discard(self._folder)

    def _open(self) -> None:
        self.book = Book(self._folder)

    def _end(self) -> None:
        if self.book is not None:
            self.book.close()


@contextmanager
def begun(run: Run, folder: Path) -> Iterator[Rows]:
    """``run``, marked interrupted, and its rows in ``folder``; both are gone again when nothing comes of it."""
    rows = Rows(folder)
    try:
        with suppress(OSError):  # the end will say so
            save(run, folder)
        rows.open()
        yield rows
    finally:
        if not rows.over:
            rows.discard()
            with suppress(OSError):
                (folder / "run.json").unlink()
