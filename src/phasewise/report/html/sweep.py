"""The page of a sweep: step time over batch with the fitted plane and the floor, and the interference matrix shaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from phasewise.record.run import Run
from phasewise.record.sweep import Cell as Held
from phasewise.record.sweep import Surface, Swept
from phasewise.report.html import power, svg
from phasewise.report.html.frame import fill
from phasewise.report.html.svg import Linear, Log, tag
from phasewise.report.json.sweep import sweep as document
from phasewise.report.view import crew, findings, heading, sweep_tables, words
from phasewise.report.view import sweep as view
from phasewise.report.view.sources import sources
from phasewise.report.view.table import Cell, Table

_WIDTH, _HEIGHT = 760.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 120.0, 30.0, 46.0
_SAMPLES = 80
_SERIES = 4


def render(run: Run) -> str:
    """The sweep of ``run`` as one HTML file; its JSON document is inside.

    Raises:
        ValueError: the run holds no sweep.
    """
    if run.sweep is None:
        raise ValueError("this run holds no sweep")
    return fill("sweep.html", document(run), {**_frame(run), **_parts(run.sweep)})


def _frame(run: Run) -> dict[str, Any]:
    return {
        "run": run,
        "headline": view.headline(run),
        "subject": heading.subject(run),
        "notices": view.notices(run),
        "checks": findings.checks(run),
        "tally": findings.tally(run),
        "sources": sources(run),
        "recap": sweep_tables.recap(run),
        "power": power.parts(run) if run.power and run.power.phases else None,
    }


def _parts(found: Swept) -> dict[str, Any]:
    matrix = sweep_tables.matrix(found)
    return {
        "chart": chart(found.surface) if found.surface else None,
        "floors": any(cell.floor for cell in (found.surface.cells if found.surface else ())),
        "decode_facts": list(view.decode_facts(found)),
        "surface": sweep_tables.surface(found),
        "at_once": sweep_tables.at_once(found),
        "matrix": matrix,
        "shade": _shade(matrix),
        "stalls": sweep_tables.stalls(found),
        "mix_facts": list(view.mix_facts(found)),
        "workers": crew.table(found.crew),
        "clocks": list(crew.facts(found.crew)),
        "advice": [(view.advice(one), one) for one in found.advice],
    }


def _shade(matrix: Table) -> Callable[[Cell], float]:
    """How much of the largest stall a cell holds."""
    values = [cell.quantity.value for row in matrix.rows for cell in row if cell.quantity]
    most = max((value for value in values if words.finite(value)), default=0.0)
    return lambda cell: cell.quantity.value / most if cell.quantity and most > 0 else 0.0


def chart(surface: Surface) -> Markup | None:
    """Step time over batch, a series per prompt length; None when nothing finite was measured."""
    cells = [cell for cell in surface.cells if cell.step and words.finite(cell.step.value) and cell.step.value > 0]
    lengths = sorted({cell.prompt_tokens for cell in cells})
    if not cells or max(cell.batch for cell in cells) < 2:
        return None
    if len(lengths) > _SERIES:
        lengths = [*lengths[: _SERIES - 1], lengths[-1]]
    tops = [cell.step.high or cell.step.value for cell in cells if cell.step]
    across = Log(0.9, 1.1 * max(cell.batch for cell in cells), _LEFT, _WIDTH - _RIGHT)
    up = Linear(1.08 * max(top for top in tops if words.finite(top)), _HEIGHT - _BOTTOM, _TOP)
    drawn = [_series(surface, [c for c in cells if c.prompt_tokens == length], across, up) for length in lengths]
    return tag(
        "svg",
        tag(
            "clipPath",
            tag("rect", x=_LEFT, y=_TOP, width=_WIDTH - _RIGHT - _LEFT, height=_HEIGHT - _BOTTOM - _TOP),
            id="inside-surface",
        ),
        _axes(across, up, sorted({cell.batch for cell in cells})),
        *drawn,
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"Step time over batch: {len(cells)} measured points; the table below holds the numbers",
        class_="chart",
    )


def _series(surface: Surface, cells: list[Held], across: Log, up: Linear) -> Markup:
    """Points, the plane and the floors after one prompt length."""
    context = sum(cell.context for cell in cells) / len(cells)
    plane = surface.plane
    most = max(cell.batch for cell in cells)
    grid = [most ** (i / _SAMPLES) for i in range(_SAMPLES + 1)] if most > 1 else []
    fitted = [(across(b), up(plane.at(b, b * context))) for b in grid] if plane else []
    floors = [(across(cell.batch), up(cell.floor.value)) for cell in cells if cell.floor]
    last = max(cells, key=lambda cell: cell.batch)
    label = f"{words.count(context)} tokens each"
    assert last.step is not None
    return tag(
        "g",
        tag("g", svg.path(floors, "floor"), svg.path(fitted, "fit decode"), clip_path="url(#inside-surface)"),
        *(_point(cell, across, up) for cell in cells),
        svg.text(across(last.batch) + 9, up(last.step.value) + 4, label, "tick") if most > 1 else "",
    )


def _point(cell: Held, across: Log, up: Linear) -> Markup:
    step = cell.step
    assert step is not None
    x = across(cell.batch)
    whisker = Markup("")
    if step.low is not None and step.high is not None and words.finite(step.high):
        whisker = svg.line(x, up(max(0.0, step.low)), x, up(step.high), "whisker decode")
    between = words.interval(step)
    label = f"batch {cell.batch:,}, {words.count(cell.context)} tokens each: {words.amount(step)}"
    label += f" ({between})" if between else ""
    label += f", {cell.trouble}" if cell.trouble else ", measured"
    kind = "dot decode small" if cell.trouble else "dot decode"
    return tag("g", tag("title", label), whisker, tag("circle", cx=x, cy=up(step.value), r=4.5, class_=kind))


def _axes(across: Log, up: Linear, batches: list[int]) -> Markup:
    drawn = []
    for value in up.ticks():
        y = up(value)
        drawn += [
            svg.line(across.start, y, across.end, y, "grid"),
            svg.text(_LEFT - 8, y + 4, svg.duration(value), "tick", "end"),
        ]
    powers = [batch for batch in batches if batch & (batch - 1) == 0 or batch == batches[-1]]
    for batch in powers:
        drawn += [svg.line(across(batch), up.start, across(batch), up.start + 5, "axis")]
        drawn += [svg.text(across(batch), up.start + 20, words.count(batch), "tick", "middle")]
    drawn += [
        svg.line(across.start, up.start, across.end, up.start, "axis"),
        svg.text(across.start - 58, 14, "time per step", "title"),
        svg.text(across.end, _HEIGHT - 6, "requests at once", "title", "end"),
    ]
    return Markup("").join(drawn)
