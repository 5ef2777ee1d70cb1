"""Names made harmless, numbers made readable."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.record.quantity import measured
from phasewise.report.view import words


@given(st.text(st.characters(), max_size=400))
def test_clean_text_holds_nothing_that_steers_a_terminal(text: str) -> None:
    cleaned = words.clean(text, 50)
    assert len(cleaned) <= 50
    assert {unicodedata.category(c) for c in cleaned} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} == set()
    assert cleaned == cleaned.strip()


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;own the title\x07name", "name"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("two\nlines\tand tabs", "two lines and tabs"),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("half \ud800 pair", "half pair"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("Größe 日本 ✓", "Größe 日本 ✓"),
    ],
)
def test_clean(dirty: str, clean: str) -> None:
    assert words.clean(dirty) == clean


def test_a_long_name_is_cut_and_says_so() -> None:
    assert words.name("x" * 5000) == "x" * 119 + "…"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0519, 0.0528, "51.9 to 52.8 ms"),
        (0.763, 1.05, "763 ms to 1.05 s"),
        (0.604, 0.6116, "60.4% to 61.2%"),
        (math.nan, 1.0, ""),
        (None, None, ""),
    ],
)
def test_interval(low: float | None, high: float | None, text: str) -> None:
    unit = "1" if text.endswith("%") else "s"
    assert words.interval(measured(1.0, unit, "", low, high)) == text


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_not_shown(nothing: float) -> None:
    assert words.amount(measured(nothing, "1", "")) == "n/a"
    assert (words.share(nothing), words.times(nothing), words.count(nothing)) == ("n/a", "n/a", "n/a")


def test_shares_have_one_decimal_and_gains_too() -> None:
    assert (words.share(0.0362), words.share(0.37537), words.share(0.96)) == ("3.6%", "37.5%", "96.0%")
    assert (words.times(31.812), words.times(1.0), words.times(300.04)) == ("×31.8", "×1.0", "×300")
