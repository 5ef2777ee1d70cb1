"""A sheet that keeps what it takes."""

from __future__ import annotations

from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.isolate.ledger.schema import Asked, RequestRow, row
from phasewise.isolate.ledger.sheet import Sheet


class Kept(Sheet):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[RequestRow] = []
        self.events: list[tuple[int, Arrivals]] = []
        self.workers: list[int | None] = []
        self.start = 0.0

    def begin(self, trial: int, start: float) -> None:
        self.start = start

    def sink(self, key: int, arrivals: Arrivals, worker: int | None = None) -> None:
        self.events.append((key, arrivals))
        self.workers.append(worker)

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        self.requests.append(row(exchange, asked, self.start))

    def push(self) -> None:
        pass
