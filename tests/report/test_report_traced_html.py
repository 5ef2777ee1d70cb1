"""The page of a trace without a browser: alone, light, well-formed, pictures true to the bars, safe against names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from example_run import HOSTILE
from example_trace import (
    DECODE,
    EVERY,
    counters,
    eager,
    hostile,
    nothing,
    of,
    only_decode,
    ranks,
    sglang,
    with_phases,
    with_trace,
)
from test_report_html import Page

from phasewise.record.run import Run
from phasewise.record.trace import Bar
from phasewise.report.html import timeline
from phasewise.report.html.traced import render
from phasewise.report.json.traced import traced as document
from phasewise.report.view import words
from phasewise.report.view.traced_kernels import PALETTE, colours


@pytest.mark.parametrize("make", EVERY)
def test_one_light_file_that_needs_nothing_else(make: Callable[[], Run]) -> None:
    source = render(make())
    page = Page(source)
    assert len(source.encode()) < 1_000_000
    assert len(set(page.ids())) == len(page.ids())
    for name, attributes in page.tags:
        assert name not in ("img", "iframe", "object", "embed", "base", "form", "a")
        assert not {key for key in attributes if key.startswith("on")}
        assert not {"src", "srcset", "action", "xlink:href"} & set(attributes)
    recap = page.text[page.text.rindex("Recap") :]
    assert all(row in recap for row in ("bound", "yardstick", "value", "floor", "fixes", "prefill", "decode"))
    assert "Prefill" in page.text
    assert "Decode" in page.text


@pytest.mark.parametrize("make", EVERY)
def test_the_document_inside_is_the_json_document_without_its_rows(make: Callable[[], Run]) -> None:
    run = make()
    inside = next(
        text for attributes, text in Page(render(run)).scripts if attributes.get("type") == "application/json"
    )
    assert not re.search("[<>&]", inside)
    tree = json.loads(json.dumps(document(run)))
    found = json.loads(inside)
    assert set(tree) - set(found) == {"steps", "timeline"}
    assert found["phases"] == tree["phases"]
    assert all(tree["provenance"][path] == one for path, one in found["provenance"].items())


def test_names_stay_names() -> None:
    page = Page(render(hostile()))
    assert words.clean(HOSTILE) in page.text
    assert "alert(1)" not in "".join(text for attributes, text in page.scripts if "type" not in attributes)
    assert len([text for attributes, text in page.scripts if "type" not in attributes]) == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page.text)


def test_a_phase_that_is_not_there_has_a_card_that_says_so() -> None:
    source = render(only_decode())
    card = source.split('id="prefill"')[1].split("</article>")[0]
    assert "Not in this trace." in card
    assert "<svg" not in card
    assert "<svg" in source.split('id="decode"')[1].split("</article>")[0]


def test_without_a_timeline_there_is_no_picture_but_a_reason() -> None:
    source = render(counters())
    assert "<svg" not in source
    assert "Nsight Compute replays each kernel alone" in source
    assert "This trace has no timeline." in render(nothing())


def rectangles(drawing: object) -> list[tuple[float, float, float]]:
    """Left edge, top and width of every merged bar."""
    found = re.findall(r"M([\d.-]+) ([\d.-]+)h([\d.]+)v", str(drawing))
    return [(float(x), float(y), float(w)) for x, y, w in found]


def test_the_overview_places_every_bar_at_its_time() -> None:
    run = with_trace(
        sglang(),
        timeline=(
            Bar(lane="gpu 0", start_s=0.0, length_s=0.25, kind="gemm", label="a"),
            Bar(lane="gpu 0", start_s=0.75, length_s=0.25, kind="attention", label="b"),
            Bar(lane="steps", start_s=0.75, length_s=0.25, kind="decode", label="c"),
        ),
    )
    drawing = timeline.overview(of(run), colours(of(run)))
    found = sorted((x, w) for x, _, w in rectangles(drawing))
    width = 1080 - 8 - 92
    assert found == [
        (92.0, pytest.approx(width / 4)),
        (pytest.approx(92 + width * 0.75), pytest.approx(width / 4)),
        (pytest.approx(92 + width * 0.75), pytest.approx(width / 4)),
    ]
    assert re.findall(r'class="band (\w+)"', str(drawing)) == ["decode"]
    labels = re.findall(r">(steps|gpu 0)<", str(drawing))
    assert labels == ["steps", "gpu 0"], "what each stretch was stands on top"


def test_a_step_is_enlarged_to_one_scale_for_both_phases() -> None:
    found = of(sglang())
    picked = [timeline.chosen(found, phase) for phase in ("prefill", "decode")]
    assert all(picked)
    steps = [one[0] for one in picked if one]
    assert [step.phase for step in steps] == ["prefill", "decode"]
    assert [len(one[1]) for one in picked if one] == [540, 540], "36 layers of 15 kernels, the band is no kernel"
    assert timeline.window(steps) == pytest.approx(500e-6), "a twelfth of 10.45 ms, rounded down"
    pictures = [str(timeline.enlarged(*one, 500e-6, colours(found))) for one in picked if one]
    prefill, decode = (picture.count("<title>") for picture in pictures)
    assert prefill <= 3 < 12 < decode, "few large kernels beside many small ones"


def test_gaps_of_a_step_keep_their_width() -> None:
    found = of(sglang())
    chosen = timeline.chosen(found, "decode")
    assert chosen
    drawing = str(timeline.enlarged(*chosen, 500e-6, colours(found)))
    rects = [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" y="\d+[^"]*" width="([\d.]+)"', drawing)]
    idle = [b - (a + w) for (a, w), (b, _) in pairwise(rects)]
    assert sum(idle) / (rects[-1][0] - rects[0][0]) == pytest.approx(0.065, abs=0.01), "the bars were laid 6.5% apart"
    assert len(rects) > 12


def test_thousands_of_bars_stay_light() -> None:
    run = ranks()
    assert len(of(run).timeline) == 3_000
    drawing = str(timeline.overview(of(run), colours(of(run))))
    assert len(rectangles(drawing)) == 3_000
    assert len(drawing) < 150_000
    assert "8 of" not in render(run)
    assert "100 of 800 steps: --full shows all." in render(run)


def test_bars_of_nonsense_are_not_drawn() -> None:
    bad = (
        Bar(lane="gpu 0", start_s=float("nan"), length_s=1.0, kind="gemm", label=""),
        Bar(lane="gpu 0", start_s=-1.0, length_s=1.0, kind="gemm", label=""),
    )
    run = with_trace(sglang(), timeline=bad)
    assert timeline.overview(of(run), {}) is None
    assert "<svg" not in render(run)


def test_every_family_has_a_colour_until_they_run_out() -> None:
    row = DECODE.families[0]
    many = tuple(msgspec.structs.replace(row, family=f"own {i}", gpu_time_s=1.0 / (i + 1)) for i in range(PALETTE + 4))
    run = with_phases(only_decode(), decode=msgspec.structs.replace(DECODE, families=many))
    found = colours(of(run))
    assert [found[f"own {i}"] for i in range(3)] == [0, 1, 2]
    assert max(found.values()) == PALETTE
    assert list(found.values()).count(PALETTE) > 1


def test_steps_whose_phase_is_unknown_get_a_card_of_their_own() -> None:
    source = render(eager())
    assert source.count("Not in this trace.") == 3
    assert "<svg" in source.split('id="unknown"')[1].split("</article>")[0]


def test_no_colour_of_the_page_means_two_things() -> None:
    """Phases and families have colours of their own; parts of a step have none: they are told apart by hatching."""
    source = render(sglang())
    told = ("prefill", "decode", "mixed", "unknown", *(f"f{i}" for i in range(10)))
    for scheme in (0, 1):
        found = [re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\);", source) for name in told]
        shades = [one.groups()[scheme] for one in found if one]
        assert len(set(shades)) == len(told)
    bar = source.split('class="bar"')[1].split("</ul>")[0]
    keys = set(re.findall(r"(?:part|swatch) (is-[\w-]+)", bar))
    assert keys == {"is-step-kernels", "is-step-floor", "is-step-launches"}
    for key in keys:
        rule = source.split(f".part.{key}, .swatch.{key} {{")[1].split("}")[0]
        assert set(re.findall(r"--\w+", rule)) <= {"--ink", "--card"}
