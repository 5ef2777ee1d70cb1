"""A person's own numbers: each as good as its digits, none without its phase."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import UsageError
from phasewise.observe.results.stated import Stated, reported
from phasewise.record.results import Row


def row(**flags: Any) -> Row:
    return reported(Stated(**flags)).rows[0]


def test_ttft_and_tpot_of_one_request() -> None:
    found = row(prefill_tokens="1999", ttft="50ms", tpot="5.5ms", answer="300")
    assert found.prefill is not None
    assert found.decode is not None
    assert (found.prefill.tokens.value, found.prefill.time.value) == (1999, 0.05)
    assert (found.decode.tokens.value, found.decode.time.value) == (1999 + 150, pytest.approx(0.0055))
    assert found.prefill.time.provenance == "reported"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("50ms", 0.0495, 0.0505),
        ("50.0ms", 0.04995, 0.05005),
        ("15s", 14.5, 15.5),
        ("~15s", 14.0, 16.0),
        ("1.2s", 1.15, 1.25),
        ("700us", 699.5e-6, 700.5e-6),
    ],
)
def test_a_time_is_as_good_as_its_last_digit(text: str, low: float, high: float) -> None:
    found = row(prefill_tokens="1999", ttft=text).prefill
    assert found is not None
    assert (found.time.low, found.time.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    ("text", "value", "low", "high"),
    [
        ("1999", 1999, None, None),
        ("2000", 2000, 1800, 2200),
        ("2048", 2048, 1843.2, 2252.8),
        ("16k", 16_000, 14_400, 17_600),
        ("~130", 130, 129, 131),
        ("128", 128, None, None),
        ("1.5k", 1500, 1450, 1550),
    ],
)
def test_a_round_prompt_is_nominal(text: str, value: float, low: float | None, high: float | None) -> None:
    found = row(prefill_tokens=text, ttft="50ms").prefill
    assert found is not None
    assert found.tokens.value == value
    assert found.tokens.low == (None if low is None else pytest.approx(low))
    assert found.tokens.high == (None if high is None else pytest.approx(high))


def test_rates_become_times() -> None:
    found = row(prefill_tokens="1999", prefill_tok_s="3998", decode_tok_s="400", batch=10, context="300")
    assert found.prefill is not None
    assert found.decode is not None
    assert found.prefill.time.value == pytest.approx(0.5)
    assert (found.decode.time.value, found.decode.batch.value) == (pytest.approx(0.025), 10)
    assert found.decode.time.low == pytest.approx(10 / 400.5)


@pytest.mark.parametrize("text", ["46.3", "46.3 tok/s", "46.3t/s", "46.3 tokens/s", "46.3tps"])
def test_a_rate_may_name_its_unit(text: str) -> None:
    found = row(decode_tok_s=text, context="100").decode
    assert found is not None
    assert found.time.value == pytest.approx(1 / 46.3)


def test_cached_tokens_are_not_computed() -> None:
    found = row(prefill_tokens="1999", cached="1500", ttft="20ms").prefill
    assert found is not None
    assert (found.tokens.value, found.cached) == (499, 1500)


def test_a_request_as_a_whole_holds_both() -> None:
    found = row(prefill_tokens="1999", answer="200", request_time="2.0s")
    assert found.prefill is not None
    assert found.decode is not None
    assert found.prefill.least
    assert found.decode.least
    assert found.decode.time.value == pytest.approx(0.01)
    assert found.request_s is not None


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"tok_s": "120"}, "prefill or decode?"),
        ({}, "nothing to judge"),
        ({"prefill_tokens": "2000"}, "nothing to judge"),
        ({"ttft": "50"}, "50ms"),
        ({"ttft": "-50ms"}, "--ttft"),
        ({"ttft": "nan", "prefill_tokens": "5"}, "--ttft"),
        ({"ttft": "1e400s", "prefill_tokens": "5"}, "--ttft"),
        ({"ttft": "50ms", "prefill_tok_s": "100", "prefill_tokens": "5"}, "give one of them"),
        ({"tpot": "5ms", "decode_tok_s": "100"}, "give one of them"),
        ({"prefill_tok_s": "100"}, "--prefill-tokens"),
        ({"decode_tok_s": "fast", "context": "5"}, "--decode-tok-s"),
        ({"decode_tok_s": "46 req/s", "context": "5"}, "--decode-tok-s"),
        ({"prefill_tokens": "many", "ttft": "50ms"}, "--prefill-tokens"),
        ({"prefill_tokens": "0", "ttft": "50ms"}, "--prefill-tokens"),
        ({"prefill_tokens": "1.5", "ttft": "50ms"}, "--prefill-tokens"),
        ({"prefill_tokens": "999999999999", "ttft": "50ms"}, "--prefill-tokens"),
        ({"prefill_tokens": "5", "cached": "5", "ttft": "50ms"}, "--cached"),
        ({"output_tok_s": "46"}, "both phases"),
        ({"request_time": "2s", "answer": "5"}, "both phases"),
    ],
)
def test_what_cannot_be_judged_is_asked_back(flags: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        reported(Stated(**flags))
    assert says in str(error.value)
    assert str(error.value).endswith(".")


def test_a_length_that_is_missing_is_named() -> None:
    found = row(ttft="50ms", tpot="5ms")
    assert "--prefill-tokens" in found.missing["prefill"]
    assert "--context" in found.missing["decode"]


@given(number=st.text(alphabet="0123456789.,_eE+-~k ", max_size=12), unit=st.sampled_from(["ms", "s", "", "us", "x"]))
def test_any_text_is_a_number_or_a_usage_error(number: str, unit: str) -> None:
    for flags in ({"ttft": number + unit, "prefill_tokens": "7"}, {"prefill_tokens": number, "ttft": "5ms"}):
        try:
            found = row(**flags).prefill
        except UsageError:
            continue
        assert found is not None
        for quantity in (found.time, found.tokens):
            assert quantity.value > 0
            assert (quantity.low or quantity.value) <= quantity.value <= (quantity.high or quantity.value)
            assert quantity.low is None or quantity.low > 0
