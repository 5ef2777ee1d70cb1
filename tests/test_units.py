"""Quantities in and out."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import UsageError
from phasewise.units import Unit, parse, show


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35TB/s", "B/s", 3.35e12),
        ("3350 GB/s", "B/s", 3.35e12),
        ("989 TFLOPS", "FLOP/s", 989e12),
        ("1000TFLOP/s", "FLOP/s", 1e15),
        ("80GiB", "B", 80 * 2**30),
        ("80GB", "B", 80e9),
        ("1.5s", "s", 1.5),
        ("250ms", "s", 0.25),
        ("133ps", "s", 133e-12),
        ("2.5 fs", "s", 2.5e-15),
    ],
)
def test_parse(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "fast", "3.35", "-3TB/s", "0TB/s", "3XB/s", "1e999TB/s", "nanTB/s", "3.35TB/s more"]
)
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"3\.35TB/s"):
        parse(text, "B/s")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00487, "s", "4.87 ms"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (0.0999996, "s", "100 ms"),
        (999.96e9, "B/s", "1.00 TB/s"),
        (0.9996, "1", "100%"),
        (1.43, "1", "143%"),
        (0.0027, "1", "0.270%"),
        (2000, "token", "2,000 tokens"),
        (1.0, "token", "1 token"),
        (8_030_261_248, "parameter", "8,030,261,248 parameters"),
        (1, "device", "1 device"),
        (0.4321, "request/s", "0.432 request/s"),
        (1.5, "token/chunk", "1.50 token/chunk"),
        (3.8e-10, "s/token^2", "380 ps/token^2"),
        (0.0, "s", "0 s"),
        (math.inf, "1", "inf"),
        (math.inf, "s", "inf s"),
        (math.nan, "s", "n/a"),
        (None, "s", "n/a"),
    ],
)
def test_show(value: float | None, unit: str, text: str) -> None:
    assert show(value, unit) == text


@given(st.floats(1e-15, 1e3))
def test_what_is_shown_reads_back_to_three_digits(value: float) -> None:
    assert parse(show(value, "s").replace(",", ""), "s") == pytest.approx(value, rel=6e-3)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_show_never_fails(value: float) -> None:
    for unit in get_args(Unit):
        assert show(value, unit)


def test_longer_times() -> None:
    assert (parse("5min", "s"), parse("1.5 h", "s"), parse("2m s", "s")) == (300.0, 5400.0, 0.002)
    with pytest.raises(UsageError):
        parse("5min", "B")
