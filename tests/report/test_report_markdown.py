"""Markdown for an issue: GitHub's tables, nothing that a name could turn into markup, the recap last."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from example_run import EVERY, alarmed, h100, hostile, unknown
from markdown_it import MarkdownIt

from phasewise.record.run import Run
from phasewise.report import markdown


def html(text: str) -> str:
    """The text as a renderer of GitHub's dialect sees it; raw HTML passes, as GitHub lets <details> pass."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


@pytest.mark.parametrize("make", EVERY)
def test_tables_are_whole_and_the_recap_closes(make: Callable[[], Run]) -> None:
    text = markdown.profile(make())
    page = html(text)
    recap = page[page.rindex("<h3>Recap</h3>") :]
    assert re.findall(r"<tr>\s*<td>(\w+)</td>", recap) == ["bound", "yardstick", "value", "floor", "fixes"]
    assert "prefill" in recap
    assert "decode" in recap
    # Every table line became a table: a stray pipe in a cell would leave its line as a paragraph.
    assert not re.search(r"<p>\s*\|", page)
    assert page.count("<details>") == page.count("</details>")


def test_numbers_and_fixes_are_in_it() -> None:
    page = html(markdown.profile(h100()))
    assert "<strong>Decode owns 97%" in page
    assert re.search(r">2,000</td>\s*<td[^>]*>47.9 ms</td>\s*<td[^>]*>47.4 to 48.4 ms</td>", page)
    assert re.search(r"<td>4-bit weights</td>\s*<td>decode</td>\s*<td[^>]*>954 ms \(763 ms to 1.05 s\)</td>", page)
    assert "attention is 3.6% of the FLOPs" in page


def test_an_alarm_is_an_alert() -> None:
    text = markdown.profile(alarmed())
    assert "> [!CAUTION]\n> prefill at 2,000 tokens reads 131% MFU" in text
    assert "> 1. a sparse peak" in text


def test_names_stay_names() -> None:
    page = html(markdown.profile(hostile()))
    allowed = {"p", "strong", "h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li", "details", "summary"}
    assert set(re.findall(r"<(\w+)", page)) <= allowed
    assert "<!--" not in page
    raw = markdown.profile(hostile())
    assert not re.search(r"(?<!&)#[0-9a-z]|@all", raw.replace("&#", "")), "no mention, no issue link"


def test_unknown_machine_says_why() -> None:
    assert "no accelerator is known: give --on" in markdown.profile(unknown())
