"""What caps do to phases, from planted figures: engaged or not, how much, where the knee lies."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.judge import power_sweep as judge
from phasewise.record.power_sweep import AtCap, Cap, Drawn
from phasewise.record.quantity import Quantity, measured


def drawn(highest: float | None = 300.0, **more: object) -> Drawn:
    given = {"readings": 40, "watts": None, "sm": None, "capped": 0.0, "hot": 0.0, "slowed": 0.0, "limit_w": None}
    return msgspec.convert({**given, "highest_w": highest, **more}, Drawn)


def side(seconds: float, spread: float = 0.001, energy: float | None = None, **about: object) -> AtCap:
    took = measured(seconds, "s", "planted", seconds * (1 - spread), seconds * (1 + spread))
    joules = None if energy is None else measured(energy, "J/token", "planted")
    return AtCap(tokens=1024, time=took, drawn=drawn(**about), energy=joules)  # type: ignore[arg-type]


def cap(watts: float, prefill: AtCap | None = None, decode: AtCap | None = None, **more: object) -> Cap:
    limit = measured(watts, "W", "planted")
    return Cap(asked=limit, limit=limit, prefill=prefill, decode=decode, **more)  # type: ignore[arg-type]


def verdict(caps: list[Cap], phase: str) -> tuple[str, str]:
    found = {one.phase: one for one in judge.verdicts(judge.compared(caps))}[phase]
    return found.answer, found.text


def splitwise() -> list[Cap]:
    """As Splitwise describes its figures 8 and 9 (its text has no numbers: these are made up to say the same)."""
    return [
        cap(700, side(1.0, highest=690.0), side(0.030, highest=340.0, energy=10.0)),
        cap(500, side(1.2, highest=500.0, capped=1.0), side(0.030, highest=340.0, energy=10.0)),
        cap(350, side(1.6, highest=350.0, capped=1.0), side(0.0302, highest=345.0, capped=0.5, energy=9.0)),
    ]


def test_prefill_is_slowed_and_decode_hardly() -> None:
    caps = splitwise()
    answer, text = verdict(caps, "prefill")
    assert answer == "slows"
    assert "at 350 W prefill takes 1.600 times" in text
    answer, text = verdict(caps, "decode")
    assert answer == "hardly"
    assert "the cap engaged from 350 W down" in text


def test_the_knee_is_the_lowest_cap_that_costs_decode_under_two_percent() -> None:
    caps = [*splitwise(), cap(250, side(2.0), side(0.033, highest=250.0, capped=1.0))]
    knee = judge.knee(judge.compared(caps))
    assert knee is not None
    assert knee.limit is not None
    assert knee.limit.value == 350
    assert knee.sure
    assert "prefill takes 1.600 times" in knee.text
    assert "10.0% less energy" in knee.text


def test_a_cap_that_costs_little_below_one_that_costs_more_is_no_knee() -> None:
    caps = [cap(700, decode=side(1.0)), cap(500, decode=side(1.1)), cap(350, decode=side(1.0))]
    knee = judge.knee(judge.compared(caps))
    assert knee is not None
    assert knee.limit is None


def test_a_wide_interval_makes_the_knee_unsure_and_the_verdict_undecided() -> None:
    held = {"highest": 350.0, "capped": 1.0}
    caps = [cap(700, decode=side(1.0, spread=0.05)), cap(350, decode=side(1.01, spread=0.05, **held))]
    knee = judge.knee(judge.compared(caps))
    assert knee is not None
    assert not knee.sure
    assert verdict(caps, "decode")[0] == "undecided"


@pytest.mark.parametrize("watts", [137.0, 218.0, 300.0])
def test_decode_on_the_h200_never_meets_a_cap(watts: float) -> None:
    """Ma et al. (arXiv 2605.11999): decode draws 137 to 300 W of 700 W on an H200, and no cap ever triggers."""
    caps = [cap(limit, decode=side(0.02, highest=watts)) for limit in (700, 600, 500, 400, 350)]
    answer, text = verdict(caps, "decode")
    assert answer == "never engaged"
    assert f"{watts:.0f} W at most" in text
    assert "says nothing about how sensitive" in text
    knee = judge.knee(judge.compared(caps))
    assert knee is not None
    assert "did not engage there" in knee.text


def test_a_time_that_moved_although_no_cap_engaged_has_another_cause() -> None:
    caps = [cap(700, decode=side(1.0)), cap(350, decode=side(1.2))]
    answer, text = verdict(caps, "decode")
    assert answer == "never engaged"
    assert "has another cause" in text


@pytest.mark.parametrize(("reason", "named"), [("hot", "heat"), ("slowed", "board")])
@pytest.mark.parametrize("capped", [0.0, 1.0])
def test_throttling_that_masquerades_as_the_cap_is_named(reason: str, named: str, capped: float) -> None:
    caps = [
        cap(700, side(1.0)),
        cap(350, side(1.5, highest=340.0 if capped else 250.0, capped=capped, **{reason: 0.8})),
    ]
    answer, text = verdict(caps, "prefill")
    assert answer == "throttled otherwise"
    assert named in text
    assert ("as well as by the cap" in text) == bool(capped)


def test_no_knee_is_put_where_heat_slowed_decode() -> None:
    caps = [cap(700, decode=side(1.0)), cap(350, decode=side(1.0, hot=1.0))]
    knee = judge.knee(judge.compared(caps))
    assert knee is not None
    assert knee.limit is None


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"highest": 349.0, "capped": 0.0}, "yes"),  # at the limit, whatever the driver says
        ({"highest": 300.0, "capped": 0.2}, "yes"),  # the driver says so
        ({"highest": 300.0, "capped": None}, "no"),  # it says nothing, and the power is far below
        ({"highest": None, "capped": 0.0}, "no"),
        ({"highest": None, "capped": None}, "not_checked"),
        ({"highest": 349.0, "capped": 1.0, "readings": 2}, "not_checked"),
        ({"highest": 300.0, "capped": 0.01}, "no"),  # one reading in a hundred is a moment
    ],
)
def test_engaged(about: dict[str, object], expected: str) -> None:
    assert judge.engaged(drawn(**about), 350.0) == expected  # type: ignore[arg-type]


def test_too_few_readings_are_no_verdict() -> None:
    caps = [cap(700, side(1.0, readings=1)), cap(350, side(1.5, readings=1))]
    answer, text = verdict(caps, "prefill")
    assert answer == "undecided"
    assert "too few readings" in text


def test_what_was_disturbed_or_disbelieved_is_not_judged() -> None:
    for more in ({"disturbed": "somebody"}, {"doubts": ("cached",)}):
        caps = [cap(700, side(1.0)), cap(350, side(1.5, highest=350.0, capped=1.0), **more)]
        assert verdict(caps, "prefill")[0] == "not measured"


def test_a_lower_limit_that_the_board_enforces_is_the_one_that_engages() -> None:
    caps = [
        cap(700, side(1.0)),
        cap(500, side(1.5, highest=400.0), enforced=measured(400.0, "W", "planted")),
    ]
    assert verdict(caps, "prefill")[0] == "slows"


def test_drift_between_the_first_cap_and_the_same_at_the_end() -> None:
    caps = [cap(700, side(1.0)), cap(350, side(1.0)), cap(700, side(1.05), again=True)]
    assert "1.050 times as long at the end" in next(judge.drift(judge.compared(caps)))
    still = [cap(700, side(1.0)), cap(350, side(1.0)), cap(700, side(1.01), again=True)]
    assert list(judge.drift(judge.compared(still))) == []


@given(
    st.lists(st.floats(0.5, 3.0), min_size=1, max_size=6),
    st.floats(0.0, 0.2),
)
def test_the_ratio_covers_what_both_intervals_allow(times: list[float], spread: float) -> None:
    caps = [cap(700, side(1.0, spread=spread))]
    caps += [cap(700 - 50 * (i + 1), side(t, spread=spread)) for i, t in enumerate(times)]
    for one, t in zip(judge.compared(caps)[1:], times, strict=True):
        assert one.prefill is not None
        ratio = one.prefill.ratio
        assert isinstance(ratio, Quantity)
        assert ratio.low is not None
        assert ratio.high is not None
        assert ratio.value == pytest.approx(t)
        assert ratio.low == pytest.approx(t * (1 - spread) / (1 + spread))
        assert ratio.high == pytest.approx(t * (1 + spread) / (1 - spread))
