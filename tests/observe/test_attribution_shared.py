"""The public traces: every split as their answers say, marked and unmarked. Figures: data/traces/ANSWERS.md."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from attribution_kineto import plain, unmarked

from phasewise.observe.traces.cpu import on_cpu
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.steps import split


def told(trace: Trace, done: Split) -> list[tuple[str, int, int]]:
    """Phase, kernels and kernel time in ns of each step."""
    length = trace.kernels.end - trace.kernels.start
    return [
        (step.phase, int(np.count_nonzero(done.kernel == row)), int(length[done.kernel == row].sum()))
        for row, step in enumerate(done.steps)
    ]


PREFILL, DECODE = ("prefill", 527, 492_773_592), ("decode", 555, 9_765_437)


@pytest.mark.parametrize("marks", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sglang_prefill_then_decode", [PREFILL, DECODE]),
        ("sglang_qwen3_8b_mi300x_prefill", [PREFILL]),
        ("sglang_qwen3_8b_mi300x_decode", [DECODE]),
        ("vllm_gptoss_mi300x_decode", [("decode", 425, 10_674_517)]),
        ("vllm_b200_eager", [("prefill", 768, 10_862_916)]),
    ],
)
def test_device_traces(name: str, expected: list[tuple[str, int, int]], marks: bool) -> None:
    trace = plain(f"kineto/{name}.json.gz")
    done = split(trace if marks else unmarked(trace))
    assert told(trace, done) == expected
    assert all(step.evidence for step in done.steps)


def test_the_mixed_step_and_its_sums() -> None:
    trace = plain("kineto/vllm_gptoss_mi300x_mixed.json.gz")
    done = split(trace)
    assert told(trace, done) == [("mixed", 413, 156_008_506)]
    (step,) = done.steps
    assert step.prefill is not None
    assert (step.prefill.requests, step.prefill.tokens, step.prefill.products) == (9, 8155, 7671310)
    assert step.decode is not None
    assert (step.decode.requests, step.decode.tokens, step.decode.context) == (37, 37, 34489)


def test_the_mixed_step_unmarked_is_not_guessed() -> None:
    (step,) = split(unmarked(plain("kineto/vllm_gptoss_mi300x_mixed.json.gz"))).steps
    assert step.phase == "unknown"
    assert "alike" in step.evidence[-1]


def test_the_inner_marks_leave_sampling_outside() -> None:
    """Answers, section 2: by the inner step[...] 521 and 550 kernels, 11 outside."""
    trace = plain("kineto/sglang_prefill_then_decode.json.gz")
    inner = [row for row, name in enumerate(trace.bands.name) if trace.names[name].startswith("step[")]
    bands = type(trace.bands)(*(column[inner] for column in trace.bands))
    done = split(trace._replace(bands=bands))
    assert told(trace, done) == [("prefill", 521, 492_672_806), ("decode", 550, 9_689_487)]
    assert np.count_nonzero(done.kernel < 0) == 11


def test_each_sglang_step_has_one_stray_kernel() -> None:
    trace = plain("kineto/sglang_prefill_then_decode.json.gz")
    done = split(trace)
    assert Counter(done.kernel[done.stray == 1].tolist()) == {0: 1, 1: 1}
    main = (done.kernel == 1) & (done.stray == 0)
    window = trace.kernels.end[main].max() - trace.kernels.start[main].min()
    assert 10_300_000 < window < 10_500_000, "without the stray the decode step is a window of about 10.4 ms"


@pytest.mark.parametrize("marks", [True, False], ids=["marked", "unmarked"])
def test_vllm_on_a_cpu(marks: bool) -> None:
    """Prompts of 128 and 64 tokens, one of 1,200 in three chunks; 7, 15 and 7 decode steps. Idle bands are no steps."""
    trace = plain("cpu/vllm_cpu_rank0.json.gz")
    trace = on_cpu(trace if marks else unmarked(trace))
    order = [step.phase for step in split(trace).steps]
    assert order == ["prefill", *["decode"] * 7, "prefill", *["decode"] * 15, *["prefill"] * 3, *["decode"] * 7]


@pytest.mark.parametrize("marks", [True, False], ids=["marked", "unmarked"])
def test_torch_on_a_cpu(marks: bool) -> None:
    trace = plain("cpu/torch_smollm2.json.gz")
    trace = on_cpu(trace if marks else unmarked(trace))
    done = split(trace)
    assert [step.phase for step in done.steps] == ["prefill", *["decode"] * 16]
    assert np.count_nonzero(done.kernel < 0) == 2
    assert len(set(np.bincount(done.kernel[done.kernel >= 0]).tolist())) == 1, "every pass runs the same kernels"


@pytest.mark.parametrize("rank", [0, 1])
def test_gloo_ranks(rank: int) -> None:
    trace = on_cpu(plain(f"cpu/rank{rank}.json.gz"))
    done = split(trace)
    assert [step.phase for step in done.steps] == ["prefill", *["decode"] * 8]
    reduce = np.array([trace.names[name] == "gloo:all_reduce" for name in trace.kernels.name])
    assert np.bincount(done.kernel[reduce]).tolist() == [8] * 9


def test_a_capture_alone_has_no_step() -> None:
    done = split(plain("kineto/vllm_gptoss_mi300x_decode_capture.json.gz"))
    assert done.steps == ()
    assert set(done.kernel.tolist()) == {-1}
