"""TTFT in its parts, bursts and options stand in all four forms, and nothing does where none were measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from example_run import h100

from phasewise.record.probes import Burst, OptionCost, Probes, TtftParts
from phasewise.record.quantity import measured, reported
from phasewise.record.run import Run
from phasewise.report import html, json, markdown, terminal

PROBES = Probes(
    ttft=TtftParts(
        tokens=975,
        ttft=measured(0.0281, "s", "median of 3 requests", 0.0280, 0.0282),
        client=measured(0.0, "s", "due to sent"),
        connection=measured(0.000215, "s", "opening 3 connections"),
        kept=measured(-0.00001, "s", "kept less new", -0.0001, 0.0001),
        queue=reported(0.0031, "s", "queue_time_ms"),
        idle_s=1.5,
        idle=measured(0.0201, "s", "after a pause", 0.0199, 0.0203),
        again=measured(0.0011, "s", "again", 0.0010, 0.0012),
        cached_tokens=960,
        counted_again=975,
    ),
    bursts=(
        Burst(
            requests=8,
            ttft_first=0.0087,
            ttft_last=0.0212,
            together=5,
            step=None,
            throughput=None,
            tokens_per_chunk=1.0,
        ),
    ),
    options=(
        OptionCost(name="logprobs", plain=measured(0.0056, "s", "greedy"), tpot=measured(0.0071, "s", "logprobs")),
        OptionCost(
            name="a JSON grammar", plain=measured(0.0056, "s", "greedy"), tpot=None, refused="HTTP 400: \x1b[31mno"
        ),
    ),
    skipped=("TTFT was not taken apart: no",),
)


def probed() -> Run:
    run = h100()
    assert run.observation is not None
    return msgspec.structs.replace(run, observation=msgspec.structs.replace(run.observation, probes=PROBES))


def as_text(run: Run) -> str:
    return terminal.to_text(terminal.profile(run))


@pytest.mark.parametrize("form", [as_text, html.render, markdown.profile])
def test_a_readers_form_shows_them(form: Callable[[Run], str]) -> None:
    text = form(probed())
    for words in ("TTFT taken apart at 975 tokens", "28.1 ms", "20.1 ms", "3.10 ms", "Short requests sent together"):
        assert words in text
    for words in ("What options cost per token", "7.10 ms", "logprobs", "not told"):
        assert words in text
    assert "\x1b[31m" not in text
    assert "taken apart at 975" not in form(h100())


def test_the_document_has_every_part_with_its_origin_or_its_reason() -> None:
    document: dict[str, Any] = json.profile(probed())
    beside = document["beside"]
    assert beside["ttft_parts"]["idle_s"] == pytest.approx(0.0201)
    assert beside["ttft_parts"]["front_end_s"] is None
    assert "text and token ids" in document["reasons"]["beside.ttft_parts.front_end_s"]
    assert document["provenance"]["beside.ttft_parts.queue_s"]["provenance"] == "reported"
    assert beside["bursts"][0]["step_s"] is None
    assert beside["options"][1]["tpot_s"] is None
    assert beside["skipped"] == ["TTFT was not taken apart: no"]

    def numbers(value: object, path: str) -> list[str]:
        if isinstance(value, dict):
            return [found for key, each in value.items() for found in numbers(each, f"{path}.{key}")]
        if isinstance(value, list):
            return [found for index, each in enumerate(value) for found in numbers(each, f"{path}.{index}")]
        return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []

    assert set(numbers(beside, "beside")) <= set(document["provenance"])
    assert json.profile(h100())["beside"] is None
