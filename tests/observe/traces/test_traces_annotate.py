from __future__ import annotations

import gzip
import json
import os
import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_by_hand import KERNELS, events, write
from phasewise.errors import UsageError
from phasewise.observe.traces import annotate, bands, chrome
from phasewise.observe.traces.bands import Stretch
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.split import Split, Step


def quiet(doing: str, fraction: float) -> None:
    pass


def split_of(trace: Trace, steps: list[int]) -> Split:
    """A split by hand: the step of each kernel; even steps are prefill, odd ones decode."""
    kernel = np.array(steps, np.int32)
    found = tuple(
        Step(0, f"step {at}", -1, 0, 1, "decode" if at % 2 else "prefill", ("by hand",), 1.0)
        for at in range(max(steps) + 1)
    )
    none = np.full(0, -1, np.int32)
    return Split(
        steps=found,
        kernel=kernel,
        copy=np.full(len(trace.copies.start), -1, np.int32),
        replay=none,
        launch=np.full(len(trace.launches.start), -1, np.int32),
        launched_by=np.full(len(kernel), -1, np.int64),
        replayed_by=none.astype(np.int64),
        stray=np.zeros(len(kernel), np.int32),
        how="by hand",
    )


def made(out: Path, inputs: list[Path], steps: list[int], **options: bool) -> tuple[Trace, dict[str, Any]]:
    """The trace, and the annotated document with its numbers as exact decimals."""
    trace = read_all(inputs)
    annotate.annotate(out, inputs, trace, split_of(trace, steps), quiet, **options)
    content = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
    return trace, json.loads(content, parse_float=Decimal)


def ours(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("cat") == "phasewise"]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
@pytest.mark.parametrize("source", ["a.json", "a.json.gz"])
def test_a_kineto_file_passes_through_with_the_phases_added(tmp_path: Path, source: str, name: str) -> None:
    path = write(tmp_path / source, events(bands=(("mine", 2_900_000, 4_000),)))
    before = gzip.decompress(path.read_bytes()) if source.endswith("gz") else path.read_bytes()
    original = json.loads(before, parse_float=Decimal)
    _, document = made(tmp_path / name, [path], [0, 0, 1])
    assert {key: value for key, value in document.items() if key != "traceEvents"} == {
        key: value for key, value in original.items() if key != "traceEvents"
    }
    assert document["traceEvents"][-len(original["traceEvents"]) :] == original["traceEvents"]
    added = document["traceEvents"][: -len(original["traceEvents"])]
    assert {event["ph"] for event in added} == {"M", "X"}
    bars = [(event["name"], event["ts"] * 1000, event["dur"] * 1000) for event in ours(document)]
    # On the track of all steps, and on that of the device; ns by hand from KERNELS.
    assert sorted(bars) == [("decode", 7_000_000, 11)] * 2 + [("prefill", 5_000_000, 903_013)] * 2


def test_the_annotated_file_reads_back_as_the_same_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json")
    trace, _ = made(tmp_path / "out.json", [path], [0, 0, 1])
    again = read_all([tmp_path / "out.json"])
    assert again._replace(sources=()).origin_ns == trace.origin_ns
    for one, other in zip(trace[5:14], again[5:14], strict=True):
        for column, copy in zip(one, other, strict=True):
            assert np.array_equal(column, copy, equal_nan=column.dtype.kind == "f")


def test_several_ranks_are_written_from_the_tables_and_read_back_exactly(tmp_path: Path) -> None:
    files = [write(tmp_path / f"r{rank}.json", events(bands=(("mine", 3_000_000, 5),)), rank=rank) for rank in (0, 1)]
    trace, document = made(tmp_path / "out.json", files, [0, 0, 1, 0, 0, 1])
    again = read_all([tmp_path / "out.json"])
    assert again.origin_ns == trace.origin_ns
    for table in ("kernels", "launches", "bands"):
        one, other = getattr(trace, table), getattr(again, table)
        pairs = [sorted(zip(t.start.tolist(), t.end.tolist(), strict=True)) for t in (one, other)]
        assert pairs[0] == pairs[1]
    names = {event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"}
    assert "phasewise phases (rank 0)" in names
    assert "device 0 (rank 1) NVIDIA H100 80GB HBM3" in names


def test_a_damaged_file_is_written_whole_from_what_was_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json")
    path.write_bytes(path.read_bytes()[:-40])
    trace = read_all([path])
    assert [fault.check for fault in trace.sources[0].faults] == ["truncated"]
    _, document = made(tmp_path / "out.json", [path], [0] * len(trace.kernels.start))
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    assert len(kernels) == len(trace.kernels.start) > 0
    assert len(ours(document)) == 2


def test_an_empty_list_of_events_gets_no_comma_too_many(tmp_path: Path) -> None:
    blocks = iter([b'{"a": "[\\"traceEvents\\": [", "b": {"traceEvents": [1]}, "traceEvents" : [ ', b" ]}"])
    data, at, base = annotate._opening(blocks)
    assert data[at:].strip() == b"]}"
    assert base is None
    assert b"".join(annotate._listed(iter(["1", "2"]), last=True)) == b"1,\n2"
    assert b"".join(annotate._listed(iter(["1", "2"]), last=False)) == b"1,\n2,\n"
    assert b"".join(annotate._listed(iter([]), last=False)) == b""


def test_no_input_is_ever_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "job" / "a.json")
    os.link(path, tmp_path / "hard.json")
    (tmp_path / "soft.json").symlink_to(path)
    before = path.read_bytes()
    trace = read_all([path])
    for out in (path, tmp_path / "hard.json", tmp_path / "soft.json", tmp_path / "job" / ".." / "job" / "a.json"):
        with pytest.raises(UsageError, match="would overwrite the input"):
            annotate.annotate(out, [path], trace, split_of(trace, [0, 0, 1]), quiet, force=True)
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="whose files are the ranks"):
        annotate.check(tmp_path / "job" / "out.json", [tmp_path / "job"], force=False)


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    path, out = write(tmp_path / "a.json"), tmp_path / "out.json"
    out.write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        made(out, [path], [0, 0, 1])
    assert out.read_text() == "mine"
    _, document = made(out, [path], [0, 0, 1], force=True)
    assert ours(document)
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to(tmp_path / "nowhere.json")
    with pytest.raises(UsageError, match="--force"):
        annotate.check(dangling, [path], force=False)


def test_a_place_that_is_none_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json")
    with pytest.raises(UsageError, match="there is no folder"):
        made(tmp_path / "no" / "out.json", [path], [0, 0, 1])
    with pytest.raises(UsageError, match="is a folder"):
        made(tmp_path, [path], [0, 0, 1])
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.json")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chrome, "phase_events", full)
    with pytest.raises(OSError, match="No space left"):
        made(tmp_path / "out.json", [path], [0, 0, 1])
    assert sorted(tmp_path.iterdir()) == [path]


def test_names_from_a_trace_stay_names(tmp_path: Path) -> None:
    hostile = 'a"},{"ph":"X","name":"\x1b[31m</script>\\'
    made_up = events(((hostile, 5_000_000, 10),))
    files = [write(tmp_path / f"{rank}.json", made_up, rank=rank) for rank in (0, 1)]
    _, document = made(tmp_path / "out.json", files, [0, 0])
    assert {event["name"] for event in document["traceEvents"] if event.get("cat") == "kernel"} == {
        json.loads(json.dumps(hostile))
    }


@given(st.integers(-(2**62), 2**62))
def test_a_time_is_written_with_every_digit(time: int) -> None:
    text = chrome._us(time)
    assert re.fullmatch(r"-?\d+\.\d{3}", text)
    assert Decimal(text) * 1000 == time


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_no_two_stretches_of_a_track_overlap(found: list[tuple[int, int]]) -> None:
    lanes: dict[int, list[Stretch]] = {}
    placed = list(bands.tracks([Stretch(0, None, start, start + length, 1) for start, length in found]))
    assert len(placed) == len(found)
    for track, one in placed:
        lanes.setdefault(track, []).append(one)
    for stretches in lanes.values():
        for before, after in pairwise(stretches):
            assert before.end <= after.start


def test_stretches_leave_strays_out_and_place_an_empty_step_at_its_band(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json")])
    split = split_of(trace, [0, 0, 0])
    idle = Step(0, "idle", -1, 123, 456, "unknown", (), 0.0)
    split = split._replace(stray=np.array([0, 0, 1], np.int32), steps=(*split.steps, idle))
    found = list(bands.stretches(trace, split))
    zero = trace.kernels.start[0]
    assert found == [
        Stretch(0, None, zero, zero + 903_013, 3),
        Stretch(1, None, 123, 456, 0),
        Stretch(0, 0, zero, zero + 903_013, 3),
    ]
    assert len(KERNELS) == 3


def test_a_step_counts_its_strays_and_does_not_reach_to_them(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json", events())])
    split = split_of(trace, [0] * len(trace.kernels.start))
    whole, near = (
        list(bands.stretches(trace, split._replace(stray=np.array(stray, np.int32))))
        for stray in ([0] * len(trace.kernels.start), [0] * (len(trace.kernels.start) - 1) + [1])
    )
    assert [one.kernels for one in near] == [one.kernels for one in whole] == [len(trace.kernels.start)] * 2
    assert near[0].end == int(trace.kernels.end[:-1].max()) < whole[0].end


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    trace, pipe = write(tmp_path / "a.json", events(KERNELS)), tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for out in (pipe, tmp_path / "link"):
        with pytest.raises(UsageError, match="no file: name a file"):
            annotate.check(out, [trace], force=True)
    assert pipe.is_fifo()
