"""A grid as a drawing that needs nothing else: prefill over length, then decode over batch, a panel a combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

from phasewise.errors import UsageError
from phasewise.record.grid import Bools, Floats, Grid
from phasewise.report.html import svg
from phasewise.report.html.svg import Log, tag
from phasewise.report.view import grid, words

_WIDTH, _HEIGHT, _GAP = 470.0, 330.0, 20.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 14.0, 40.0, 42.0
_HEAD, _LINE, _LETTER = 34.0, 18.0, 7.0
_LINES, _PANELS, _DOTS = 8, 8, 24

_STYLE = """
.phasewise-grid { font: 13px ui-sans-serif, system-ui, "Segoe UI", Arial, sans-serif; --ink: #1c2024; --soft: #5a636d;
  --line: #e2e5e8; --paper: #fcfcfb; background: var(--paper); }
.phasewise-grid text { fill: var(--soft); font-variant-numeric: tabular-nums; }
.phasewise-grid .title { fill: var(--ink); font-weight: 600; }
.phasewise-grid .head { fill: var(--ink); font-size: 16px; font-weight: 600; }
.phasewise-grid .grid { stroke: var(--line); }
.phasewise-grid .axis { stroke: var(--soft); }
.phasewise-grid polyline { fill: none; stroke-width: 2; }
.phasewise-grid .beyond { stroke-dasharray: 4 4; opacity: 0.6; }
.phasewise-grid rect.paper { fill: var(--paper); }
@media (prefers-color-scheme: dark) {
  .phasewise-grid { --ink: #e7e9eb; --soft: #a3abb4; --line: #30363d; --paper: #131619; }
}
"""
_COLOURS = ("#1f77c9", "#d1660a", "#2b9348", "#b5379a", "#8a6d1a", "#0f8b8d", "#c8344d", "#6b5bd2")
"""One a line: each stands out from both papers."""


class _Series(NamedTuple):
    """A line of a panel: where it is drawn, and where its batch no longer fits in memory."""

    name: str
    x: Floats
    y: Floats
    beyond: Bools


def render(found: Grid, suffix: str) -> str:
    """The drawing as an .svg or an .html file's text.

    Raises:
        UsageError: another suffix.
    """
    if suffix.lower() not in (".svg", ".html"):
        raise UsageError(f"--chart draws an .svg or an .html file, not {suffix or 'one without a suffix'!r}.")
    drawn = draw(found)
    if suffix.lower() == ".svg":
        return f"{drawn}\n"
    title = escape(grid.heading(found))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<style>:root{color-scheme:light dark}body{margin:0}svg{display:block;width:100%;height:auto}</style></head>"
        f"<body>{drawn}</body></html>\n"
    )


def draw(found: Grid) -> Markup:
    """All panels in one element: two in a row, under a title, over the notes."""
    known = [at for at, column in enumerate(found.columns) if not column.missing]
    panels: list[Callable[[], Markup]] = []
    if len(found.lengths) > 1:
        panels.append(lambda: _prefill(found, known[:_LINES]))
    if len(found.batches) > 1 and len(found.lengths) == 1:
        panels.append(lambda: _compared(found, known[:_LINES]))
    elif len(found.batches) > 1:
        panels += [lambda at=at: _decode(found, at) for at in known[:_PANELS]]  # type: ignore[misc]
    if not panels:
        raise UsageError("--chart needs more than one length or batch: --grid lengths=128..32000,batches=1..64.")
    rows = -(-len(panels) // 2)
    placed = [
        tag("g", panel(), transform=f"translate({(i % 2) * (_WIDTH + _GAP):.0f} {_HEAD + (i // 2) * _HEIGHT:.0f})")
        for i, panel in enumerate(panels)
    ]
    notes = _notes(found, known)
    width, foot = 2 * _WIDTH + _GAP, _HEAD + rows * _HEIGHT
    height = foot + _LINE * (len(notes) + 1)
    return tag(
        "svg",
        tag("style", Markup(_STYLE)),
        tag("rect", width=width, height=height, class_="paper"),
        svg.text(_GAP / 2, 22, grid.heading(found), "head"),
        *placed,
        *(svg.text(_GAP / 2, foot + _LINE * (i + 1), line, "note") for i, line in enumerate(notes)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=grid.heading(found),
        class_="phasewise-grid",
    )


def _notes(found: Grid, known: Sequence[int]) -> list[str]:
    lines = ["Dashed: more requests than fit in memory."] if found.too_large[known].any() else []
    lines += dict.fromkeys(grid.basis(column) for column in found.columns)
    shown = len(known[:_PANELS])
    return lines + ([f"{shown} of {len(known)} combinations are drawn."] if shown < len(known) else [])


def _prefill(found: Grid, known: Sequence[int]) -> Markup:
    batch = words.count(float(found.batches[0]))
    prompts = "one prompt" if batch == "1" else f"{batch} prompts"
    inside = np.zeros(len(found.lengths), dtype=bool)
    lines = [
        _Series(grid.combination(found.columns[at]), found.lengths, found.prefill_s[at, :, 0], inside) for at in known
    ]
    return _panel(f"Prefill of {prompts}, by prompt length", "tokens of prompt", lines)


def _decode(found: Grid, at: int) -> Markup:
    lines = [
        _Series(
            f"{words.count(float(found.lengths[i]))} tokens",
            found.batches,
            found.decode_s[at, i],
            found.too_large[at, i],
        )
        for i in grid.some(len(found.lengths), _LINES)
    ]
    return _panel(f"Decode step, {grid.combination(found.columns[at])}", "requests in the step", lines)


def _compared(found: Grid, known: Sequence[int]) -> Markup:
    lines = [
        _Series(grid.combination(found.columns[at]), found.batches, found.decode_s[at, 0], found.too_large[at, 0])
        for at in known
    ]
    tokens = words.number(float(found.lengths[0]), "token")
    return _panel(f"Decode step at {tokens} of context", "requests in the step", lines)


def _panel(title: str, across_name: str, lines: Sequence[_Series]) -> Markup:
    across = Log(*_ends(np.concatenate([line.x for line in lines])), _LEFT, _WIDTH - _RIGHT)
    low, high = _ends(np.concatenate([line.y for line in lines]))
    up = Log(low * 0.85, high * 1.15, _HEIGHT - _BOTTOM, _TOP)
    drawn = [svg.text(_LEFT, 16, title, "title"), *_axes(across, up, across_name)]
    for i, line in enumerate(lines):
        drawn += _line(line, across, up, _COLOURS[i % len(_COLOURS)])
    return Markup("").join([*drawn, *_legend([line.name for line in lines])])


def _ends(values: Floats) -> tuple[float, float]:
    """The range of an axis, never of no width."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low * 1.01 else (low / 2, high * 2)


def _axes(across: Log, up: Log, name: str) -> list[Markup]:
    drawn = [svg.line(across.start, up.start, across.end, up.start, "axis")]
    for value in up.ticks():
        drawn.append(svg.line(across.start, up(value), across.end, up(value), "grid"))
        drawn.append(svg.text(across.start - 8, up(value) + 4, words.number(value, "s", 1), "tick", "end"))
    for value in across.ticks():
        drawn.append(svg.line(across(value), up.start, across(value), up.start + 5, "axis"))
        drawn.append(svg.text(across(value), up.start + 19, f"{value:,.0f}", "tick", "middle"))
    return [*drawn, svg.text(across.end, up.start + 36, name, "tick", "end")]


def _line(line: _Series, across: Log, up: Log, colour: str) -> list[Markup]:
    """Solid as far as it fits in memory, dashed from there on; dots where there are few."""
    points = [(across(float(x)), up(float(y))) for x, y in zip(line.x, line.y, strict=True)]
    fit = int(np.argmax(line.beyond)) if line.beyond.any() else len(points)
    drawn = [svg.path(points[:fit], "line"), svg.path(points[max(0, fit - 1) :], "line beyond")]
    if len(points) <= _DOTS:
        labels = (f"{line.name}, {x:,.0f}: {words.number(float(y), 's')}" for x, y in zip(line.x, line.y, strict=True))
        drawn += [
            tag("circle", tag("title", label), cx=x, cy=y, r=2.6, fill=colour, stroke="none")
            for (x, y), label in zip(points, labels, strict=True)
        ]
    return [tag("g", *drawn, stroke=colour)]


def _legend(names: Sequence[str]) -> list[Markup]:
    drawn = []
    for i, name in enumerate(names):
        y = _TOP + 4 + 16 * i
        drawn.append(tag("rect", x=_LEFT + 10, y=y, width=12.0, height=4.0, fill=_COLOURS[i % len(_COLOURS)]))
        drawn.append(svg.text(_LEFT + 28, y + 7, name, "tick"))
    return drawn
