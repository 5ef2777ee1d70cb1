"""Traces without a device, and a graph's capture beside its replays."""

from __future__ import annotations

import numpy as np
from attribution_planted import Planted, engine, together

from phasewise.observe.traces import tables
from phasewise.observe.traces.capture import named
from phasewise.observe.traces.cpu import on_cpu
from phasewise.observe.traces.events import LaunchKind
from phasewise.observe.traces.steps import split


def test_the_operators_that_work_stand_for_kernels() -> None:
    """linear calls t and addmm; addmm copies its bias and then works by itself; softmax stands alone."""
    planted = Planted()
    for step, at in enumerate((0.0, 200.0)):
        planted.band("prefill" if step == 0 else "decode", at, at + 110)
        planted.op("aten::linear", at + 1, at + 60)
        planted.op("aten::t", at + 2, at + 3)
        planted.op("aten::addmm", at + 4, at + 59)
        planted.op("aten::copy_", at + 5, at + 9)
        planted.op("aten::softmax", at + 70, at + 100)
    trace = on_cpu(planted.trace())
    assert trace.on_cpu
    got = sorted(
        (trace.names[name], start / 1000, (end - start) / 1000)
        for name, start, end in zip(trace.kernels.name, trace.kernels.start, trace.kernels.end, strict=True)
    )
    assert got == [
        ("aten::addmm", 9, 50),
        ("aten::addmm", 209, 50),
        ("aten::copy_", 5, 4),
        ("aten::copy_", 205, 4),
        ("aten::softmax", 70, 30),
        ("aten::softmax", 270, 30),
    ]
    done = split(trace)
    assert [step.phase for step in done.steps] == ["prefill", "decode"]
    assert np.bincount(done.kernel).tolist() == [3, 3]


def test_threads_are_streams_and_their_kernels_never_overlap() -> None:
    planted = Planted()
    rng = np.random.default_rng(3)
    for thread in (0, 1):
        for _ in range(60):
            begin, length = rng.integers(0, 1000, 2)
            planted.op(f"op{length % 7}", float(begin), float(begin + length % 50 + 1), thread=thread)
    kernels = on_cpu(planted.trace()).kernels
    assert len(kernels.start) > 5
    assert set(kernels.stream.tolist()) == {0, 1}
    assert (kernels.end > kernels.start).all()


def test_collectives_of_their_own_threads_are_kernels() -> None:
    planted = Planted()
    planted.band("decode", 0, 100)
    planted.op("aten::mm", 10, 50)
    planted.band("gloo:all_reduce", 20, 90, thread=3)
    trace = on_cpu(planted.trace())
    assert sorted(trace.names[name] for name in trace.kernels.name) == ["aten::mm", "gloo:all_reduce"]
    assert split(trace).kernel.tolist() == [0, 0]


def test_a_trace_with_a_device_stays_as_it_is() -> None:
    trace = engine(["prefill"]).trace()
    assert on_cpu(trace) is trace
    without = trace._replace(kernels=tables.rows(trace.kernels, np.zeros(0, np.int64)))
    assert on_cpu(without) is without, "its launches say that a device worked, untraced"


def captured(names: tables.Names, kernels: list[str], rank: int, begin: float = 10) -> Planted:
    planted = Planted(rank=rank, names=names)
    planted.band("capture_8_FULL", begin, begin + 500)
    planted._row(
        "launches", begin + 1, begin + 2, name=names("cudaStreamBeginCapture"), thread=0, kind=LaunchKind.CAPTURE
    )
    for row, kernel in enumerate(kernels):
        at = begin + 10 + 5 * row
        planted.op(f"aten::op{row}", at, at + 3, "[[8, 4]]")
        external = len(planted.rows["ops"])
        planted._row(
            "launches",
            at + 1,
            at + 2,
            name=names("cudaLaunchKernel"),
            thread=0,
            correlation=row,
            external=external,
            kind=LaunchKind.KERNEL,
            kernel=names(kernel),
        )
    return planted


def test_a_capture_names_the_kernels_of_its_replays() -> None:
    names = tables.Names()
    kernels = ["embed", "attention", "mlp"]
    replay = Planted(names=names)
    replay.band("decode", 1000, 1200)
    replay.call(1010, [(kernel, 4) for kernel in kernels], 0, graph=True)
    replay.call(1100, [("argmax", 4)], 0)
    trace = together(replay, captured(names, kernels, 1))
    graph = trace.kernels.node > 0
    nameless = trace._replace(
        kernels=trace.kernels._replace(name=np.where(graph, -1, trace.kernels.name).astype(np.int32))
    )
    joined, said = named(nameless)
    assert [joined.names[name] for name in joined.kernels.name] == [*kernels, "argmax"]
    assert said == "1 of 1 graph launches are replays of 1 captured graphs"
    operator = {
        (rank, external): joined.names[name]
        for rank, external, name in zip(joined.ops.rank, joined.ops.external, joined.ops.name, strict=True)
    }
    got = [operator.get((0, int(external))) for external in joined.kernels.external]
    assert got == ["aten::op0", "aten::op1", "aten::op2", None]
    done = split(joined)
    assert [step.phase for step in done.steps] == ["decode"], "the capture is a step of neither phase"
    assert done.kernel.tolist() == [0, 0, 0, 0]


def test_a_capture_of_another_graph_names_nothing() -> None:
    names = tables.Names()
    replay = Planted(names=names)
    replay.call(1010, [("embed", 4), ("attention", 4)], 0, graph=True)
    for other in (["embed", "attention", "mlp"], ["norm", "conv"]):
        trace = together(replay, captured(names, other, 1))
        joined, said = named(trace)
        assert joined is trace
        assert said.startswith("0 of 1")


def test_without_a_capture_nothing_is_said() -> None:
    trace = engine(["decode"], graph=True).trace()
    assert named(trace) == (trace, "")
