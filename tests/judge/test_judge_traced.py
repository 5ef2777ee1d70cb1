"""Verdicts on traces of planted steps, against arithmetic done here."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.hardware import catalogue
from phasewise.judge.traced import NO_COUNTS, NO_MACHINE, NO_MODEL, NOT_SAID, judge
from phasewise.model.load import load
from phasewise.record.machine import Machine
from phasewise.record.trace import Health, SpeedOfLight, Tokens, TracePhase, TraceVerdict
from reference import h100, llama_3_8b
from traces_by_hand import FRESH, GENERATING, phase, step, traced

READ = (16_060_522_496 - 1_050_673_152 + 2000 * 131_072) / 3.35e12
"""Seconds that a decode step of the reference case reads at least: 4.56 ms."""

MATH = (2 * 6_979_588_096 * 2000 + 2 * 32 * 4096 * 2000**2 + 2 * 525_336_576) / 989e12
"""Seconds of math of its prefill: 29.3 ms."""


def planted(name: TracePhase, seconds: float = 0.006, **more: object) -> TraceVerdict:
    """The verdict on three steps of 6 ms each, 8 ms apart."""
    halves = {"prefill": FRESH} if name == "prefill" else {"decode": GENERATING}
    steps = [step(name, i * seconds * 8 / 6, seconds, **halves) for i in range(3)]  # type: ignore[arg-type]
    families = {"gemm": 0.8, "attention": 0.05, "norm": 0.15}
    seen = traced(**{name: (phase(steps, families, **more), steps)})  # type: ignore[arg-type]
    found = judge(seen, llama_3_8b(), h100()).phases[name].verdict
    assert found is not None
    return found


def fractions(found: TraceVerdict) -> dict[str, float]:
    return {part.name: part.fraction for part in found.parts}


def test_decode_is_judged_by_mbu_over_the_time_the_device_was_busy() -> None:
    found = planted("decode")
    assert found.bound == "memory"
    assert found.steps == 3
    first, second = found.utilisations[:2]
    assert (first.yardstick, second.yardstick) == ("mbu", "mfu")
    assert first.value.value == pytest.approx(READ / 0.006)
    assert first.tokens == 2000
    assert "busy" in first.value.source
    assert first.value.provenance == "reported"


def test_a_step_lasts_until_the_next_and_the_last_one_for_its_span() -> None:
    found = planted("decode")
    mean = (8 + 8 + 6) / 3 * 1e-3
    assert found.step is not None
    assert found.step.value == pytest.approx(mean)
    whole = [u for u in found.utilisations if "whole step" in u.value.source]
    assert whole[0].value.value == pytest.approx(READ / mean)
    least = found.floor.value if found.floor else 0.0
    expected = {"floor": least / mean, "kernels": (0.006 - least) / mean, "host": (mean - 0.006) / mean}
    assert fractions(found) == pytest.approx(expected)


def test_prefill_is_judged_by_mfu_and_its_attention_beside_the_predicted_share() -> None:
    found = planted("prefill", 0.05)
    assert found.bound == "compute"
    assert found.utilisations[0].yardstick == "mfu"
    assert found.utilisations[0].value.value == pytest.approx(MATH / 0.05, rel=1e-4)
    assert found.attention is not None
    assert found.attention_predicted is not None
    assert found.attention.value == pytest.approx(0.05)
    assert found.attention_predicted.value == pytest.approx(0.036, abs=0.001)


def test_gaps_that_graphs_would_close_are_launches_and_the_rest_is_the_host() -> None:
    found = planted("decode", 0.0075, graphs_would_save=0.001)
    mean = 0.0075 * (8 + 8 + 6) / 6 / 3
    assert fractions(found)["launches"] == pytest.approx(0.001 / mean)
    assert fractions(found)["host"] == pytest.approx((mean - 0.0075 - 0.001) / mean)


def test_a_device_that_waits_for_the_host_is_bound_by_overhead() -> None:
    steps = [step("decode", i * 0.03, 0.006, span=0.03, decode=GENERATING) for i in range(4)]
    seen = judge(traced(decode=(phase(steps, {"gemm": 1.0}, delay=8e-6), steps)), llama_3_8b(), h100())
    found = seen.phases["decode"].verdict
    assert found is not None
    assert found.bound == "overhead"
    assert "waits for the host" in found.why
    assert found.utilisations[0].value.value == pytest.approx(READ / 0.006)


def test_kernels_beyond_the_floor_name_the_family_that_owns_them() -> None:
    steps = [step("decode", 0.0, 0.020, decode=GENERATING)]
    seen = traced(decode=(phase(steps, {"gemm": 0.3, "norm": 0.7}), steps))
    found = judge(seen, llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    assert found.bound == "kernel"
    assert "norm (14.0 ms where 0 s would do)" in found.why


def test_communication_is_a_part_of_its_own() -> None:
    steps = [step("decode", 0.0, 0.020, decode=GENERATING)]
    seen = traced(decode=(phase(steps, {"gemm": 0.3, "communication": 0.7}), steps))
    found = judge(seen, llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    assert found.bound == "communication"
    assert fractions(found)["communication"] == pytest.approx(0.7)
    alone = judge(seen, None, None).phases["decode"].verdict
    assert alone is not None
    assert alone.bound == "communication"


@given(
    st.floats(1e-5, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.1),
    st.booleans(),
)
def test_the_parts_add_up_to_the_step(busy: float, gap: float, talk: float, saves: float, grounded: bool) -> None:
    steps = [step("decode", 0.0, busy, span=busy + gap, kernels=busy * 0.9, decode=GENERATING)]
    families = {"gemm": 1 - talk, "communication": talk}
    seen = traced(decode=(phase(steps, families, graphs_would_save=saves), steps))
    found = judge(seen, *((llama_3_8b(), h100()) if grounded else (None, None))).phases["decode"].verdict
    assert found is not None
    if found.alarm:
        assert not found.parts
        return
    assert sum(part.fraction for part in found.parts) == pytest.approx(1.0)
    assert all(part.seconds.value > 0 for part in found.parts)
    assert [p.fraction for p in found.parts] == sorted((p.fraction for p in found.parts), reverse=True)


def test_more_than_the_machine_can_do_stops_the_verdict() -> None:
    found = planted("decode", 0.004)
    assert found.alarm is not None
    assert "114% MBU" in found.alarm.text
    assert any("--devices" in cause for cause in found.alarm.causes)
    assert found.bound == "unknown"
    assert found.why.startswith("No verdict")
    assert not found.parts
    steps = [step("decode", 0.0, 0.004, decode=GENERATING)]
    seen = judge(traced(decode=(phase(steps, {"gemm": 1.0}), steps)), llama_3_8b(), h100())
    assert "no verdict" in seen.text


def test_what_is_missing_is_named_and_the_rest_is_said() -> None:
    steps = [step("decode", 0.0, 0.006, decode=GENERATING)]
    seen = traced(decode=(phase(steps, {"gemm": 1.0}), steps))
    neither, no_model, no_machine = (
        judge(seen, *known).phases["decode"].verdict for known in ((None, None), (None, h100()), (llama_3_8b(), None))
    )
    assert neither is not None
    assert no_model is not None
    assert no_machine is not None
    assert neither.why_null == f"{NO_MODEL}; {NO_MACHINE}"
    assert (no_model.why_null, no_machine.why_null) == (NO_MODEL, NO_MACHINE)
    assert neither.bound == "unknown"
    assert neither.floor is None
    assert not neither.utilisations
    assert fractions(neither) == {"kernels": 1.0}
    bare = [msgspec.structs.replace(steps[0], decode=None)]
    blind = judge(traced(decode=(phase(bare, {"gemm": 1.0}), bare)), llama_3_8b(), h100()).phases["decode"].verdict
    assert blind is not None
    assert blind.why_null == NO_COUNTS


def test_a_machine_without_a_rate_for_the_model_names_the_flags() -> None:
    steps = [step("decode", 0.0, 0.006, decode=GENERATING)]
    seen = traced(decode=(phase(steps, {"gemm": 1.0}), steps))
    found = judge(seen, llama_3_8b(), Machine(name="somebody's card", kind="gpu")).phases["decode"].verdict
    assert found is not None
    assert "--peak and --bandwidth" in found.why_null


def test_a_launch_bound_trace_is_told_without_a_model() -> None:
    steps = [step("prefill", 0.0, 0.0116, span=0.0845)]
    found = judge(traced(prefill=(phase(steps, {"moe": 1.0}, delay=10e-6), steps)), None, None)
    seen = found.phases["prefill"].verdict
    assert seen is not None
    assert seen.bound == "overhead"
    assert fractions(seen)["host"] == pytest.approx(0.863, abs=0.001)
    assert "host-bound" in found.text


@pytest.mark.parametrize(("rule", "bound"), [("memory", "memory"), ("compute", "compute"), ("latency", "kernel")])
def test_counters_name_the_bound_where_no_work_is_known(rule: str, bound: str) -> None:
    counters = SpeedOfLight(compute=20.0, memory=91.0, dram=80.0, kernels=3, duration_s=1e-3, rule=rule)  # type: ignore[arg-type]
    found = judge(traced(unknown=phase([], gpu_time=0.0, speed_of_light=counters)), None, None)
    seen = found.phases["unknown"].verdict
    assert seen is not None
    assert seen.bound == bound
    assert seen.called == f"{rule}-bound"
    assert found.text == (f"The 3 kernels with counters are {rule}-bound (20% compute, 91% memory) by NVIDIA's rule.")
    assert "Counters of 3 kernels say" in seen.why
    assert "NVIDIA's rule" in seen.why
    assert seen.step is None
    assert not seen.parts


def test_one_kernel_with_counters_of_a_phase_by_your_word() -> None:
    counters = SpeedOfLight(compute=5.9, memory=31.0, dram=None, kernels=1, duration_s=3e-6, rule="latency")
    seen = phase([], {"gemm": 1.0}, gpu_time=3e-6, speed_of_light=counters)
    found = judge(traced(prefill=seen), llama_3_8b(), h100())
    assert "Prefill's kernel with counters is latency-bound (5.9% compute, 31% memory) by NVIDIA's rule." in found.text
    verdict = found.phases["prefill"].verdict
    assert verdict is not None
    assert "Counters of 1 kernel say" in verdict.why
    for wrong in ("Steps", "longer than the work needs", "owns"):
        assert wrong not in found.text


def test_kernels_of_no_step_are_part_of_the_whole() -> None:
    steps = [step("decode", 0.0, 0.0052, decode=GENERATING)]
    seen = msgspec.structs.replace(
        traced(decode=(phase(steps, {"gemm": 1.0}), steps)), outside_s=0.0048, outside_kernels=9
    )
    found = judge(seen, llama_3_8b(), h100())
    assert found.text.startswith("Decode owns 52% of the GPU time")
    assert "48% of it belongs to no step." in found.text
    none = judge(msgspec.structs.replace(seen, outside_s=0.0, outside_kernels=0), llama_3_8b(), h100())
    assert none.text.startswith("Decode owns 100% of the GPU time")
    assert "no step" not in none.text


UNSAID = Tokens(requests=32, tokens=32)
"""What ``execute_context_0(0)_generation_32(32)`` and ``step[DECODE bs=32]`` say: no context."""


def unsaid(busy: float, span: float | None = None, talk: float = 0.0) -> TraceVerdict:
    steps = [step("decode", 0.0, busy, span=span, decode=UNSAID)]
    families = {"gemm": 0.8 * (1 - talk), "attention": 0.2 * (1 - talk), "communication": talk}
    found = judge(traced(decode=(phase(steps, families), steps)), llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    return found


def test_without_contexts_floor_and_utilisation_are_lower_bounds_and_attention_is_not_predicted() -> None:
    found = unsaid(0.010)
    assert found.floor is not None
    for least in (found.floor, *(one.value for one in found.utilisations)):
        assert (least.low, least.high, least.one_sided) == (least.value, None, "at least")
    kernels = next(part.seconds for part in found.parts if part.name == "kernels")
    assert (kernels.low, kernels.high, kernels.one_sided) == (None, kernels.value, "at most")
    assert found.attention_predicted is None
    assert "context" in found.attention_why_null
    said = judge_decode(0.010)
    assert said.attention_predicted is not None
    assert not said.attention_why_null
    assert said.floor is not None
    assert said.floor.one_sided == ""


def judge_decode(busy: float) -> TraceVerdict:
    said = Tokens(requests=32, tokens=32, context=64_032, squares=32, products=64_032)
    steps = [step("decode", 0.0, busy, decode=said)]
    found = judge(traced(decode=(phase(steps, {"gemm": 1.0}), steps)), llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    return found


def test_no_bound_leans_on_what_the_floor_leaves_out() -> None:
    """Weights alone take 4.48 ms of a step; where they are not most of it, the KV cache may be."""
    assert unsaid(0.006).bound == "memory"
    assert "at least" in unsaid(0.006).why
    assert judge_decode(0.020).bound == "kernel"
    open_ended = unsaid(0.020)
    assert open_ended.bound == "unknown"
    assert "at most" in open_ended.why
    assert "context" in open_ended.why
    # 11 ms of gaps are more than all kernels; 9 ms may be less than a floor of 10.
    assert unsaid(0.010, span=0.021).bound == "overhead"
    assert unsaid(0.010, span=0.019).bound == "unknown"
    assert unsaid(0.020, talk=0.6).bound == "communication"


def test_an_open_bound_is_told_with_its_reason() -> None:
    steps = [step("decode", 0.0, 0.020, decode=UNSAID)]
    found = judge(traced(decode=(phase(steps, {"gemm": 1.0}), steps)), llama_3_8b(), h100())
    assert "at least 22% MBU" in found.text
    assert "cannot be said: the context of its generations is not said" in found.text


def test_counts_read_from_shapes_are_said_to_be_no_counts() -> None:
    steps = [step("prefill", 0.0, 0.05)]
    read = [msgspec.structs.replace(steps[0], evidence=("15360 tokens, logits for 15 of them",))]
    for own, expected in ((steps, NO_COUNTS), (read, NOT_SAID)):
        found = judge(traced(prefill=(phase(own, {"gemm": 1.0}), own)), llama_3_8b(), h100())
        verdict = found.phases["prefill"].verdict
        assert verdict is not None
        assert verdict.why_null == expected


def test_where_the_device_was_not_recorded_nothing_is_judged() -> None:
    steps = [step("decode", 0.0, 0.006, decode=GENERATING)]
    missing = Health(check="device activity", status="failed", detail="1 marked step and no kernel: record the device")
    seen = traced(decode=(phase(steps, {"gemm": 1.0}), steps))
    found = judge(msgspec.structs.replace(seen, health=(missing,)), llama_3_8b(), h100())
    verdict = found.phases["decode"].verdict
    assert verdict is not None
    assert (verdict.bound, verdict.utilisations, verdict.floor, verdict.parts) == ("unknown", (), None, ())
    assert verdict.why_null == missing.detail
    assert found.text == f"No verdict: {missing.detail}."
    assert found.phases["prefill"].verdict is None


def test_a_summary_without_steps_still_says_its_communication() -> None:
    found = judge(traced(decode=phase([], {"gemm": 0.2, "communication": 0.8}, gpu_time=0.18)), None, None)
    seen = found.phases["decode"].verdict
    assert seen is not None
    assert seen.bound == "communication"
    assert seen.step is None
    assert fractions(seen) == pytest.approx({"communication": 0.8, "kernels": 0.2})


def test_phases_that_did_nothing_get_no_verdict() -> None:
    steps = [step("decode", 0.0, 0.006, decode=GENERATING)]
    found = judge(traced(decode=(phase(steps), steps)), llama_3_8b(), h100())
    assert found.phases["prefill"].verdict is None
    assert "holds no prefill" in found.text
    assert "Decode owns 100%" in found.text
    empty = judge(traced(), llama_3_8b(), h100())
    assert all(one.verdict is None for one in empty.phases.values())
    assert "no phase owns" in empty.text


def test_the_owner_and_its_bound_are_one_sentence() -> None:
    prefill = [step("prefill", 0.0, 0.05, prefill=FRESH)]
    decode = [step("decode", 0.05 + i * 0.006, 0.006, decode=GENERATING) for i in range(100)]
    seen = traced(prefill=(phase(prefill, {"gemm": 1.0}), prefill), decode=(phase(decode, {"gemm": 1.0}), decode))
    found = judge(seen, llama_3_8b(), h100())
    assert found.text == "Decode owns 92% of the GPU time and is memory-bound, 76% MBU while the device is busy."


def test_copies_between_kernels_are_named_as_such() -> None:
    steps = [step("unknown", 0.0, 0.010, kernels=0.002)]
    found = judge(traced(unknown=(phase(steps, {"gemm": 1.0}), steps)), None, None)
    seen = found.phases["unknown"].verdict
    assert seen is not None
    assert seen.bound == "overhead"
    assert fractions(seen) == pytest.approx({"copies": 0.8, "kernels": 0.2})
    assert "are copy-bound" in found.text


def test_ranks_share_the_work() -> None:
    steps = [step("decode", 0.0, 0.0013, decode=GENERATING, rank=rank) for rank in range(4)]
    seen = traced(world=4, decode=(phase(steps, {"gemm": 1.0}), steps))
    found = judge(seen, llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    assert found.utilisations[0].value.value == pytest.approx(READ / 4 / 0.0013)
    assert "evenly over 4 devices" in found.notes[0]
    stated = judge(traced(decode=(phase(steps), steps)), llama_3_8b(), msgspec.structs.replace(h100(), devices=4))
    seen_too = stated.phases["decode"].verdict
    assert seen_too is not None
    assert seen_too.utilisations == found.utilisations
    unsaid = judge(traced(devices=4, decode=(phase(steps), steps)), llama_3_8b(), h100()).phases["decode"].verdict
    assert unsaid is not None
    assert "ran kernels" in unsaid.notes[0]


def test_a_pause_of_the_server_and_overlapping_steps_are_no_step() -> None:
    starts = (0.0, 0.006, 5.0, 5.003)
    steps = [step("decode", start, 0.006, decode=GENERATING) for start in starts]
    found = judge(traced(decode=(phase(steps), steps)), llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    assert found.step is not None
    assert found.step.value == pytest.approx(0.006)


def test_assumptions_and_steps_that_were_left_out_are_said() -> None:
    steps = [
        step("decode", 0.0, 0.006, decode=Tokens(requests=1)),
        step("decode", 0.01, 0.006, decode=Tokens(requests=3, tokens=1)),
    ]
    found = judge(traced(decode=(phase(steps), steps)), llama_3_8b(), h100()).phases["decode"].verdict
    assert found is not None
    assert found.steps == 1
    assert any("lower bounds" in note for note in found.notes)
    assert any(note.startswith("1 of 2 steps") for note in found.notes)
    wrong = [steps[1]]
    none = judge(traced(decode=(phase(wrong), wrong)), llama_3_8b(), h100()).phases["decode"].verdict
    assert none is not None
    assert "contradict" in none.why_null


def test_the_public_sglang_trace_by_the_times_of_its_kernels() -> None:
    """Qwen3-8B on MI300X: 39% MBU and 33% MFU, ± 2, of the datasheet (data/traces/ANSWERS.md for the times)."""
    prompts = Tokens(requests=15, tokens=15_360, context=15_360, squares=15_728_640, products=15_728_640)
    batch = Tokens(requests=32, tokens=32, context=32_785, squares=32, products=32_785)
    prefill = [step("prefill", 0.493, 0.492807, span=0.494, kernels=0.492774, prefill=prompts)]
    decode = [step("decode", 0.987, 0.009773, span=0.01045, kernels=0.009765, decode=batch)]
    seen = traced(
        prefill=(phase(prefill, {"gemm": 0.853, "attention": 0.0407}), prefill),
        decode=(phase(decode, {"gemm": 0.592, "attention": 0.2185}), decode),
    )
    machine = catalogue.machine(catalogue.find("mi300x"))
    found = judge(seen, load("qwen3-8b"), machine)
    first, second = found.phases["prefill"].verdict, found.phases["decode"].verdict
    assert first is not None
    assert second is not None
    assert first.utilisations[0].yardstick == "mfu"
    assert first.utilisations[0].value.value == pytest.approx(0.338, abs=0.003)
    assert second.utilisations[0].yardstick == "mbu"
    assert second.utilisations[0].value.value == pytest.approx(0.386, abs=0.003)
    assert "Prefill owns 98%" in found.text


def test_two_recordings_say_nothing_of_who_owns_a_request() -> None:
    """How long each was recorded was somebody's choice."""
    prompts = [step("prefill", 0.0, 0.05, prefill=FRESH)]
    tokens = [step("decode", 0.0, 0.0052, decode=GENERATING)]
    both = traced(prefill=(phase(prompts, {"gemm": 1.0}), prompts), decode=(phase(tokens, {"gemm": 1.0}), tokens))
    one_job = judge(both, llama_3_8b(), h100())
    assert "Prefill owns" in one_job.text
    apart = judge(msgspec.structs.replace(both, recordings=(1, 1)), llama_3_8b(), h100())
    assert "owns 9" not in apart.text
    assert apart.text.startswith("A prefill step takes 50.0 ms")
    assert "A decode step takes 5.20 ms" in apart.text
    assert "phasewise profile" in apart.text
