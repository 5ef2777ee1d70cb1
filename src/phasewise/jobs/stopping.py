"""Ctrl-C and SIGTERM as a question that a measuring loop asks, so that no read is lost in the middle of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from phasewise.errors import Terminated


class Stop:
    """What asked us to end; ``by`` is the signal, None while nothing did."""

    def __init__(self) -> None:
        self.by: int | None = None

    def __call__(self) -> bool:
        """Whether something did."""
        return self.by is not None

    @property
    def error(self) -> KeyboardInterrupt:
        """What would have been raised."""
        return Terminated() if self.by == signal.SIGTERM else KeyboardInterrupt()


@contextmanager
def stopping() -> Iterator[Stop]:
    """Note Ctrl-C and SIGTERM instead of raising them; a second one is raised."""
    stop = Stop()

    def asked(signum: int, frame: object) -> None:
        again, stop.by = stop.by is not None, signum
        if again:
            raise stop.error

    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread: a program that uses phasewise has its own handlers
        number: int
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, asked)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
