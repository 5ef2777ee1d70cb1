"""Remedies for planted traces of the reference case, against arithmetic done here."""

from __future__ import annotations

import msgspec
import pytest

from phasewise.fix.traced import fix_traced
from phasewise.judge.traced import judge
from phasewise.record.remedies import Rejected, Remedies, Remedy
from phasewise.record.trace import Gaps, KernelRow, Tokens, Traced, TracedPhase
from reference import h100, llama_3_8b
from traces_by_hand import FRESH, GENERATING, phase, step, traced

WEIGHTS = 16_060_522_496 - 1_050_673_152
KV = 131_072


def fixes(seen: Traced, *, known: bool = True) -> Remedies:
    model, machine = (llama_3_8b(), h100()) if known else (None, None)
    return fix_traced(judge(seen, model, machine), model, machine)


def one(found: Remedies, name: str, phase: str) -> Remedy | Rejected:
    return next(r for r in (*found.fixes, *found.rejected) if r.name.startswith(name) and r.phase == phase)


def decoding(batch: int = 1, busy: float = 0.006, steps: int = 10, families: dict[str, float] | None = None) -> Traced:
    said = Tokens(requests=batch, tokens=batch, context=2001 * batch, squares=batch, products=2001 * batch)
    made = [step("decode", i * busy, busy, decode=said) for i in range(steps)]
    return traced(decode=(phase(made, families or {"gemm": 0.9, "attention": 0.1}), made))


def with_decode(seen: Traced, **changes: object) -> Traced:
    changed = msgspec.structs.replace(seen.phases["decode"], **changes)
    return msgspec.structs.replace(seen, phases={**seen.phases, "decode": changed})


def test_graphs_save_the_measured_gaps_without_a_model() -> None:
    made = [step("decode", i * 0.02, 0.006, span=0.02, decode=GENERATING) for i in range(10)]
    seen = traced(decode=(phase(made, {"gemm": 1.0}, graphs_would_save=0.011), made))
    found = one(fixes(seen, known=False), "CUDA graphs", "decode")
    assert isinstance(found, Remedy)
    assert found.saves.value == pytest.approx(10 * 0.011)
    assert found.saves_share == pytest.approx(0.011 / 0.02)
    assert (found.step_before, found.step_after) == pytest.approx((0.02, 0.009))


def test_graphs_never_save_more_than_there_are_gaps() -> None:
    made = [step("decode", 0.0, 0.006, span=0.008, decode=GENERATING)]
    seen = traced(decode=(phase(made, {"gemm": 1.0}, graphs_would_save=0.5), made))
    found = one(fixes(seen, known=False), "CUDA graphs", "decode")
    assert isinstance(found, Remedy)
    assert found.saves.value == pytest.approx(0.002)
    assert found.saves.high == pytest.approx(0.002)


def test_graphs_that_are_on_are_no_fix() -> None:
    launches = msgspec.structs.replace(phase([]).launches, graph_launches=10)
    found = one(fixes(with_decode(decoding(), launches=launches)), "CUDA graphs", "decode")
    assert isinstance(found, Rejected)
    assert "already" in found.reason
    cpu = msgspec.structs.replace(decoding(), on_cpu=True)
    blind = one(fixes(cpu), "CUDA graphs", "decode")
    assert isinstance(blind, Rejected)
    assert "nothing to capture" in blind.reason


def test_idle_time_between_steps_is_what_scheduling_may_hide() -> None:
    made = [step("decode", i * 0.009, 0.006, decode=GENERATING) for i in range(10)]
    gaps = Gaps(count=0, total_s=0.0, long=0, largest_s=0.0, between_s=9 * 0.003)
    seen = with_decode(traced(decode=(phase(made, {"gemm": 1.0}), made)), gaps=gaps)
    found = one(fixes(seen, known=False), "asynchronous scheduling", "decode")
    assert isinstance(found, Remedy)
    assert found.saves.value == pytest.approx(9 * 0.003)
    assert found.saves.low == 0.0


def test_communication_is_a_fix_where_it_is_the_largest_part() -> None:
    families = {"gemm": 0.3, "communication": 0.7}
    row = KernelRow(
        name="cross_device_reduce", family="communication", kernels=1, gpu_time_s=1.0, share=0.7, median_s=1e-5
    )
    found = one(fixes(with_decode(decoding(busy=0.020, families=families), top=(row,))), "less exposed", "decode")
    assert isinstance(found, Remedy)
    assert found.saves.high == pytest.approx(10 * 0.7 * 0.020)
    assert found.saves.low == 0.0
    assert "cross_device_reduce" in found.why
    small = one(fixes(decoding()), "less exposed", "decode")
    assert isinstance(small, Rejected)


def test_the_family_that_owns_the_excess_is_named() -> None:
    found = one(fixes(decoding(busy=0.02, families={"gemm": 0.4, "norm": 0.6})), "faster kernels", "decode")
    assert isinstance(found, Remedy)
    assert found.name == "faster kernels: norm"
    assert found.saves.value == pytest.approx(10 * 0.6 * 0.02)
    slow = one(fixes(decoding(busy=0.02, families={"gemm": 1.0})), "faster kernels", "decode")
    assert isinstance(slow, Remedy)
    assert slow.name == "faster kernels: matrix multiplies"
    least = WEIGHTS / 3.35e12
    assert slow.saves.high == pytest.approx(10 * (0.02 - least), rel=1e-3)
    # What is usual lies between the floor and what was seen.
    assert 0 < slow.saves.value < slow.saves.high
    usual = one(fixes(decoding(busy=0.005, families={"gemm": 1.0})), "faster kernels", "decode")
    assert isinstance(usual, Rejected)


def test_the_batch_of_the_trace_is_what_the_usual_remedies_start_from() -> None:
    alone, many = one(fixes(decoding()), "FP8 KV", "decode"), one(fixes(decoding(64, 0.012)), "FP8 KV", "decode")
    assert isinstance(alone, Rejected)
    assert isinstance(many, Remedy)
    before = (WEIGHTS + 64 * 2000 * KV) / 3.35e12
    after = (WEIGHTS + 64 * 2000 * KV / 2) / 3.35e12
    assert many.step_before - many.step_after == pytest.approx(before - after, rel=1e-3)
    batch = one(fixes(decoding(64, 0.012)), "bigger batches", "decode")
    assert isinstance(batch, Remedy)
    assert batch.name == "bigger batches (128)"
    twice = (WEIGHTS + 128 * 2000 * KV) / 3.35e12
    likely = (twice + (0.012 - before) * twice / before) / 2
    assert batch.step_after == pytest.approx(likely, rel=1e-3)


def test_prefill_gets_the_remedies_of_prefill_and_its_attention_by_its_kernels() -> None:
    long = Tokens(requests=1, tokens=32_000, context=32_000, squares=32_000**2, products=32_000**2)
    made = [step("prefill", 0.0, 1.6, prefill=long)]
    seen = traced(prefill=(phase(made, {"gemm": 0.4, "attention": 0.6}), made))
    found = fixes(seen)
    attention = one(found, "fast attention", "prefill")
    assert isinstance(attention, Remedy)
    floor = 2 * 32 * 4096 * 32_000**2 / 989e12
    assert attention.step_before - attention.step_after == pytest.approx(0.6 * 1.6 - floor, rel=1e-3)
    assert "its kernels take" in attention.why
    assert isinstance(one(found, "prefix caching", "prefill"), Remedy)
    assert isinstance(one(found, "FP8 matmuls", "prefill"), Remedy)
    assert isinstance(one(found, "4-bit", "prefill"), Rejected)
    assert not [r for r in found.fixes if r.name == "faster kernels: attention"]


def test_savings_are_shares_of_all_the_steps_of_the_trace() -> None:
    prefill = [step("prefill", 0.0, 0.05, prefill=FRESH)]
    decode = [step("decode", 0.05 + i * 0.006, 0.006, decode=GENERATING) for i in range(100)]
    seen = traced(prefill=(phase(prefill, {"gemm": 1.0}), prefill), decode=(phase(decode, {"gemm": 1.0}), decode))
    found = one(fixes(seen), "4-bit", "decode")
    assert isinstance(found, Remedy)
    assert found.saves_share == pytest.approx(found.saves.value / (0.05 + 100 * 0.006))
    for r in fixes(seen).fixes:
        assert r.saves.low is not None
        assert r.saves.high is not None
        assert r.saves.low <= r.saves.value <= r.saves.high
        assert 0 < r.step_after < r.step_before


def test_mixed_steps_get_what_their_kernels_show() -> None:
    both = [step("mixed", 0.0, 0.1, prefill=FRESH, decode=GENERATING)]
    found = fixes(traced(mixed=(phase(both, {"gemm": 0.3, "moe": 0.7}), both)))
    assert isinstance(one(found, "faster kernels", "mixed"), Remedy)
    assert not [r for r in found.fixes if r.name == "prefix caching"]


def test_nothing_is_ranked_for_what_is_not_believed_or_not_there() -> None:
    impossible = fixes(decoding(busy=0.003))
    assert not impossible.fixes
    assert "not to be believed" in impossible.note
    empty = fixes(traced())
    assert not empty.fixes
    assert "no steps" in empty.note
    blind = fixes(decoding(), known=False)
    assert "--model" in blind.note
    assert "--on" in blind.note
    summary: TracedPhase = phase([], {"gemm": 1.0}, gpu_time=0.2)
    assert "no steps" in fixes(traced(decode=summary)).note


def test_verify_steps_are_not_told_to_speculate() -> None:
    said = Tokens(requests=4, tokens=20, context=8020, squares=100, products=5 * 8020)
    made = [step("decode", 0.0, 0.006, decode=said)]
    found = one(fixes(traced(decode=(phase(made, {"gemm": 1.0}), made))), "speculative", "decode")
    assert isinstance(found, Rejected)
    assert "already" in found.reason


def test_a_saving_of_a_trace_says_where_it_is_from() -> None:
    found = one(fixes(decoding()), "4-bit", "decode")
    assert isinstance(found, Remedy)
    assert "trace" in found.saves.source
    assert found.saves.provenance == "predicted"


@pytest.mark.parametrize("side_by_side", ["ranks", "devices of one rank"])
def test_what_runs_side_by_side_is_saved_once(side_by_side: str) -> None:
    """Four devices that do the same ten steps save what one of them saves, never more than the steps take."""
    made = [
        step("decode", i * 0.02 + lane * 1e-4, 0.02, decode=GENERATING, rank=lane if side_by_side == "ranks" else 0)
        for i in range(10)
        for lane in range(4)
    ]
    found = fixes(traced(world=4, decode=(phase(made, {"gemm": 1.0}), made)))
    assert found.fixes
    for r in found.fixes:
        assert r.saves.value == pytest.approx(10 * (r.step_before - r.step_after))
        assert r.saves.high is not None
        assert r.saves.high <= 10 * r.step_before
        assert r.saves_share == pytest.approx(r.saves.value / (10 * r.step_before))


def test_phases_of_different_ranks_are_shares_of_both() -> None:
    """Two recordings side by side: prefill is on one rank, decode on another, and a share is of both together."""
    prefill = [step("prefill", 0.0, 0.08, prefill=FRESH)]
    decode = [step("decode", i * 0.02, 0.02, decode=GENERATING, rank=1) for i in range(4)]
    seen = traced(prefill=(phase(prefill, {"gemm": 1.0}), prefill), decode=(phase(decode, {"gemm": 1.0}), decode))
    for r in fixes(seen).fixes:
        assert r.saves_share == pytest.approx(r.saves.value / 0.16)


def test_what_hangs_on_contexts_is_not_ranked_where_they_are_not_said() -> None:
    made = [step("decode", 0.0, 0.006, decode=Tokens(requests=32, tokens=32))]
    found = fixes(traced(decode=(phase(made, {"gemm": 0.5, "attention": 0.5}), made)))
    for name in ("FP8 KV", "bigger batches", "speculative"):
        rejected = one(found, name, "decode")
        assert isinstance(rejected, Rejected)
        assert "context" in rejected.reason
    assert isinstance(one(found, "4-bit", "decode"), Remedy)
    assert not [r for r in found.fixes if r.name == "faster kernels: attention"]
