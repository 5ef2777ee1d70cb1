"""How a phase grows with tokens: measured points with their intervals, the fit, and the floor."""

from __future__ import annotations

from markupsafe import Markup

from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.html import svg
from phasewise.report.html.svg import Linear, tag
from phasewise.report.view import phases, words

_WIDTH, _HEIGHT = 560.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 30.0, 46.0
_SAMPLES = 60


def growth(run: Run, phase: Phase) -> Markup | None:
    """TTFT over prompt length, or step time over context; None when nothing finite was measured."""
    seen = [(x, q) for x, q in _measured(run, phase) if words.finite(x) and words.finite(q.value)]
    if not seen or max(x for x, _ in seen) <= 0 or max(q.value for _, q in seen) <= 0:
        return None
    most = max(x for x, _ in seen)
    floor = [(x, y) for x, y in phases.floors(run, phase).items() if words.finite(x) and words.finite(y)]
    tops = [q.high if q.high is not None and words.finite(q.high) else q.value for _, q in seen]
    across = Linear(most * 1.04, _LEFT, _WIDTH - _RIGHT)
    up = Linear(max([*tops, *(y for x, y in floor if x <= most)]) * 1.08, _HEIGHT - _BOTTOM, _TOP)
    clip = f"inside-{phase}"
    return tag(
        "svg",
        tag("clipPath", tag("rect", x=_LEFT, y=_TOP, width=across.end - _LEFT, height=up.start - _TOP), id=clip),
        _axes(across, up, phase),
        tag(
            "g",
            svg.path([(across(x), up(y)) for x, y in floor], "floor"),
            svg.path(_fit(run, phase, across, up), f"fit {phase}"),
            clip_path=f"url(#{clip})",
        ),
        *(_point(across(x), x, quantity, up, phase) for x, quantity in seen),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"{phases.points(run, phase).title}: {len(seen)} measured points; the table below holds the numbers",
        class_="chart",
    )


def _measured(run: Run, phase: Phase) -> list[tuple[float, Quantity]]:
    seen = run.observation
    if seen is None:
        return []
    if phase == "prefill":
        return [(float(p.tokens), p.ttft) for p in (seen.prefill.points if seen.prefill else ())]
    return [(p.context, p.tpot) for p in (seen.decode.points if seen.decode else ())]


def _fit(run: Run, phase: Phase, across: Linear, up: Linear) -> list[tuple[float, float]]:
    seen = run.observation
    part = (seen.prefill if phase == "prefill" else seen.decode) if seen else None
    if part is None or part.fit is None:
        return []
    grid = [across.high * i / _SAMPLES for i in range(_SAMPLES + 1)]
    values = [(x, part.fit.at(x)) for x in grid]
    return [(across(x), up(y)) for x, y in values if words.finite(y)]


def _axes(across: Linear, up: Linear, phase: Phase) -> Markup:
    drawn = []
    for value in up.ticks():
        y = up(value)
        drawn += [
            svg.line(across.start, y, across.end, y, "grid"),
            svg.text(_LEFT - 8, y + 4, svg.duration(value), "tick", "end"),
        ]
    for value in across.ticks():
        x = across(value)
        drawn += [svg.line(x, up.start, x, up.start + 5, "axis")]
        drawn += [svg.text(x, up.start + 20, words.count(value), "tick", "middle")]
    title = "TTFT" if phase == "prefill" else "time per step"
    drawn += [
        svg.line(across.start, up.start, across.end, up.start, "axis"),
        svg.text(across.start - 58, 14, title, "title"),
        svg.text(
            across.end, _HEIGHT - 6, "prompt tokens" if phase == "prefill" else "tokens of context", "title", "end"
        ),
    ]
    return Markup("").join(drawn)


def _point(x: float, tokens: float, seconds: Quantity, up: Linear, phase: Phase) -> Markup:
    low, high = seconds.low, seconds.high
    whisker = Markup("")
    if low is not None and high is not None and words.finite(low) and words.finite(high):
        whisker = svg.line(x, up(max(0.0, low)), x, up(high), f"whisker {phase}")
    between = words.interval(seconds)
    label = f"{words.count(tokens)} tokens: {words.amount(seconds)}{f' ({between})' if between else ''}, measured"
    return tag(
        "g", tag("title", label), whisker, tag("circle", cx=x, cy=up(seconds.value), r=4.5, class_=f"dot {phase}")
    )
