"""A trace in Markdown: whole tables, nothing that a name could turn into markup, the recap last."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from example_trace import EVERY, alarmed, hostile, only_decode, sglang
from markdown_it import MarkdownIt

from phasewise.record.run import Run
from phasewise.report.markdown.traced import traced


def html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


@pytest.mark.parametrize("make", EVERY)
def test_tables_are_whole_and_the_recap_closes(make: Callable[[], Run]) -> None:
    page = html(traced(make()))
    recap = page[page.rindex("<h3>Recap</h3>") :]
    assert re.findall(r"<tr>\s*<td>(\w+)</td>", recap) == ["bound", "yardstick", "value", "floor", "fixes"]
    assert not re.search(r"<p>\s*\|", page), "every line of a table became a row"
    assert page.count("<details>") == page.count("</details>") > 0


def test_both_phases_stand_in_one_table() -> None:
    page = html(traced(sglang()))
    assert re.search(r"<td>kernels per step</td>\s*<td>527</td>\s*<td>555</td>", page)
    assert re.search(r"<td>steps</td>\s*<td>not in this trace</td>\s*<td>1, 32 requests", html(traced(only_decode())))


def test_an_alarm_is_an_alert() -> None:
    assert "> [!CAUTION]\n> prefill reads 131% MFU" in traced(alarmed())


def test_names_stay_names() -> None:
    page = html(traced(hostile()))
    allowed = {"p", "strong", "h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li", "details", "summary"}
    assert set(re.findall(r"<(\w+)", page)) <= allowed | {"blockquote"}
    assert "<!--" not in page
    assert not re.search(r"(?<!&)#[0-9a-z]|@all", traced(hostile()).replace("&#", "")), "no mention, no issue link"
