"""The HTML file without a browser: alone, small, well-formed, honest, and safe against any name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from example_run import (
    EVERY,
    HOSTILE,
    alarmed,
    cpu,
    forecast,
    h100,
    hostile,
    interrupted,
    nothing,
    only_prefill,
    unknown,
    without_numbers,
)
from hypothesis import given
from hypothesis import strategies as st

from phasewise.record.run import Run
from phasewise.report import html
from phasewise.report import json as documents
from phasewise.report.html.svg import Linear, Log, tag
from phasewise.report.view import words

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Tags in balance, ids, attributes and the text of each element with an id."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.tags[-1][1], data))
        elif not (self.open and self.open[-1] == "style"):
            self.text += data

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.mark.parametrize("make", EVERY)
def test_one_small_file_that_needs_nothing_else(make: Callable[[], Run]) -> None:
    source = html.render(make())
    page = Page(source)
    assert len(source.encode()) < 1_500_000
    assert len(set(page.ids())) == len(page.ids())
    for name, attributes in page.tags:
        assert name not in ("img", "iframe", "object", "embed", "base", "form", "a")
        assert not {key for key in attributes if key.startswith("on")}
        assert not {"src", "srcset", "action", "xlink:href"} & set(attributes)
        assert attributes.get("href", "data:,") == "data:,"
    style = re.findall(r"<style>(.*?)</style>", source, re.S)[0]
    assert not re.search(r"url\(|@import|@font-face", style)
    recap = page.text[page.text.rindex("Recap") :]
    assert [
        row for row in ("bound", "yardstick", "value", "floor", "fixes", "prefill", "decode") if row not in recap
    ] == []


@pytest.mark.parametrize("make", EVERY)
def test_the_document_inside_is_the_json_document(make: Callable[[], Run]) -> None:
    run = make()
    scripts = Page(html.render(run)).scripts
    data = [text for attributes, text in scripts if attributes.get("type") == "application/json"]
    assert len(data) == 1
    assert json.loads(data[0]) == documents.profile(run)
    assert not re.search("[<>&]", data[0])


def test_only_our_own_script_may_run() -> None:
    page = Page(html.render(hostile()))
    code = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(code) == 1
    digest = base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode()
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_names_stay_names() -> None:
    page = Page(html.render(hostile()))
    assert words.clean(HOSTILE) in page.text
    assert "alert(1)" not in "".join(text for attributes, text in page.scripts if "type" not in attributes)
    assert "49" not in re.sub(r"[^\n]*\d[.,]\d[^\n]*", "", page.text), "{{7*7}} is not evaluated"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page.text)


def test_numbers_carry_unit_and_provenance() -> None:
    page = Page(html.render(h100()))
    quantities = [attributes for name, attributes in page.tags if name == "data"]
    assert len(quantities) > 60
    kinds = tuple(words.MARKS)
    assert all(attributes["title"].startswith(kinds) for attributes in quantities)
    assert all(float(attributes["value"]) >= 0 for attributes in quantities)
    assert "29.6 msp" in page.text, "a floor is marked as predicted"
    assert "47.9 msm" in page.text, "a step is marked as measured"


def test_every_chart_has_words_and_a_table() -> None:
    page = Page(html.render(h100()))
    charts = [a for name, a in page.tags if name == "svg"]
    assert len(charts) == 3
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    for caption in ("The roofline in numbers", "TTFT over prompt length", "Step time over context"):
        assert caption in page.text


def test_the_roofline_places_each_step_where_its_work_per_byte_says() -> None:
    from phasewise.report.html.roofline import places, roofs

    run = h100()
    assert run.judgement
    assert run.judgement.prefill
    assert run.judgement.decode
    prefill = next(p for p in places(run.judgement.prefill) if p.tokens == 2000)
    # 28.968 TFLOP over 15.272 GB of the counted work, within the rounding of the utilisations.
    assert prefill.intensity == pytest.approx(28.968e12 / 15.272e9, rel=2e-3)
    assert prefill.rate == pytest.approx(28.968e12 / 47.9e-3, rel=2e-3)
    assert prefill.floor_rate == pytest.approx(28.968e12 / 29.603e-3, rel=2e-3)
    decode = next(p for p in places(run.judgement.decode) if p.tokens == 2150)
    assert decode.intensity == pytest.approx(16.14e9 / 15.2917e9, rel=0.05)
    assert [roof.basis for roof in roofs(run)] == ["datasheet", "stated"]


def test_growth_keeps_points_inside_and_draws_no_chart_without_points() -> None:
    from phasewise.report.html.growth import growth

    drawing = str(growth(cpu(), "prefill"))
    assert drawing.count("<circle") == 4
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([-.\d]+)" cy="([-.\d]+)"', drawing)]
    assert all(0 <= x <= 560 and 0 <= y <= 340 for x, y in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True), "longer prompts lie higher"
    assert growth(only_prefill(), "decode") is None
    assert growth(without_numbers(), "prefill") is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (alarmed, "Likely causes, likeliest first:"),
        (interrupted, "Measured, but not judged."),
        (nothing, "No check was made"),
        (only_prefill, "Not measured, so nothing is said of it."),
        (unknown, "MFU and MBU: no accelerator is known: give --on"),
        (forecast, "Measure first: phasewise profile."),
        (cpu, "Over the whole mix prefill takes 67.2% and decode 32.8% of the time."),
    ],
)
def test_what_is_missing_is_said(make: Callable[[], Run], said: str) -> None:
    assert said in re.sub(r"\s+", " ", Page(html.render(make())).text)


@given(st.floats(1e-12, 1e12), st.floats(1.0, 1e6))
def test_scales_stay_inside_and_mark_round_values(low: float, span: float) -> None:
    linear, log = Linear(low, 0.0, 100.0), Log(low, low * span * 10, 0.0, 100.0)
    for scale, top in ((linear, low), (log, low * span * 10)):
        ticks = scale.ticks()
        assert 1 <= len(ticks) <= 30
        assert all(-1e-6 <= scale(tick) <= 100 + 1e-6 for tick in ticks)
        assert all(tick <= top * (1 + 1e-9) for tick in ticks)
        assert scale(top) == pytest.approx(100.0)


def test_svg_escapes_what_it_is_given() -> None:
    assert str(tag("text", "<b>&", class_='"x"')) == '<text class="&#34;x&#34;">&lt;b&gt;&amp;</text>'
