"""What writing rows costs the timing loop: no rows, rows through the child (the product), rows written by a thread.

The same closed loop against a simulated server each time, in turns: CPU of this process and of the child that writes,
how late bytes were read and requests were sent. Fails when the child's way adds over 3% of a core to this process.

    python benchmarks/load_rows.py [USERS] [SECONDS] [ROUNDS]
"""

from __future__ import annotations

import queue
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from phasewise.engines import openai
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.ledger.parts import Parts
from phasewise.isolate.ledger.schema import Asked, Frame, RequestRow, chunks, row
from phasewise.isolate.ledger.writer import EVERY_S
from phasewise.isolate.workload.plan import Bounds, closed
from phasewise.isolate.workload.shapes import mix
from phasewise.isolate.workload.worker import Worker

MOST_ADDED = 0.03


class NoBook:
    """Takes rows and forgets them."""

    worker = 0

    def __init__(self, folder: Path) -> None:
        self.slips: list[float] = []

    def begin(self, trial: int, start: float) -> None:
        self._start = start

    def sink(self, key: int, arrivals: Arrivals) -> None:
        pass

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        self.slips.append(exchange.sent_at - exchange.due - exchange.connect_s)

    def push(self) -> None:
        pass

    def close(self) -> None:
        pass


class ThreadBook(NoBook):
    """The same parts, written by a thread of this process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "rows").mkdir()
        self._parts = Parts(folder / "rows", "000")
        self._queue: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._rows: list[RequestRow] = []
        self._taken: list[tuple[int, Arrivals]] = []
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def sink(self, key: int, arrivals: Arrivals) -> None:
        if len(arrivals.at):
            self._taken.append((key, arrivals))

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        super().ended(exchange, asked)
        self._rows.append(row(exchange, asked, self._start))

    def push(self) -> None:
        taken, self._taken = self._taken, []
        if taken or self._rows:
            self._queue.put(Frame(self._rows, [chunks(taken, 0, 0, self._start)] if taken else []))
            self._rows = []

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        due = time.monotonic() + EVERY_S
        while (frame := self._queue.get()) is not None:
            self._parts.add(frame)
            if time.monotonic() >= due:
                self._parts.write()
                due = time.monotonic() + EVERY_S
        self._parts.write()


class ChildBook(Book):
    """The product's, and what slips it saw."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slips: list[float] = []

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        super().ended(exchange, asked)
        self.slips.append(exchange.sent_at - exchange.due - exchange.connect_s)


def measure(url: str, kind: type, users: int, seconds: float, number: int) -> dict[str, float]:
    engine = openai.connect(url)
    plan = closed(users, mix("32:200"), Bounds(requests=10**5, tokens=10**9, seconds=seconds), seed=number, salt=number)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        book = kind(folder)
        worker = Worker(engine, plan, book)
        worker.prepare()
        time.sleep(0.5)
        cpu, wall = time.process_time(), time.perf_counter()
        done = worker.run(time.perf_counter() + 0.05)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        book.close()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        tokens = len(table.read(folder, "chunks", "at_s")["at_s"]) if kind is not NoBook else 0
    engine.close()
    return {
        "cpu": cpu / wall,
        "child": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / wall,
        "lag p50 us": (done.lateness.lag_p50_s or 0) * 1e6,
        "lag p99 us": (done.lateness.lag_p99_s or 0) * 1e6,
        "slip p50 us": float(np.percentile(book.slips, 50)) * 1e6,
        "slip p99 us": float(np.percentile(book.slips, 99)) * 1e6,
        "events/s": tokens / wall,
    }


def main(users: int = 128, seconds: float = 8.0, rounds: int = 3) -> int:
    kinds: dict[str, type] = {"none": NoBook, "child": ChildBook, "thread": ThreadBook}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    plan = Plan(max_batch=users, prefill_overhead_s=1e-3, prefill_per_token_s=0.0, decode_overhead_s=20e-3)
    with SimulatedServer(plan) as server:
        for number in range(rounds):
            for name, kind in kinds.items():
                found[name].append(measure(server.url, kind, users, seconds, number))
    names = list(found["none"][0])
    print("| rows | " + " | ".join(names) + " |")
    medians = {kind: {n: statistics.median(one[n] for one in seen) for n in names} for kind, seen in found.items()}
    for name, values in medians.items():
        print(f"| {name} | " + " | ".join(f"{value:.3g}" for value in values.values()) + " |")
    added = medians["child"]["cpu"] - medians["none"]["cpu"]
    print(f"added to this process by the child's way: {added:.2%} of a core")
    return added > MOST_ADDED


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
