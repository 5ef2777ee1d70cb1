"""Remedies for planted phases of the reference case, against arithmetic done here."""

from __future__ import annotations

import msgspec
import pytest

import planted
from phasewise.fix.fix import REMEDIES, fix
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.record.machine import Machine
from phasewise.record.observation import Check, DecodeObservation, PrefillObservation
from phasewise.record.remedies import Rejected, Remedies, Remedy
from reference import h100, llama_3_8b, reference_roof

LINEAR = 2 * 6_979_588_096 / 989e12
SQUARE = 32 * 2 * 32 * 128 / 989e12
READ = (16_060_522_496 - 1_050_673_152) / 3.35e12
KV = 131_072 / 3.35e12


def remedies(
    prefill: PrefillObservation | None,
    decode: DecodeObservation | None,
    *,
    checks: tuple[Check, ...] = (),
    ask: Ask | None = None,
    machine: Machine | None = None,
) -> Remedies:
    case = Case(
        observation=planted.seen(prefill, decode, checks),
        model=llama_3_8b(),
        roofs=(reference_roof(),),
        asks=(ask or Ask(),),
    )
    return fix(case, judge(case), machine or h100())


def good() -> Remedies:
    return remedies(
        planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7), planted.decode(lambda c: 0.0003 + (READ + KV * c) / 0.9)
    )


def one(found: Remedies, name: str, phase: str) -> Remedy | Rejected:
    return next(r for r in (*found.fixes, *found.rejected) if r.name.startswith(name) and r.phase == phase)


def test_4_bit_weights_are_nothing_for_prefill_and_several_times_for_decode() -> None:
    found = good()
    decode = one(found, "4-bit", "decode")
    assert isinstance(decode, Remedy)
    head = 2 * 525_336_576
    after = (6_979_321_856 * (0.5 + 2 / 128) + 2 * 266_240 + head + 131_072 * 2150) / 3.35e12
    before = READ + KV * 2150
    assert decode.step_after / decode.step_before == pytest.approx(
        1 - (before - after) / (0.0003 + before / 0.9), abs=1e-3
    )
    assert 1.9 < decode.step_before / decode.step_after < 4
    prefill = one(found, "4-bit", "prefill")
    assert isinstance(prefill, Rejected)
    assert "waits for math" in prefill.reason


def test_every_remedy_of_the_seed_is_ranked_or_named_with_its_reason() -> None:
    found = good()
    tried = sum(len(attempts) for attempts in REMEDIES.values())
    assert len(found.fixes) + len(found.rejected) == tried
    assert all(r.reason for r in found.rejected)
    assert all(r.why and r.verify for r in found.fixes)


def test_fixes_are_sorted_by_time_saved_and_never_save_more_than_there_is() -> None:
    found = good()
    latency = [r.saves.value for r in found.fixes if r.buys == "latency"]
    assert latency == sorted(latency, reverse=True)
    for r in found.fixes:
        assert 0 < r.saves_share < 1
        assert 0 < r.step_after < r.step_before
        assert r.saves.low is not None
        assert r.saves.high is not None
        assert r.saves.low <= r.saves.value <= r.saves.high


def test_fp8_matmuls_halve_the_math_of_prefill_alone() -> None:
    fp8 = one(good(), "FP8 matmuls", "prefill")
    assert isinstance(fp8, Remedy)
    # 28.2 of 29.6 ms of floor are linear math; its half is what goes, of the share that the floor explains.
    assert fp8.step_before - fp8.step_after == pytest.approx(LINEAR * 2000 / 2, rel=0.03)


def test_fp8_is_refused_where_the_accelerator_has_none() -> None:
    without = msgspec.structs.replace(
        h100(),
        ceilings=(msgspec.structs.replace(h100().ceilings[0], compute={"bf16": h100().ceilings[0].compute["bf16"]}),),
    )
    found = remedies(planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7), None, machine=without)
    assert isinstance(one(found, "FP8 matmuls", "prefill"), Rejected)


def test_attention_is_a_fix_only_where_it_is_material() -> None:
    short = one(good(), "fast attention", "prefill")
    assert isinstance(short, Rejected)
    assert "3.6%" in short.reason
    lengths = (512, 2048, 8192, 32000)
    slow = planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.1, lengths)
    long = one(remedies(slow, None, ask=Ask(prompt=32000)), "fast attention", "prefill")
    assert isinstance(long, Remedy)
    assert long.step_before - long.step_after == pytest.approx(SQUARE * 32000**2 * 9, rel=0.02)


def test_kv_is_a_fix_only_where_it_is_material() -> None:
    assert isinstance(one(good(), "FP8 KV", "decode"), Rejected)  # 0.28 of 15.3 GB
    contexts = (64, 32000, 64000)
    long = planted.decode(lambda c: 0.0003 + (READ + KV * c) / 0.9, contexts)
    found = one(remedies(None, long, ask=Ask(prompt=64000)), "FP8 KV", "decode")
    assert isinstance(found, Remedy)
    assert found.step_before - found.step_after == pytest.approx(KV * 64000 / 2, rel=0.02)


def test_graphs_are_for_overhead_on_a_gpu() -> None:
    late = planted.decode(lambda c: 0.012 + (READ + KV * c) / 0.9)
    prefill = planted.prefill(0.03, LINEAR / 0.7, SQUARE / 0.7)
    graphs = one(remedies(prefill, late), "CUDA graphs", "decode")
    assert isinstance(graphs, Remedy)
    assert graphs.step_before - graphs.step_after == pytest.approx(320 * 5e-6, rel=1e-6)
    assert isinstance(one(good(), "CUDA graphs", "decode"), Rejected)
    cpu = msgspec.structs.replace(h100(), kind="cpu")
    assert isinstance(one(remedies(prefill, late, machine=cpu), "CUDA graphs", "decode"), Rejected)


def test_nothing_is_ranked_for_a_phase_that_was_not_measured_or_not_believed() -> None:
    only = remedies(planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7), None)
    assert {r.phase for r in (*only.fixes, *only.rejected)} == {"prefill"}
    assert "decode was not measured" in only.note.lower()
    cached = Check(name="uncached", phase="prefill", status="failed", detail="cached", voids=True)
    doubted = remedies(
        planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7), planted.decode(lambda c: READ / 0.9), checks=(cached,)
    )
    assert {r.phase for r in (*doubted.fixes, *doubted.rejected)} == {"decode"}


def test_an_alarm_ranks_nothing() -> None:
    found = remedies(planted.prefill(0.0, LINEAR / 3, SQUARE / 3), None)
    assert found.fixes == ()
    assert "100%" in found.note
