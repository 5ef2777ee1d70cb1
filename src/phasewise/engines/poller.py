"""Waiting for sockets: by epoll, or by poll where a system has none; both name events by the same numbers."""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections.abc import Callable

IN, OUT = select.POLLIN, select.POLLOUT
"""Something can be read; something can be written. Errors and hang-ups are told unasked, as further bits."""

_FINE_S = 2e-3
"""Both count in whole milliseconds: a time to the microsecond is approached to within this."""

_SELECTABLE = 1024
"""select, which knows microseconds, takes descriptors below this only."""


class Poller:
    """Sockets by their descriptors, and what is waited for at each.

    Attributes:
        register, modify: take a descriptor and the events to wait for.
        unregister: takes a descriptor.
        poll: takes seconds, rounded up to a millisecond; returns descriptors with their events.
        once: what can be added to events, so that what comes is told of when it comes and not as long as it is there,
            and its end by a further bit; 0 where there is no such. The system then need not look at each socket again
            after it was read. Who was told reads all there is; of what else there was `modify` has it told again.
    """

    poll: Callable[[float], list[tuple[int, int]]]
    register: Callable[[int, int], None]
    modify: Callable[[int, int], None]
    unregister: Callable[[int], None]

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self.once = select.EPOLLET | select.EPOLLRDHUP if self._epoll is not None else 0
        if self._epoll is not None:
            self.poll, self.register = self._epoll.poll, self._epoll.register
            self.modify, self.unregister = self._epoll.modify, self._epoll.unregister
        else:
            self._poll = select.poll()
            self.poll, self.register = self._poll_seconds, self._poll.register
            self.modify, self.unregister = self._poll.modify, self._poll.unregister

    def poll_sharp(self, seconds: float) -> list[tuple[int, int]]:
        """As ``poll``, and not a millisecond too long; it may return before its time, without anything."""
        if seconds > _FINE_S:
            return self.poll(seconds - _FINE_S)
        if self._epoll is not None and self._epoll.fileno() < _SELECTABLE:
            select.select([self._epoll], [], [], seconds)
        else:
            time.sleep(0)
        return self.poll(0)

    def close(self) -> None:
        """Forget all sockets; they stay open."""
        if self._epoll is not None:
            self._epoll.close()

    def drop(self, fileno: int) -> None:
        """Unregister a descriptor, if it is known."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.unregister(fileno)

    def _poll_seconds(self, seconds: float) -> list[tuple[int, int]]:
        return self._poll.poll(math.ceil(seconds * 1e3))
