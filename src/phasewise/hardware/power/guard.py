"""Limits of power in the hands of a process that outlives this one: ``with Guard() as guard: guard.set(350_000)``.

This process never sets a limit itself. The guard (guard_child.py) does, and puts back what it found when its input
ends: at the end of the block, and at the end of this process however it comes, SIGKILL among them.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from phasewise.errors import PhasewiseError, UsageError
from phasewise.hardware.power import held
from phasewise.hardware.power.guard_child import Cards, Now, Ready, Refused, Restored, Said
from phasewise.hardware.power.limits import Card

_SECONDS = 60.0
"""That the guard gets for an answer: a driver that nothing else keeps loaded takes some to start."""


class GuardLost(PhasewiseError):
    """The guard ended or fell silent; what it held is put back from disk."""


class Guard:
    """The limits of ``gpus`` (indices or UUIDs; None: every card), held from ``__enter__`` to ``__exit__``.

    Attributes:
        cards: as they were found.
        recovered: what a sweep that was killed had left, put back before anything else.
        restored: how each card was put back; None until the end, and where that was not waited for.
    """

    def __init__(self, gpus: Sequence[str] | None = None) -> None:
        self._gpus = ",".join(gpus) if gpus is not None else ""
        self._order, self._heard, self._ending = 0, b"", False
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self.cards: tuple[Card, ...] = ()
        self.recovered: tuple[held.Back, ...] = ()
        self.restored: tuple[held.Back, ...] | None = None

    def __enter__(self) -> Self:
        """Start the guard; nothing is changed before it says that it holds what it found.

        Raises:
            UsageError: no GPU, no permission, a card split by MIG, another sweep; one sentence with the cure.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "phasewise.hardware.power.guard_child", str(os.getpid()), self._gpus],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # no signal to our group is one to the guard
        )
        try:
            said = self._next()
            if isinstance(said, Refused):
                raise UsageError(said.why)
            if not isinstance(said, Ready):
                raise GuardLost("the guard of the power limits did not start, and no limit was changed.")
        except BaseException:
            self._end()
            raise
        self.cards, self.recovered = said.cards, said.recovered
        self._watcher.start()
        return self

    def set(self, limit: int) -> tuple[Now, ...]:
        """Set ``limit`` (mW) on every card and read it back.

        Raises:
            UsageError: outside a card's range, or the driver refuses.
            GuardLost: the guard is gone.
        """
        return self._ask(limit)

    def look(self) -> tuple[Now, ...]:
        """What the cards have; raises as ``set``."""
        return self._ask(0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the guard put everything back, and wait for it; where it is gone, put it back ourselves."""
        self._end()

    def _ask(self, order: int) -> tuple[Now, ...]:
        self._order += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"%d\n" % order)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._lost() from None
        while (said := self._next()) is not None:
            if isinstance(said, Cards) and said.order == self._order:  # others answer an order that Ctrl-C cut short
                if said.trouble:
                    raise UsageError(said.trouble)
                return said.cards
        raise self._lost()

    def _lost(self) -> GuardLost:
        return GuardLost("the guard of the power limits ended: the sweep ends too, and the limits are put back.")

    def _watch(self) -> None:
        """Should the guard end before its time, put back at once what it held, not when somebody asks it again."""
        self._process.wait()
        if not self._ending:
            self._put_back()

    def _put_back(self) -> None:
        with suppress(held.Busy, UsageError):
            self.restored = held.recover() or self.restored

    def _end(self) -> None:
        self._ending = True
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()  # from here on the guard restores, whatever happens to us
        held_until = time.monotonic() + held.PATIENCE_S + _SECONDS
        while (said := self._next(held_until)) is not None:
            if isinstance(said, Restored):
                self.restored = said.cards
        assert self._process.stdout is not None
        self._process.stdout.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        if self._process.returncode is not None:
            if self._watcher.is_alive():
                self._watcher.join()
            if self.restored is None:
                self._put_back()

    def _next(self, until: float | None = None) -> Said | None:
        """What the guard says next; None when it has ended or falls silent."""
        assert self._process.stdout is not None
        descriptor, until = self._process.stdout.fileno(), until or time.monotonic() + _SECONDS
        while b"\n" not in self._heard:
            if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            read = os.read(descriptor, 1 << 16)
            if not read:
                return None
            self._heard += read
        line, _, self._heard = self._heard.partition(b"\n")
        said: Said = msgspec.json.decode(line, type=Said)
        return said
