"""What the versions of the export differ in, and ids that mean something only together with their process."""

from __future__ import annotations

import gzip
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pytest
from nsys_files import KERNEL, NVTX, PID, RUNTIME, TID, band, call, export, kernel, named, read

from phasewise.observe.traces.events import CopyKind, Device, LaunchKind, Thread
from phasewise.observe.traces.opened import members
from phasewise.observe.traces.readers import nsys_sqlite
from phasewise.observe.traces.readers.nsys_base import STRETCH
from phasewise.observe.traces.readers.nsys_names import call as call_kind

FIXTURE = Path(__file__).parents[2] / "fixtures" / "traces" / "nsys_cpu_nvtx.sqlite"


def test_a_recording_without_cuda_gives_its_bands() -> None:
    trace = read(FIXTURE)
    assert named(trace, trace.bands.name) == ["prefill"] + ["decode"] * 6
    assert trace.sources[0].form == "Nsight Systems SQLite 3.0.0"
    assert trace.origin_ns > 0
    assert len(trace.kernels.start) == 0


def test_columns_of_old_exports_are_enough(tmp_path: Path) -> None:
    rows = [{"start": 5, "end": 9, "shortName": 11}]
    trace = read(export(tmp_path / "old.sqlite", {KERNEL: rows, "EXPORT_META_DATA": [{"name": "x", "value": "y"}]}))
    assert named(trace, trace.kernels.name) == ["gemm"]
    assert trace.kernels.device.tolist() == [-1]
    assert trace.kernels.correlation.tolist() == [-1]
    assert trace.kernels.blocks.tolist() == [0]
    assert trace.kernels.node.tolist() == [0]
    assert trace.sources[0].form == "Nsight Systems SQLite"
    assert trace.origin_ns == 0


def test_kernels_of_a_graph_know_it_with_and_without_the_column(tmp_path: Path) -> None:
    node = (3 << 32) + 17
    rows = [kernel(10, 20, 4, graphNodeId=node), kernel(30, 40, 4, graphNodeId=node, graphId=8), kernel(50, 60, 5)]
    trace = read(export(tmp_path / "node.sqlite", {KERNEL: rows, RUNTIME: [call(1, 2, 4, 2), call(3, 4, 5)]}))
    assert trace.kernels.graph.tolist() == [3, 8, -1]
    assert trace.kernels.node.tolist() == [node, node, 0]
    assert trace.sources[0].graph_mode == "node"
    assert trace.launches.kind.tolist() == [LaunchKind.GRAPH, LaunchKind.KERNEL]


@pytest.mark.parametrize("key", ["CUDA_GRAPH_TRACE_OPTIONS:MODE", "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE"])
def test_graph_mode_by_what_was_asked_for(tmp_path: Path, key: str) -> None:
    tables = {KERNEL: [kernel(1, 2, 3)], "META_DATA_CAPTURE": [{"name": key, "value": "Node"}]}
    assert read(export(tmp_path / "one.sqlite", tables)).sources[0].graph_mode == "node"


def test_ids_of_two_processes_do_not_collide(tmp_path: Path) -> None:
    other = PID + 0x1000000
    tables = {
        KERNEL: [kernel(10, 20, 4), kernel(30, 40, 4, globalPid=other)],
        RUNTIME: [call(1, 2, 4), call(3, 4, 4, globalTid=other + 5), call(5, 6, 4, globalTid=None)],
        "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 50, "end": 60, "correlationId": 4, "globalPid": other, "bytes": 3}],
    }
    trace = read(export(tmp_path / "two.sqlite", tables))
    mine, theirs = trace.kernels.correlation.tolist()
    assert mine != theirs
    assert trace.launches.correlation.tolist() == [mine, theirs, -1]
    assert trace.copies.correlation.tolist() == [theirs]
    assert trace.copies.kind.tolist() == [CopyKind.SET]
    assert trace.threads == (Thread(0, "7", "9"), Thread(0, "8", "5"))
    assert trace.launches.thread.tolist() == [0, 1, -1]


def test_one_process_keeps_the_ids_of_the_file(tmp_path: Path) -> None:
    tables = {KERNEL: [kernel(10, 20, 4_000_000_000)], RUNTIME: [call(1, 2, 4_000_000_000)]}
    assert read(export(tmp_path / "one.sqlite", tables)).kernels.correlation.tolist() == [4_000_000_000]


def test_devices_that_a_process_renumbered_are_told_apart(tmp_path: Path) -> None:
    other = PID + 0x1000000
    tables = {
        KERNEL: [kernel(10, 20, 4), kernel(30, 40, 4, globalPid=other)],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 2, "cudaId": 0, "pid": 7}, {"gpuId": 3, "cudaId": 0, "pid": 8}],
        "TARGET_INFO_GPU": [
            {"id": 3, "name": "NVIDIA L4", "smCount": 58, "memoryBandwidth": 300_000_000_000},
            {"id": 2, "name": "NVIDIA A2"},
            {"id": 1, "name": "unused"},
        ],
    }
    trace = read(export(tmp_path / "devices.sqlite", tables))
    assert trace.kernels.device.tolist() == [2, 3]
    assert trace.sources[0].devices == (Device(2, "NVIDIA A2"), Device(3, "NVIDIA L4", 58, 3e11))


def test_counters_carry_their_names_and_devices(tmp_path: Path) -> None:
    tables = {
        "GPU_METRICS": [
            {"timestamp": 5, "typeId": 0x20000001, "metricId": 4, "value": 37},
            {"timestamp": 6, "typeId": 0x20000000, "metricId": 4, "value": 0.5},
            {"timestamp": 7, "typeId": 0x20000000, "metricId": 5, "value": "n/a"},
            {"timestamp": 8, "typeId": 0x20000000, "metricId": 9, "value": 1},
        ],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 0x20000001, "metricId": 4, "metricName": "SMs Active [Throughput %]"},
            {"typeId": 0x20000000, "metricId": 4, "metricName": "SMs Active [Throughput %]"},
        ],
    }
    counters = (trace := read(export(tmp_path / "metrics.sqlite", tables))).counters
    assert counters.time.tolist() == [5, 6, 8]
    assert counters.device.tolist() == [1, 0, 0]
    assert counters.value.tolist() == [37.0, 0.5, 1.0]
    assert named(trace, counters.name) == ["SMs Active [Throughput %]"] * 2 + ["metric 9"]


@pytest.mark.parametrize(
    ("export_words", "origin"),
    [({}, 1000), ({"EXPORT_PARAM_TIME_SHIFT": "-40"}, 1040), ({"EXPORT_PARAM_TIME_NORMALIZE": "true"}, 0)],
)
def test_the_clock_of_shifted_exports(tmp_path: Path, export_words: dict[str, str], origin: int) -> None:
    tables = {
        KERNEL: [kernel(1, 2, 3)],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1000}],
        "META_DATA_EXPORT": [
            {"name": key, "value": value} for key, value in {"EXPORT_SCHEMA_VERSION": "3.24.0", **export_words}.items()
        ],
    }
    assert read(export(tmp_path / "clock.sqlite", tables)).origin_ns == origin


def test_calls_within_a_capture_launch_nothing(tmp_path: Path) -> None:
    strings = {
        1: "cudaLaunchKernel_v7000",
        3: "cudaStreamBeginCapture_v10000",
        4: "cudaStreamEndCapture_v10000",
        10: "k",
    }
    calls = [call(0, 1, 20, 4), call(2, 3, 21), call(10, 11, 22, 3), call(12, 13, 23), call(14, 15, 24)]
    calls += [call(16, 17, 25, globalTid=TID + 1), call(18, 19, 26, 4), call(20, 21, 27)]
    trace = read(export(tmp_path / "capture.sqlite", {RUNTIME: calls, KERNEL: [kernel(30, 31, 24)]}, strings))
    kinds = dict(zip(trace.launches.correlation.tolist(), trace.launches.kind.tolist(), strict=True))
    assert [one for one, kind in kinds.items() if kind == LaunchKind.CAPTURE] == [20, 22, 23, 26]
    assert [one for one, kind in kinds.items() if kind == LaunchKind.KERNEL] == [21, 24, 25, 27]


@pytest.mark.parametrize(
    ("name", "plain", "kind"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", LaunchKind.KERNEL),
        ("cudaLaunchKernelExC_ptsz_v11060", "cudaLaunchKernelExC", LaunchKind.KERNEL),
        ("cuLaunchKernelEx", "cuLaunchKernelEx", LaunchKind.KERNEL),
        ("cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel", LaunchKind.KERNEL),
        ("cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc", LaunchKind.OTHER),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch", LaunchKind.GRAPH),
        ("cuGraphLaunch", "cuGraphLaunch", LaunchKind.GRAPH),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", LaunchKind.COPY),
        ("cudaMemsetAsync_v3020", "cudaMemsetAsync", LaunchKind.COPY),
        ("cudaStreamSynchronize_v3020", "cudaStreamSynchronize", LaunchKind.SYNC),
        ("cudaStreamIsCapturing_v10000", "cudaStreamIsCapturing", LaunchKind.OTHER),
        ("cudaStreamBeginCapture_v10000", "cudaStreamBeginCapture", LaunchKind.CAPTURE),
        ("cudaGraphInstantiateWithFlags_v11040", "cudaGraphInstantiateWithFlags", LaunchKind.CAPTURE),
        ("cudaEventRecord_v3020", "cudaEventRecord", LaunchKind.OTHER),
        ("cudaMalloc_v3020", "cudaMalloc", LaunchKind.OTHER),
    ],
)
def test_calls_by_name(name: str, plain: str, kind: LaunchKind) -> None:
    assert call_kind(name) == (plain, kind)


def test_tables_longer_than_a_stretch_are_whole(tmp_path: Path) -> None:
    count = 2 * STRETCH + 3
    rows = [kernel(i, i + 1, i % 1000) for i in range(count)]
    trace = read(export(tmp_path / "long.sqlite", {KERNEL: rows}))
    assert np.array_equal(trace.kernels.start, np.arange(count))
    assert np.array_equal(trace.kernels.correlation, np.arange(count) % 1000)


def test_rows_that_are_not_numbered_in_a_row_are_all_read(tmp_path: Path) -> None:
    path = export(tmp_path / "sparse.sqlite", {KERNEL: [kernel(i, i + 1, i) for i in range(STRETCH + 100)]})
    base = sqlite3.connect(path)
    base.execute(f"UPDATE {KERNEL} SET rowid = 9223372036854775807 WHERE start = 7")
    base.execute(f"UPDATE {KERNEL} SET rowid = -9223372036854775808 WHERE start = 8")
    base.execute(f"DELETE FROM {KERNEL} WHERE start BETWEEN 100 AND 149")
    base.commit()
    base.close()
    starts = read(path).kernels.start.tolist()
    assert len(starts) == STRETCH + 50
    assert set(starts) == set(range(STRETCH + 100)) - set(range(100, 150))


@pytest.mark.parametrize("pack", ["gz", "zip"])
def test_packed_exports_are_unpacked_elsewhere(tmp_path: Path, pack: str) -> None:
    plain = export(tmp_path / "plain.sqlite", {NVTX: [band(1, 2, "prefill")]})
    packed = tmp_path / "packed"
    if pack == "gz":
        packed.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(plain, "inner.sqlite")
    plain.unlink()
    (opened,) = members(packed)
    assert nsys_sqlite.sniff(opened)
    trace = nsys_sqlite.read(opened, lambda what, done: None)
    assert named(trace, trace.bands.name) == ["prefill"]
    assert [one.name for one in tmp_path.iterdir()] == ["packed"]
