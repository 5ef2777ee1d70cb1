"""A sweep in every form: the answer first, every number with its origin, whatever is missing, safe against any name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from example_run import HOSTILE
from example_sweep import EVERY, SURFACE, bare, change, knee, swept, unfitted, with_sweep
from test_report_html import Page
from test_report_json import UNSAID, at, nulls, numbers

from phasewise.record.quantity import Provenance
from phasewise.record.run import Run, load, save
from phasewise.report import terminal
from phasewise.report.html import sweep as html
from phasewise.report.html.sweep import chart
from phasewise.report.json import sweep as json
from phasewise.report.markdown import sweep as markdown
from phasewise.report.terminal.sweep import sweep as shown
from phasewise.report.view import sweep as view
from phasewise.units import Unit


def text(run: Run, *, full: bool = True) -> str:
    return terminal.to_text(shown(run, full=full))


def test_the_first_sentence_answers_the_question() -> None:
    said = view.headline(swept())
    assert said.startswith("Batch 64 gives ×27.2 the tokens per second of one request (×27.2 at the floors);")
    assert "between 32 and 48 requests a step gets 6.00 ms (94.0%) longer at once" in said
    assert said.endswith("a prompt of 1,024 tokens costs each of 32 running decodes 29.0 ms, in one slow step.")
    assert text(swept()).split("\n")[0].startswith("Batch 64 gives")


def test_other_ends_of_batching() -> None:
    assert "beyond 16 each further request costs 400 µs, as when compute takes over" in view.headline(knee())
    assert "the server runs 1 at once" in view.headline(unfitted())
    assert view.headline(bare()) == "No verdict: nothing was measured."
    calm = change(SURFACE, plane=change(SURFACE.plane, broken=None), room=None)
    # 32 requests in 6.4 ms are 5,000 tokens a second, 64 in 13.2 ms are 4,848.
    assert "from 32 to 64 it still grew ×1.0" in view.headline(with_sweep(surface=calm))


@pytest.mark.parametrize("make", EVERY)
def test_every_form_of_every_run(make: Callable[[], Run]) -> None:
    run = make()
    for full in (True, False):
        out = text(run, full=full)
        assert out.rstrip().split("\n")[-1]
        assert all(len(line) <= 80 for line in out.split("\n"))
        assert "RECAP" in out
    Page(html.render(run))
    assert "### Recap" in markdown.sweep(run)
    assert json.sweep(run)["recap"]


@pytest.mark.parametrize("make", EVERY)
def test_every_number_says_what_it_is_and_every_null_why(make: Callable[[], Run]) -> None:
    document = json.sweep(make())
    body = {key: value for key, value in document.items() if key not in ("provenance", "reasons")}
    origins, reasons = document["provenance"], document["reasons"]
    assert isinstance(origins, dict)
    assert isinstance(reasons, dict)
    assert {path for path in numbers(body) if path not in origins} <= UNSAID
    assert [path for path in nulls(body) if not reasons.get(path)] == []
    assert {origin["unit"] for origin in origins.values()} <= set(get_args(Unit))
    assert {origin["provenance"] for origin in origins.values()} <= set(get_args(Provenance))
    assert [path for path in origins if isinstance(at(document, path), str | dict | list)] == []


def test_the_matrix_is_shaded_by_its_largest_stall() -> None:
    page = html.render(swept())
    assert 'style="--shade:100.00%"' in page
    assert 'style="--shade:27.62%"' in page  # 29 of 105 ms
    assert page.count("<td") > 10


def test_the_chart_has_a_dot_for_every_batch_held() -> None:
    drawn = str(chart(SURFACE))
    assert drawn.count("<circle") == 5
    assert "60 tokens each" in drawn
    assert chart(change(SURFACE, cells=())) is None


def test_names_from_a_server_are_harmless() -> None:
    cells = tuple(change(c, proved_by=HOSTILE) for c in SURFACE.cells)
    run = with_sweep(surface=change(SURFACE, cells=cells, limit=4, limit_by=HOSTILE), plan=(HOSTILE,))
    page = html.render(run)
    assert "<script>alert" not in page
    out = text(run)
    assert "\x1b" not in out
    assert "\x1b" not in markdown.sweep(run)


def test_a_saved_sweep_is_read_again(tmp_path: Path) -> None:
    save(swept(), tmp_path)
    assert load(tmp_path) == swept()
    assert text(load(tmp_path)).startswith("Batch 64")
