"""Ranges of the user's own against the kernels in them: the range decides, and a contradiction is a failed check."""

from __future__ import annotations

from pathlib import Path

import pytest
from attribution_planted import Planted, model_pass

from phasewise.observe.traces import cpu
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.families import rules
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.section import section
from phasewise.observe.traces.steps import split
from phasewise.record.trace import Health, Traced

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces" / "cpu"


def traced(trace: Trace) -> Traced:
    return section(trace, split(trace), ())


def check(found: Traced, name: str) -> Health | None:
    return next((one for one in found.health if one.check == name), None)


def planted(marks: list[str], phases: list[str]) -> Trace:
    """Passes of ``phases``, each in a range of the user's own called ``marks``."""
    one, now = Planted(), 10.0
    for step, (mark, phase) in enumerate(zip(marks, phases, strict=True)):
        done = model_pass(one, now, phase, step)
        one.band(mark, now - 1, done - 40.0)
        now = done
    return one.trace()


def test_marks_that_agree_pass() -> None:
    found = traced(planted(["prefill", "decode", "decode"], ["prefill", "decode", "decode"]))
    one = check(found, "phases as marked")
    assert one
    assert one.status == "passed"
    assert "none of 3 steps" in one.detail


def test_swapped_marks_decide_and_are_said() -> None:
    found = traced(planted(["decode", "prefill", "prefill"], ["prefill", "decode", "decode"]))
    assert [step.phase for step in found.steps] == ["decode", "prefill", "prefill"]
    one = check(found, "phases as marked")
    assert one
    assert one.status == "failed"
    assert "3 of 3 steps" in one.detail
    assert "marked decode, though attention kernels made for prompts" in one.detail
    assert found.steps[0].evidence[-1].startswith("though attention kernels made for prompts")


def test_an_engine_is_not_asked() -> None:
    marks = ["execute_context_1(512)_generation_0(0)", "execute_context_0(0)_generation_3(3)"]
    assert check(traced(planted(marks, ["prefill", "decode"])), "phases as marked") is None


def test_swapped_marks_of_a_recording() -> None:
    if not DATA.exists():
        pytest.skip("skipped: no shared data")
    trace = cpu.on_cpu(read_all([DATA / "torch_smollm2.json.gz"]))
    right = check(traced(trace), "phases as marked")
    assert right
    assert right.status == "passed"
    other = {"prefill": "decode", "decode": "prefill"}
    names = tuple(next((name.replace(a, b) for a, b in other.items() if a in name), name) for name in trace.names)
    wrong = check(traced(trace._replace(names=names)), "phases as marked")
    assert wrong
    assert wrong.status == "failed"


def test_the_late_rank_of_a_recording_is_named() -> None:
    """By hand from the files: prefill begins 5110873146133 and 5110873662134 µs, the first long all_reduce of rank 0
    takes 524.6 ms, that of rank 1 5.0 ms."""
    if not DATA.exists():
        pytest.skip("skipped: no shared data")
    trace = cpu.on_cpu(read_all([DATA / "rank0.json.gz", DATA / "rank1.json.gz"]))
    found = section(trace, split(trace), rules())
    step, clocks = check(found, "ranks in step"), check(found, "clocks of the ranks")
    assert step
    assert clocks
    assert step.status == "failed"
    assert "rank 0 waits" in step.detail
    assert "for rank 1" in step.detail
    assert "525 ms beside 4.98 ms" in step.detail
    assert "up to 516 ms apart" in clocks.detail
