"""The JSON documents: keys as promised, plain SI numbers, provenance beside them, reasons for every null."""

from __future__ import annotations

import json as plain_json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from example_run import (
    EVERY,
    NO_ACCELERATOR,
    alarmed,
    cpu,
    failed,
    forecast,
    h100,
    hostile,
    long_winded,
    nothing,
    only_prefill,
    unknown,
    without_numbers,
)
from hypothesis import given
from hypothesis import strategies as st

from phasewise.record.quantity import Provenance, Quantity
from phasewise.record.run import Run
from phasewise.report import json
from phasewise.units import Unit

PROFILE = """
prefill.points.0.tokens prefill.points.0.ttft_s prefill.points.0.ci prefill.fit.overhead_s prefill.fit.per_token_s
prefill.fit.per_token2_s prefill.mfu prefill.bound decode.tpot_s decode.ci decode.mbu decode.bound
decode.per_context_token_s split.prefill_share split.decode_share checks.0.name checks.0.phase checks.0.status
checks.0.detail verdict.owner verdict.bound verdict.text fixes.0.name fixes.0.phase fixes.0.saves_s fixes.0.saves_share
fixes.0.why fixes.0.verify prefill.mbu decode.mfu prefill.utilisations.0.basis prefill.shares.0.fraction
prefill.floor_s decode.floor_s target.engine model.name machine.name prediction.prefill.time_s rejected.0.reason status
run.id recap.prefill.bound recap.decode.fixes
"""
PREDICT = """
model.name model.parameters model.active_parameters model.embedding_parameters model.kv_bytes_per_token
model.not_modelled accelerator.name accelerator.peak_flops accelerator.bandwidth prefill.flops prefill.bytes
prefill.compute_s prefill.memory_s prefill.time_s prefill.bound prefill.attention_share prefill.napkin.compute_s
prefill.napkin.memory_s decode.flops decode.bytes decode.weight_bytes decode.kv_bytes decode.compute_s decode.memory_s
decode.time_s decode.bound decode.napkin.compute_s decode.napkin.memory_s attention_crossover_tokens ridge_tokens
request.ttft_s request.tpot_s request.total_s request.decode_share batch.0.batch batch.0.step_s batch.0.throughput_gain
recap.prefill.floor recap.decode.floor
"""


def at(document: object, path: str) -> object:
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]  # type: ignore[index]
    return document


def nulls(value: object, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from nulls(item, f"{path}.{key}" if path else str(key))


@pytest.mark.parametrize("path", PROFILE.split())
def test_profile_has_every_key(path: str) -> None:
    assert at(json.profile(h100()), path) is not None


@pytest.mark.parametrize("path", PREDICT.split())
def test_prediction_has_every_key(path: str) -> None:
    assert at(json.prediction(forecast()), path) is not None


def test_leaves_are_plain_si_numbers_with_their_origin_beside_them() -> None:
    document = json.profile(h100())
    assert at(document, "prefill.fit.overhead_s") == pytest.approx(3.1e-3)
    assert at(document, "prefill.points.3.ttft_s") == pytest.approx(47.9e-3)
    assert at(document, "prefill.points.3.ci") == pytest.approx([47.9e-3 * 0.99, 47.9e-3 * 1.01])
    assert at(document, "decode.per_context_token_s") == pytest.approx(70e-9)
    origin = document["provenance"]
    assert isinstance(origin, dict)
    assert origin["prefill.fit.overhead_s"] == {
        "unit": "s",
        "provenance": "measured",
        "source": "fit of TTFT over 6 lengths",
        "low": pytest.approx(3.1e-3 * 0.94),
        "high": pytest.approx(3.1e-3 * 1.06),
    }
    assert origin["prefill.floor_s"]["provenance"] == "predicted"
    assert origin["prefill.mfu"]["unit"] == "1"
    assert origin["machine.ceilings.0.bandwidth"]["provenance"] == "datasheet"
    assert origin["machine.ceilings.1.compute.bf16"]["provenance"] == "assumed"


def test_every_path_of_provenance_leads_to_a_leaf() -> None:
    for document in (json.profile(h100()), json.profile(cpu()), json.prediction(forecast())):
        origins = document["provenance"]
        assert isinstance(origins, dict)
        assert len(origins) > 50
        assert all(isinstance(at(document, path), (int, float)) for path in origins)


def test_prediction_reproduces_the_ceilings_with_their_provenance() -> None:
    document = json.prediction(forecast())
    assert at(document, "accelerator.peak_flops") == 989e12
    assert document["provenance"]["accelerator.peak_flops"]["provenance"] == "datasheet"  # type: ignore[index]
    assert at(document, "batch.2.throughput_gain") == pytest.approx(30.7486)


def test_both_yardsticks_on_each_basis() -> None:
    found = at(json.profile(h100()), "decode.utilisations")
    assert isinstance(found, list)
    assert {(u["yardstick"], u["basis"]) for u in found} == {
        (yardstick, basis) for yardstick in ("mfu", "mbu") for basis in ("datasheet", "stated")
    }


def test_a_phase_that_was_not_measured_keeps_its_keys() -> None:
    document = json.profile(only_prefill())
    assert at(document, "decode.tpot_s") is None
    assert at(document, "decode.points") == []
    assert document["reasons"]["decode.mbu"] == "decode was not measured"  # type: ignore[index]
    assert document["reasons"]["split.decode_share"] == "Decode was not measured."  # type: ignore[index]
    assert [fix["phase"] for fix in document["fixes"]] == ["prefill"]  # type: ignore[attr-defined]


def test_without_model_and_machine_times_are_given_and_utilisations_say_what_is_missing() -> None:
    document = json.profile(unknown())
    assert at(document, "decode.tpot_s") == pytest.approx(5.941e-3)
    assert at(document, "prefill.mfu") is None
    assert at(document, "decode.mbu") is None
    assert document["reasons"]["prefill.mfu"] == NO_ACCELERATOR  # type: ignore[index]


def test_a_failed_check_and_an_alarm_are_in_the_document() -> None:
    assert at(json.profile(alarmed()), "alarms.0.causes.0") == "a sparse peak was taken for a dense one"
    document = json.profile(failed())
    assert [c["name"] for c in document["checks"] if c["status"] == "failed"] == ["uncached"]  # type: ignore[attr-defined]
    assert at(document, "prefill.believed") is False
    assert at(document, "verdict.owner") is None


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("shape", [json.profile, json.prediction])
def test_every_null_has_its_reason_and_the_recap_closes(
    make: Callable[[], Run], shape: Callable[[Run], dict[str, object]]
) -> None:
    document = shape(make())
    assert plain_json.loads(plain_json.dumps(document, allow_nan=False)) == document
    assert list(document)[-1] == "recap"
    reasons = document["reasons"]
    assert isinstance(reasons, dict)
    assert all(reasons.values())
    assert [path for path in nulls(document) if path not in reasons] == []


UNSAID = {"schema"}
"""Numbers that are none: the version of the form."""


def numbers(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from numbers(item, f"{path}.{key}" if path else str(key))


def shapes() -> Iterator[tuple[str, dict[str, object]]]:
    for make in EVERY:
        if make not in (hostile, long_winded):
            yield f"profile of {make.__name__}", json.profile(make())
            yield f"prediction of {make.__name__}", json.prediction(make())
    from phasewise.jobs.logs import logs as read
    from phasewise.jobs.predict import Over, predict
    from phasewise.jobs.subject import Subject
    from phasewise.report.json.logs import logs

    spread = predict(
        Subject(model="llama-3-70b", on="h100-sxm", devices=8),
        over=Over(tp=4, pp=2),
        changes=("weights=fp8", "batch=8"),
        prompt=500,
        answer=20,
        batch=1,
    )
    yield "a prediction over devices with changes", json.prediction(spread)
    yield (
        "a bare prediction",
        json.prediction(
            predict(Subject(model="llama-3-8b", peak="1PFLOP/s", bandwidth="3TB/s"), prompt=500, answer=20, batch=4)
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        plain, mooncake = Path(folder, "a.csv"), Path(folder, "b.jsonl")
        plain.write_text("time,prompt_tokens,answer_tokens\n1,9000,10\n5,200,300\n")
        mooncake.write_text('{"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [1, 2]}\n' * 2)
        for files in ([plain], [mooncake], [plain, mooncake]):
            for subject in (Subject(), Subject(model="llama-3-8b", on="h100-sxm")):
                done = read(files, subject, batch=32, progress=lambda doing, fraction: None)
                yield f"logs {[file.name for file in files]} with {subject.model}", logs(done.run, done.logs)


def test_every_number_says_what_it_is_and_every_null_why() -> None:
    for name, document in shapes():
        body = {key: value for key, value in document.items() if key not in ("provenance", "reasons")}
        origins, reasons = document["provenance"], document["reasons"]
        assert isinstance(origins, dict)
        assert isinstance(reasons, dict)
        assert {path for path in numbers(body) if path not in origins} <= UNSAID, name
        assert [path for path in nulls(body) if not reasons.get(path)] == [], name
        assert {origin["unit"] for origin in origins.values()} <= set(get_args(Unit)), name
        assert {origin["provenance"] for origin in origins.values()} <= set(get_args(Provenance)), name
        assert [path for path in origins if isinstance(at(document, path), str | dict | list)] == [], name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_document_holds_a_number_that_json_cannot(value: float) -> None:
    document = json.profile(without_numbers(value))
    plain_json.dumps(document, allow_nan=False)
    assert document["reasons"]["decode.tpot_s"] == "not a finite number"  # type: ignore[index]


def test_a_run_of_nothing_is_a_document() -> None:
    document = json.profile(nothing())
    assert at(document, "verdict.text") == "No verdict: nothing was measured."
    assert at(document, "recap.prefill.fixes") == "measure first: phasewise profile"


@given(st.floats(), st.floats(), st.floats())
def test_any_quantity_becomes_a_number_or_a_null(value: float, low: float, high: float) -> None:
    quantity = Quantity(value=value, unit="s", provenance="measured", low=low, high=high)
    document = json.document({"a": [{"b": quantity}]})
    plain_json.dumps(document, allow_nan=False)
    assert at(document, "a.0.b") == (value if math.isfinite(value) else None)
    assert ("a.0.b" in document["reasons"]) == (not math.isfinite(value))  # type: ignore[operator]


def test_a_document_is_made_of_records() -> None:
    with pytest.raises(TypeError, match="float"):
        json.document(1.0)
    with pytest.raises(TypeError, match=r"a\.0"):
        json.document({"a": [object()]})


def test_text_that_is_no_unicode_is_replaced() -> None:
    assert json.document({"name": "a\ud800b"})["name"] == "a?b"
