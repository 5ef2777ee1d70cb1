"""Fits of planted engines: what is recovered, what stays assumed, what is claimed of the error."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from calibrate_oracle import COMPUTE, READ, decode_s, point, points, prefill_s

from phasewise.hardware import catalogue
from phasewise.judge.calibrate import apply
from phasewise.judge.calibrate.calibrate import Subject, calibrate, roof_of
from phasewise.judge.calibrate.fit import fit
from phasewise.judge.calibrate.interval import assumed_interval, hold_out, interval
from phasewise.model.load import load as load_model
from phasewise.model.passes import Pass
from phasewise.predict import efficiency
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.predict import predict
from phasewise.predict.priors import prior
from phasewise.predict.roofline import roofs
from phasewise.record.calibration import Calibrated, Calibration, Point

MODEL = load_model("llama-3-8b")
MACHINE = catalogue.machine(catalogue.find("h100-sxm"))
PRIOR = prior("hbm")
SUBJECT = Subject(name="planted", engine="oracle", model=MODEL, machine=MACHINE, link=None, prior=PRIOR)


def spread(tp: int = 1) -> Spread:
    return Spread(MODEL, Layout(tp=tp), roof_of(MODEL, MACHINE))


def seen(
    kept: Calibration, *, prompt: int = 2000, batch: int = 1, tp: int = 1, machine: str = "h100-sxm"
) -> Calibrated:
    found = predict(MODEL, roofs(MODEL, MACHINE)[0], prompt=prompt, answer=100, batch=batch)
    return apply.apply(apply.from_calibration(kept, spread(tp), machine), spread(tp), found)


def test_ten_points_of_a_planted_engine_are_recovered() -> None:
    kept = calibrate(SUBJECT, points())
    assert kept.parameters["compute"].value == pytest.approx(COMPUTE, abs=0.05)
    assert kept.parameters["bandwidth"].value == pytest.approx(READ, abs=0.08)
    # Settings that no point is at.
    found = seen(kept, prompt=3000, batch=16)
    assert found.prefill.time.value == pytest.approx(prefill_s(3000), rel=0.05)
    assert found.decode.time.value == pytest.approx(decode_s(3000, 16), rel=0.05)
    assert found.decode.time.low < found.decode.time.value < found.decode.time.high  # type: ignore[operator]
    assert found.decode.floor.value < found.decode.time.value


def test_the_whole_request_is_prefill_and_the_steps_after_it() -> None:
    found = seen(calibrate(SUBJECT, points()), prompt=1000)
    assert found.ttft.value == found.prefill.time.value
    assert found.tpot.value == pytest.approx(decode_s(1050), rel=0.05)
    assert found.total.value == pytest.approx(found.ttft.value + 99 * found.tpot.value)
    assert found.total.low < found.total.value < found.total.high  # type: ignore[operator]


def test_left_out_points_are_missed_by_about_the_planted_scatter() -> None:
    errors = []
    for seed in range(4):
        kept = calibrate(SUBJECT, points(np.random.default_rng(seed), 0.05))
        errors += [score.held_out_mean for score in kept.scores]
        assert 0.02 < kept.scatter < 0.12
    assert 0.03 < np.mean(errors) < 0.10
    assert all(score.plain_mean > 0.25 for score in kept.scores)


def test_intervals_cover_what_they_claim_at_settings_that_were_not_measured() -> None:
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(10):
        kept = calibrate(SUBJECT, points(rng, 0.08))
        outlook = apply.from_calibration(kept, spread(), "h100-sxm")
        for phase, tokens, batch in (("prefill", 700.0, 1.0), ("prefill", 3000.0, 1.0), ("decode", 900.0, 4.0)) * 3:
            new = point(phase, tokens, batch, noise=0.08 * float(rng.standard_normal()))
            one = Pass(new.tokens, new.context, new.batch, decode=phase == "decode")
            ends = outlook.ends(efficiency.load(spread(), one), new.phase)
            assert ends is not None
            covered.append(ends[0][0] <= new.seconds <= ends[1][0])
    # Ten calibrations, nine new points each: no more than about 25 of them are independent, so four standard errors
    # around 80% are wide.
    assert 0.55 < np.mean(covered) < 0.98


def test_one_bad_point_of_ten_bends_little() -> None:
    spoilt = list(points())
    spoilt[2] = msgspec.structs.replace(spoilt[2], seconds=3 * spoilt[2].seconds)
    found = seen(calibrate(SUBJECT, spoilt), prompt=3000)
    assert found.prefill.time.value == pytest.approx(prefill_s(3000), rel=0.12)


def test_what_the_points_do_not_touch_stays_as_assumed() -> None:
    kept = calibrate(SUBJECT, points())
    for name in ("link", "message_s"):
        assert kept.parameters[name].provenance == "assumed"
        assert kept.parameters[name].value == pytest.approx(getattr(PRIOR.efficiency, name), rel=1e-3)
    assert kept.parameters["compute"].provenance == "measured"
    assert kept.parameters["compute"].low < COMPUTE < kept.parameters["compute"].high  # type: ignore[operator]


def test_prefill_alone_leaves_the_rest_assumed_and_says_so() -> None:
    kept = calibrate(SUBJECT, [one for one in points() if one.phase == "prefill"])
    assert any("No decode point" in note for note in kept.notes)
    assert kept.parameters["answer_s"].provenance == "assumed"
    found = seen(kept)
    assert found.decode.time.low is None
    assert "0 decode points" in found.decode.no_interval
    assert found.prefill.time.low is not None
    assert found.total.low is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "a100-sxm-80gb"}, "not of a100"),
        ({"tp": 2}, "TP=1, not of TP=2"),
        ({"batch": 1000}, "requests in the step are far from the points' (1 to 64)"),
        ({"prompt": 100_000}, "tokens in the step are far from the points' (256 to 4,096)"),
    ],
)
def test_no_interval_is_claimed_for_what_was_not_measured(change: dict[str, object], words: str) -> None:
    found = seen(calibrate(SUBJECT, points()), **change)  # type: ignore[arg-type]
    step = found.prefill if "prompt" in change else found.decode
    assert step.time.low is None
    assert words in step.no_interval
    assert step.time.value >= step.floor.value * 0.9


def test_one_batch_says_nothing_of_another() -> None:
    alone = [one for one in points() if one.batch == 1] + [point("decode", n, 1.0) for n in (400.0, 800.0, 1200.0)]
    kept = calibrate(SUBJECT, alone)
    assert seen(kept, batch=1).decode.time.low is not None
    assert "requests in the step are far from the points' (1)" in seen(kept, batch=2).decode.no_interval


def test_another_format_is_another_thing() -> None:
    kept = calibrate(SUBJECT, points())
    other = Spread(load_model("llama-3-8b", weights="int4"), Layout(), roof_of(MODEL, MACHINE))
    outlook = apply.from_calibration(kept, other, "h100-sxm")
    assert "weights in bf16" in outlook.why_none(apply.Setting("decode", 1.0, 1.0, 1000.0))
    assert any(note.startswith("Not what was measured") for note in outlook.notes)


def test_a_prior_alone_is_wide_and_holds_the_planted_engine() -> None:
    found = predict(MODEL, roofs(MODEL, MACHINE)[0], prompt=2000, answer=100)
    known = apply.apply(apply.from_prior(PRIOR), spread(), found)
    assert known.prefill.time.low < prefill_s(2000) < known.prefill.time.high  # type: ignore[operator]
    assert known.decode.time.low < decode_s(2000) < known.decode.time.high  # type: ignore[operator]
    assert known.decode.time.high / known.decode.time.low > 1.4  # type: ignore[operator]
    assert known.prefill.floor.value <= known.prefill.time.low  # type: ignore[operator]
    of = efficiency.load(spread(), Pass(2000.0))
    assert assumed_interval(PRIOR, of) == assumed_interval(PRIOR, of)


def test_repeated_settings_of_several_devices_find_the_link() -> None:
    """Planted: half of the link, beside the planted engine."""
    from phasewise.predict.parallel import link

    joined = link.of(MACHINE)
    assert joined is not None
    several: list[Point] = []
    for tp in (1, 2, 8):
        for tokens in (512.0, 2048.0, 8192.0):
            sent = 65 * 2 * (tp - 1) / tp * tokens * 4096 * 2
            took = (prefill_s(tokens) - 3e-3) / tp + 3e-3 + sent / 0.5 / 450e9
            several.append(
                Point(
                    phase="prefill", tokens=tokens, batch=1.0, context=0.0, devices=tp, seconds=took, source="planted"
                )
            )
    kept = calibrate(msgspec.structs.replace(SUBJECT, link=joined), several)
    assert kept.parameters["link"].provenance == "measured"
    assert kept.parameters["link"].value == pytest.approx(0.5, abs=0.12)


def test_leaving_out_a_group_leaves_out_all_of_it() -> None:
    seconds = np.array([one.seconds for one in points()])
    load = efficiency.stack([efficiency.load(spread(), _pass(one)) for one in points()])
    groups = np.array(["a"] * 5 + ["b"] * 5)
    held = hold_out(load.under, seconds, PRIOR, groups)
    assert len(held.fits) == 2
    without_a = fit(load.under, seconds, PRIOR, groups == "b").efficiency
    assert held.misses[:5] == pytest.approx(np.log(seconds / without_a.seconds(load))[:5])
    whole = hold_out(load.under, seconds, PRIOR, np.zeros(10))
    assert whole.misses == pytest.approx(np.log(seconds / PRIOR.efficiency.seconds(load)))


def _pass(one: Point) -> Pass:
    return Pass(one.tokens, one.context, one.batch, decode=one.phase == "decode")


def test_interval_by_hand() -> None:
    # Ten fits that all say 1 s, and misses of e^0.01 to e^0.10: the ninth smallest is the end of 80%.
    predicted = np.ones((10, 1))
    misses = np.arange(1, 11) / 100 * np.array([1, -1] * 5)
    ends = interval(predicted, misses)
    assert ends is not None
    assert ends[0][0] == pytest.approx(np.exp(-0.09))
    assert ends[1][0] == pytest.approx(np.exp(0.09))
    # Four points: their largest miss; three cannot claim 80%.
    four = interval(np.ones((4, 1)), misses[:4])
    assert four is not None
    assert four[1][0] == pytest.approx(np.exp(0.04))
    assert interval(np.ones((3, 1)), misses[:3]) is None
    # The fits without a point may differ: jackknife+ takes them as they are.
    differing = interval(np.array([[1.0], [2.0], [1.0], [1.0]]), np.full(4, 0.1))
    assert differing is not None
    assert differing[1][0] == pytest.approx(2 * np.exp(0.1))


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [np.nan], [np.inf]])
def test_times_that_cannot_be_are_refused(bad: list[float]) -> None:
    of = efficiency.load(spread(), Pass(100.0))
    with pytest.raises(ValueError, match="positive"):
        fit(lambda found: found.seconds(of)[: len(bad)], np.array(bad), PRIOR)


def test_many_points_are_left_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.judge.calibrate.calibrate.MOST_FOLDS", 3)
    rng = np.random.default_rng(1)
    many = [point("decode", 100.0 * n, 1.0, 0.02 * float(rng.standard_normal())) for n in range(1, 11)]
    kept = calibrate(SUBJECT, many)
    assert len(kept.folds) == 3
    assert [one.fold for one in kept.points] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert kept.scores[0].held_out_mean < 0.05
