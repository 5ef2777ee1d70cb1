"""The document of a trace: the keys that are promised, SI numbers that say where they come from, reasons for nulls."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from example_parts import change
from example_trace import (
    DECODE,
    EVERY,
    PREFILL,
    counters,
    eager,
    hostile,
    of,
    only_decode,
    ranks,
    sglang,
    with_phases,
    with_trace,
)

from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.json.traced import traced
from phasewise.report.terminal import to_text
from phasewise.report.terminal.traced import traced as terminal

PHASES = ("prefill", "decode", "mixed", "unknown")
CONTRACT = {
    "phase": {"gpu_time_s", "kernels", "steps", "busy_fraction", "families", "bound"},
    "step": {"phase", "evidence", "start_s", "gpu_time_s", "kernels", "requests", "tokens"},
    "top": {"kernels_total", "gpu_sum_s", "gpu_union_s", "span_s", "busy_fraction", "graph_launches", "health"},
    "health": {"check", "status", "detail"},
}


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, f"{path}.{key}" if path else str(key))


@pytest.mark.parametrize("make", EVERY)
def test_it_has_every_promised_key(make: Callable[[], Run]) -> None:
    document = traced(make())
    assert CONTRACT["top"] <= set(document)
    assert tuple(document["phases"]) == PHASES  # type: ignore[arg-type]
    for phase in PHASES:
        assert CONTRACT["phase"] <= set(at(document, f"phases.{phase}"))
        assert isinstance(at(document, f"phases.{phase}.families"), dict)
    for step in at(document, "steps"):
        assert set(step) >= CONTRACT["step"]
    for one in at(document, "health"):
        assert set(one) == CONTRACT["health"]
    assert list(document)[-1] == "recap"


def test_the_numbers_are_those_of_the_record() -> None:
    document = traced(sglang())
    assert at(document, "phases.prefill.kernels") == 527
    assert at(document, "phases.decode.kernels") == 555
    assert at(document, "phases.prefill.gpu_time_s") == pytest.approx(492_773.592e-6)
    assert at(document, "phases.decode.gpu_time_s") == pytest.approx(9_765.437e-6)
    assert at(document, "phases.decode.families.gemm") == {
        "gpu_time_s": pytest.approx(5_782.3e-6),
        "share": pytest.approx(5_782.3 / 9_765.437),
        "kernels": 145,
        "largest": "gemm_kernel",
    }
    assert at(document, "phases.decode.bound") == "kernel"
    assert at(document, "phases.decode.mbu") == 0.39
    assert at(document, "steps.0.evidence.0") == "annotation execute_15360_context_15"
    assert at(document, "steps.1.decode.context") == 32_785
    assert at(document, "kernels_total") == 1_082
    assert at(document, "graph_launches") == 1
    assert isinstance(at(document, "kernels_total"), int), "counts stay whole"


def test_the_trace_reported_and_the_floor_is_predicted() -> None:
    origins = traced(sglang())["provenance"]
    assert isinstance(origins, dict)
    assert origins["phases.decode.gpu_time_s"] == {"unit": "s", "provenance": "reported", "source": "the trace"}
    assert origins["phases.decode.families.gemm.share"]["unit"] == "1"
    assert origins["phases.decode.floor_s"]["provenance"] == "predicted"
    assert origins["phases.prefill.parts.1.seconds"]["provenance"] == "predicted", "the floor's part"
    assert origins["steps.0.tokens"]["unit"] == "token"
    assert origins["busy_fraction"]["provenance"] == "reported"
    assert origins["timeline.start_s"]["unit"] == "s"


@pytest.mark.parametrize("make", EVERY)
def test_every_path_leads_somewhere_and_every_null_has_its_reason(make: Callable[[], Run]) -> None:
    document = traced(make())
    origins, reasons = document["provenance"], document["reasons"]
    assert isinstance(origins, dict)
    assert isinstance(reasons, dict)
    if make is not hostile:  # whose families have dots in their names
        assert all(isinstance(at(document, path), (int, float, list)) for path in origins)
    body = {key: value for key, value in document.items() if key not in ("provenance", "reasons")}
    nulls = {path for path, value in leaves(body) if value is None}
    assert nulls == set(reasons)
    assert all(reasons.values())
    assert all(math.isfinite(value) for _, value in leaves(body) if isinstance(value, float))
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("make", [sglang, only_decode, counters, eager])
def test_every_number_of_a_phase_says_where_it_comes_from(make: Callable[[], Run]) -> None:
    document = traced(make())
    origins = document["provenance"]
    assert isinstance(origins, dict)
    for part in ("phases", "steps", "devices", "measured"):
        for path, value in leaves(document[part], part):
            named = path.rpartition(".")[2] in ("rank", "device", "world")
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not named:
                assert path in origins, path


def test_what_is_not_in_the_trace_is_null_not_zero() -> None:
    document = traced(only_decode())
    reasons = document["reasons"]
    assert isinstance(reasons, dict)
    assert at(document, "phases.prefill.steps") == 0
    for key in ("busy_fraction", "bound", "mfu", "tokens", "gaps", "speed_of_light", "median_kernel_s"):
        assert at(document, f"phases.prefill.{key}") is None
        assert reasons[f"phases.prefill.{key}"] == "not in this trace"
    assert reasons["phases.decode.speed_of_light"] == "not measured: the files hold no counters", (
        "the record's own reason wins"
    )


def test_an_unknown_bound_is_null_with_its_reason() -> None:
    assert DECODE.verdict
    verdict = msgspec.structs.replace(DECODE.verdict, bound="unknown", why="nothing tells: no model", utilisations=())
    document = traced(with_phases(sglang(), decode=msgspec.structs.replace(DECODE, verdict=verdict)))
    assert at(document, "phases.decode.bound") is None
    assert document["reasons"]["phases.decode.bound"] == "nothing tells: no model"  # type: ignore[index]
    assert at(document, "phases.decode.mbu") is None


def test_speed_of_light_is_a_ratio_as_all_shares_are() -> None:
    document = traced(counters())
    assert at(document, "phases.unknown.speed_of_light.memory") == pytest.approx(0.90717)
    assert at(document, "measured.0.compute") == pytest.approx(0.12035)
    assert at(document, "measured.0.waves") == pytest.approx(59.362)
    assert at(document, "measured.1.memory") is None
    assert document["reasons"]["measured.1.memory"].startswith("not measured")  # type: ignore[index]
    assert document["reasons"]["busy_fraction"] == "there is no timeline"  # type: ignore[index]


def test_the_timeline_is_columns_of_one_length() -> None:
    run = ranks()
    columns = traced(run)["timeline"]
    assert isinstance(columns, dict)
    assert {len(columns[name]) for name in ("lane", "start_s", "length_s", "kind", "label")} == {len(of(run).timeline)}


def test_a_run_without_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no trace"):
        traced(msgspec.structs.replace(sglang(), traced=None))


def test_the_phases_add_up_to_the_whole() -> None:
    document = traced(sglang())
    assert sum(at(document, f"phases.{phase}.kernels") for phase in PHASES) == at(document, "kernels_total")
    total = PREFILL.gpu_time_s + DECODE.gpu_time_s
    assert at(document, "gpu_sum_s") == pytest.approx(total)


def lower_bound() -> Run:
    """The decode step, its contexts not said."""
    verdict = DECODE.verdict
    assert verdict is not None
    assert verdict.floor is not None

    def at_least(one: Quantity) -> Quantity:
        return change(one, low=one.value, high=None)

    parts = tuple(
        change(part, seconds=change(part.seconds, high=part.seconds.value) if part.name == "kernels" else part.seconds)
        for part in verdict.parts
    )
    changed = change(
        verdict,
        floor=at_least(verdict.floor),
        utilisations=tuple(change(one, value=at_least(one.value)) for one in verdict.utilisations),
        parts=parts,
        attention_predicted=None,
        attention_why_null="the context is not said",
    )
    return with_phases(sglang(), decode=change(DECODE, verdict=changed))


def test_a_lower_bound_is_marked_wherever_it_stands() -> None:
    document = traced(lower_bound())
    beside = document["provenance"]
    assert isinstance(beside, dict)
    for name in ("mbu", "mfu", "floor_s"):
        path = f"phases.decode.{name}"
        assert beside[path]["low"] == at(document, path)
        assert "high" not in beside[path]
    assert beside["phases.decode.parts.0.seconds"]["high"] == at(document, "phases.decode.parts.0.seconds")
    assert beside["phases.decode.parts.0.fraction"]["high"] == at(document, "phases.decode.parts.0.fraction")
    assert at(document, "phases.decode.attention_share_predicted") is None
    assert at(document, "reasons")["phases.decode.attention_share_predicted"] == "the context is not said"
    assert at(document, "recap.decode.value").startswith("at least 39")
    assert at(document, "recap.decode.floor").startswith("at least 4.08 ms")
    assert "beyond the floor at most 54.5%" in at(document, "recap.decode.bound")
    text = " ".join(to_text(terminal(lower_bound()), 200).split())
    for said in ("at least 39.0% of 5.30 TB/s", "at most 5.70 ms", "not predicted: the context is not said"):
        assert said in text


def test_an_annotation_that_two_engines_write_names_none_unless_the_file_does() -> None:
    step = change(of(sglang()).steps[0], evidence=("vLLM annotation execute_1_context_1(1)_generation_0(0)",))
    run = with_trace(sglang(), steps=(step,))
    assert at(traced(run), "steps.0.evidence") == ["annotation execute_1_context_1(1)_generation_0(0)"]
    known = with_trace(run, files=(change(of(run).files[0], engine="vLLM"),))
    assert at(traced(known), "steps.0.evidence.0").startswith("vLLM annotation")
