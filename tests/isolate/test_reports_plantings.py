"""Public reports of wrong TTFT, TPOT and counts: each planted in the simulated server, each named by the right check.

The same server without the fault must not raise it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from reports_run import apart
from reports_table import ROWS, Row, Said, Setup

from phasewise.engines.simulated.plan import Plan

pytestmark = pytest.mark.alone

REPORTS = Path(__file__).parents[3] / "shared" / "data" / "reports.csv"
AREAS = ("3 TTFT", "4 TPOT", "9 Request control and counting")


def named(row: Row, words: tuple[Said, ...]) -> bool:
    return any(one.where == row.where and re.search(row.words, one.words) for one in words)


Key = tuple[Setup, Plan]


def faulty(row: Row) -> Key:
    return row.setup, msgspec.structs.replace(row.setup.base, **row.planted)


def clean(row: Row) -> Key:
    setup = row.clean_setup or row.setup
    return setup, msgspec.structs.replace(setup.base, **row.clean)


@pytest.fixture(scope="module")
def profiled(request: pytest.FixtureRequest) -> Iterator[Callable[[Key, Row, bool], str]]:
    """Profiles what the selected tests need, two servers at a time and each once.

    What it gives says whether a row was named as ``wanted``, up to two more times when not: this machine may be busy.
    It returns an empty string when so, else everything that was said.
    """
    keys: dict[Key, Future[tuple[Said, ...]]] = {}
    with ThreadPoolExecutor(2) as pool:
        for item in request.session.items:
            if item.path == request.path and hasattr(item, "callspec"):
                key = (faulty if "fault_is" in item.name else clean)(item.callspec.params["row"])
                if key not in keys:
                    keys[key] = pool.submit(apart, *key)

        def told(key: Key, row: Row, wanted: bool) -> str:
            for attempt in range(3):
                found = apart(*key) if attempt else keys[key].result()
                if named(row, found) is wanted:
                    return ""
            return "\n".join(f"{one.where}: {one.words}" for one in found)

        yield told
        pool.shutdown(cancel_futures=True)


# One in four runs with the fast tests, all with the slow ones.
_SOME = [pytest.param(row, marks=() if place % 4 == 0 else pytest.mark.slow) for place, row in enumerate(ROWS)]


@pytest.mark.parametrize("row", _SOME, ids=[row.id for row in ROWS])
def test_a_reported_fault_is_named(row: Row, profiled: Callable[[Key, Row, bool], str]) -> None:
    if missed := profiled(faulty(row), row, True):
        pytest.fail(f"{row.where}: {row.words}\nis not among\n{missed}")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_without_the_fault_it_is_not_named(row: Row, profiled: Callable[[Key, Row, bool], str]) -> None:
    if raised := profiled(clean(row), row, False):
        pytest.fail(f"{row.where}: {row.words}\nis among\n{raised}")


def test_every_report_of_these_areas_is_planted() -> None:
    if not REPORTS.exists():
        pytest.skip("skipped: no shared data")
    with REPORTS.open(encoding="utf-8", newline="") as file:
        reported = {row["id"] for row in csv.DictReader(file) if row["area"].startswith(AREAS)}
    assert len(reported) >= 40
    assert reported - {row.id for row in ROWS} == set()
