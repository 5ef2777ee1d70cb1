"""The names of marks: what is written is what the reader of traces understands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.observe.traces.annotations import parse
from phasewise.record.marks import range_name, read, step_name
from phasewise.record.trace import Tokens

counts = st.none() | st.integers(0, 10**17)
tokens = st.builds(Tokens, requests=counts, tokens=counts, context=counts, squares=counts, products=counts)


def test_names_are_these() -> None:
    assert range_name("decode") == "phasewise:decode"
    assert range_name("prefill", Tokens(requests=1, tokens=2000)) == "phasewise:prefill requests=1 tokens=2000"
    half = Tokens(requests=1, tokens=512, context=1024, squares=262144, products=524288)
    assert step_name("mixed", half, Tokens(requests=3, tokens=3)) == (
        "phasewise:step prefill requests=1 tokens=512 context=1024 squares=262144 products=524288"
        " + decode requests=3 tokens=3"
    )
    assert step_name("decode", None, Tokens(requests=1, tokens=5), speculative=True) == (
        "phasewise:step decode requests=1 tokens=5 speculative"
    )
    assert step_name("unknown", None, None) == "phasewise:step unknown"


@given(st.sampled_from(("prefill", "decode", "mixed")), tokens)
def test_a_range_reads_back(phase: str, half: Tokens) -> None:
    mark = parse(range_name(phase, half))
    assert mark is not None
    assert (mark.dialect, mark.phase, mark.exact) == ("phasewise", phase, False)
    counted = half if half != Tokens() else None
    assert mark.prefill == (counted if phase == "prefill" else None)
    assert mark.decode == (counted if phase == "decode" else None)


@given(st.none() | tokens, st.none() | tokens, st.booleans())
def test_a_step_reads_back(prefill: Tokens | None, decode: Tokens | None, speculative: bool) -> None:
    phase = "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else "unknown"
    mark = parse(step_name(phase, prefill, decode, speculative=speculative))  # type: ignore[arg-type]
    assert mark is not None
    assert (mark.phase, mark.exact, mark.speculative) == (phase, True, speculative)
    assert (mark.prefill or Tokens(), mark.decode or Tokens()) == (prefill or Tokens(), decode or Tokens())


@pytest.mark.parametrize(
    "name",
    [
        "phasewise:step",
        "phasewise:step decode + decode",
        "phasewise:step decode requests=-1",
        "phasewise:step decode requests=1 requests",
        "phasewise:step prefill tokens=99999999999999999999",
        "phasewise:sampling",
        "phasewise:prefill layers=3",
        " phasewise:decode",
    ],
)
def test_other_names_are_none_of_ours(name: str) -> None:
    assert read(name) is None


@given(st.text(max_size=60))
def test_no_name_breaks_the_reader(text: str) -> None:
    read(text)
    parse(f"phasewise:{text}")
    parse(f"phasewise:step {text}")
