"""What becomes of each kind of Kineto event, in every way that the document may be written."""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kineto_files import US, document, events, kernel, read, same, span

from phasewise.observe.traces.events import CopyKind, LaunchKind, Trace
from phasewise.observe.traces.opened import Opened, members
from phasewise.observe.traces.readers import kineto
from phasewise.observe.traces.readers.calls import call_kind
from phasewise.observe.traces.readers.kineto.event import nanoseconds

BASE = 1_775_078_550_000_000_000


def test_a_kernel(tmp_path: Path) -> None:
    args = {"External id": 9, "correlation": 5, "stream": 0, "graph id": 3, "graph node id": 12}
    more = {"grid": [4, 2, 3], "block": [128, 2, 1]}
    trace = read(tmp_path, document([kernel("k", 0.002, 3.017, **args, **more)]))
    row = {name: column.tolist() for name, column in trace.kernels._asdict().items()}
    assert (trace.names, trace.origin_ns) == (("k",), BASE + US * 1000 + 2)
    assert row == {
        "start": [0],
        "end": [3017],
        "name": [0],
        "rank": [0],
        "device": [0],
        "stream": [0],
        "correlation": [5],
        "external": [9],
        "graph": [3],
        "node": [12],
        "blocks": [24],
        "threads": [256],
    }


def test_a_kernel_of_a_hip_graph_says_little_and_graph_0_is_none(tmp_path: Path) -> None:
    task = kernel("k", 0, 1, kind="Dispatch Task")
    trace = read(tmp_path, document([task, kernel("k", 2, 1, **{"graph id": 0, "graph node id": 0})]))
    table = trace.kernels
    assert table.external.tolist() == [-1, -1]
    assert (table.graph.tolist(), table.node.tolist(), table.blocks.tolist()) == ([-1, -1], [0, 0], [0, 0])


@pytest.mark.parametrize(
    ("cat", "name", "kind"),
    [
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", CopyKind.HOST_TO_DEVICE),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", CopyKind.DEVICE_TO_HOST),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", CopyKind.DEVICE_TO_DEVICE),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", CopyKind.PEER),
        ("gpu_memcpy", "Memcpy ??", CopyKind.OTHER),
        ("gpu_memset", "Memset (Device)", CopyKind.SET),
    ],
)
def test_a_copy(tmp_path: Path, cat: str, name: str, kind: CopyKind) -> None:
    trace = read(tmp_path, document([span(cat, name, 0, 2.5, device=1, stream=4, correlation=8, bytes=4096)]))
    copies = trace.copies
    assert [column.tolist() for column in copies] == [[0], [2500], [0], [1], [4], [8], [kind], [4096]]
    assert len(trace.kernels.start) == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", LaunchKind.KERNEL),
        ("cudaLaunchKernel_ptsz", LaunchKind.KERNEL),
        ("cudaLaunchKernelExC", LaunchKind.KERNEL),
        ("cudaLaunchCooperativeKernel", LaunchKind.KERNEL),
        ("cuLaunchKernel", LaunchKind.KERNEL),
        ("cuLaunchKernelEx", LaunchKind.KERNEL),
        ("hipLaunchKernel", LaunchKind.KERNEL),
        ("hipExtLaunchKernel", LaunchKind.KERNEL),
        ("hipExtModuleLaunchKernel", LaunchKind.KERNEL),
        ("hipModuleLaunchKernel", LaunchKind.KERNEL),
        ("hipModuleLaunchCooperativeKernel", LaunchKind.KERNEL),
        ("hipDrvLaunchKernelEx", LaunchKind.KERNEL),
        ("cudaGraphLaunch", LaunchKind.GRAPH),
        ("cuGraphLaunch", LaunchKind.GRAPH),
        ("hipGraphLaunch", LaunchKind.GRAPH),
        ("cudaMemcpyAsync", LaunchKind.COPY),
        ("cuMemcpyHtoDAsync_v2", LaunchKind.COPY),
        ("hipMemcpyWithStream", LaunchKind.COPY),
        ("cuMemsetD8Async", LaunchKind.COPY),
        ("cudaStreamSynchronize", LaunchKind.SYNC),
        ("hipEventSynchronize", LaunchKind.SYNC),
        ("cuCtxSynchronize", LaunchKind.SYNC),
        ("hipStreamBeginCapture", LaunchKind.CAPTURE),
        ("cudaStreamBeginCapture_v2", LaunchKind.CAPTURE),
        ("cudaStreamEndCapture", LaunchKind.CAPTURE),
        ("cudaLaunchHostFunc", LaunchKind.OTHER),
        ("cudaGraphInstantiateWithFlags", LaunchKind.OTHER),
        ("cudaGraphAddMemcpyNode", LaunchKind.OTHER),
        ("cudaStreamIsCapturing", LaunchKind.OTHER),
        ("hipPointerGetAttribute", LaunchKind.OTHER),
        ("cudaMalloc", LaunchKind.OTHER),
    ],
)
def test_what_a_call_does(name: str, kind: LaunchKind) -> None:
    assert call_kind(name) is kind


def test_a_call_and_the_kernel_it_names(tmp_path: Path) -> None:
    made = [
        span("cuda_runtime", "hipLaunchKernel", 0, 1, kernel="k", correlation=4, bytes="9216", kind="1"),
        span("cuda_driver", "cuGraphLaunch", 2, 1, correlation=5),
    ]
    trace = read(tmp_path, document(made))
    launches = trace.launches
    assert [trace.names[name] for name in launches.name] == ["hipLaunchKernel", "cuGraphLaunch"]
    assert launches.kind.tolist() == [LaunchKind.KERNEL, LaunchKind.GRAPH]
    assert [trace.names[name] if name >= 0 else "" for name in launches.kernel] == ["k", ""]
    assert launches.correlation.tolist() == [4, 5]


def test_operators_keep_the_shapes_that_tell_something(tmp_path: Path) -> None:
    dims = {"Input Dims": [[32, 4096], [4096, 6144], []]}
    names = ("aten::mm", "vllm::unified_attention", "_C::rotary_embedding", "aten::empty", "record_param_comms")
    made = [span("cpu_op", name, i, 1, **dims, **{"External id": i}) for i, name in enumerate(names)]
    made.append(span("cpu_op", "aten::mm", 9, 1))
    trace = read(tmp_path, json.dumps(document(made), indent=2))
    assert trace.shapes == ("[[32,4096],[4096,6144],[]]",)
    assert trace.ops.shape.tolist() == [0, 0, 0, -1, -1, -1]
    assert trace.ops.external.tolist() == [0, 1, 2, 3, 4, -1]


def test_bands_of_the_cpu_only_and_halves_joined(tmp_path: Path) -> None:
    halves = [
        {"ph": ph, "cat": "user_annotation", "name": name, "pid": 7, "tid": tid, "ts": US + ts}
        for ph, name, tid, ts in (
            ("B", "outer", 1, 0.125),
            ("B", "other", 2, 1),
            ("B", "inner", 1, 2),
            ("E", "inner", 1, 3.5),
            ("E", "outer", 1, 9),
            ("E", "stray", 9, 9),
        )
    ]
    gpu = span("gpu_user_annotation", "prefill", 0, 99)
    trace = read(tmp_path, document([*halves, gpu, span("user_annotation", "prefill", 4, 1)]))
    bands = {
        trace.names[row[2]]: (row[0], row[1], trace.threads[row[4]].tid)
        for row in zip(*(column.tolist() for column in trace.bands), strict=True)
    }
    assert bands == {"outer": (0, 8875, "1"), "inner": (1875, 3375, "1"), "prefill": (3875, 4875, "7")}


def test_what_is_never_needed_is_left_out(tmp_path: Path) -> None:
    made = events(3)
    trace = read(tmp_path, document(made))
    assert [len(table.start) for table in (trace.kernels, trace.launches, trace.bands, trace.ops)] == [3, 3, 1, 3]
    assert not any("model.py" in name or name == "ac2g" for name in trace.names)
    assert [(thread.pid, thread.tid) for thread in trace.threads] == [("7", "8"), ("7", "7")]


def test_categories_of_old_traces(tmp_path: Path) -> None:
    made = [
        span(cat, "Memcpy HtoD", i, 1) for i, cat in enumerate(("Kernel", "Memcpy", "Memset", "Runtime", "Operator"))
    ]
    trace = read(tmp_path, document(made))
    assert [len(table.start) for table in (trace.kernels, trace.copies, trace.launches, trace.ops)] == [1, 2, 1, 1]


STYLES: dict[str, Any] = {
    "one line": lambda told: json.dumps(told),
    "compact": lambda told: json.dumps(told, separators=(",", ":")),
    "indented": lambda told: json.dumps(told, indent=4),
    "lines": lambda told: json.dumps(told).replace('}, {"ph"', '}\n,\n{"ph"'),
    "keys sorted": lambda told: json.dumps(told, sort_keys=True),
    "keys last": lambda told: json.dumps(dict(reversed(told.items()))),
    "byte order mark": lambda told: "\ufeff" + json.dumps(told),
    "escaped key": lambda told: json.dumps(told).replace('"traceEvents"', '"trace\\u0045vents"'),
}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_says_the_same(tmp_path: Path, style: str) -> None:
    header = {"distributedInfo": {"rank": 3, "world_size": 4, "backend": "nccl"}, "vllm_version": "0.32.0"}
    told = document(events(), **header)
    trace = read(tmp_path, STYLES[style](told))
    assert same(trace, read(tmp_path, told))
    source = trace.sources[0]
    assert (source.rank, source.world, source.engine, source.faults) == (3, 4, "vllm 0.32.0", ())
    assert trace.origin_ns == BASE + US * 1000


def test_a_bare_list_of_events(tmp_path: Path) -> None:
    trace = read(tmp_path, events())
    assert trace.origin_ns == US * 1000
    assert same(trace._replace(origin_ns=0), read(tmp_path, document(events()))._replace(origin_ns=0))


def test_packed_files(tmp_path: Path) -> None:
    plain = json.dumps(document(events())).encode()
    expected = read(tmp_path, plain)
    assert same(read(tmp_path, gzip.compress(plain)), expected)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.json", plain)
        archive.writestr("b.json.gz", gzip.compress(plain))
    for opened in members(tmp_path / "two.zip"):
        assert kineto.sniff(opened)
        assert same(kineto.read(opened, lambda what, share: None), expected)


class Blocks:
    """An opened file whose content comes in blocks of these sizes."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self.content, self.sizes = content, sizes
        self.name, self.truncated, self.done, self.size, self.head = "made up", "", 0, len(content), content[:65536]

    def blocks(self, size: int = 0) -> Iterator[bytes]:
        at, turn = 0, 0
        while at < len(self.content):
            length = self.sizes[turn % len(self.sizes)]
            yield self.content[at : at + length]
            at, turn = at + length, turn + 1


def in_blocks(content: bytes, sizes: list[int]) -> Trace:
    opened: Any = Blocks(content, sizes)
    return kineto.read(opened, lambda what, share: None)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=5), st.sampled_from(sorted(STYLES)))
def test_blocks_of_any_size_give_the_same(sizes: list[int], style: str) -> None:
    awkward = [
        kernel('}, {"ph": "X"', 500, 1),
        kernel("brace } , {", 501, 1),
        kernel('quote \\" ] } é 漢', 502, 1),
        span("cpu_op", "aten::mm", 503, 1, deep=[{"name": "a"}, {"ph": "b"}, {"ts": [{"cat": 1}, {"pid": 2}]}]),
        span("cpu_op", "é::漢", 504, 1, **{"Input Dims": [[1]]}),
    ]
    told = document([*awkward, *events(12), *awkward], tail={"traceName": [{"ph": 1}, {"name": 2}]})
    content = STYLES[style](told).encode()
    assert same(in_blocks(content, sizes), in_blocks(content, [1 << 20]))


def test_events_in_any_order(tmp_path: Path) -> None:
    made = events()
    random.Random(1).shuffle(made)
    assert same(read(tmp_path, document(made)), read(tmp_path, document(events())))


def test_times_of_old_traces_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    stamps = [f"171234567890123{i}.{i:03d}" for i in range(9)]
    text = ", ".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k", "ts": {stamp}, "dur": 0.{i:03d}, "args": {{}}}}'
        for i, stamp in enumerate(stamps)
    )
    trace = read(tmp_path, f'{{"traceEvents": [{text}]}}')
    expected = [int(Decimal(stamp) * 1000) for stamp in stamps]
    assert (trace.kernels.start + trace.origin_ns).tolist() == expected
    assert (trace.kernels.end - trace.kernels.start).tolist() == list(range(9))


@example(4_408_585_625_180_137)
@given(st.integers(0, 2**43 * 1000 - 1))
def test_float64_is_exact_below_the_limit(time: int) -> None:
    text = f"{time // 1000}.{time % 1000:03d}"
    assert nanoseconds([float(text)]).tolist() == [time]
    assert nanoseconds([Decimal(text)]).tolist() == [time]


def test_large_and_small_times_in_one_file(tmp_path: Path) -> None:
    old = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1, "args": {}}
    late = json.dumps(old).replace('"ts": 0', '"ts": 1712345678901234.567')
    trace = read(tmp_path, f"[{json.dumps(old)}, {late}]")
    assert trace.kernels.start.tolist() == [0, 1_712_345_678_901_234_567]


def test_values_of_other_types(tmp_path: Path) -> None:
    odd: list[Any] = [
        kernel("strings", 0, 1) | {"ts": str(US), "dur": "2.5", "tid": "stream 7"},
        kernel("numbers", 3, 1, correlation="17", stream=7.0),
        kernel("nulls", 4, 1, correlation=None, grid=None, **{"External id": None}),
        kernel("huge", 5, 1, correlation=2**64 - 1, device=2**40, grid=[2**40, 2**40, 1]),
        kernel("short", 6, 1, grid=[4], block=[1, 2]),
        kernel("args", 7, 1) | {"args": "none"},
        kernel("deep", 8, 1, a={"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": [1]}}}}}}}}}),
        5,
        None,
        [],
    ]
    trace = read(tmp_path, document(odd))
    names = [trace.names[name] for name in trace.kernels.name]
    assert sorted(names) == ["args", "deep", "huge", "nulls", "numbers", "short", "strings"]
    of = dict(zip(names, trace.kernels.correlation.tolist(), strict=True))
    assert of == {"args": -1, "deep": 1, "huge": -1, "nulls": -1, "numbers": 17, "short": 1, "strings": 1}
    assert trace.kernels.end[names.index("strings")] == 2500
    assert trace.kernels.blocks[names.index("huge")] == 0


def test_device_properties_as_python_text(tmp_path: Path) -> None:
    text = "[{'id': 1, 'name': 'AMD Instinct MI300X', 'numSms': 304}, {'name': ''}]"
    devices = read(tmp_path, document(events(1), deviceProperties=text)).sources[0].devices
    assert [(device.id, device.name, device.multiprocessors) for device in devices] == [
        (1, "AMD Instinct MI300X", 304),
        (1, "", 0),
    ]
    for odd in ("__import__('os').getcwd()", 7, None, [7], {"id": 0}):
        assert read(tmp_path, document(events(1), deviceProperties=odd)).sources[0].devices == ()


def test_progress_runs_to_its_end(tmp_path: Path) -> None:
    told: list[float] = []
    (tmp_path / "trace.json").write_text(json.dumps(document(events(9000))))
    kineto.read(Opened(tmp_path / "trace.json"), lambda what, share: told.append(share))
    assert told == sorted(told)
    assert len(told) > 5
    assert told[-1] == 1.0


def test_rows_are_of_one_length_and_type(tmp_path: Path) -> None:
    trace = read(tmp_path, document(events()))
    for table in (trace.kernels, trace.copies, trace.launches, trace.bands, trace.ops):
        assert len({len(column) for column in table}) == 1
        assert {column.dtype for column in table} <= {np.dtype(np.int64), np.dtype(np.int32)}
