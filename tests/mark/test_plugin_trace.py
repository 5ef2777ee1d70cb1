"""Our bands beside those that engines write themselves, for `phasewise trace`: one step each, with our counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import kineto_by_hand
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.steps import split

OURS = "phasewise:step prefill requests=1 tokens=1 context=513 squares=1 products=513"


@pytest.mark.parametrize(
    "theirs",
    [
        "execute_context_0(0)_generation_1(1)",  # of a request that resumes: vLLM counts it as a generation
        "execute_1_context_1(sq1sk513sqsq1sqsk513)_generation_0(sq0sk0sqsq0sqsk0)",
        "step[EXTEND bs=1 toks=1]",
        "step[MIXED bs=1 c=0 g=1 c_sq=0 c_sk=0 c_sqsq=0 c_sqsk=0 g_sq=1 g_sk=513 g_sqsq=1 g_sqsk=513]",
    ],
)
def test_a_step_that_an_engine_marks_too_is_counted_once(tmp_path: Path, theirs: str) -> None:
    # Ours goes on while the tokens are sampled, after theirs has ended.
    bands = [(OURS, 2_900_000, 3_000_000), (theirs, 2_950_000, 2_000_000)]
    file = kineto_by_hand.write(tmp_path / "rank0.json", kineto_by_hand.events(bands=bands))
    found = split(read_all([file]))
    assert [step.label for step in found.steps] == [OURS]
    (step,) = found.steps
    assert step.phase == "prefill"
    assert step.prefill is not None
    assert (step.prefill.context, step.prefill.products, step.decode) == (513, 513, None)
    assert (found.kernel == 0).all(), "the last kernel was launched after the engine's own band"
