"""Kernel names without end: only their beginning is looked at, and in time that does not grow with its square."""

from __future__ import annotations

import time

import pytest

from phasewise.observe.traces import tells

REPEATED = ("flash_fwd_xkernel<", "splitKV", "softmax", "multi_tensor", "cutlass", "MT12x", "paged", "fmhaSm1", "_")


def test_a_word_far_behind_in_a_name_tells_nothing() -> None:
    assert tells.bits("x" * 100 + "prefill") & tells.PROMPT
    assert tells.bits("x" * 100_000 + "prefill") == tells.bits("x" * 100_000)


@pytest.mark.parametrize("word", REPEATED)
def test_many_long_names_end_soon(word: str) -> None:
    began = time.process_time()
    for place in range(20):
        tells.bits(f"{place}{word * 20_000}")
    # Not a matter of speed: what is quadratic in the whole name takes hours.
    assert time.process_time() - began < 30
