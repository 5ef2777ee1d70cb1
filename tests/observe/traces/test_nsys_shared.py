"""Public exports, against data/traces/ANSWERS.md and against plain SQL and Python on the same files."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from nsys_files import named, read, shared

from phasewise.observe.traces.events import LaunchKind, Trace

ANSWERS = {
    ("h100_2gpu_1s.sqlite", 0): (1721, 22_385_163, 22_385_163, 463, 0, 962_890_247, 969_447_605),
    ("h100_2gpu_1s.sqlite", 1): (1721, 22_444_359, 22_444_359, 463, 0, 962_810_705, 969_258_578),
    ("graph_mode_rtx3060.sqlite", 0): (3, 3_840, 3_840, 1, 2, 7_808, 186_815),
}
"""Kernels, sum, union, copies, replays, union of all, span of all: section 3 of the answers."""


def union(spans: Iterable[tuple[int, int]]) -> int:
    total, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            reached = start
        total += max(0, end - reached)
        reached = max(reached, end)
    return total


def spans(table: tuple[np.ndarray, ...], chosen: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(table[0][chosen].tolist(), table[1][chosen].tolist(), strict=True))


@pytest.mark.parametrize(("name", "device"), ANSWERS)
def test_times_and_counts_are_the_published_ones(name: str, device: int) -> None:
    trace = read(shared(name))
    kernels, copies, replays = (
        spans(table, table.device == device) for table in (trace.kernels, trace.copies, trace.replays)
    )
    everything = kernels + copies + replays
    assert (
        len(kernels),
        sum(end - start for start, end in kernels),
        union(kernels),
        len(copies),
        len(replays),
        union(everything),
        max(end for _, end in everything) - min(start for start, _ in everything),
    ) == ANSWERS[name, device]


def test_a_launch_of_another_process_launched_nothing_here() -> None:
    """By correlation id alone 1,799 kernels lack a launch, as published; 11 more meet one of the other process."""
    path = shared("h100_2gpu_1s.sqlite")
    trace = read(path)
    base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    without = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE NOT EXISTS (SELECT 1 FROM"
    without += " CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId"
    assert base.execute(without + ")").fetchone()[0] == 1_799
    alone = base.execute(without + " AND r.globalTid / 16777216 = k.globalPid / 16777216)").fetchone()[0]
    assert alone == 1_810
    assert int(np.count_nonzero(~np.isin(trace.kernels.correlation, trace.launches.correlation))) == alone


def test_graph_replays_are_counted_and_a_captured_call_launches_nothing() -> None:
    trace = read(shared("graph_mode_rtx3060.sqlite"))
    assert trace.sources[0].graph_mode == "graph"
    assert trace.sources[0].form == "Nsight Systems SQLite 3.24.0"
    assert trace.sources[0].devices[0].name == "NVIDIA GeForce RTX 3060"
    assert trace.origin_ns == 1785620044423518993
    assert (trace.replays.end - trace.replays.start).sum() == 3_104
    kinds = trace.launches.kind.tolist()
    assert kinds.count(LaunchKind.GRAPH) == 2
    # Four cudaLaunchKernel; one of them between BeginCapture and EndCapture.
    assert kinds.count(LaunchKind.KERNEL) == 3
    assert set(trace.replays.correlation) <= set(trace.launches.correlation)
    assert trace.sources[0].faults == ()


@pytest.mark.parametrize("name", ["h100_2gpu_1s.sqlite", "graph_mode_rtx3060.sqlite", "mock.sqlite"])
def test_every_row_is_as_sql_has_it(name: str) -> None:
    path = shared(name)
    trace = read(path)
    base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    sums = base.execute(
        "SELECT s.value, count(*), sum(k.end - k.start), max(k.gridX * k.gridY * k.gridZ) FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName GROUP BY s.value ORDER BY s.value"
    ).fetchall()
    assert by_name(trace) == sums
    launched = base.execute(
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON"
        " r.correlationId = k.correlationId AND r.globalTid / 16777216 = k.globalPid / 16777216"
    ).fetchone()[0]
    assert int(np.isin(trace.kernels.correlation, trace.launches.correlation).sum()) == launched
    copied = base.execute("SELECT count(*), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()
    sets = trace.copies.kind == 5
    assert (int((~sets).sum()), int(trace.copies.bytes[~sets].sum())) == copied
    calls = base.execute("SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
    assert (len(trace.launches.start), int((trace.launches.end - trace.launches.start).sum())) == calls


def by_name(trace: Trace) -> list[tuple[str, int, int, int]]:
    found: dict[str, list[int]] = {}
    kernels = trace.kernels
    for name, start, end, blocks in zip(
        named(trace, kernels.name), kernels.start.tolist(), kernels.end.tolist(), kernels.blocks.tolist(), strict=True
    ):
        one = found.setdefault(name, [0, 0, 0])
        one[0], one[1], one[2] = one[0] + 1, one[1] + end - start, max(one[2], blocks)
    return [(name, *sums) for name, sums in sorted(found.items(), key=lambda item: item[0].encode())]


def test_operators_of_emit_nvtx_are_no_bands() -> None:
    trace = read(shared("h100_2gpu_1s.sqlite"))
    assert len(trace.ops.start) + len(trace.bands.start) == 16_782
    assert all("::" in name for name in named(trace, np.unique(trace.ops.name)))
    assert "FSDP::post_forward (encoder.block.0.layer.0)" in named(trace, np.unique(trace.bands.name))


@pytest.mark.parametrize("name", ["h100_2gpu_1s.sqlite", "mock.sqlite"])
def test_nothing_is_written(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    copy.write_bytes(shared(name).read_bytes())
    before = hashlib.sha256(copy.read_bytes()).hexdigest()
    read(copy)
    assert hashlib.sha256(copy.read_bytes()).hexdigest() == before
    assert [one.name for one in tmp_path.iterdir()] == [name]
