"""Watts as they come, one line per device on stderr; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.text import Text


class Drawn(NamedTuple):
    """The last reading of a device: who, and what it draws, None when it does not say."""

    name: str
    watts: float | None
    limit_w: float | None
    sm_hz: float | None
    utilisation: float | None


@contextmanager
def live() -> Iterator[Callable[[Sequence[Drawn]], None]]:
    """Yield ``seen(devices)``. On a terminal it redraws a table that goes away at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda devices: None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as screen:
        yield lambda devices: screen.update(_table(devices), refresh=True)


def _table(devices: Sequence[Drawn]) -> Text:
    from rich.text import Text

    from phasewise.report.view import words

    lines = [
        f"{words.name(one.name)}: {words.number(one.watts, 'W')} of {words.number(one.limit_w, 'W')}, "
        f"{words.number(one.sm_hz, 'Hz')}, utilisation {words.share(one.utilisation)}"
        for one in devices
    ]
    return Text("\n".join(lines) or "no reading yet")
