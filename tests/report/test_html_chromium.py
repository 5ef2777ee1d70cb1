"""The HTML in a real headless Chromium: it says what the run says, complains of nothing and asks nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chromium_page
import pytest
from chromium_page import CONTRAST, quiet, text
from example_run import cpu, forecast, h100, hostile, nothing

from phasewise.record.run import Run
from phasewise.report import html
from phasewise.report import json as documents
from phasewise.report.view import heading

pytestmark = pytest.mark.slow


def shown(page: chromium_page.Page, tmp_path: Path, run: Run, scheme: str, width: int = 1200) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(run), encoding="utf-8")
    page.open(file, scheme, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", [h100, cpu])
def test_verdict_and_numbers_stand_on_the_page(
    browser: chromium_page.Page, tmp_path: Path, make: Any, scheme: str
) -> None:
    run = make()
    assert run.judgement
    shown(browser, tmp_path, run, scheme)
    assert text(browser, "#verdict") == run.judgement.verdict.text
    for phase, verdict in (("prefill", run.judgement.prefill), ("decode", run.judgement.decode)):
        values = browser.value(
            f"[...document.querySelectorAll('#{phase} data')].slice(0, 4).map(d => parseFloat(d.value))"
        )
        headlined = verdict.step if phase == "prefill" else run.observation.decode.tpot
        assert values == [verdict.headline.value, headlined.value, verdict.step.value, verdict.floor.value]
    parts = browser.value("[...document.querySelectorAll('#time .part')].map(p => p.getBoundingClientRect().width)")
    first = run.judgement.splits[0]
    assert parts[0] / sum(parts) == pytest.approx(first.prefill_share, abs=0.005)
    document = json.loads(browser.value("document.getElementById('data').textContent"))
    assert document == documents.profile(run)
    rows = browser.value("[...document.querySelectorAll('#recap tbody th')].map(h => h.innerText)")
    assert rows == ["bound", "yardstick", "value", "floor", "fixes"]
    assert browser.value("document.querySelectorAll('main svg.chart').length") == 3
    quiet(browser, tmp_path)


def test_the_watch_sees_what_a_page_does(browser: chromium_page.Page, tmp_path: Path) -> None:
    file = tmp_path / "loud.html"
    file.write_text('<img src="http://127.0.0.1:9/x.png"><script>console.error("no"); throw Error("never")</script>')
    browser.open(file, "light")
    assert {event["method"] for event in browser.complaints()} >= {
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
    }
    assert "http://127.0.0.1:9/x.png" in browser.requests()


def test_both_themes_and_the_switch(browser: chromium_page.Page, tmp_path: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    shown(browser, tmp_path, h100(), "light")
    light = browser.value(background)
    shown(browser, tmp_path, h100(), "dark")
    dark = browser.value(background)
    assert light != dark
    assert browser.value("document.getElementById('theme').innerText") == "Light"
    browser.value("document.getElementById('theme').click()")
    assert browser.value(background) == light
    browser.value("document.getElementById('theme').click()")
    assert browser.value(background) == dark
    quiet(browser, tmp_path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_against_its_background(browser: chromium_page.Page, tmp_path: Path, scheme: str) -> None:
    shown(browser, tmp_path, h100(), scheme)
    worst = browser.value(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


@pytest.mark.parametrize("width", [420, 760, 1200])
@pytest.mark.parametrize("make", [h100, hostile])
def test_the_page_never_scrolls_sideways(browser: chromium_page.Page, tmp_path: Path, make: Any, width: int) -> None:
    shown(browser, tmp_path, make(), "light", width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    quiet(browser, tmp_path)


@pytest.mark.parametrize("make", [hostile, nothing, forecast])
def test_hostile_and_empty_runs_raise_no_complaint(browser: chromium_page.Page, tmp_path: Path, make: Any) -> None:
    run = make()
    shown(browser, tmp_path, run, "dark")
    assert text(browser, "#verdict") == " ".join(heading.headline(run).split())
    assert browser.value("document.querySelectorAll('script').length") == 2
    quiet(browser, tmp_path)


def test_it_prints(browser: chromium_page.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, h100(), "dark")
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes()[:5] == b"%PDF-"
    quiet(browser, tmp_path)
