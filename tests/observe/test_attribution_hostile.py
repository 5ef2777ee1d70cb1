"""Tables of nonsense: whatever a damaged file leaves, every event gets one place and no error comes."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from attribution_planted import EMBED, KV, SAMPLE
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.observe.traces import tables
from phasewise.observe.traces.capture import named
from phasewise.observe.traces.cpu import on_cpu
from phasewise.observe.traces.events import Bands, Copies, Kernels, Launches, Ops, Replays, Source, Thread, Trace
from phasewise.observe.traces.steps import split

NAMES = (
    *("prefill", "decode", "generate", "execute_context_1(5)_generation_0(0)", "step[DECODE bs=2]", "capture_3_FULL"),
    *("execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)", "step[DRAFT_EXTEND bs=1]"),
    *("flash_fwd_kernel", "paged_attention", "gemm_64x64", "aten::mm", "aten::embedding", "gloo:x", "moe topk", ""),
    *("ProfilerStep#1", EMBED, KV, SAMPLE),
)
SHAPES = ("[[300,4],[2,3]]", "[]", "[[1,8,5,4],[1,8,9,4]]", "[[99999999999999999999,2],[2,2]]", "x")
Table = TypeVar("Table", Kernels, Copies, Replays, Launches, Bands, Ops)


def nonsense(kind: type[Table], rng: np.random.Generator) -> Table:
    rows = int(rng.integers(0, 25)) * int(rng.random() < 0.8)
    columns: dict[str, Any] = {"start": rng.integers(0, 300, rows)}
    least = {"name": len(NAMES), "kernel": len(NAMES), "shape": len(SHAPES), "correlation": 12}
    for name in kind._fields[1:]:
        columns[name] = rng.integers(-1, least.get(name, 4), rows)
    columns["end"] = columns["start"] + rng.integers(-2 if rng.random() < 0.2 else 0, 60, rows)
    columns["rank"] = rng.integers(0, 2, rows)
    if "stream" in columns:
        columns["stream"] = columns["stream"] * rng.choice([1, 10**14])
    return tables.table(kind, columns)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_any_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {
        kind.__name__.lower(): nonsense(kind, rng) for kind in (Kernels, Copies, Replays, Launches, Bands, Ops)
    }
    threads = tuple(Thread(index // 2, str(index // 3), str(index)) for index in range(4))
    trace: Trace = tables.empty(Source("a", "b"), Source("c", "d"))._replace(
        names=NAMES, shapes=SHAPES, threads=threads, **made
    )
    trace, _ = named(on_cpu(trace))
    done = split(trace)
    for place, table in zip(
        (done.kernel, done.copy, done.replay, done.launch),
        (trace.kernels, trace.copies, trace.replays, trace.launches),
        strict=True,
    ):
        assert len(place) == len(table.start)
        assert place.size == 0 or (place.min() >= -1 and place.max() < len(done.steps))
    order = [(step.rank, step.start) for step in done.steps]
    assert order == sorted(order)
    assert all(0 <= step.confidence <= 1 and (step.confidence >= 0.6 or step.phase == "unknown") for step in done.steps)
