"""Public and recorded traces against their published figures, and against the plain json module."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto_files import shared

from phasewise.observe.traces.events import LaunchKind, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import kineto

ANSWERS = {
    # ANSWERS.md, section 1: kernels, copies, kernel sum; graph launches, kernels of graphs, kernels without a launch;
    # kernel union, gpu union, span. Times in ns.
    "vllm_gptoss_mi300x_decode": (425, 9, 10_674_517, 1, 421, 0, 10_674_507, 10_717_697, 10_743_182),
    "vllm_gptoss_mi300x_mixed": (413, 10, 156_008_506, 25, 361, 0, 156_008_401, 156_085_799, 156_466_416),
    "sglang_qwen3_8b_mi300x_decode": (555, 3, 9_765_437, 1, 544, 0, 9_759_752, 9_772_929, 473_749_943),
    "sglang_qwen3_8b_mi300x_prefill": (527, 7, 492_773_592, 0, 0, 0, 492_768_895, 492_806_864, 987_288_887),
    "vllm_b200_eager": (768, 161, 10_862_916, 0, 0, 0, 10_793_636, 11_596_479, 84_487_178),
}

FILES = (
    *(f"kineto/{name}.json.gz" for name in ANSWERS),
    "kineto/sglang_prefill_then_decode.json.gz",
    "kineto/vllm_gptoss_mi300x_decode_capture.json.gz",
    "cpu/rank0.json.gz",
    "cpu/vllm_cpu_rank0.json.gz",
)


def read(path: Path) -> Trace:
    opened = Opened(path)
    assert kineto.sniff(opened)
    return kineto.read(opened, lambda what, share: None)


def union(start: list[int], end: list[int]) -> int:
    total, reached = 0, min(start)
    for one, other in sorted(zip(start, end, strict=True)):
        total += max(0, other - max(one, reached))
        reached = max(reached, other)
    return total


@pytest.mark.parametrize("name", ANSWERS)
def test_published_figures_are_exact(name: str) -> None:
    trace = read(shared(f"kineto/{name}.json.gz"))
    kernels, copies, launches = trace.kernels, trace.copies, trace.launches
    start, end = kernels.start.tolist(), kernels.end.tolist()
    all_start, all_end = start + copies.start.tolist(), end + copies.end.tolist()
    graphs = launches.correlation[launches.kind == LaunchKind.GRAPH]
    *expected, kernel_union, gpu_union, span = ANSWERS[name]
    found = (
        len(start),
        len(copies.start),
        int((kernels.end - kernels.start).sum()),
        len(graphs),
        int(np.isin(kernels.correlation, graphs).sum()),
        int((~np.isin(kernels.correlation, launches.correlation)).sum()),
    )
    assert list(found) == expected
    # Published from float64 sums of ts and dur, whose spacing here is 1 ns: an end is up to 1 ns off, and events that
    # touch may seem to overlap. In whole ns they differ by this little (the sums above are exact in both).
    assert abs(union(start, end) - kernel_union) <= 16
    assert abs(union(all_start, all_end) - gpu_union) <= 16
    assert abs(max(all_end) - min(all_start) - span) <= 1


@pytest.mark.parametrize("name", FILES)
def test_every_event_is_what_the_json_module_says(name: str) -> None:
    path = shared(name)
    with gzip.open(path) as file:
        told = json.load(file, parse_float=Decimal)
    trace = read(path)
    base = told["baseTimeNanoseconds"]
    assert trace.sources[0].faults == ()
    for table, categories in (
        ("kernels", ("kernel",)),
        ("copies", ("gpu_memcpy", "gpu_memset")),
        ("launches", ("cuda_runtime", "cuda_driver")),
        ("bands", ("user_annotation",)),
        ("ops", ("cpu_op",)),
    ):
        events = [event for event in told["traceEvents"] if event.get("cat") in categories]
        assert _counted(trace, table) == Counter(_plain(event, table, base) for event in events), table


def _plain(event: dict[str, Any], table: str, base: int) -> tuple[Any, ...]:
    args = event["args"]
    start = base + int(event["ts"] * 1000)
    name, tid = event["name"], str(event["tid"])
    correlation, external = args.get("correlation"), args.get("External id", -1)
    told = {
        "kernels": (name, correlation, external, args.get("stream")),
        "copies": (correlation, args.get("bytes", 0), args.get("stream")),
        "launches": (name, correlation, external, tid),
        "bands": (name, tid),
        "ops": (name, external, tid),
    }[table]
    return (start, start + int(event["dur"] * 1000), *told)


def _counted(trace: Trace, table: str) -> Counter[tuple[Any, ...]]:
    rows: Any = getattr(trace, table)
    names = [trace.names[index] for index in rows.name] if hasattr(rows, "name") else []
    tids = [trace.threads[index].tid for index in rows.thread] if hasattr(rows, "thread") else []
    columns = {
        "kernels": lambda: (names, rows.correlation.tolist(), rows.external.tolist(), rows.stream.tolist()),
        "copies": lambda: (rows.correlation.tolist(), rows.bytes.tolist(), rows.stream.tolist()),
        "launches": lambda: (names, rows.correlation.tolist(), rows.external.tolist(), tids),
        "bands": lambda: (names, tids),
        "ops": lambda: (names, rows.external.tolist(), tids),
    }[table]()
    start, end = (rows.start + trace.origin_ns).tolist(), (rows.end + trace.origin_ns).tolist()
    return Counter(zip(start, end, *columns, strict=True))


def test_what_the_files_say_of_themselves() -> None:
    b200 = read(shared("kineto/vllm_b200_eager.json.gz")).sources[0]
    assert (b200.rank, b200.world, len(b200.devices)) == (0, 8, 8)
    assert (b200.devices[0].name, b200.devices[0].multiprocessors) == ("NVIDIA B200", 148)
    unnamed = read(shared("kineto/vllm_gptoss_mi300x_decode.json.gz")).sources[0]
    assert {device.name for device in unnamed.devices} == {""}
    cpu = read(shared("cpu/vllm_cpu_rank0.json.gz"))
    assert cpu.sources[0].engine == "vllm 0.32.0"
    assert len(cpu.kernels.start) == 0
