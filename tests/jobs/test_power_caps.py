"""Which caps are set on which cards."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import UsageError
from phasewise.hardware.power.guard_child import Now
from phasewise.hardware.power.held import Back
from phasewise.hardware.power.limits import Card
from phasewise.jobs import power_caps


def card(limit: int = 700_000, least: int = 200_000, most: int = 700_000, index: int = 0) -> Card:
    return Card(index=index, uuid=f"GPU-{index}", name="planted", limit=limit, least=least, most=most)


def test_from_the_limit_found_to_the_least_that_is_allowed() -> None:
    assert power_caps.chosen([card()], None, 5) == (700_000, 575_000, 450_000, 325_000, 200_000)
    assert power_caps.chosen([card(limit=500_000)], None, 2) == (500_000, 200_000)


@given(limit=st.integers(100_001, 800_000), steps=st.integers(2, 30))
def test_caps_fall_lie_within_the_range_and_end_at_both_ends(limit: int, steps: int) -> None:
    caps = power_caps.chosen([card(limit=limit, least=100_000, most=800_000)], None, steps)
    assert caps[0] == limit
    assert caps[-1] == 100_000
    assert all(before > after for before, after in itertools.pairwise(caps))
    assert len(caps) == steps or limit - 100_000 < 2000 * steps


def test_several_cards_share_the_range_that_all_allow() -> None:
    caps = power_caps.chosen([card(), card(index=1, least=300_000, limit=600_000)], None, 2)
    assert caps == (600_000, 300_000)


def test_caps_that_were_asked_for() -> None:
    assert power_caps.chosen([card()], (350_000, 700_000, 350_000), 5) == (700_000, 350_000)
    assert power_caps.chosen([card(limit=500_000)], (700_000,), 5) == (700_000,)  # by your word above what was found
    with pytest.raises(UsageError, match="200 to 700 W"):
        power_caps.chosen([card()], (199_000,), 5)
    with pytest.raises(UsageError, match="200 to 700 W"):
        power_caps.chosen([card()], (701_000,), 5)


def test_a_limit_at_its_least_leaves_nothing_to_sweep() -> None:
    with pytest.raises(UsageError, match="already stands at 200 W"):
        power_caps.chosen([card(limit=200_000)], None, 5)


@pytest.mark.parametrize("target", ["http://127.0.0.1:8000", "http://localhost:1", "http://[::1]:1", "hf:DIR", None])
def test_an_engine_on_this_machine(target: str | None) -> None:
    power_caps.here(target)


def test_an_engine_elsewhere_is_refused() -> None:
    with pytest.raises(UsageError, match="not this machine"):
        power_caps.here("http://192.0.2.7:8000")  # TEST-NET-1, nobody's


def now(limit: int, met: int, ours: int | None = None) -> Now:
    return Now(card=card(), ours=met if ours is None else ours, met=met, limit=limit, enforced=None)


def test_a_driver_that_ignores_what_is_set_is_told_from_one_that_takes_another() -> None:
    assert "kept 700 W although 500 W was set" in power_caps.ignored(500_000, [now(700_000, 700_000)])
    assert power_caps.ignored(520_000, [now(500_000, 700_000)]) == ""
    assert power_caps.ignored(700_000, [now(700_000, 700_000)]) == ""


def test_somebody_else_is_noticed() -> None:
    assert "from 400 W to 555 W" in power_caps.disturbed([now(555_000, 555_000, ours=400_000)])
    assert power_caps.disturbed([now(400_000, 400_000)]) == ""


def test_a_card_whose_end_was_not_seen_is_not_called_restored() -> None:
    (held,) = power_caps.held([card()], None)
    assert held.restored is None
    assert "see nvidia-smi" in held.trouble
    (held,) = power_caps.held([card()], [Back(card=card(), met=400_000, now=700_000)])
    assert held.trouble == ""
    assert held.restored is not None
    assert held.restored.value == 700.0
