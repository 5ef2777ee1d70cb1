"""The start of a plan is moved while it runs, as a clock turns out to be another than it seemed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from phasewise.engines import openai
from phasewise.engines.simulated import Plan as Planted
from phasewise.engines.simulated import SimulatedServer
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.workload.plan import Plan
from phasewise.isolate.workload.worker import AHEAD_S, Worker

pytestmark = pytest.mark.alone

BY_S = 0.25


def test_what_is_due_in_over_a_second_moves(tmp_path: Path) -> None:
    count, apart = 40, 0.1
    plan = Plan(
        keys=np.arange(count), prompt=np.full(count, 9), answer=np.full(count, 1), due_s=np.arange(count) * apart,
        seconds=60.0, salt=1,
    )  # fmt: skip
    with SimulatedServer(Planted()) as server, closing(openai.connect(server.url)) as engine, Book(tmp_path) as book:
        moved: Sequence[float] = ()

        def tell(sent: int, ended: int) -> None:
            nonlocal moved
            if ended > 5 and not moved:
                worker.start += BY_S
                moved = (time.perf_counter(),)

        worker = Worker(engine, plan, book, drain_s=10.0, tell=tell)
        worker.prepare()
        start = time.perf_counter() + 0.1
        assert worker.run(start).ending == "complete"
    by = table.read(tmp_path, "requests", "due_s")["due_s"] - plan.due_s
    assert set(np.round(by, 6).tolist()) == {0.0, BY_S}
    assert (np.diff(by) >= -1e-9).all()
    first = float(plan.due_s[np.argmax(by > BY_S / 2)]) if plan.due_s is not None else 0.0
    assert first >= moved[0] - start + AHEAD_S - BY_S - apart - 0.1
