"""Checks of a sweep, by hand."""

from __future__ import annotations

import pytest

from phasewise.engines.selfwatch import Lateness, Watched
from phasewise.isolate.sweep_checks import CHECKS, Evidence
from phasewise.record.observation import Check


def client(slips: tuple[float, ...], between_s: float) -> Check:
    lateness = Lateness(wall_s=10, cpu_share=0.2, reads=1000, stamped=True, lag_p50_s=None, lag_p99_s=None)
    evidence = Evidence((), (), (), (), 0, Watched(lateness, slips), between_s)
    (found,) = [check for one in CHECKS[-1:] if (check := one(evidence))]
    assert found.name == "client"
    return found


@pytest.mark.parametrize(("between_s", "status"), [(0.05, "passed"), (0.02, "failed"), (0.0, "failed")])
def test_a_late_arrival_is_held_against_the_gap_between_arrivals(between_s: float, status: str) -> None:
    """Of ten, two are 30 ms late; without a gap 10 ms are allowed."""
    assert client((0.0,) * 8 + (0.03, 0.03), between_s).status == status


def test_one_late_arrival_is_none() -> None:
    assert client((0.0,) * 9 + (0.3,), 0.1).status == "passed"
