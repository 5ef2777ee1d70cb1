"""Both phases on one roofline: work per byte against work per second, log-log, under each pair of ceilings."""

from __future__ import annotations

import math
from typing import NamedTuple

from markupsafe import Markup

from phasewise.record.judgement import PhaseVerdict
from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report.html import svg
from phasewise.report.html.svg import Log, tag
from phasewise.report.view import heading, words
from phasewise.report.view.table import Cell, Table, columns, say

_WIDTH, _HEIGHT = 640.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 104.0, 20.0, 30.0, 48.0
_ROOM = 0.5


class Place(NamedTuple):
    """A measured step on the roofline: FLOP per byte, FLOP/s reached, and FLOP/s at its floor where that is known."""

    phase: Phase
    tokens: float
    intensity: float
    rate: float
    floor_rate: float | None


class Roof(NamedTuple):
    """A pair of ceilings: FLOP/s and bytes/s, all devices together."""

    basis: str
    peak: float
    bandwidth: float


def places(verdict: PhaseVerdict) -> list[Place]:
    """Where the steps of a phase lie.

    MFU times its ceiling is the FLOP/s reached, MBU times its ceiling the bytes/s; one over the other is the step's
    FLOP per byte. The step that is taken apart also has a floor, which it would reach by being step/floor as fast.
    """
    whole = [u for u in verdict.utilisations if u.method == "whole"]
    bases = [u.basis for u in whole][:1]
    reached: dict[float, dict[str, float]] = {}
    for one in whole:
        if one.basis in bases:
            reached.setdefault(one.tokens, {}).setdefault(one.yardstick, one.value.value * one.ceiling.value)
    found = []
    for tokens, rates in sorted(reached.items()):
        flops, bytes_ = rates.get("mfu", math.nan), rates.get("mbu", math.nan)
        if all(math.isfinite(rate) and rate > 0 for rate in (flops, bytes_)):
            best = flops * _speedup(verdict) if tokens == verdict.at_tokens else None
            found.append(Place(verdict.phase, tokens, flops / bytes_, flops, best if words.finite(best) else None))
    return found


def _speedup(verdict: PhaseVerdict) -> float:
    floor = verdict.floor.value if verdict.floor else math.nan
    return verdict.step.value / floor if floor > 0 else math.nan


def roofs(run: Run) -> list[Roof]:
    """Each basis that utilisations were held against, the most trusted first."""
    found: dict[str, dict[str, float]] = {}
    for phase in heading.PHASES:
        verdict = heading.verdict_of(run, phase)
        for one in verdict.utilisations if verdict else ():
            found.setdefault(one.basis, {}).setdefault(one.yardstick, one.ceiling.value)
    pairs = [Roof(basis, c.get("mfu", math.nan), c.get("mbu", math.nan)) for basis, c in found.items()]
    return [roof for roof in pairs if all(math.isfinite(c) and c > 0 for c in roof[1:])]


def _steps(run: Run) -> list[Place]:
    verdicts = (heading.verdict_of(run, phase) for phase in heading.PHASES)
    return [place for verdict in verdicts if verdict for place in places(verdict)]


def table(run: Run) -> Table:
    """The drawing in numbers."""
    rows = [
        (
            say(f"{p.phase}, {words.count(p.tokens)} tokens"),
            Cell(_per_byte(p.intensity)),
            Cell(words.number(p.rate, "FLOP/s")),
            Cell(words.number(p.floor_rate, "FLOP/s") if p.floor_rate else ""),
        )
        for p in _steps(run)
    ]
    ridges = [
        (
            say(f"ridge of the {words.name(roof.basis)} ceilings"),
            Cell(_per_byte(roof.peak / roof.bandwidth)),
            Cell(words.number(roof.peak, "FLOP/s")),
            Cell(""),
        )
        for roof in roofs(run)
    ]
    heads = columns("step", ">FLOP per byte", ">reached", ">at the floor")
    return Table(title="The roofline in numbers", columns=heads, rows=(*rows, *ridges))


def _per_byte(intensity: float) -> str:
    return f"{intensity:,.3g}" if intensity < 1000 else words.count(intensity)


def roofline(run: Run) -> Markup | None:
    """The drawing; None when no step has both an MFU and an MBU."""
    ceilings, steps = roofs(run), _steps(run)
    if not ceilings or not steps:
        return None
    ridges = [roof.peak / roof.bandwidth for roof in ceilings]
    across = _decades([p.intensity for p in steps] + ridges, _LEFT, _WIDTH - _RIGHT)
    rates = [p.rate for p in steps] + [roof.peak for roof in ceilings]
    up = _decades(rates, _HEIGHT - _BOTTOM, _TOP)
    return tag(
        "svg",
        tag(
            "clipPath", tag("rect", x=_LEFT, y=_TOP, width=across.end - _LEFT, height=up.start - _TOP), id="inside-roof"
        ),
        _axes(across, up),
        tag("g", *(_roof(roof, across, up) for roof in reversed(ceilings)), clip_path="url(#inside-roof)"),
        _names(ceilings[0], across, up),
        *(_place(place, across, up) for place in steps),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label="Roofline: FLOP per byte against FLOP per second for both phases; the table below holds the numbers",
        class_="chart",
    )


def _decades(values: list[float], start: float, end: float) -> Log:
    """From the least to the most of ``values``, with half a decade of room on both sides."""
    return Log(min(values) / 10**_ROOM, max(values) * 10**_ROOM, start, end)


def _axes(across: Log, up: Log) -> Markup:
    drawn = []
    for value in up.ticks():
        y = up(value)
        drawn += [svg.line(across.start, y, across.end, y, "grid")]
        drawn += [svg.text(_LEFT - 8, y + 4, words.number(value, "FLOP/s", 1), "tick", "end")]
    for value in across.ticks():
        x = across(value)
        drawn += [svg.line(x, up.start, x, up.end, "grid")]
        drawn += [svg.text(x, up.start + 20, f"{value:,.0f}" if value >= 1 else f"{value:g}", "tick", "middle")]
    drawn += [
        svg.line(across.start, up.start, across.end, up.start, "axis"),
        svg.text(4, 14, "FLOP/s reached", "title"),
        svg.text(across.end, _HEIGHT - 6, "FLOP per byte moved", "title", "end"),
    ]
    return Markup("").join(drawn)


def _roof(roof: Roof, across: Log, up: Log) -> Markup:
    ridge = roof.peak / roof.bandwidth
    corners = [(across.low, roof.bandwidth * across.low), (ridge, roof.peak), (across.high, roof.peak)]
    return svg.path([(across(x), up(y)) for x, y in corners], f"roof {basis_class(roof.basis)}")


def basis_class(basis: str) -> str:
    """The class that gives a basis its line."""
    return f"on-{basis}" if basis in ("datasheet", "measured", "stated") else "on-other"


def _names(roof: Roof, across: Log, up: Log) -> Markup:
    """The first roof's ceilings beside its lines."""
    ridge = roof.peak / roof.bandwidth
    middle = math.sqrt(ridge * max(across.low, up.low / roof.bandwidth))
    x, y = across(middle), up(middle * roof.bandwidth)
    tilt = math.degrees(math.atan2(up.decade, across.decade))
    slope = tag(
        "text",
        words.number(roof.bandwidth, "B/s"),
        x=x,
        y=y - 9,
        class_="roof-name",
        text_anchor="middle",
        transform=f"rotate({tilt:.1f} {x:.1f} {y:.1f})",
    )
    flat = f"{words.number(roof.peak, 'FLOP/s')}, {words.name(roof.basis)}"
    return slope + svg.text(across.end - 4, up(roof.peak) - 14, flat, "roof-name", "end")


def _place(place: Place, across: Log, up: Log) -> Markup:
    x, y = across(place.intensity), up(place.rate)
    label = f"{place.phase}, {words.count(place.tokens)} tokens: {words.number(place.rate, 'FLOP/s')} reached"
    if place.floor_rate is None:
        return tag("g", tag("title", label), _mark(place.phase, x, y, 3.5, f"dot small {place.phase}"))
    label += f", {words.number(place.floor_rate, 'FLOP/s')} at the floor"
    top = up(place.floor_rate)
    third = (across.end - across.start) / 3
    anchor = "start" if x < across.start + third else "end" if x > across.end - third else "middle"
    name = svg.text(x, y + 26, f"{place.phase}, {words.count(place.tokens)}", f"name {place.phase}", anchor)
    ring = _mark(place.phase, x, top, 5.5, f"ring {place.phase}")
    drop = svg.line(x, top, x, y, f"drop {place.phase}")
    return tag("g", tag("title", label), drop, ring, _mark(place.phase, x, y, 6.0, f"dot {place.phase}"), name)


def _mark(phase: Phase, x: float, y: float, size: float, class_: str) -> Markup:
    """A disc for prefill, a square for decode: the shapes tell them apart where colours do not."""
    if phase == "prefill":
        return tag("circle", cx=x, cy=y, r=size, class_=class_)
    return tag("rect", x=x - size, y=y - size, width=2 * size, height=2 * size, class_=class_)
