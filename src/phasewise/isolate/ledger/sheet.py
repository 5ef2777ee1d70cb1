"""Rows of one worker as they come up, until somebody takes them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.isolate.ledger.schema import Asked, Frame, chunks, row


class Start(NamedTuple):
    """Where the rows of one measurement begin, in a run that makes several, one after the other.

    Attributes:
        trial: its number.
        requests: how many were numbered before.
        zero: ``perf_counter()`` second from which the times of all of them count; None: from its own beginning.
    """

    trial: int = 0
    requests: int = 0
    zero: float | None = None


FIRST = Start()
"""Of a run that makes one."""


class Sheet:
    """Takes what a loop saw; ``begin`` says of which trial, and the ``perf_counter`` second that is its zero."""

    def __init__(self, worker: int = 0) -> None:
        self.worker = worker
        self._trial, self._start = 0, 0.0
        self._frame = Frame(requests=[], chunks=[])
        self._taken: dict[int, list[tuple[int, Arrivals]]] = {}
        self._encoder = msgspec.msgpack.Encoder()

    def begin(self, trial: int, start: float) -> None:
        """What comes now is of ``trial``, whose times count from ``start``."""
        self._trial, self._start = trial, start

    def sink(self, key: int, arrivals: Arrivals, worker: int | None = None) -> None:
        """Take events of request ``key``: the sink of a loop; of that of another ``worker``."""
        if len(arrivals.at):
            self._taken.setdefault(self.worker if worker is None else worker, []).append((key, arrivals))

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        """Take a request that is over."""
        self._frame.requests.append(row(exchange, asked, self._start))

    def push(self) -> None:
        """Hand on what there is."""
        raise NotImplementedError

    def _filled(self) -> bytes:
        """A frame of what came since the last, in MessagePack; empty when nothing did."""
        for worker, taken in self._taken.items():
            self._frame.chunks.append(chunks(taken, self._trial, worker, self._start))
        self._taken = {}
        if not self._frame.requests and not self._frame.chunks:
            return b""
        data = self._encoder.encode(self._frame)
        self._frame = Frame(requests=[], chunks=[])
        return data
