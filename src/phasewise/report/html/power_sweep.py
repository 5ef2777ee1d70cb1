"""The page of a power sweep: both phases' time over the cap, and the tables of the terminal."""

from __future__ import annotations

from markupsafe import Markup

from phasewise.record.power_sweep import Cap, PowerSweep
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.html import svg
from phasewise.report.html.frame import fill
from phasewise.report.html.svg import Linear, tag
from phasewise.report.json.power_sweep import power_sweep as document
from phasewise.report.view import heading, words
from phasewise.report.view import power_sweep as view
from phasewise.report.view.sources import sources

_WIDTH, _HEIGHT = 760.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 100.0, 30.0, 46.0


def render(run: Run) -> str:
    """``run`` as one HTML file that needs nothing else; its JSON document is inside."""
    found = run.power_sweep or PowerSweep()
    parts = {
        "run": run,
        "headline": view.headline(run),
        "subject": heading.subject(run),
        "notices": heading.notices(run),
        "chart": chart(found),
        "tables": [view.caps(found, phase) for phase in heading.PHASES] if found.caps else [],
        "slopes": view.slopes(found),
        "facts": [*view.facts(found)],
        "cards": [*view.cards(found)],
        "method": [*view.method(found)],
        "sources": sources(run),
        "recap": view.recap(run),
    }
    return fill("power_sweep.html", document(run), parts)


def chart(found: PowerSweep) -> Markup | None:
    """Time over that at the first cap, over the cap; None with fewer than two caps."""
    caps = [cap for cap in found.caps if not cap.again and words.finite(cap.limit.value)]
    drawn = {phase: [(cap, q) for cap in caps if (q := _ratio(cap, phase, caps[0]))] for phase in heading.PHASES}
    tops = [q.high if q.high is not None and words.finite(q.high) else q.value for at in drawn.values() for _, q in at]
    if len(caps) < 2 or not tops:
        return None
    across = Linear(1.05 * max(cap.limit.value for cap in caps), _LEFT, _WIDTH - _RIGHT)
    up = Linear(1.08 * max(tops), _HEIGHT - _BOTTOM, _TOP)
    return tag(
        "svg",
        _axes(across, up),
        *(_series(phase, points, across, up) for phase, points in drawn.items()),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"Time of each phase over {len(caps)} caps; the tables below hold the numbers",
        class_="chart",
    )


def _ratio(cap: Cap, phase: str, first: Cap) -> Quantity | None:
    at = cap.prefill if phase == "prefill" else cap.decode
    if at is None or not words.finite(at.time.value):
        return None
    return Quantity(value=1.0, unit="1", provenance="measured") if cap is first else at.ratio


def _series(phase: str, points: list[tuple[Cap, Quantity]], across: Linear, up: Linear) -> Markup:
    places = [(across(cap.limit.value), up(ratio.value)) for cap, ratio in points]
    dots = [
        tag(
            "g",
            tag("title", f"{phase} at {words.amount(cap.limit)}: {ratio.value:.3f} times its time at the first cap"),
            _whisker(across(cap.limit.value), ratio, up, phase),
            tag("circle", cx=across(cap.limit.value), cy=up(ratio.value), r=4.5, class_=f"dot {phase}"),
        )
        for cap, ratio in points
    ]
    if not places:
        return Markup("")
    x, y = places[0]
    label = svg.text(x + 9, y + (14 if phase == "decode" else -6), phase, "tick")
    return tag("g", svg.path(places, f"fit {phase}"), *dots, label)


def _whisker(x: float, ratio: Quantity, up: Linear, phase: str) -> Markup:
    if ratio.low is None or ratio.high is None or not words.finite(ratio.high):
        return Markup("")
    return svg.line(x, up(max(0.0, ratio.low)), x, up(ratio.high), f"whisker {phase}")


def _axes(across: Linear, up: Linear) -> Markup:
    drawn = []
    for value in up.ticks():
        drawn += [
            svg.line(across.start, up(value), across.end, up(value), "grid"),
            svg.text(_LEFT - 8, up(value) + 4, f"×{value:g}", "tick", "end"),
        ]
    for value in across.ticks():
        drawn += [
            svg.line(across(value), up.start, across(value), up.start + 5, "axis"),
            svg.text(across(value), up.start + 20, words.number(value, "W"), "tick", "middle"),
        ]
    drawn += [
        svg.line(across.start, up.start, across.end, up.start, "axis"),
        svg.text(across.start - 58, 14, "time over that at the first cap", "title"),
        svg.text(across.end, _HEIGHT - 6, "power cap of a card", "title", "end"),
    ]
    return Markup("").join(drawn)
