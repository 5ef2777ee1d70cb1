"""Power per phase as a page: watts over time with the phases behind them, and the tables."""

from __future__ import annotations

from markupsafe import Markup

from phasewise.record.power import Power
from phasewise.record.run import Run
from phasewise.report.html import svg
from phasewise.report.html.frame import fill
from phasewise.report.html.svg import Linear, tag
from phasewise.report.json.power import power as document
from phasewise.report.view import power as view
from phasewise.report.view import words

_WIDTH, _HEIGHT = 1060.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 30.0, 46.0


def render(run: Run) -> str:
    """``run`` as one HTML file that needs nothing else; its JSON document is inside."""
    found = parts(run)
    return fill("power.html", document(run), {"run": run, "power": found, **found})


def parts(run: Run) -> dict[str, object]:
    """What the page and the page of a profile show; without tables where no power was read."""
    found = view.document(run)
    return {
        "headline": view.headline(run),
        "subject": view.subject(run),
        "notices": view.notices(run),
        "facts": [*view.facts(run)],
        "phases": view.phases(found),
        "batches": view.batches(found),
        "devices": view.devices(found),
        "checks": view.checks(found.checks),
        "drawing": over_time(found),
        "mixed": any(band.phase == "mixed" for band in found.bands),
    }


def over_time(found: Power) -> Markup | None:
    """Watts of each device, on bands of the phases; None without readings."""
    drawn = [watts for point in found.points for watts in point.watts if words.finite(watts) and watts is not None]
    if len(found.points) < 2 or not drawn or max(drawn) <= 0:
        return None
    begin, end = found.points[0].at_s, found.points[-1].at_s
    if end <= begin:
        return None
    limits = [device.limit_w.value for device in found.devices if device.limit_w]
    across = Linear(end - begin, _LEFT, _WIDTH - _RIGHT)
    up = Linear(max([*drawn, *limits]) * 1.08, _HEIGHT - _BOTTOM, _TOP)
    shapes = [svg.text(8, 14, "watts of each device", "title")]
    for band in found.bands:
        since, until = max(0.0, band.begin_s - begin), min(end - begin, band.end_s - begin)
        if until > since:
            width = max(0.5, across(until) - across(since))
            shapes.append(
                tag(
                    "rect", x=across(since), y=_TOP, width=width, height=up.start - _TOP, class_=f"band is-{band.phase}"
                )
            )
    for value in up.ticks():
        shapes.append(svg.line(across.start, up(value), across.end, up(value), "grid"))
        shapes.append(svg.text(_LEFT - 8, up(value) + 4, words.number(value, "W"), "tick", "end"))
    shapes += [
        svg.text(across(value), up.start + 20, f"{value + begin:.3g} s", "tick", "middle") for value in across.ticks()
    ]
    shapes += [svg.line(across.start, up(limit), across.end, up(limit), "floor") for limit in dict.fromkeys(limits)]
    for i in range(len(found.devices)):
        points = [(point.at_s, point.watts[i]) for point in found.points]
        shapes.append(svg.path([(across(x - begin), up(y)) for x, y in points if y is not None], "fit"))
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label="watts over time: the table holds the numbers",
        class_="chart",
    )
