"""A progress bar on stderr, for jobs that take seconds; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """Yield ``progress(doing, fraction)``. On a terminal it draws a bar that goes away at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda doing, fraction: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda doing, fraction: progress.update(task, description=doing, completed=fraction)


def note(sentence: str) -> None:
    """A sentence on stderr, above the bar."""
    from phasewise.report.view.words import clean

    if sys.stderr is not None:
        with suppress(OSError):
            print(clean(sentence, 2000), file=sys.stderr)
