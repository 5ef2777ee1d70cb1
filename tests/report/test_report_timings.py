"""The server's own times, and thinking apart from answering, in every form of a profile."""

from __future__ import annotations

import json

import pytest
from example_parts import about, change
from example_run import h100

from phasewise.record.quantity import reported
from phasewise.record.reasoning import Reasoning
from phasewise.record.run import Run
from phasewise.record.timings import Beside, ServerTimings
from phasewise.report import html, markdown
from phasewise.report import json as documents
from phasewise.report.view.timings import table, thinking

QUEUE = reported(25e-6, "s", "median of vLLM's metrics of the request")


def told() -> Run:
    """A run whose server tells its times, and whose model thinks first."""
    run = h100()
    assert run.observation
    rows = (
        Beside(
            phase="prefill",
            tokens=2000,
            ours=about(47.9e-3, "s", "median TTFT of 5 requests"),
            theirs=reported(46.1e-3, "s", "median of vLLM's metrics of the request"),
            rest=about(1.8e-3, "s", "median of TTFT less vLLM's metrics of the request"),
            samples=5,
        ),
        Beside(
            phase="decode",
            tokens=32,
            ours=about(5.94e-3, "s", "median TPOT of 6 requests"),
            theirs=reported(5.93e-3, "s", "median of vLLM's metrics of the request"),
            rest=about(1e-5, "s", "median of TPOT less vLLM's metrics of the request"),
            samples=6,
        ),
    )
    timings = ServerTimings(who="vLLM's metrics of the request", rows=rows, queue=QUEUE)
    reasoning = Reasoning(
        first_thinking=about(0.012, "s", "median of 6 answers"),
        first_answer=about(1.5, "s", "median of 4 answers"),
        thoughts=6,
        answered=4,
    )
    return change(run, observation=change(run.observation, timings=timings, reasoning=reasoning))


THINKS = "first thought after 12.0 ms, first word of the answer after 1.50 s (4 of 6 answers came that far)"


def test_the_views() -> None:
    view = table(told())
    assert view is not None
    assert [cell.text for cell in view.rows[0]] == ["prefill", "2,000", "47.90 ms", "46.10 ms", "1.80 ms", "5"]
    assert "the queue took 25.0 µs before that (reported)" in view.note
    assert THINKS in thinking(told())
    assert table(h100()) is None
    assert thinking(h100()) == ""


def test_no_answer_within_the_tokens_asked_for() -> None:
    run = told()
    assert run.observation
    assert run.observation.reasoning
    silent = change(run.observation.reasoning, first_answer=None, answered=0)
    assert "no answer within the tokens asked for (6 answers)" in thinking(
        change(run, observation=change(run.observation, reasoning=silent))
    )


@pytest.mark.parametrize("render", [markdown.profile, html.render])
def test_markdown_and_html_hold_both(render: object) -> None:
    text = render(told())  # type: ignore[operator]
    assert "46.10" in text
    assert "first word of the answer after 1.50" in text


def test_json_holds_both_with_their_origins() -> None:
    document = json.loads(json.dumps(documents.profile(told())))
    assert document["server_timings"]["rows"][0]["theirs_s"] == 46.1e-3
    assert document["server_timings"]["rows"][0]["tokens"] == 2000
    assert document["provenance"]["server_timings.rows.0.theirs_s"]["provenance"] == "reported"
    assert document["provenance"]["server_timings.rows.0.ours_s"]["provenance"] == "measured"
    assert document["reasoning"]["first_answer_s"] == 1.5
    assert document["reasons"]["server_timings.load_s"]
    bare = documents.profile(h100())
    assert bare["server_timings"] is bare["reasoning"] is None
    assert bare["reasons"]["server_timings"] == "the server told no times of its own"  # type: ignore[index]


def test_a_saved_run_keeps_them(tmp_path: object) -> None:
    from pathlib import Path

    from phasewise.record.run import load, save

    save(told(), Path(str(tmp_path)))
    assert load(Path(str(tmp_path))) == told()
