"""Every health check, passed, failed and not checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traces_built import split, trace

from phasewise.observe.traces.busy import devices
from phasewise.observe.traces.cpu import on_cpu
from phasewise.observe.traces.events import Device, Fault, LaunchKind, Ops, Source, Thread, Trace
from phasewise.observe.traces.families import Rule
from phasewise.observe.traces.health import health
from phasewise.observe.traces.kinds import kinds
from phasewise.observe.traces.laid import lay
from phasewise.observe.traces.section import section
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.summed import steps
from phasewise.observe.traces.tables import table
from phasewise.record.trace import Health

COLLECTIVES = (Rule("communication", "nccl", ""),)

KERNEL, GRAPH, CAPTURE = LaunchKind.KERNEL, LaunchKind.GRAPH, LaunchKind.CAPTURE


def checks(made: Trace, cut: Split | None = None) -> dict[str, Health]:
    cut = cut or split(made, [0] * len(made.kernels.start), ("decode",), replay=[0] * len(made.replays.start))
    every = health(made, cut, steps(made, cut, lay(made, cut)), devices(made), kinds(made, COLLECTIVES))
    order = [("failed", "not_checked", "passed").index(one.status) for one in every]
    assert order == sorted(order)
    return {one.check: one for one in every}


def status(check: str, *args: Any) -> str:
    return checks(*args)[check].status


def call(place: int, at: int, name: str = "cudaLaunchKernel", kind: int = KERNEL) -> tuple[Any, ...]:
    return (name, kind, at, at + 1, place)


WHOLE = trace([("k", 10, 20, 1), ("k", 20, 30, 2)], launches=[call(1, 0), call(2, 2)])


def test_a_whole_trace_passes() -> None:
    found = checks(WHOLE)
    assert {check for check, one in found.items() if one.status != "passed"} == {"ranks", "counters"}
    assert found["accelerator's name"].detail == "NVIDIA Test"
    assert found["counters"].detail.startswith("not measured")


@pytest.mark.parametrize(
    ("sources", "expected", "said"),
    [
        ([(0, 1)], "passed", "1 of 1 rank came"),
        ([(0, 2), (1, 2)], "passed", "2 of 2 ranks came"),
        ([(3, 8)], "failed", "1 of 8 ranks came (rank 3)"),
        ([(0, 2), (0, 2)], "failed", "rank 0 came in more than one file"),
        ([(0, 2), (1, 4)], "failed", "jobs of 2 and 4 ranks"),
        ([(-1, 0)], "not_checked", "no file says"),
    ],
)
def test_ranks(sources: list[tuple[int, int]], expected: str, said: str) -> None:
    made = trace(sources=[Source("x", "test", rank=rank, world=world) for rank, world in sources])
    one = checks(made)["ranks"]
    assert one.status == expected
    assert said in one.detail


def test_halves_that_lack_the_other() -> None:
    alone = trace([("k", 10, 20, 1)], launches=[call(1, 0), call(2, 2)])
    assert "1 of 2 launches have no kernel" in checks(alone)["launches without kernels"].detail
    assert status("kernels without launches", alone) == "passed"
    orphan = trace([("k", 10, 20, 1), ("k", 30, 40, 7)], launches=[call(1, 0)])
    assert "1 of 2 kernels and replays have no launch" in checks(orphan)["kernels without launches"].detail
    few = trace(
        [("k", 10 * place, 10 * place + 5, place) for place in range(1, 200)],
        launches=[call(n, 0) for n in range(1, 201)],
    )
    assert status("launches without kernels", few) == "passed"  # the last one ran after the end of the recording


def test_a_driver_call_under_a_runtime_call_lacks_nothing() -> None:
    made = trace([("k", 10, 20, 1)], launches=[call(1, 0), call(1, 0, "cuLaunchKernel")])
    assert status("launches without kernels", made) == "passed"


def test_launches_of_a_capture_run_nothing() -> None:
    capture = [
        call(-1, 0, "cudaStreamBeginCapture_v10000", CAPTURE),
        call(1, 2),
        call(2, 4),
        call(-1, 6, "cudaStreamEndCapture_v10000", CAPTURE),
    ]
    replayed = trace([("k", 10, 20, 3)], launches=[*capture, call(3, 8, "cudaGraphLaunch", GRAPH)])
    assert status("launches without kernels", replayed) == "passed"
    assert status("captured graphs", replayed) == "passed"
    alone = trace([("k", 10, 20, 3)], launches=[*capture, call(3, 8)])
    assert status("captured graphs", alone) == "failed"


def test_a_capture_file_is_no_rank_of_its_own() -> None:
    """It names the kernels of graphs that another file of the same rank replays, hours later."""
    both = [Source(name, "test", rank=0, world=1) for name in ("decode", "capture")]
    kernels = [("k", 10, 20, 1), ("k", 5000, 5001, 2)]
    launches = [call(1, 8, "cudaGraphLaunch", GRAPH), call(2, 4990), call(-1, 4995, "cudaStreamBeginCapture", CAPTURE)]
    made = trace(kernels, launches=launches, rank=[0, 1], sources=both)
    made = made._replace(launches=made.launches._replace(rank=np.array([0, 1, 1], np.int32)))
    cut = split(made, [0, -1], ("decode",), launch=[0, -1, -1])
    assert checks(made, cut)["ranks"].detail == "1 of 1 rank came"
    assert section(made, cut, ()).span_s == pytest.approx(10e-9)


def test_a_dropped_head() -> None:
    made = trace([("k", 5, 8, 1), ("k", 200, 220, 2)], launches=[call(2, 100)])
    assert "1 kernel ran before the first launch call" in checks(made)["head of the recording"].detail
    assert status("head of the recording", WHOLE) == "passed"


def test_no_launch_calls_is_not_checked() -> None:
    found = checks(trace([("k", 0, 10)]))
    for check in (
        "launches without kernels",
        "kernels without launches",
        "head of the recording",
        "clocks of host and device",
    ):
        assert (found[check].status, found[check].detail) == ("not_checked", "the files hold no launch calls")
    on_cpu = checks(trace([("aten::mm", 0, 10, 1)], launches=[call(1, 0)], on_cpu=True))
    assert on_cpu["kernels without launches"].status == "not_checked"
    assert on_cpu["accelerator's name"].status == "not_checked"


def test_faults_of_files_fail_by_their_name() -> None:
    faults = (Fault("truncated", "it ends in the middle of event 7."), Fault("encoding", "2 bytes were no UTF-8."))
    found = checks(trace(sources=[Source("a.json", "test", faults=faults)]))
    assert found["truncated"].detail == "a.json: it ends in the middle of event 7."
    assert found["encoding"].status == "failed"
    assert "whole files" not in found


def test_graph_modes() -> None:
    hidden = trace([], replays=[(10, 20, 1)], launches=[call(1, 0, "cudaGraphLaunch", GRAPH)])
    assert "1 graph replay came as one interval" in checks(hidden)["graph mode"].detail
    node = trace([("k", 0, 1)], sources=[Source("x", "test", graph_mode="node")])
    assert "node by node" in checks(node)["graph mode"].detail
    assert status("graph mode", WHOLE) == "passed"


def test_clocks() -> None:
    backwards = trace([("k", 10, 5)])
    assert "1 event end" in checks(backwards)["durations"].detail
    early = trace([("k", 0, 10, 1)], launches=[call(1, 150_000)])
    assert "by up to 150 µs" in checks(early)["clocks of host and device"].detail
    slightly = trace([("k", 0, 10, 1)], launches=[call(1, 50_000)])
    assert status("clocks of host and device", slightly) == "passed"


def test_strays_streams_and_names() -> None:
    stray = split(WHOLE, [0, 0], ("decode",), stray=[0, 1])
    assert "1 kernel (10.0 ns) far" in checks(WHOLE, stray)["stray kernels"].detail
    overlap = trace([("k", 0, 10), ("k", 5, 20)])
    assert "1 of 2 events start before an earlier one" in checks(overlap)["streams"].detail
    nameless = trace([("k", 0, 10)], device=2, sources=[Source("x", "test", devices=(Device(2, ""),))])
    assert "of device 2 is in no file" in checks(nameless)["accelerator's name"].detail
    assert status("streams", trace()) == "not_checked"


def two_ranks(starts: list[list[int]], length: int = 1000) -> dict[str, Health]:
    kernels = [("k", begin, begin + length) for one in starts for begin in one]
    ranks = [rank for rank, one in enumerate(starts) for _ in one]
    made = trace(kernels, rank=ranks, sources=[Source(str(rank), "test") for rank in range(len(starts))])
    return checks(made, split(made, list(range(len(kernels))), ("decode",) * len(kernels), ranks=ranks))


def test_ranks_that_do_the_same_at_the_same_time() -> None:
    good = two_ranks([[0, 5000, 10_000], [100, 5100, 10_100]])
    assert {good[check].status for check in ("steps of the ranks", "clocks of the ranks")} == {"passed"}
    unequal = two_ranks([[0, 5000, 10_000], [100, 5100]])
    assert unequal["steps of the ranks"].status == "failed"
    assert "rank 0: 3, rank 1: 2" in unequal["steps of the ranks"].detail
    late = two_ranks([[0, 5000, 10_000], [3000, 8000, 13_000]])
    assert late["clocks of the ranks"].status == "failed"
    apart = two_ranks([[0, 5000], [10**9]])
    assert apart["clocks of the ranks"].status == "failed"
    assert "steps of the ranks" not in checks(WHOLE)


def test_details_are_single_sentences() -> None:
    for one in checks(WHOLE).values():
        assert one.detail
        assert "\n" not in one.detail


def op(at: int) -> Ops:
    return table(Ops, {"start": [at], "end": [at + 5], "name": [0], "thread": [0]})


def test_a_file_that_lost_its_kernels_is_no_run_on_a_cpu() -> None:
    nothing = Source("a.json", "test")
    cut = Source("a.json", "test", faults=(Fault("truncated", "it breaks off."),))
    named = Source("a.json", "test", devices=(Device(0, "NVIDIA Test"),))
    names = ("aten::mm",)
    alone = trace(sources=[nothing])._replace(names=names, ops=op(0), threads=(Thread(0, "1", "1"),))
    assert on_cpu(alone).on_cpu
    assert not on_cpu(alone._replace(sources=(named,))).on_cpu
    for kind in (KERNEL, GRAPH, LaunchKind.COPY, LaunchKind.SYNC):
        called = trace(sources=[nothing], launches=[call(1, 0, "cudaCall", kind)])
        assert not on_cpu(called._replace(ops=op(0), threads=alone.threads)).on_cpu
    gone = checks(alone._replace(sources=(named,)))["device activity"]
    assert gone.status == "failed"
    assert "holds no device activity" in gone.detail
    assert "record the device too" in gone.detail
    broken = checks(trace(sources=[cut], launches=[call(1, 0)]))
    assert "its kernels come later in it and are missing" in broken["device activity"].detail
    assert "1 launch and no device activity" in broken["launches without kernels"].detail
    assert broken["launches without kernels"].status == "failed"
    copied = trace(sources=[cut], copies=[(0, 10)], launches=[call(1, 0)])
    assert "holds no kernels" in checks(copied)["device activity"].detail
    assert "device activity" not in checks(
        trace(copies=[(0, 10)], launches=[call(1, 0, "cudaMemcpy", LaunchKind.COPY)])
    )
    found = section(copied, split(copied, [], ()), ())
    assert "unknown, not absent" in found.how
    assert "unknown, not absent" in found.missing["phases"]
    assert found.phases["unknown"].union_s is None
    assert "device activity" not in checks(WHOLE)


def test_one_absurd_duration_is_said() -> None:
    sound = [("k", 10 * place, 10 * place + 8) for place in range(300)]
    assert "times" not in checks(trace(sound))
    for place in (0, 150, 299):
        wrong = [
            ("absurd", begin, begin + 36 * 10**11) if begin == 10 * place else (name, begin, end)
            for name, begin, end in sound
        ]
        one = checks(trace(wrong))["times"]
        assert one.status == "failed"
        assert "1 event on a device" in one.detail
        assert "absurd 3,600 s" in one.detail
    twice = [
        ("absurd", begin, begin + 10**13 + begin) if begin in (40, 2990) else (name, begin, end)
        for name, begin, end in sound
    ]
    assert "2 events on a device" in checks(trace(twice))["times"].detail


def test_an_event_over_a_hundred_successors_of_its_stream_is_absurd() -> None:
    rows = [("k", 10 * place, 10 * place + 8) for place in range(1000)]
    over = [("long", 0, 10 * count + 5) for count in (100, 101)]
    assert "times" not in checks(trace([over[0], *rows[1:]]))
    assert "long" in checks(trace([over[1], *rows[1:]]))["times"].detail
    assert "times" not in checks(trace([over[1], *rows[1:]], stream=[8] + [7] * 999))
    assert "times" not in checks(trace([over[1], *rows[1:]], stream=-1))


def test_overlaps_count_against_all_that_still_runs() -> None:
    """One kernel lies over three: the device's published figure counts it once, the check all three."""
    made = trace([("long", 0, 100), ("k", 10, 20), ("k", 30, 40), ("k", 50, 60), ("k", 200, 300)])
    assert devices(made)[0].overlaps == 1
    assert "3 of 5 events start before" in checks(made)["streams"].detail


def two_ranks_meeting(lengths: list[list[int]]) -> Health:
    """A step of 1 ms with its collectives of these lengths on each rank, one every 10 µs."""
    kernels, ranks = [], []
    for rank, one in enumerate(lengths):
        kernels += [("nccl_all_reduce", 10_000 * n, 10_000 * n + length) for n, length in enumerate(one)]
        kernels.append(("gemm", 990_000, 1_000_000))
        ranks += [rank] * (len(one) + 1)
    made = trace(kernels, rank=ranks, sources=[Source(str(rank), "test") for rank in range(len(lengths))])
    cut = split(made, ranks, ("decode",) * len(lengths), ranks=list(range(len(lengths))))
    return checks(made, cut)["ranks in step"]


def test_a_rank_that_comes_last_is_named() -> None:
    late = two_ranks_meeting([[500_000, 4_000, 4_000], [3_000, 4_000, 5_000]])
    assert late.status == "failed"
    assert "rank 0 waits 497 µs for rank 1" in late.detail
    assert "in collective 1 of 3 500 µs beside 3.00 µs" in late.detail
    assert two_ranks_meeting([[5_000, 4_000], [3_000, 4_500]]).status == "passed"
    assert two_ranks_meeting([[], []]).status == "not_checked"


def test_the_same_step_is_compared_from_the_first_to_the_last() -> None:
    """Only the first steps begin apart: the check says by how much, and not the median alone."""
    found = two_ranks([[0, 5000, 10_000, 15_000], [900, 5001, 10_001, 15_001]])["clocks of the ranks"]
    assert found.status == "passed"
    assert found.detail == "the same step starts up to 900 ns apart on different ranks, in the median 1.00 ns"
