from __future__ import annotations

from pathlib import Path

import numpy as np

from kineto_by_hand import write
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.said import by_word
from phasewise.observe.traces.split import Split, Step
from phasewise.record.trace import TracePhase


def step(rank: int, phase: TracePhase, confidence: float, start: int = 0) -> Step:
    return Step(rank, "", -1, start, start + 1, phase, ("seen",), confidence)


def split_of(trace: Trace, steps: tuple[Step, ...], kernel: list[int]) -> Split:
    none = np.full(0, -1, np.int32)
    launch = np.full(len(trace.launches.start), -1, np.int32)
    by = np.full(len(kernel), -1, np.int64)
    stray = np.zeros(len(kernel), np.int32)
    return Split(steps, np.array(kernel, np.int32), none, none, launch, by, none.astype(np.int64), stray, "")


def test_the_word_counts_where_a_step_is_not_sure(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json")])
    steps = (step(0, "unknown", 0.3), step(0, "decode", 0.7, 1), step(0, "decode", 0.95, 2), step(0, "prefill", 0.7, 3))
    found = by_word(trace, split_of(trace, steps, [0, 1, 2]), {0: "prefill"})
    assert [one.phase for one in found.steps] == ["prefill", "prefill", "decode", "prefill"]
    assert found.steps[1].evidence == ("named by --prefill", "though seen")
    assert found.steps[2:] == steps[2:]


def test_without_a_word_nothing_changes(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json")])
    split = split_of(trace, (step(0, "unknown", 0.3),), [0, 0, 0])
    assert by_word(trace, split, {}) is split


def test_a_recording_without_steps_is_one_step_in_its_place(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / f"{rank}.json", rank=rank) for rank in (0, 1)])
    # Rank 1 has a step, rank 0 none: the new step comes first, and the other one's events follow it.
    split = split_of(trace, (step(1, "decode", 1.0),), [-1, -1, -1, 0, 0, -1])
    found = by_word(trace, split, {0: "prefill", 1: "decode"})
    assert [(one.rank, one.phase) for one in found.steps] == [(0, "prefill"), (1, "decode")]
    assert found.kernel.tolist() == [0, 0, 0, 1, 1, -1]
    assert found.launch.tolist() == [0, 0, 0, -1, -1, -1]
    mine = trace.kernels.rank == 0
    assert found.steps[0][3:5] == (trace.kernels.start[mine].min(), trace.kernels.end[mine].max())
