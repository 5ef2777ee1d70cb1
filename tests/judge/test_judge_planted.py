"""Verdicts on planted phases of the reference case; every expectation is worked out by hand here."""

from __future__ import annotations

import msgspec
import pytest

import planted
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.judge.trust import contradictions
from phasewise.record.judgement import Judgement, PhaseVerdict
from phasewise.record.observation import Check, DecodeObservation, PrefillObservation
from phasewise.record.target import Reported, Target
from reference import llama_3_8b, reference_roof

LINEAR = 2 * 6_979_588_096 / 989e12  # seconds of math a prompt token, layers only
SQUARE = 32 * 2 * 32 * 128 / 989e12  # seconds of attention math a squared token
READ = (16_060_522_496 - 1_050_673_152) / 3.35e12  # seconds of reading the weights, no embedding
KV = 131_072 / 3.35e12


def judged(
    prefill: PrefillObservation | None, decode: DecodeObservation | None, checks: tuple[Check, ...] = ()
) -> Judgement:
    return judge(Case(observation=planted.seen(prefill, decode, checks), model=llama_3_8b(), roofs=(reference_roof(),)))


def fraction(verdict: PhaseVerdict | None, name: str) -> float:
    assert verdict is not None
    return next(share.fraction.value for share in verdict.shares if share.name == name)


def good_prefill(overhead: float = 0.003, mfu: float = 0.7) -> PrefillObservation:
    return planted.prefill(overhead, LINEAR / mfu, SQUARE / mfu)


def good_decode(overhead: float = 0.0005, mbu: float = 0.8) -> DecodeObservation:
    return planted.decode(lambda context: overhead + (READ + KV * context) / mbu)


def test_a_good_serving_stack() -> None:
    found = judged(good_prefill(), good_decode())
    assert found.verdict.owner == "decode"
    assert found.verdict.bound == "memory"
    assert found.prefill is not None
    assert found.prefill.bound == "compute"
    # 2,000 tokens: 29.3 ms of math at 70% takes 41.8 ms, and 3 ms of overhead on top.
    assert found.prefill.headline is not None
    assert found.prefill.headline.value == pytest.approx(0.0293 / (0.0293 / 0.7 + 0.003), rel=0.01)
    assert found.decode is not None
    assert found.decode.headline is not None
    context = 64.0
    step = 0.0005 + (READ + KV * context) / 0.8
    assert found.decode.headline.value == pytest.approx((READ + KV * context) / step, rel=0.005)
    assert found.decode_share == pytest.approx(1 - found.prefill_share if found.prefill_share else 0)
    assert "normal" in " ".join(found.decode.notes)


def test_shares_add_up_to_the_step() -> None:
    found = judged(good_prefill(), good_decode())
    for verdict in (found.prefill, found.decode):
        assert verdict is not None
        assert sum(share.fraction.value for share in verdict.shares) == pytest.approx(1.0)
        assert sum(share.seconds.value for share in verdict.shares) == pytest.approx(verdict.step.value)


def test_overhead_is_told_from_slow_kernels_in_prefill() -> None:
    slow = judged(planted.prefill(0.002, LINEAR / 0.2, SQUARE / 0.2), None).prefill
    late = judged(planted.prefill(0.080, LINEAR / 0.8, SQUARE / 0.8), None).prefill
    assert slow is not None
    assert late is not None
    assert slow.bound == "kernel"
    assert late.bound == "overhead"
    assert fraction(late, "overhead") == pytest.approx(0.080 / late.step.value, rel=0.05)


def test_overhead_of_decode_is_capped_by_that_of_prefill() -> None:
    # 20 ms a step where 4.5 would do. A prefill pass with 1 ms of overhead says that launches are not to blame ...
    flat = planted.decode(lambda context: 0.020 + KV * context)
    kernel = judged(good_prefill(overhead=0.001 + READ), flat).decode
    assert kernel is not None
    assert kernel.bound == "kernel"
    # ... and one with 30 ms lets them be.
    late = judged(good_prefill(overhead=0.030), flat).decode
    assert late is not None
    assert late.bound == "overhead"


def test_a_short_prefill_waits_for_the_weights_and_is_judged_by_mbu() -> None:
    lengths = (16, 32, 64, 128)
    times = planted.prefill(0.001 + READ, 1e-9, 0.0, lengths)
    found = judged(times, None).prefill
    assert found is not None
    assert found.yardstick == "mbu"
    assert found.bound == "memory"
    assert "below the ridge" in " ".join(found.notes)


def test_impossible_figures_ring_the_alarm_and_stop_the_verdict() -> None:
    found = judged(planted.prefill(0.001, LINEAR / 2.0, SQUARE / 2.0), good_decode())
    assert found.alarms
    assert found.verdict.owner is None
    assert found.verdict.text.startswith("No verdict")
    assert "sparse" in found.alarms[0].causes[0]
    assert found.prefill is not None
    assert not found.prefill.believed


def test_over_100_percent_within_the_interval_is_the_roof_not_an_alarm() -> None:
    at_the_roof = planted.prefill(0.0, LINEAR / 1.005, SQUARE / 1.005, width=0.02)
    found = judged(at_the_roof, good_decode())
    assert not found.alarms


def test_without_model_or_machine_times_are_judged_and_utilisations_are_not() -> None:
    case = Case(observation=planted.seen(good_prefill(), good_decode()), why_null="give --model and --on")
    found = judge(case)
    assert found.verdict.owner == "decode"
    assert "--model" in found.verdict.text
    assert found.prefill is not None
    assert found.prefill.headline is None
    assert found.prefill.why_null == "give --model and --on"
    assert found.prefill.shares == ()


def test_one_phase_names_no_owner_and_says_nothing_of_the_other() -> None:
    found = judged(None, good_decode())
    assert found.verdict.owner is None
    assert found.verdict.bound == "memory"
    assert "prefill" in found.verdict.text
    assert found.splits == ()


def test_a_voiding_check_takes_the_verdict_away() -> None:
    cached = Check(name="uncached", phase="prefill", status="failed", detail="The prompt was cached.", voids=True)
    found = judged(good_prefill(), good_decode(), (cached,))
    assert found.verdict.owner is None
    assert "the prompt was cached" in found.verdict.text
    assert found.prefill is not None
    assert not found.prefill.believed
    assert found.decode is not None
    assert found.decode.believed


def test_the_mix_weighs_its_requests() -> None:
    asks = (Ask(prompt=2000, answer=2, weight=1.0), Ask(prompt=64, answer=1000, weight=0.0))
    case = Case(
        observation=planted.seen(good_prefill(), good_decode()),
        model=llama_3_8b(),
        roofs=(reference_roof(),),
        asks=asks,
    )
    found = judge(case)
    assert found.splits[0].owner == "prefill"
    assert found.splits[1].owner == "decode"
    assert found.prefill_share == pytest.approx(found.splits[0].prefill_share)


def test_math_hidden_behind_the_reading_of_weights_is_not_counted_by_the_slope() -> None:
    """Plain max(math, reading) at 100%: short prompts wait for weights, so extra work is more than extra time shows."""
    lengths = (16, 64, 512, 2048, 8192)
    times = {n: max(READ, LINEAR * n + SQUARE * n * n) for n in lengths}
    seen = planted.prefill(0.0, LINEAR, SQUARE, lengths)
    points = tuple(
        msgspec.structs.replace(point, ttft=planted.q(times[point.tokens], "s"), best=times[point.tokens])
        for point in seen.points
    )
    found = judged(msgspec.structs.replace(seen, points=points), None)
    assert found.prefill is not None
    slopes = [u for u in found.prefill.utilisations if u.method == "slope"]
    assert [round(u.value.value, 2) for u in slopes] == [1.0]


def test_a_prompt_beyond_those_measured_is_a_prediction() -> None:
    short = planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7, (512, 1024))
    found = judged(short, good_decode())
    assert found.splits[0].ttft.provenance == "predicted"
    assert "extended from 1,024 tokens" in found.splits[0].ttft.source


def test_prompts_that_tell_nothing_of_the_stated_one_give_no_owner() -> None:
    one = planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7, (16,))
    found = judged(msgspec.structs.replace(one, fit=None), good_decode())
    assert found.splits == ()
    assert found.verdict.owner is None
    flat = planted.prefill(0.006, 1e-9, 0.0, (16, 64))  # a fit that would put 2,000 tokens below their floor
    assert judged(flat, good_decode()).splits == ()


def test_two_phases_within_the_noise_name_no_owner() -> None:
    case = Case(
        observation=planted.seen(
            planted.prefill(0.003, LINEAR / 0.7, SQUARE / 0.7, width=0.3), planted.decode(lambda c: 0.0451, width=0.3)
        ),
        model=llama_3_8b(),
        roofs=(reference_roof(),),
        asks=(Ask(prompt=2000, answer=2),),
    )
    found = judge(case)
    assert not found.splits[0].sure
    assert found.verdict.owner is None
    assert found.verdict.text.startswith("Neither phase owns")


def test_a_bound_that_the_interval_leaves_open_names_its_rival() -> None:
    flat = planted.decode(lambda context: 0.020 + KV * context)
    seen = msgspec.structs.replace(
        flat, fit=msgspec.structs.replace(flat.fit, per_context_token=planted.q(1e-9, "s/token", 5))
    )
    alone = judge(Case(observation=planted.seen(None, seen), model=llama_3_8b(), roofs=(reference_roof(),))).decode
    assert alone is not None
    assert {alone.bound, alone.rival} == {"overhead", "kernel"}
    sure = judged(good_prefill(), good_decode()).decode
    assert sure is not None
    assert sure.rival is None


def test_a_server_that_names_another_model_is_a_contradiction() -> None:
    says = Reported(key="model", value="meta-llama/Meta-Llama-3-70B", where="/v1/models")
    target = Target(
        name="x", engine="vLLM", served_model="m", prompting="text", endpoint="/v1/completions", reported=(says,)
    )
    assert "Meta-Llama-3-70B" in contradictions(llama_3_8b(), target)[0]
    same = msgspec.structs.replace(
        target, reported=(msgspec.structs.replace(says, value="meta-llama/Meta-Llama-3-8B"),)
    )
    assert contradictions(llama_3_8b(), same) == ()
    assert contradictions(None, target) == ()
    wrong = msgspec.structs.replace(says, key="parameters", value="134515008")
    assert "134,515,008" in contradictions(llama_3_8b(), msgspec.structs.replace(target, reported=(wrong,)))[0]
