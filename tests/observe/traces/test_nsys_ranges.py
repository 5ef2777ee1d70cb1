"""NVTX ranges: their kinds and names, what is still open, and which are left out of a flood."""

from __future__ import annotations

from pathlib import Path

import pytest
from nsys_files import NVTX, PID, band, export, kernel, named, read

from phasewise.observe.traces.readers import nsys_ranges


def test_kinds_of_ranges_and_of_names(tmp_path: Path) -> None:
    rows = [
        band(10, 90, "prefill"),
        band(20, 95, None, 60, textId=20, endGlobalTid=PID + 44),
        band(30, None, "a mark", 34),
        band(0, None, "a domain", 75),
        band(40, 50, None, textId=99),
    ]
    trace = read(export(tmp_path / "kinds.sqlite", {NVTX: rows}))
    assert named(trace, trace.bands.name) == ["prefill", "decode", "(unnamed)"]
    assert trace.bands.end.tolist() == [90, 95, 50]
    # A start/end range that is closed on another thread is of the one that it began on.
    assert [trace.threads[one].tid for one in trace.bands.thread] == ["9", "9", "9"]


def test_open_ranges_end_with_the_recording_and_it_is_said(tmp_path: Path) -> None:
    rows = [band(10, None, "step 1"), band(20, 30, "step 2"), band(25, 0, "step 3")]
    trace = read(export(tmp_path / "open.sqlite", {NVTX: rows, "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(40, 77, 1)]}))
    assert trace.bands.end.tolist() == [77, 30, 77]
    (fault,) = trace.sources[0].faults
    assert fault.check == "missing"
    assert "2 NVTX ranges were still open" in fault.detail


def test_the_tail_of_emit_nvtx_is_taken_off(tmp_path: Path) -> None:
    texts = [
        "aten::mm, seq = 4, op_id = 31, sizes = [[8, 16], [16, 4]], input_op_ids = [(30,0), (29,0)]",
        "aten::add_.Tensor, op_id = 32",
        "AddmmBackward0, seq = 4, op_id = 33",
        "prefill, op_id = 34",
        "execute_context_1(512)_generation_0(0), op_id = 35, sizes = []",
        "step[DECODE bs=32 toks=32]",
        "chosen, id = 7",
        "ExecutionContext::enqueue",
    ]
    trace = read(export(tmp_path / "tails.sqlite", {NVTX: [band(i, i + 1, text) for i, text in enumerate(texts)]}))
    assert named(trace, trace.ops.name) == ["aten::mm", "aten::add_.Tensor", "AddmmBackward0"]
    assert [trace.shapes[one] if one >= 0 else "" for one in trace.ops.shape] == ["[[8, 16], [16, 4]]", "", ""]
    assert named(trace, trace.bands.name) == [
        "prefill",
        "execute_context_1(512)_generation_0(0)",
        "step[DECODE bs=32 toks=32]",
        "chosen, id = 7",
        "ExecutionContext::enqueue",
    ]


@pytest.fixture
def small_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_ranges, "FLOOD", 2_000)
    monkeypatch.setattr(nsys_ranges, "FAMILY", 500)


@pytest.mark.usefixtures("small_flood")
def test_a_flood_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = []
    for i in range(1_000):
        at = 100 * i
        rows += [band(at, at + 99, "decode" if i else "prefill"), band(at + 1, at + 90, f"tick {i}")]
        rows += [band(at + 2 + k, at + 3 + k, f"aten::view, op_id = {i * 9 + k}") for k in range(6)]
        rows += [
            band(at + 20, at + 30, f"layer {i % 32}"),
            band(at + 31, at + 32, f"layer {i % 32} of the decode step"),
        ]
        rows += [band(at + 40, at + 50, None, textId=50 + i % 8)] * (i % 4 == 0)
    strings = {50 + k: f"block.{k}" for k in range(8)}
    trace = read(export(tmp_path / "flood.sqlite", {NVTX: rows}, strings))
    kept = named(trace, trace.bands.name)
    assert len(trace.ops.start) == 0
    assert kept.count("prefill") == 1
    assert kept.count("decode") == 999
    assert sum("of the decode step" in one for one in kept) == 1_000
    assert sum(one.startswith("block.") for one in kept) == 250
    assert not any(one in kept for one in ("tick 7", "layer 7"))
    (note,) = trace.sources[0].notes
    assert note.startswith("8,000 of 10,250 NVTX events")
    assert "aten::*" in note


@pytest.mark.usefixtures("small_flood")
def test_registered_texts_of_a_flood_are_left_out_too(tmp_path: Path) -> None:
    rows = [band(i, i + 1, None, textId=50 + i % 9) for i in range(3_000)]
    rows += [band(i, i + 1, None, textId=20) for i in range(700)]
    strings = {20: "generate", **{50 + k: f"it's [layer] {k}?*" for k in range(9)}}
    trace = read(export(tmp_path / "registered.sqlite", {NVTX: rows}, strings))
    assert set(named(trace, trace.bands.name)) == {"generate"}
    assert len(trace.bands.start) == 700


@pytest.mark.usefixtures("small_flood")
def test_many_ranges_of_many_names_are_no_flood(tmp_path: Path) -> None:
    rows = [band(i, i + 1, f"{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}") for i in range(3_000)]
    trace = read(export(tmp_path / "many.sqlite", {NVTX: rows}))
    assert len(trace.bands.start) == 3_000
    assert trace.sources[0].notes == ()
