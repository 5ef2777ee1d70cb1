from __future__ import annotations

import time
from typing import Any

import pytest

from phasewise.engines import selfwatch
from phasewise.engines.selfwatch import MOST_NAMED, Lateness, SelfWatch, Watched, verdict
from phasewise.record.observation import Check

pytestmark = pytest.mark.alone

GOOD = {"wall_s": 10.0, "cpu_share": 0.2, "reads": 1000, "stamped": True, "lag_p50_s": 1e-5, "lag_p99_s": 1e-3}


def late(**changed: Any) -> Lateness:
    return Lateness(**{**GOOD, **changed})


def judged(lateness: Lateness, slips: list[float], pace_s: float = 0.0) -> Check:
    return verdict([Watched(lateness, slips)], pace_s=pace_s)


def test_a_client_that_kept_up_passes_with_its_figures() -> None:
    found = judged(late(), [1e-4, 2e-4, 3e-4])
    assert (found.name, found.phase, found.status, found.voids) == ("client", "run", "passed", False)
    assert found.detail == (
        "the client kept up: it used 20% of a core, it read bytes within 1.00 ms (p99), "
        "it sent requests within 200 us of when they were due (p99)"
    ).replace("200 us", selfwatch.show(2e-4, "s")).replace("1.00 ms", selfwatch.show(1e-3, "s"))


@pytest.mark.parametrize(
    ("lateness", "slips", "said"),
    [
        (late(cpu_share=0.81), [], "81% of a core"),
        (late(lag_p99_s=21e-3), [], "it read bytes 21"),
        (late(stamped=False, lag_p50_s=1.5e-3), [], "it was 1.5"),
        (late(), [0.0, 11e-3, 11e-3], "it sent 2 of its 3 requests over 10.0 ms late"),
        (late(), [11e-3], "it sent 1 of its 1 requests"),
        (late(), [0.0] * 296 + [11e-3] * 4, "it sent 4 of its 300 requests over 10.0 ms late"),
        (late(refused=3), [], "no socket for 3 of its connections"),
        (late(reads=0, lag_p99_s=None, refused=1), [], "no socket for 1"),
    ],
)
def test_past_a_bound_it_was_the_bottleneck(lateness: Lateness, slips: list[float], said: str) -> None:
    found = judged(lateness, slips)
    assert (found.status, found.voids) == ("failed", True)
    assert "the client was the bottleneck" in found.detail
    assert said in found.detail


@pytest.mark.parametrize(
    ("lateness", "slips"),
    [
        (late(cpu_share=0.79), [9e-3] * 10),
        (late(lag_p99_s=19e-3), []),
        (late(stamped=False, lag_p50_s=0.9e-3, lag_p99_s=1.0), []),
        (late(), [0.0] * 200 + [1.0]),
        (late(), [0.0, 1.0]),
        (late(), [0.0] * 297 + [1.0] * 3),
    ],
)
def test_within_the_bounds_it_was_not(lateness: Lateness, slips: list[float]) -> None:
    assert judged(lateness, slips).status == "passed"


def test_lateness_is_small_against_the_time_that_it_should_be_small_against() -> None:
    assert judged(late(), [0.0, 40e-3, 40e-3], pace_s=0.5).status == "passed"
    assert "over 50.0 ms late" in judged(late(), [0.0, 60e-3, 60e-3], pace_s=0.5).detail


@pytest.mark.parametrize(
    ("lateness", "cure"),
    [
        (late(refused=1), "`ulimit -n`"),
        (late(full=True), "--connections"),
        (late(), "a quieter machine"),
    ],
)
def test_the_cure_is_of_the_cause(lateness: Lateness, cure: str) -> None:
    assert cure in judged(lateness, [1.0, 1.0]).detail


def test_one_of_many_clients_is_enough_and_is_named() -> None:
    fine = [Watched(late(), [0.0] * 100, f"worker {k}") for k in range(99)]
    found = verdict([*fine, Watched(late(), [0.0] * 90 + [1.0] * 10, "worker 99")])
    assert (found.status, found.voids) == ("failed", True)
    assert "worker 99 sent 10 of its 100 requests" in found.detail
    busy = verdict([Watched(late(cpu_share=0.95), (), f"worker {k}") for k in range(MOST_NAMED + 3)])
    assert busy.detail.count("worker") == MOST_NAMED
    assert "and 3 more" in busy.detail
    assert verdict(fine).status == "passed"


def test_a_clock_that_was_set_voids_the_times_and_blames_nobody() -> None:
    found = judged(late(clock_moved_s=0.5), [])
    assert (found.status, found.voids) == ("failed", True)
    assert "clock was set by 500 ms" in found.detail
    assert "bottleneck" not in found.detail


def test_a_client_that_did_nothing_proves_nothing() -> None:
    nothing = SelfWatch().lateness()
    assert (nothing.reads, nothing.cpu_share, nothing.lag_p99_s) == (0, 0.0, None)
    assert judged(nothing, []).status == "not_checked"


def test_cpu_share_is_of_the_working_time_alone() -> None:
    watch = SelfWatch()
    with watch.working():
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
    time.sleep(0.2)
    with watch.working():
        time.sleep(0.1)
    found = watch.lateness()
    assert found.wall_s >= 0.15
    assert 0.05 <= found.cpu_share * found.wall_s < 0.1


def test_lags_are_told_by_upper_edges_of_quarter_octaves() -> None:
    watch = SelfWatch()
    for lag in [1_000_000] * 98 + [50_000_000] * 2:
        watch.woke(0, lag, stamped=True)
    found = watch.lateness()
    assert found.stamped
    assert found.lag_p50_s is not None
    assert 1e-3 <= found.lag_p50_s < 1e-3 * 2
    assert found.lag_p99_s is not None
    assert 50e-3 <= found.lag_p99_s < 50e-3 * 2


@pytest.mark.parametrize(("slow", "low"), [(1, 0.0), (2, 50e-3)])
def test_of_few_lags_the_latest_is_left_out(slow: int, low: float) -> None:
    watch = SelfWatch()
    for lag in [1_000_000] * 20 + [50_000_000] * slow:
        watch.woke(0, lag, stamped=True)
    lag = watch.lateness().lag_p99_s
    assert lag is not None
    assert (lag >= 50e-3) == (low > 0)


def test_one_lag_is_told_as_it_is() -> None:
    watch = SelfWatch()
    watch.woke(0, 50_000_000, stamped=True)
    assert (watch.lateness().lag_p99_s or 0.0) >= 50e-3


def test_the_largest_move_of_the_clock_is_kept() -> None:
    watch = SelfWatch()
    for by in (5, -2_000_000, 30):
        watch.clock_moved(by)
    watch.took(3)
    watch.refused()
    found = watch.lateness()
    assert (found.clock_moved_s, found.reads, found.refused) == (2e-3, 3, 1)
