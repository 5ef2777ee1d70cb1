"""rocprofv3's JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocm_files import bands, call, checks, dispatch, document, kernels, opened, packed, process, quiet, shared, union

from phasewise.errors import InputError
from phasewise.observe.traces.events import CopyKind, Device, LaunchKind
from phasewise.observe.traces.readers import rocprof_json
from phasewise.observe.traces.readers.rocprof_json import read, sniff

COPY = {
    **call(3, 1, 300, 340, 3),
    "dst_agent_id": {"handle": 91},
    "src_agent_id": {"handle": 90},
    "stream_id": {"handle": 5},
    "bytes": 4096,
}
WHOLE = {
    "kernel_dispatch": [dispatch(100, 150, 1), dispatch(160, 190, 2, 2), dispatch(200, 260, 2, 9)],
    "hip_api": [call(1, 1, 10, 20, 1), call(1, 2, 30, 40, 2), call(1, 3, 50, 60, 3, thread=8)],
    "hsa_api": [call(0, 0, 1, 2, 9)],
    "marker_api": [call(2, 1, 5, 45, 4), call(2, 0, 7, 7, 5), call(2, 1, 46, 70, 6)],
    "memory_copy": [COPY],
}
MESSAGES = {4: "prefill", 5: "a mark", 6: "aten::mm, seq = 4, op_id = 31, sizes = [[8, 16], [16, 4]]"}


def test_every_domain(tmp_path: Path) -> None:
    file = opened(tmp_path / "1_results.json", document(process(WHOLE, messages=MESSAGES)))
    assert sniff(file)
    trace = read(file, quiet)
    assert kernels(trace) == [("gemm()", 100, 150), ("norm", 160, 190), ("kernel 9", 200, 260)]
    rows = trace.kernels
    assert rows.correlation.tolist() == [1, 2, 2]
    assert (rows.device.tolist(), rows.stream.tolist()) == ([0, 0, 0], [5, 5, 5])
    # 1000 work-items in groups of 256 make 4 blocks, by 4 rows.
    assert (rows.blocks.tolist(), rows.threads.tolist()) == ([16] * 3, [256] * 3)
    launches = trace.launches
    assert launches.kind.tolist() == [LaunchKind.KERNEL, LaunchKind.GRAPH, LaunchKind.COPY]
    assert [trace.threads[thread][1:] for thread in launches.thread] == [("11", "7"), ("11", "7"), ("11", "8")]
    assert (trace.copies.kind.tolist(), trace.copies.bytes.tolist()) == ([CopyKind.HOST_TO_DEVICE], [4096])
    assert bands(trace) == [("prefill", 5, 45, "7")]
    assert [trace.names[name] for name in trace.ops.name] == ["aten::mm"]
    assert trace.shapes == ("[[8, 16], [16, 4]]",)
    assert trace.sources[0].devices == (Device(0, "AMD Instinct MI300X", 304),)
    assert trace.sources[0].faults == ()


def test_correlation_ids_of_two_processes_stay_apart(tmp_path: Path) -> None:
    one = {"kernel_dispatch": [dispatch(1, 2, 1)], "hip_api": [call(1, 1, 0, 1, 1)]}
    trace = read(opened(tmp_path / "a.json", document(process(one), process(one, pid=12))), quiet)
    assert len(set(trace.kernels.correlation.tolist())) == 2
    assert trace.kernels.correlation.tolist() == trace.launches.correlation.tolist()
    assert [thread.pid for thread in trace.threads] == ["11", "12"]


def test_pieces_do_not_change_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"kernel_dispatch": [dispatch(10 * it, 10 * it + 5, it) for it in range(200)]}
    pretty = json.dumps(json.loads(document(process(many))), indent=1).encode()
    for content in (document(process(many)), pretty, packed(pretty)):
        file = opened(tmp_path / "a.json", content)
        whole = read(file, quiet).kernels
        monkeypatch.setattr(rocprof_json, "_PIECE", 1000)
        cut = read(file, quiet).kernels
        monkeypatch.undo()
        assert len(whole.start) == 200
        assert all(np.array_equal(one, other) for one, other in zip(whole, cut, strict=True))


def test_records_that_are_not_as_they_should_be_are_left_out_and_said(tmp_path: Path) -> None:
    wrong = [
        dispatch(1, 2, 1),
        dispatch(1, 2, 2, start_timestamp="soon"),
        dispatch(1, 2, 3, end_timestamp=2**64),
        {"kind": 1},
        dispatch(9, 4, 4),
        dispatch(5, 6, 5, stream_id={"handle": 2**64 - 1}),
    ]
    trace = read(opened(tmp_path / "a.json", document(process({"kernel_dispatch": wrong}))), quiet)
    assert trace.kernels.start.tolist() == [1, 5]
    assert trace.kernels.stream.tolist() == [5, -1]
    assert [fault.detail[:6] for fault in trace.sources[0].faults] == ["3 rows", "1 even"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 10_000))
def test_what_came_before_a_break_is_used(tmp_path: Path, at: int) -> None:
    records = {"kernel_dispatch": [dispatch(10 * it, 10 * it + 5, it) for it in range(20)], "hip_api": []}
    content = document(process(records))
    cut = content[: at % len(content)]
    file = opened(tmp_path / "a.json", cut or b" ")
    # A record is known to be whole when the next one has begun.
    whole = cut.partition(b'"kernel_dispatch"')[2].count(b"},{")
    if not whole:
        with pytest.raises(InputError, match=r"a\.json"):
            read(file, quiet)
        return
    trace = read(file, quiet)
    assert checks(trace) == ["truncated"]
    assert trace.kernels.start.tolist() == [10 * it for it in range(whole)]


def test_nan_and_bytes_that_are_no_text_cost_nothing_but_a_word(tmp_path: Path) -> None:
    content = document(process({"kernel_dispatch": [dispatch(1, 4, 1)]}))
    content = content.replace(b'"counters":[]', b'"counters":[{"value":NaN},{"value":-inf}]')
    content = content.replace(b'"gemm()"', b'"gemm\xff()"')
    trace = read(opened(tmp_path / "a.json", content), quiet)
    assert kernels(trace) == [("gemm\ufffd()", 1, 4)]
    assert checks(trace) == ["damaged", "encoding"]


@pytest.mark.parametrize("rest", [b"", b"3}", b"[[[[[[[[[[1]]]]]]]]]]}", b"[]}", b"[{}]}"])
def test_nothing_to_use_is_one_sentence(tmp_path: Path, rest: bytes) -> None:
    file = opened(tmp_path / "a.json", b'{"rocprofiler-sdk-tool":' + rest)
    assert sniff(file)
    with pytest.raises(InputError, match=r"a\.json .*record it again"):
        read(file, quiet)


@pytest.mark.parametrize("content", [b'{"traceEvents":[]}', b"", b"[]", b'{"x":{"rocprofiler-sdk-tool":1}}'])
def test_other_json_is_not_its_own(tmp_path: Path, content: bytes) -> None:
    assert not sniff(opened(tmp_path / "a.json", content))


def test_the_public_recording_against_the_json_module() -> None:
    path = shared("rocprof/rocprofv3_mi350x.json.gz")
    trace = read(opened(path), quiet)
    rows = trace.kernels
    (tool,) = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"]
    records = tool["buffer_records"]["kernel_dispatch"]
    names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in tool["kernel_symbols"]}
    expected = [(names[it["dispatch_info"]["kernel_id"]], it["start_timestamp"], it["end_timestamp"]) for it in records]
    assert kernels(trace) == expected
    assert rows.correlation.tolist() == [it["correlation_id"]["internal"] for it in records]
    # ANSWERS.md section 4.
    assert len(rows.start) == 43_915
    assert int((rows.end - rows.start).sum()) == 4_441_741_378
    assert union((start, end) for _, start, end in expected) == 4_233_112_334
    assert int(rows.end.max() - rows.start.min()) == 15_122_023_494
    top, count = Counter(name for name, _, _ in kernels(trace) if name.startswith("nccl")).most_common(1)[0]
    assert (top, count) == ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", 1310)
    assert trace.sources[0].devices[0] == Device(0, "AMD Instinct MI350X", 256)
    assert trace.sources[0].faults == ()
