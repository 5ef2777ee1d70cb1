"""How many devices pay, and the prediction over them."""

from __future__ import annotations

import msgspec
import pytest
from parallel_models import spread

from phasewise.errors import UsageError
from phasewise.jobs.predict import Over, predict
from phasewise.jobs.subject import Subject
from phasewise.predict.parallel.advice import advise, paying
from phasewise.predict.parallel.spread import Spread
from phasewise.record.run import Run


@pytest.mark.parametrize(
    ("steps", "devices"),
    [
        ({1: 1.0}, 1),
        ({1: 1.0, 2: 0.5, 4: 0.25}, 4),
        ({1: 1.0, 2: 0.8, 4: 0.2}, 1),
        ({1: 1.0, 2: 0.7, 4: 0.69}, 2),
        ({2: 1.0, 8: 0.49}, 8),
        ({2: 1.0, 8: 0.51}, 2),
    ],
)
def test_twice_the_devices_pay_for_root_two(steps: dict[int, float], devices: int) -> None:
    assert paying(steps) == devices


def test_a_row_pays_exactly_while_the_rest_is_below_its_limit() -> None:
    found = advise(spread("llama-3-8b"), prompt=2000, answer=300, batch=1, memory=None)
    assert [row.devices for row in found.rows] == [1, 2, 4, 8]
    for before, row in zip(found.rows, found.rows[1:], strict=False):
        assert row.pays_below_s is not None
        for rest, pays in ((0.99 * row.pays_below_s, True), (1.01 * row.pays_below_s, False)):
            two = {1: before.decode_s + rest, 2: row.decode_s + rest}
            assert (paying(two) == 2) is pays


def test_advice_for_llama_3_1_8b_on_a100_is_what_was_measured_to_pay() -> None:
    """4 by gpt-fast's figures (test_parallel_published); 32 layers are taken to cost 1.6 ms that do not shrink."""
    found = advise(spread("llama-3.1-8b", "a100-sxm-80gb"), prompt=5, answer=200, batch=1, memory=80e9)
    assert found.fixed.value == pytest.approx(320 * 5e-6)
    assert found.devices == 4


def test_what_does_not_fit_is_not_advised() -> None:
    one = spread("llama-3-70b")
    found = advise(one, prompt=2000, answer=300, batch=1, memory=80e9)
    assert [row.fits for row in found.rows] == [False, True, True, True]
    assert "2 is the fewest" in found.text
    none = advise(one, prompt=2000, answer=300, batch=1, memory=1e9)
    assert none.devices is None
    assert "does not fit" in none.text


def test_without_a_link_nothing_is_advised() -> None:
    linked = spread("llama-3-8b")
    found = advise(Spread(linked.model, linked.layout, linked.roof), prompt=9, answer=9, batch=1, memory=None)
    assert found.devices is None
    assert "--link" in found.text


def run(devices: int = 1, **flags: object) -> Run:
    subject = Subject(model="llama-3-8b", on="h100-sxm", devices=devices)
    return predict(subject, prompt=2000, answer=50, batch=4, over=Over(**flags))  # type: ignore[arg-type]


def test_devices_alone_are_tensor_parallel_and_say_so() -> None:
    found = run(devices=4)
    assert found.parallel is not None
    assert (found.parallel.tp, found.parallel.devices) == (4, 4)
    assert found.machine is not None
    assert found.machine.devices == 4
    assert any("TP=4 (what --devices means without --tp)" in note for note in found.machine.notes)
    assert found.prediction == run(tp=4).prediction


def test_the_prediction_over_devices_by_hand() -> None:
    found = run(tp=4)
    one = spread("llama-3-8b", tp=4)
    prediction, parallel = found.prediction, found.parallel
    assert prediction is not None
    assert parallel is not None
    assert prediction.decode.time_s == float(one.decode(2000.0, 4.0).time_s)
    assert prediction.decode.kv_bytes == 4 * 2000 * 131_072
    assert prediction.peak_flops == 4 * 989e12
    assert prediction.decode.memory_s == pytest.approx(prediction.decode.bytes / (4 * 3.35e12))
    steps = sum(float(one.decode(2000.0 + k).time_s) for k in range(1, 50))
    assert prediction.request.total_s == pytest.approx(float(one.prefill(2000.0).time_s) + steps)
    rows = {row.batch: row for row in prediction.batch}
    assert rows[4].step_s == prediction.decode.time_s
    assert parallel.decode.weight_bytes == pytest.approx(prediction.decode.weight_bytes / 4)
    assert parallel.decode.time_s == parallel.decode.floor_s + parallel.decode.communication_s
    alone = spread("llama-3-8b")
    whole = float(alone.decode(2000.0, 4.0).time_s)
    assert parallel.decode.efficiency == pytest.approx(whole / (4 * parallel.decode.time_s))
    assert {one.name for one in prediction.formulas} >= {"decode, communication", "decode over 4 devices (TP=4)"}


def test_one_device_is_predicted_as_ever() -> None:
    found = run()
    assert found.parallel is None
    asked = run(tp=1)
    assert asked.parallel is not None
    assert asked.prediction is not None
    assert found.prediction is not None
    plain = msgspec.structs.replace(asked.prediction, formulas=())
    assert plain == msgspec.structs.replace(found.prediction, formulas=())


def test_a_pipeline_shows_its_bubble() -> None:
    found = run(pp=4).parallel
    assert found is not None
    assert found.prefill.idle == pytest.approx(0.75, abs=0.001)
    assert found.prefill.bound == "pipeline"
    assert found.decode.idle == pytest.approx(0, abs=1e-9)
    assert found.decode.bound == "memory"


def test_a_pipelines_work_is_that_of_all_its_parts() -> None:
    """4 requests in 4 parts: every stage reads its weights 4 times."""
    found = run(pp=4)
    assert found.prediction is not None
    assert found.parallel is not None
    layers_and_head = 2 * (6_979_588_096 + 525_336_576)
    assert found.prediction.decode.weight_bytes == 4 * layers_and_head
    assert found.prediction.decode.kv_bytes == 4 * 2000 * 131_072
    assert found.prediction.decode.memory_s == pytest.approx(found.parallel.decode.floor_s, rel=1e-3)
    assert found.parallel.decode.weight_bytes == layers_and_head


def test_what_is_left_out_is_said() -> None:
    unlinked = predict(
        Subject(model="llama-3-8b", peak="1PFLOP/s", bandwidth="3TB/s", devices=2), prompt=9, answer=9, batch=1
    )
    assert unlinked.parallel is not None
    assert any("no link is known" in note for note in unlinked.parallel.notes)
    assert all(one.seconds is None for one in unlinked.parallel.decode.messages)
    beyond = run(devices=16).parallel
    assert beyond is not None
    assert any("slower network between nodes" in note for note in beyond.notes)
    amd = predict(Subject(model="llama-3-8b", on="mi300x", devices=2), prompt=9, answer=9, batch=1).parallel
    assert amd is not None
    assert any("No latency is known" in note for note in amd.notes)
    large = predict(Subject(model="llama-3-70b", on="h100-sxm"), prompt=9, answer=9, batch=1).parallel
    assert large is not None
    assert any("do not fit" in note for note in large.notes)


@pytest.mark.parametrize(
    "flags",
    [{"tp": 3}, {"ep": 2}, {"tp": 2, "ep": 2}, {"pp": 40}, {"link": "foo"}, {"dp_attention": 7}, {"tp": 100_000}],
)
def test_a_mistake_is_one_sentence(flags: dict[str, object]) -> None:
    devices = 8 if "dp_attention" in flags else 1
    with pytest.raises(UsageError) as caught:
        run(devices=devices, **flags)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)
