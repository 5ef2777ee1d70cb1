"""The timeline of a trace: all of it with its phases as bands, and one step of a phase enlarged until gaps show."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import msgspec
from markupsafe import Markup

from phasewise.record.trace import TRACE_PHASES, Bar, Traced, TracePhase, TraceStep
from phasewise.report.html import svg
from phasewise.report.html.svg import Linear, tag
from phasewise.report.view import words
from phasewise.report.view.traced_kernels import PALETTE

_STEPS = "steps"
"""The lane that says what each stretch was."""

_WIDTH, _LEFT, _ROW, _BAR = 1080.0, 92.0, 30.0, 22.0
_CARD, _HIGH, _TITLED = 520.0, 36.0, 700
"""Width of an enlarged step, height of its bars, and how many of them say what they are when pointed at."""

_WHOLE = 0.9
"""Bars for each kernel of a step from which it counts as drawn: on a long trace one bar stands for many kernels."""

_THIN = 0.3
"""Least width of a bar, so that a short kernel is still seen."""


def overview(found: Traced, colours: Mapping[str, int]) -> Markup | None:
    """Every lane over the whole trace, phases as bands behind them; None without a timeline."""
    bars = [bar for bar in found.timeline if _drawn(bar)]
    if not bars or (end := max(bar.start_s + bar.length_s for bar in bars)) <= 0:
        return None
    lanes = _lanes(bars)
    across = Linear(end, _LEFT, _WIDTH - 8)
    height = len(lanes) * _ROW + 8
    bands = [bar for bar in bars if bar.lane == _STEPS]
    return tag(
        "svg",
        *(_band(bar, across, height) for bar in bands),
        *(_lane(name, bars, across, 8 + at * _ROW, colours) for at, name in enumerate(lanes)),
        _axis(across, height),
        viewBox=f"0 0 {_WIDTH:.0f} {height + 26:.0f}",
        role="img",
        aria_label=f"Timeline of {len(lanes)} lanes and {words.count(len(bars))} bars; the tables hold the numbers",
        class_="chart timeline",
    )


def _drawn(bar: Bar) -> bool:
    return words.finite(bar.start_s) and words.finite(bar.length_s) and bar.start_s >= 0 and bar.length_s >= 0


def _lanes(bars: list[Bar]) -> list[str]:
    """Steps on top, devices as they come, the host below."""
    names = list(dict.fromkeys(bar.lane for bar in bars))
    return sorted(names, key=lambda name: (name != _STEPS, "host" in name))


def _band(bar: Bar, across: Linear, height: float) -> Markup:
    x = across(bar.start_s)
    width = max(_THIN, across(bar.start_s + bar.length_s) - x)
    return tag("rect", x=x, y=0.0, width=width, height=height, class_=f"band {_class(bar.kind, {})}")


def _lane(name: str, bars: list[Bar], across: Linear, y: float, colours: Mapping[str, int]) -> Markup:
    label = svg.text(_LEFT - 8, y + _BAR - 6, words.clean(name, 14), "tick", "end")
    return label + _merged([bar for bar in bars if bar.lane == name], across, 0.0, y, _BAR, colours)


def _class(kind: str, colours: Mapping[str, int]) -> str:
    """The class that gives a bar its colour: its phase, or its family's place among the families."""
    return kind if kind in TRACE_PHASES else f"f{colours.get(kind, PALETTE)}"


def _merged(
    bars: Sequence[Bar], across: Linear, start: float, y: float, height: float, colours: Mapping[str, int]
) -> Markup:
    """Bars as one path a colour: thousands of them stay light. What has most of the time lies on top, since bars that
    are thinner than a pixel cover each other.
    """
    drawn: dict[str, list[str]] = {}
    times: dict[str, float] = {}
    for bar in bars:
        x = across(bar.start_s - start)
        width = max(_THIN, across(bar.start_s - start + bar.length_s) - x)
        class_ = _class(bar.kind, colours)
        drawn.setdefault(class_, []).append(f"M{x:.2f} {y:.0f}h{width:.2f}v{height:.0f}h-{width:.2f}z")
        times[class_] = times.get(class_, 0.0) + bar.length_s
    order = sorted(drawn, key=lambda class_: times[class_])
    return Markup("").join(tag("path", d="".join(drawn[class_]), class_=class_) for class_ in order)


def _axis(across: Linear, y: float) -> Markup:
    """Marks from zero at the height ``y``."""
    drawn = [svg.line(across.start, y, across.end, y, "axis")]
    for value in across.ticks():
        x = across(value)
        anchor = "end" if x > across.end - 20 else "middle"
        drawn += [svg.line(x, y, x, y + 4, "axis"), svg.text(x, y + 18, svg.duration(value), "tick", anchor)]
    return Markup("").join(drawn)


def chosen(found: Traced, phase: TracePhase) -> tuple[TraceStep, list[Bar]] | None:
    """The step of ``phase`` with the most bars on one device, and these; None when none is drawn kernel by kernel."""
    kernels = [bar for bar in found.timeline if bar.kind not in TRACE_PHASES and _drawn(bar)]
    kernels.sort(key=_middle)
    middles = [_middle(bar) for bar in kernels]
    best: tuple[TraceStep, list[Bar]] | None = None
    for step in found.steps:
        if step.phase == phase and step.span_s > 0:
            first, last = bisect_left(middles, step.start_s), bisect_right(middles, step.start_s + step.span_s)
            bars = _on_one_lane(kernels[first:last])
            if len(bars) >= max(1.0, _WHOLE * step.kernels) and (best is None or len(bars) > len(best[1])):
                best = step, bars
    return best


def _middle(bar: Bar) -> float:
    return bar.start_s + bar.length_s / 2


def _on_one_lane(bars: Sequence[Bar]) -> list[Bar]:
    """Those on the device that has most of them."""
    lanes: dict[str, list[Bar]] = {}
    for bar in bars:
        lanes.setdefault(bar.lane, []).append(bar)
    return max(lanes.values(), key=len, default=[])


def window(steps: Sequence[TraceStep]) -> float:
    """One length for the enlargements of all ``steps``, so that their kernels can be compared by eye: a round part,
    about a twelfth, of the shortest step.
    """
    least = min(step.span_s for step in steps) / 12
    power = 10.0 ** math.floor(math.log10(least))
    return power * max(m for m in (1, 2, 5) if m <= least / power * (1 + 1e-9))


def enlarged(step: TraceStep, bars: Sequence[Bar], length: float, colours: Mapping[str, int]) -> Markup:
    """A whole step above; below it ``length`` seconds from a kernel in its middle, wide enough to see gaps."""
    whole, close = Linear(step.span_s, 1.0, _CARD - 1), Linear(length, 1.0, _CARD - 1)
    middle = step.start_s + (step.span_s - length) / 2
    start = min((bar.start_s for bar in bars), key=lambda at: abs(at - middle))
    shown = [bar for bar in bars if bar.start_s < start + length and bar.start_s + bar.length_s > start]
    edges = whole(start - step.start_s), whole(start - step.start_s + length)
    below = 2 * _HIGH + 40
    return tag(
        "svg",
        _merged(bars, whole, step.start_s, 4, _HIGH, colours),
        _axis(whole, _HIGH + 4),
        svg.line(edges[0], _HIGH + 4, 1.0, below, "zoom"),
        svg.line(edges[1], _HIGH + 4, _CARD - 1, below, "zoom"),
        *(_titled(bar, close, start, below, colours) for bar in shown[:_TITLED]),
        _merged([_cut(bar, start, length) for bar in shown[_TITLED:]], close, start, below, _HIGH, colours),
        _axis(close, below + _HIGH),
        viewBox=f"0 0 {_CARD:.0f} {below + _HIGH + 26:.0f}",
        role="img",
        aria_label=f"One {step.phase} step, and {svg.duration(length)} of it enlarged: {len(shown)} kernels",
        class_="chart timeline",
    )


def _cut(bar: Bar, start: float, length: float) -> Bar:
    """The part of ``bar`` between ``start`` and ``length`` seconds later."""
    first, last = max(bar.start_s, start), min(bar.start_s + bar.length_s, start + length)
    return msgspec.structs.replace(bar, start_s=first, length_s=last - first)


def _titled(bar: Bar, across: Linear, start: float, y: float, colours: Mapping[str, int]) -> Markup:
    cut = _cut(bar, start, across.high)
    x = across(cut.start_s - start)
    width = max(_THIN, across(cut.start_s - start + cut.length_s) - x)
    about = f"{words.name(bar.label)}, {words.name(bar.kind)}: {words.number(bar.length_s, 's')}"
    return tag(
        "rect", tag("title", about), x=x, y=y, width=f"{width:.2f}", height=_HIGH, class_=_class(bar.kind, colours)
    )
