"""The page of a trace in a real headless Chromium: it draws, says what the record says, complains of nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chromium_page
import pytest
from chromium_page import CONTRAST, quiet, text
from example_trace import counters, eager, hostile, nothing, of, only_decode, ranks, sglang

from phasewise.record.run import Run
from phasewise.report.html.traced import render
from phasewise.report.json.traced import traced as document

pytestmark = pytest.mark.slow


def shown(page: chromium_page.Page, tmp_path: Path, run: Run, scheme: str, width: int = 1200) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(run), encoding="utf-8")
    page.open(file, scheme, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_answer_the_columns_and_the_pictures(browser: chromium_page.Page, tmp_path: Path, scheme: str) -> None:
    run = sglang()
    shown(browser, tmp_path, run, scheme)
    assert text(browser, "#verdict") == of(run).text
    row = "[...document.querySelectorAll('table.columns tr')].find(r => r.innerText.startsWith('kernels per step'))"
    assert browser.value(f"[...{row}.querySelectorAll('data')].map(d => +d.value)") == [527, 555]
    found = json.loads(browser.value("document.getElementById('data').textContent"))
    assert found["phases"] == json.loads(json.dumps(document(run)))["phases"]
    assert browser.value("document.querySelectorAll('main svg.timeline').length") == 3
    cards = "[...document.querySelectorAll('.card')].map(c => Math.round(c.getBoundingClientRect().top))"
    prefill, decode = browser.value(cards)
    assert prefill == decode, "side by side"
    quiet(browser, tmp_path)


def test_families_have_colours_of_their_own(browser: chromium_page.Page, tmp_path: Path) -> None:
    for scheme in ("light", "dark"):
        shown(browser, tmp_path, sglang(), scheme)
        fills = browser.value(
            "[...document.querySelectorAll('#timeline path')].map(p => [p.classList[0], getComputedStyle(p).fill])"
        )
        by_class = dict(fills)
        assert len(set(by_class.values())) == len(by_class) >= 7
        assert "rgb(0, 0, 0)" not in by_class.values(), "no class is left without a colour"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", [sglang, eager])
def test_text_can_be_read_against_its_background(
    browser: chromium_page.Page, tmp_path: Path, make: Any, scheme: str
) -> None:
    shown(browser, tmp_path, make(), scheme)
    worst = browser.value(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


@pytest.mark.parametrize("width", [420, 760, 1200])
@pytest.mark.parametrize("make", [sglang, eager, hostile, ranks])
def test_the_page_never_scrolls_sideways(browser: chromium_page.Page, tmp_path: Path, make: Any, width: int) -> None:
    shown(browser, tmp_path, make(), "light", width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    quiet(browser, tmp_path)


@pytest.mark.parametrize("make", [hostile, nothing, counters, only_decode])
def test_hostile_and_empty_traces_raise_no_complaint(browser: chromium_page.Page, tmp_path: Path, make: Any) -> None:
    shown(browser, tmp_path, make(), "dark")
    assert browser.value("document.querySelectorAll('script').length") == 2
    quiet(browser, tmp_path)


def test_it_prints(browser: chromium_page.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, sglang(), "dark")
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes()[:5] == b"%PDF-"
    quiet(browser, tmp_path)
