"""Steps and attribution on planted traces: the planter knows the step of every kernel."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_planted import KV, Planted, engine, model_pass, together
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Bands, Kernels, LaunchKind, Trace
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.steps import split
from phasewise.record.trace import Tokens

PHASES = st.lists(st.sampled_from(["prefill", "decode"]), min_size=2, max_size=6)


def phases(done: Split) -> list[str]:
    return [step.phase for step in done.steps]


def test_kernels_go_to_the_step_that_launched_them_though_they_run_in_the_next() -> None:
    planted = engine(["prefill", "decode", "decode"])
    trace = planted.trace()
    done = split(trace)
    assert done.kernel.tolist() == planted.truth
    assert phases(done) == ["prefill", "decode", "decode"]
    assert done.steps[0].prefill is not None
    assert done.steps[0].prefill.tokens == 512
    assert done.steps[1].decode is not None
    assert done.steps[1].decode.requests == 3
    late = trace.kernels.start > done.steps[1].start
    assert np.count_nonzero(late & (done.kernel == 0)) > 20, "the trap: prefill kernels that run inside decode's band"


def test_one_graph_launch_starts_many_kernels() -> None:
    planted = engine(["decode", "decode"], graph=True)
    done = split(planted.trace())
    assert done.kernel.tolist() == planted.truth
    assert np.bincount(done.launched_by).max() == 1 + 7 * 6


def test_copies_belong_to_the_step_of_their_call() -> None:
    done = split(engine(["prefill", "decode"]).trace())
    assert done.copy.tolist() == [0, 1]


@pytest.mark.parametrize("graph", [False, True])
def test_without_annotations_the_split_is_the_same(graph: bool) -> None:
    planted = engine(["prefill", "decode", "decode", "prefill", "decode"], bands=False, graph=graph)
    done = split(planted.trace())
    assert done.kernel.tolist() == planted.truth
    assert phases(done) == ["prefill", "decode", "decode", "prefill", "decode"]
    assert all(step.confidence >= 0.6 and step.evidence and step.band == -1 for step in done.steps)


@settings(max_examples=25, deadline=None)
@given(PHASES, st.booleans(), st.integers(4, 9), st.floats(12, 400))
def test_removing_annotations_changes_nothing(order: list[str], graph: bool, layers: int, pause: float) -> None:
    trace = engine(order, graph=graph, layers=layers, pause=pause).trace()
    with_bands, without = split(trace), split(trace._replace(bands=tables.table(Bands)))
    assert phases(with_bands) == phases(without) == order
    assert with_bands.kernel.tolist() == without.kernel.tolist()


@settings(max_examples=15, deadline=None)
@given(PHASES, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(order: list[str], graph: bool, bands: bool, random: object) -> None:
    trace = engine(order, bands=bands, graph=graph).trace()
    rng = np.random.default_rng(random.randrange(1 << 30))  # type: ignore[attr-defined]
    moved = {
        kind: rng.permutation(len(getattr(trace, kind).start)) for kind in ("kernels", "copies", "launches", "bands")
    }
    shuffled = trace._replace(**{kind: tables.rows(getattr(trace, kind), rows) for kind, rows in moved.items()})
    one, other = split(trace), split(shuffled)
    assert other.kernel.tolist() == one.kernel[moved["kernels"]].tolist()
    assert other.copy.tolist() == one.copy[moved["copies"]].tolist()
    assert phases(other) == phases(one)


@settings(max_examples=15, deadline=None)
@given(PHASES, PHASES, st.booleans(), st.booleans())
def test_a_second_rank_with_the_same_ids_changes_nothing(
    first: list[str], second: list[str], bands: bool, graph: bool
) -> None:
    names = tables.Names()
    ranks = (
        engine(first, bands=bands, graph=graph, names=names),
        engine(second, bands=bands, graph=graph, rank=1, names=names),
    )
    assert {row["correlation"] for row in ranks[0].rows["launches"]} & {
        row["correlation"] for row in ranks[1].rows["launches"]
    }
    done = split(together(*ranks))
    assert done.kernel.tolist() == ranks[0].truth + [len(first) + step for step in ranks[1].truth]
    assert [step.rank for step in done.steps] == [0] * len(first) + [1] * len(second)


def test_the_outer_band_holds_what_the_inner_one_leaves_out() -> None:
    planted = Planted()
    for step, (name, inner) in enumerate(
        [
            (
                "execute_64_context_1(sq64sk64sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
                "step[EXTEND bs=1 toks=64]",
            ),
            ("execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk99sqsq2sqsk99)", "step[DECODE bs=2]"),
        ]
    ):
        at = 100.0 + 200 * step
        planted.band(name, at, at + 100)
        planted.band(inner, at + 20, at + 60)
        for offset in (5, 30, 80):
            planted.call(at + offset, [(KV, 4)], step)
    done = split(planted.trace())
    assert done.kernel.tolist() == planted.truth
    assert [step.label[:7] for step in done.steps] == ["execute", "execute"]
    assert done.steps[1].decode is not None
    assert done.steps[1].decode.context == 99


def test_a_range_around_the_whole_request_is_no_step() -> None:
    planted = Planted()
    planted.band("generate", 0, 1000)
    for step, name in enumerate(["prefill", "decode", "decode"]):
        planted.band(name, 100 + 100 * step, 180 + 100 * step)
        planted.call(120 + 100 * step, [(KV, 4)], step)
    planted.call(900, [(KV, 4)], -1)
    done = split(planted.trace())
    assert phases(done) == ["prefill", "decode", "decode"]
    assert done.kernel.tolist() == planted.truth


def test_ranges_that_overlap_need_no_nesting() -> None:
    planted = Planted()
    planted.band("prefill", 0, 100)
    planted.band("decode", 80, 200)
    planted.band("decode", 190, 300)
    for at, step in ((50, 0), (90, 1), (150, 1), (195, 2), (250, 2)):
        planted.call(at, [(KV, 1)], step)
    done = split(planted.trace())
    assert done.kernel.tolist() == planted.truth
    assert phases(done) == ["prefill", "decode", "decode"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 120)), min_size=1, max_size=8), st.integers(0, 620))
def test_of_overlapping_ranges_the_last_begun_that_is_open_counts(ranges: list[tuple[int, int]], at: int) -> None:
    planted = Planted()
    for begin, length in ranges:
        planted.band("decode", begin, begin + length)
    planted.call(at, [(KV, 1)], 0)
    done = split(planted.trace())
    open_then = [step for step in done.steps if step.band >= 0 and step.start <= at * 1000 <= step.end]
    if open_then:
        assert done.steps[done.kernel[0]].start == max(step.start for step in open_then)


def test_marks_of_an_engine_thread_reach_the_worker_of_the_same_process() -> None:
    planted = Planted()
    planted.band("prefill", 0, 100, thread=1)
    planted.band("decode", 100.5, 200, thread=1)
    planted.call(50, [(KV, 1)], 0, thread=2)
    planted.call(150, [(KV, 1)], 1, thread=2)
    done = split(planted.trace())
    assert done.kernel.tolist() == [0, 1]
    assert "by time" in done.steps[0].evidence[-1]
    apart = split(together(planted, processes=2))
    assert all(step.band == -1 for step in apart.steps), "another process's marks say nothing"
    assert phases(apart) == ["unknown"]


def test_an_idle_pass_is_no_step_unless_it_launches() -> None:
    idle = "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)"
    planted = Planted()
    planted.band(idle, 0, 10)
    planted.band("step[DECODE bs=1]", 20, 30)
    planted.call(25, [(KV, 1)], 0)
    planted.band(idle, 40, 50)
    planted.call(45, [(KV, 1)], 1)
    done = split(planted.trace())
    assert phases(done) == ["decode", "unknown"]
    assert done.kernel.tolist() == planted.truth


def test_verify_steps_are_decode_and_a_draft_follows_what_it_extends() -> None:
    planted = Planted()
    names = [
        "step[EXTEND bs=1 toks=9]",
        "step[DRAFT_EXTEND bs=1]",
        "step[TARGET_VERIFY bs=2]",
        "step[DRAFT_EXTEND_V2 bs=2]",
    ]
    for step, name in enumerate(names):
        planted.band(name, 100 * step, 100 * step + 50)
        planted.call(100 * step + 10, [(KV, 1)], step)
    done = split(planted.trace())
    assert phases(done) == ["prefill", "prefill", "decode", "decode"]
    assert [step.speculative for step in done.steps] == [False, True, True, True]


def test_a_range_around_a_decode_loop_is_as_many_steps() -> None:
    planted = engine(["prefill", *["decode"] * 5], bands=False)
    calls = planted.rows["launches"]
    starts = [row["start"] / 1000 for row in calls if row["kind"] == LaunchKind.COPY]
    planted.band("prefill", 5, starts[1] - 20)
    planted.band("decode tokens=15 requests=3", starts[1] - 10, calls[-1]["end"] / 1000 + 1)
    done = split(planted.trace())
    assert phases(done) == ["prefill", *["decode"] * 5]
    assert done.kernel.tolist() == planted.truth
    assert "pass 2 of 5" in done.steps[2].evidence[1]
    assert done.steps[2].decode == Tokens(requests=3, tokens=3)


def test_generate_holds_the_prompt_too() -> None:
    planted = engine(["prefill", "decode", "decode"], bands=False)
    planted.band("generate", 0, 5000)
    done = split(planted.trace())
    assert phases(done) == ["prefill", "decode", "decode"]
    assert done.kernel.tolist() == planted.truth


def test_a_kernel_without_launch_follows_neighbours_that_agree() -> None:
    planted = Planted()
    planted.call(1, [(KV, 2)], -1, recorded=False)
    planted.band("prefill", 10, 100)
    planted.band("decode", 200, 300)
    planted.call(20, [(KV, 2)], 0)
    planted.call(30, [(KV, 2)], 0, recorded=False)
    planted.call(40, [(KV, 2)], 0)
    planted.call(150, [(KV, 2)], -1, recorded=False)
    planted.call(220, [(KV, 2)], 1)
    planted.call(290, [(KV, 2)], -1, recorded=False)
    done = split(planted.trace())
    assert done.kernel.tolist() == planted.truth
    assert (done.launched_by < 0).sum() == 4


def test_an_id_used_twice_means_the_call_before_the_kernel() -> None:
    planted = Planted()
    planted.band("prefill", 0, 100)
    planted.band("decode", 200, 300)
    planted.call(20, [(KV, 2)], 0)
    planted.call(220, [(KV, 2)], 1)
    trace = planted.trace()
    same = np.full(2, 7, np.int64)
    twice = trace._replace(
        kernels=trace.kernels._replace(correlation=same), launches=trace.launches._replace(correlation=same)
    )
    assert split(twice).kernel.tolist() == [0, 1]


def test_huge_ids_do_not_overflow() -> None:
    planted = engine(["prefill", "decode"])
    trace = planted.trace()
    big = trace._replace(
        kernels=trace.kernels._replace(correlation=trace.kernels.correlation + (1 << 61)),
        launches=trace.launches._replace(correlation=trace.launches.correlation + (1 << 61), rank=trace.launches.rank),
    )
    assert split(big).kernel.tolist() == planted.truth


def test_a_bookkeeping_kernel_on_another_stream_is_stray() -> None:
    planted = Planted()
    planted.band("step[DECODE bs=4]", 0, 60_000)
    planted.call(1, [("arange", 1)], 0, stream=2)
    planted.gpu = 50_000
    for at in range(50_000, 50_100):
        planted.call(at, [(KV, 8)], 0)
    done = split(planted.trace())
    assert done.stray.tolist() == [1] + [0] * 100
    assert set(done.kernel.tolist()) == {0}


def test_pauses_of_the_working_stream_are_no_strays() -> None:
    planted = Planted()
    planted.band("prefill", 0, 60_000)
    planted.call(1, [(KV, 1)], 0)
    for at in range(50_000, 50_100):
        planted.call(at, [(KV, 8)], 0)
    assert not split(planted.trace()).stray.any()


def test_kernels_whose_launches_were_not_recorded_are_split_by_their_own_rhythm() -> None:
    planted = engine(["prefill", "decode", "decode"], bands=False, pause=900)
    trace = planted.trace()
    bare = trace._replace(launches=tables.rows(trace.launches, np.zeros(0, np.int64)))
    done = split(bare)
    assert phases(done) == ["prefill", "decode", "decode"]
    assert "no launch was recorded" in done.how
    assert set(done.launched_by.tolist()) == {-1}
    assert np.mean(done.kernel == np.array(planted.truth)) == 1


def test_an_empty_trace_has_no_steps() -> None:
    done = split(Planted().trace())
    assert done.steps == ()
    assert done.kernel.tolist() == []
    assert done.how.startswith("No steps")


def test_nothing_that_marks_or_repeats_is_one_unknown_step() -> None:
    planted = Planted()
    for at in range(10):
        planted.call(10.0 * at, [("void add_one(float*)", 1)], 0)
    done = split(planted.trace())
    assert phases(done) == ["unknown"]
    assert set(done.kernel.tolist()) == {0}


def empty_kernels(trace: Trace) -> Trace:
    return trace._replace(kernels=tables.table(Kernels))


def test_a_trace_whose_device_was_not_recorded_keeps_its_marked_steps() -> None:
    done = split(empty_kernels(engine(["prefill", "decode"]).trace()))
    assert phases(done) == ["prefill", "decode"]
    assert done.kernel.tolist() == []


def test_a_model_pass_keeps_its_pause() -> None:
    """Guards the planter: passes end with a pause longer than any inside them."""
    planted = Planted()
    assert model_pass(planted, 0, "decode", 0) - planted.rows["launches"][-1]["end"] / 1000 >= 40
