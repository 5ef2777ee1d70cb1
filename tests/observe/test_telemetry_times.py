"""When a row was: zones, clock changes, midnights, clocks without a date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import InputError, UsageError
from phasewise.observe.telemetry.read import Placing, placed, recorded
from phasewise.observe.telemetry.times import moment, start, unix, zone

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "at", "clock"),
    [
        ("2026/11/30 12:00:00.250", NOON + 0.25, "local"),
        ("2026-11-30 12:00:00", NOON, "local"),
        ("2026-11-30T12:00:00Z", NOON, "utc"),
        ("2026-11-30T12:00:00.5+02:00", NOON - 7200 + 0.5, "utc"),
        ("2026-11-30 12:00:00 UTC", NOON, "utc"),
        ("2026-11-30T12:00:00-0530", NOON + 5.5 * 3600, "utc"),
        (f"{NOON:.3f}", NOON, "utc"),
        (f"{NOON * 1e3:.0f}", NOON, "utc"),
        (f"{NOON * 1e9:.0f}", NOON, "utc"),
        ("14:30:00", 52200, "day"),
        ("12.5", 12.5, "own"),
    ],
)
def test_times_as_monitors_write_them(text: str, at: float, clock: str) -> None:
    found = moment(text)
    assert found is not None
    assert (found.at, found.clock) == (pytest.approx(at, abs=1e-3), clock)


@pytest.mark.parametrize("text", ["", "later", "2026/13/30 12:00:00", "30.11.2026 12:00", "-5", "[N/A]"])
def test_what_is_no_time(text: str) -> None:
    assert moment(text) is None


@pytest.mark.parametrize("name", ["UTC", "+02:00", "-0530", "Europe/Berlin"])
def test_zones_as_people_write_them(name: str) -> None:
    assert zone(name).utcoffset(datetime(2026, 11, 30)) is not None


@pytest.mark.parametrize("name", ["Berlin", "+25:00", "../etc/passwd", "", "Europe/Berlin\0"])
def test_no_zone(name: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        zone(name)


def test_a_start_needs_its_zone() -> None:
    assert start("2026-11-30T14:00:00+02:00") == NOON
    with pytest.raises(UsageError, match="zone"):
        start("2026-11-30 14:00:00")


@given(st.integers(0, 10**6), st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]))
def test_local_times_of_a_year_come_back_as_they_were(minutes: int, name: str) -> None:
    """The oracle is datetime's own way there; in the hour that comes twice only the first is meant."""
    within = ZoneInfo(name)
    true = NOON + 60.0 * minutes
    local = datetime.fromtimestamp(true, within)
    if local.fold:
        return
    written = local.replace(tzinfo=UTC).timestamp()
    assert unix(np.array([written]), "local", within, None)[0] == true


def test_the_hour_that_comes_twice_is_told_by_the_times_going_back() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()  # 02:30 summer time; winter time begins at 01:00 UTC
    true = begin + 60.0 * np.arange(120)
    written = np.array([datetime.fromtimestamp(at, berlin).replace(tzinfo=UTC).timestamp() for at in true])
    assert (np.diff(written) < 0).any()
    assert unix(written, "local", berlin, None) == pytest.approx(true)


def test_the_time_of_day_is_on_the_day_of_the_run_also_over_midnight() -> None:
    cairo = timezone(timedelta(hours=2))
    night = datetime(2026, 11, 30, 23, 59, 50, tzinfo=cairo).timestamp()
    written = (86390.0 + np.arange(30)) % 86400
    assert unix(written, "day", cairo, night + 5) == pytest.approx(night + np.arange(30))
    assert unix(written, "day", cairo, night + 20) == pytest.approx(night + np.arange(30))


def test_files_without_times_need_a_start_and_a_step(tmp_path: Path) -> None:
    file = tmp_path / "dmon.txt"
    file.write_text("# gpu pwr\n# Idx W\n 0 100\n 0 200\n")
    with pytest.raises(InputError, match="--start"):
        placed(recorded(file), Placing())
    (one,) = placed(recorded(file), Placing(start=NOON, every_s=0.5, offset_s=2))
    assert one.time.tolist() == [NOON + 2, NOON + 2.5]


def test_times_from_a_zero_of_their_own_need_a_start(tmp_path: Path) -> None:
    file = tmp_path / "dmon.csv"
    file.write_text("time,gpu,pwr\ns,Idx,W\n1.5,0,100\n2.5,0,200\n")
    with pytest.raises(InputError, match="zero of its own"):
        placed(recorded(file), Placing())
    (one,) = placed(recorded(file), Placing(start=NOON))
    assert one.time.tolist() == [NOON + 1.5, NOON + 2.5]


def test_rows_out_of_order_are_sorted_and_of_two_at_one_time_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "smi.csv"
    file.write_text(
        "timestamp, power.draw [W]\n2026-11-30T12:00:02Z, 2 W\n2026-11-30T12:00:01Z, 1 W\n2026-11-30T12:00:02Z, 3 W\n"
    )
    (one,) = placed(recorded(file), Placing())
    assert one.time.tolist() == [NOON + 1, NOON + 2]
    assert one.watts.tolist() == [1, 3]
