"""Whether the client kept up: one worker of many that did not is enough."""

from __future__ import annotations

import numpy as np

from phasewise.engines.selfwatch import Lateness
from phasewise.isolate.workload.client import client
from phasewise.isolate.workload.worker import Done


def done(worker: int, cpu: float = 0.2) -> Done:
    lateness = Lateness(wall_s=10, cpu_share=cpu, reads=1000, stamped=True, lag_p50_s=None, lag_p99_s=None)
    return Done(worker=worker, ending="complete", why="", sent=100, failed=0, unsent=0, lateness=lateness)


def slips(workers: int, late: dict[int, int]) -> dict[int, np.ndarray]:
    return {k: np.concatenate([np.full(100, 1e-4), np.full(late.get(k, 0), 0.05)]) for k in range(workers)}


def test_one_late_worker_of_hundred_is_found_and_named() -> None:
    found = client([done(k) for k in range(100)], slips(100, {7: 20}), 0.1)
    assert not found.believed
    assert found.slip_p99_s is not None
    assert found.slip_p99_s < 1e-3  # all requests together do not show it
    assert "worker 7 sent 20 of its 120 requests over 10.0 ms late" in found.detail


def test_one_late_request_of_each_is_none() -> None:
    assert client([done(k) for k in range(3)], slips(3, {0: 1, 1: 1, 2: 1}), 0.1).believed


def test_a_busy_worker_is_named_where_there_are_several() -> None:
    assert "worker 1 used 95% of a core" in client([done(0), done(1, 0.95)], slips(2, {}), 0.1).detail
    alone = client([done(0, 0.95)], slips(1, {}), 0.1)
    assert "the client was the bottleneck: it used 95% of a core" in alone.detail
