"""A load run as a page: the tables of the terminal, and a drawing of what it was over time."""

from __future__ import annotations

from markupsafe import Markup

from phasewise.record.load import Load
from phasewise.record.run import Run
from phasewise.report.html import power, svg
from phasewise.report.html.frame import fill
from phasewise.report.html.svg import Linear, tag
from phasewise.report.json.load import load as document
from phasewise.report.view import load as view
from phasewise.report.view import words

_WIDTH, _HEIGHT = 560.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 30.0, 46.0


def render(run: Run) -> str:
    """``run`` as one HTML file that needs nothing else; its JSON document is inside."""
    found = run.load
    assert found is not None
    target = run.target.name if run.target else "http://HOST:PORT"
    tables = (
        view.trials(found),
        view.percentiles(found),
        view.goodput(found),
        view.moments(found),
        view.workers(found),
    )
    drawings = (_over_time(found, kind) for kind in ("ttft", "tpot", "in flight"))
    parts = {
        "run": run,
        "headline": view.headline(found),
        "subject": view.subject(run),
        "notices": view.notices(run),
        "facts": [*view.facts(found)],
        "plan": [*view.plan(found.plan)],
        "tables": [table for table in tables if table.rows],
        "drawings": [drawing for drawing in drawings if drawing],
        "next_step": view.next_step(found, target),
        "recap": view.recap(found),
        "power": power.parts(run) if run.power and run.power.phases else None,
    }
    return fill("load.html", document(run), parts)


def _over_time(found: Load, kind: str) -> Markup | None:
    """One figure of the stretches of the run, at the middle of each."""
    values = [
        (one.begin_s, one.end_s, {"ttft": one.ttft_s, "tpot": one.tpot_s, "in flight": float(one.in_flight)}[kind])
        for one in found.moments
    ]
    points = [((begin + end) / 2, value) for begin, end, value in values if value is not None and words.finite(value)]
    if len(points) < 2 or max(value for _, value in points) <= 0:
        return None
    across = Linear(max(one.end_s for one in found.moments), _LEFT, _WIDTH - _RIGHT)
    up = Linear(max(value for _, value in points) * 1.08, _HEIGHT - _BOTTOM, _TOP)
    title = {"ttft": "TTFT p50 over time", "tpot": "TPOT p50 over time", "in flight": "requests in flight"}[kind]
    phase = {"ttft": "prefill", "tpot": "decode"}.get(kind, "")
    drawn = [svg.text(8, 14, title, "title"), svg.line(across.start, up.start, across.end, up.start, "axis")]
    for value in up.ticks():
        label = words.count(value) if kind == "in flight" else words.number(value, "s")
        drawn.append(svg.line(across.start, up(value), across.end, up(value), "grid"))
        drawn.append(svg.text(_LEFT - 8, up(value) + 4, label, "tick", "end"))
    drawn += [svg.text(across(value), up.start + 20, f"{value:g} s", "tick", "middle") for value in across.ticks()]
    drawn.append(svg.path([(across(x), up(y)) for x, y in points], f"fit {phase}".strip()))
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"{title}: the table holds the numbers",
        class_="chart",
    )
