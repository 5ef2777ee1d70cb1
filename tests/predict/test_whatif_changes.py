"""Each change against what the flags give, and against arithmetic by hand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whatif_setups import alone, setup, tried

from phasewise.errors import UsageError
from phasewise.jobs.predict import Over, predict
from phasewise.jobs.subject import Subject
from phasewise.predict.whatif.changes import CHANGES, read
from phasewise.predict.whatif.outcome import outcome
from phasewise.record.prediction import Prediction
from phasewise.record.whatif import Outcome, Trial

BANDWIDTH, PEAK = 3.35e12, 989e12
LAYERS, NORMS, HEAD, KV = 6_979_321_856, 266_240, 525_336_576, 131_072


def after(trial: Trial) -> Outcome:
    assert trial.outcome is not None, trial.refused
    return trial.outcome


def predicted(over: Over | None = None, batch: int = 1, on: str = "h100-sxm", **flags: str) -> Prediction:
    run = predict(Subject(model="llama-3-8b", on=on, **flags), prompt=2000, answer=300, batch=batch, over=over)  # type: ignore[arg-type]
    assert run.prediction is not None
    return run.prediction


def test_nothing_asked_changes_nothing() -> None:
    found = tried()
    assert found.trials == ()
    assert found.together is None
    plain = predicted()
    assert found.before.ttft_s == plain.prefill.time_s
    assert found.before.step_s == found.before.tpot_s == plain.decode.time_s
    assert found.before.total_s == pytest.approx(plain.request.total_s)
    assert found.before.tokens_per_s == pytest.approx(1 / plain.decode.time_s)
    assert found.before.stall_s is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("weights=int4", {"weights": "int4"}),
        ("weights=fp8", {"weights": "fp8"}),
        ("kv=fp8", {"kv": "fp8"}),
        ("tp=2", {"over": Over(tp=2)}),
        ("pp=2", {"over": Over(pp=2)}),
        ("batch=32", {"batch": 32}),
        ("accelerator=h200-sxm", {"on": "h200-sxm"}),
    ],
)
def test_a_change_is_what_its_flag_gives(change: str, same: dict[str, object]) -> None:
    found, flag = after(alone(change)), predicted(**same)  # type: ignore[arg-type]
    assert found.ttft_s == pytest.approx(flag.prefill.time_s)
    assert found.step_s == pytest.approx(flag.decode.time_s)


def test_int4_weights_by_hand() -> None:
    """Layers at 0.5 + 2/128 bytes, head and norms in 16 bit, cache as before."""
    trial = alone("weights=int4")
    bytes_ = LAYERS * (0.5 + 2 / 128) + 2 * (NORMS + HEAD) + KV * 2000
    assert after(trial).tpot_s == pytest.approx(bytes_ / BANDWIDTH, rel=1e-6)
    assert trial.prefill is not None
    assert trial.decode is not None
    assert trial.prefill.owner == ""
    assert trial.decode.owner == "MLP (memory)"
    mlp = 32 * 3 * 4096 * 14336
    assert trial.decode.owner_before_s == pytest.approx(2 * mlp / BANDWIDTH)
    assert trial.decode.owner_after_s == pytest.approx((0.5 + 2 / 128) * mlp / BANDWIDTH)


def test_fp8_weights_run_faster_matmuls_and_say_so() -> None:
    trial = alone("weights=fp8")
    assert trial.prefill is not None
    assert trial.prefill.owner == "MLP (compute)"
    assert trial.prefill.owner_before_s == pytest.approx(2 * trial.prefill.owner_after_s)
    assert any("fp8" in note for note in trial.notes)


def test_an_fp8_cache_by_hand() -> None:
    trial = alone("kv=fp8", setup(batch=32))
    assert trial.decode is not None
    assert trial.decode.owner == "attention (memory)"
    assert trial.decode.owner_before_s == pytest.approx(32 * 2000 * KV / BANDWIDTH)
    assert trial.decode.owner_after_s == pytest.approx(32 * 2000 * KV / 2 / BANDWIDTH)


def test_a_larger_batch_costs_a_request_time_and_gains_throughput() -> None:
    trial = alone("batch=32")
    found, before = after(trial), tried().before
    assert found.tpot_s > before.tpot_s
    assert found.tokens_per_s == pytest.approx(32 / found.step_s)
    assert trial.decode is not None
    assert trial.decode.per == "token of the batch"
    assert trial.decode.owner == "MLP (memory)"
    assert trial.decode.owner_after_s == pytest.approx(trial.decode.owner_before_s / 32)


def test_a_prefix_hit_computes_the_rest() -> None:
    trial = alone("prefix-hit=0.8")
    attention = 32 * 2 * 4096 * (2000.0**2 - 1600.0**2) / PEAK
    expected = 2 * (LAYERS + NORMS) * 400 / PEAK + attention + 2 * HEAD / BANDWIDTH
    assert after(trial).ttft_s == pytest.approx(expected, rel=1e-6)
    assert trial.decode is not None
    assert trial.decode.owner == ""
    assert after(alone("prefix-hit=1")).ttft_s > 0
    assert alone("prefix-hit=0").refused


def test_what_owns_a_change_of_devices() -> None:
    trial = alone("tp=2")
    assert trial.prefill is not None
    assert trial.decode is not None
    assert (trial.prefill.owner, trial.decode.owner) == ("MLP (compute)", "MLP (memory)")
    assert any(note.startswith("2 devices in place of 1: ") for note in trial.notes)
    slow = setup("l40s", layout=msgspec.structs.replace(setup().layout, tp=8))
    link = alone("link=900GB/s", slow)
    assert link.prefill is not None
    assert link.prefill.owner == "communication"


def test_an_accelerator_brings_its_own_link_and_dtype() -> None:
    two = setup(layout=msgspec.structs.replace(setup().layout, tp=2), weights="fp8")
    trial = alone("accelerator=a100-sxm-80gb", two)
    assert any("bf16 there, not in fp8" in note for note in trial.notes)
    flag = predict(
        Subject(model="llama-3-8b", on="a100-sxm-80gb", devices=2, weights="fp8"), prompt=2000, answer=300, batch=1
    ).prediction
    assert flag is not None
    assert after(trial).step_s == pytest.approx(flag.decode.time_s)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("weights=bf16", {}),
        ("kv=bf16", {}),
        ("tp=1", {}),
        ("tp=3", {}),
        ("tp=64", {}),
        ("ep=8", {}),
        ("pp=33", {}),
        ("batch=1", {}),
        ("chunk=512", {}),
        ("chunk=2000", {"batch": 8}),
        ("link=NVLink5", {}),
        ("accelerator=h100-sxm", {}),
        ("prefix-hit=0.1", {"cached": 500}),
    ],
)
def test_what_would_do_nothing_is_refused_with_a_reason(change: str, fields: dict[str, object]) -> None:
    trial = alone(change, setup(**fields))
    assert trial.outcome is None
    assert len(trial.refused) > 10
    assert not trial.refused.endswith(".")


def test_a_change_refused_alone_counts_together() -> None:
    """At batch 1 chunks protect nobody; with batch=32 beside them they do."""
    found = tried("chunk=512", "batch=32")
    assert [bool(trial.refused) for trial in found.trials] == [True, False]
    assert found.together is not None
    assert found.together.change == "batch=32, chunk=512"
    assert found.together.outcome is not None
    assert found.together.outcome.stall_s == after(alone("chunk=512", setup(batch=32))).stall_s


def test_together_is_all_of_them_whatever_the_order() -> None:
    names = ["weights=int4", "kv=fp8", "tp=2", "batch=32", "prefix-hit=0.8"]
    one, other = tried(",".join(names)).together, tried(*reversed(names)).together
    assert one is not None
    assert one.outcome == (other.outcome if other else None)
    kept = setup(weights="int4", kv="fp8", batch=32, cached=1600, layout=msgspec.structs.replace(setup().layout, tp=2))
    assert one.outcome == outcome(kept).shown
    assert tried("tp=2,tp=4").together is None
    assert tried("tp=2,weights=bf16").together is None


def test_what_does_not_fit_is_said() -> None:
    trial = alone("batch=10000")
    assert after(trial).fits is False
    assert any("do not fit" in note for note in trial.notes)


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "foo=1", "weights", "weights=", "=int4", "weights int4", "WEIGHTS=int4x"),
        *("batch=0", "batch=-1", "batch=1.5", "batch=1e9", "batch=" + "9" * 400, "batch=٣", "batch=NaN"),
        *("prefix-hit=2", "prefix-hit=nan", "prefix-hit=-0.1", "prefix-hit=inf", "prefix-hit=x"),
        *("draft=4", "draft=x:0.7", "draft=4:x", "draft=0:0.5", "draft=4:1.1", "draft=4:0.7:2", "draft=4:0.7:no-such"),
        *("graphs=yes", "tp=0", "tp=two", "link=foo", "accelerator=foo", "accelerator=h100", "weights=int5", "kv=zip"),
        "accelerator=\x1b[31mred",
    ],
)
def test_a_mistake_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        tried(text)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_chunks_beyond_counting_are_a_mistake() -> None:
    with pytest.raises(UsageError, match="larger one"):
        alone("chunk=1", setup(batch=2, prompt=10_000_000))


def test_every_change_takes_its_own_example() -> None:
    assert len({change.name for change in CHANGES}) == len(CHANGES)
    for change in CHANGES:
        ((known, value),) = read([f" {change.name} = {change.example} "])
        assert (known, value) == (change, change.example)
        alone(f"{change.name}={change.example}")


changes = st.lists(
    st.sampled_from(
        ["weights=int4", "weights=fp8", "kv=fp8", "tp=2", "tp=8", "prefix-hit=0.5", "accelerator=h200-sxm", "graphs=on"]
    ),
    min_size=1,
    unique_by=lambda change: change.split("=")[0],
)


@settings(max_examples=40, deadline=None)
@given(changes, st.integers(1, 64), st.integers(1, 8000))
def test_less_work_and_more_machine_never_slow(asked: list[str], batch: int, prompt: int) -> None:
    found = tried(*asked, on=setup(batch=batch, prompt=prompt, answer=3))
    slack = 1 + 1e-9
    for trial in (*found.trials, *([found.together] if found.together else [])):
        if trial.outcome is None:
            continue
        # Communication can cost more than cutting a small prompt gains.
        if "tp" not in trial.change:
            assert trial.outcome.ttft_s <= found.before.ttft_s * slack
        assert trial.outcome.tpot_s <= found.before.tpot_s * slack or "tp" in trial.change
        for gain in (trial.prefill, trial.decode):
            assert gain is not None
            assert bool(gain.owner) or gain.after_s == pytest.approx(gain.before_s, rel=2e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 5000), st.sampled_from(["free", "eager", "graph"]))
def test_the_parts_of_a_phase_are_its_time(batch: int, prompt: int, launches: str) -> None:
    full = outcome(setup(batch=batch, prompt=prompt, answer=2, launches=launches))
    assert sum(full.prefill.values()) == pytest.approx(full.shown.ttft_s)
    assert sum(full.decode.values()) == pytest.approx(full.shown.step_s)
