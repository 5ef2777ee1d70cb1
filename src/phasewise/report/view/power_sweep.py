"""A power sweep in sentences and tables: what each cap did to each phase, and how each follows the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phasewise.record.observation import Phase
from phasewise.record.power_sweep import Answer, AtCap, Cap, Held, PowerSweep, Slope
from phasewise.record.quantity import Quantity, measured
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.table import Cell, Table, columns, give, say

_SAID: dict[Answer, str] = {
    "slows": "is slowed",
    "hardly": "is hardly slowed",
    "undecided": "is not decided",
    "never engaged": "met no cap",
    "throttled otherwise": "was throttled by something else",
    "not measured": "was not measured",
}

_FOLLOWS = {
    "clock": "follows the SM clock",
    "memory": "does not follow the SM clock",
    "both": "follows the SM clock in part",
    "undecided": "may or may not follow the SM clock",
    "too little spread": "ran at one SM clock",
    "not measured": "was not measured at several clocks",
}

_HELD = (("capped", "cap"), ("hot", "heat"), ("slowed", "board"))


def headline(run: Run) -> str:
    """What the lowest cap did to each phase, or how each follows the clock; or why that cannot be said."""
    found = run.power_sweep
    if found is None or not (found.caps or found.slopes):
        return f"No verdict: {words.clean(run.envelope.reason) or 'nothing was measured'}."
    if found.verdicts:
        said = " and ".join(_capped(found, phase) for phase in PHASES)
        return f"{_sentence(said)} {_knee(found)}".rstrip()
    return _sentence(" and ".join(_followed(slope) for slope in found.slopes))


def side(cap: Cap, phase: Phase) -> AtCap | None:
    """One phase under ``cap``."""
    return cap.prefill if phase == "prefill" else cap.decode


def caps(found: PowerSweep, phase: Phase) -> Table:
    """Every cap, from the first that was set to the last."""
    rows = tuple(_row(cap, at) for cap in found.caps if (at := side(cap, phase)) is not None)
    time = "TTFT" if phase == "prefill" else "TPOT"
    heads = columns(">cap", f">{time}", ">ratio", ">watts", ">SM clock", ">J/token", "engaged", "held by")
    note = _of(found, phase) if rows else f"No {phase} was measured under a cap."
    return Table(title=f"{phase.capitalize()} under caps", columns=heads, rows=rows, note=note)


def slopes(found: PowerSweep) -> Table:
    """Time over the SM clock."""
    rows = tuple(
        (
            say(slope.phase),
            _slope(slope),
            give(slope.lowest),
            give(slope.highest),
            Cell(words.count(slope.samples)),
            say(words.listed(list(slope.moved)) or "nothing named"),
        )
        for slope in found.slopes
    )
    heads = columns("phase", ">slope", ">lowest clock", ">highest", ">requests", "held down by")
    note = "Slope of log time over log of 1/clock, within requests of one length: 1 follows the clock, 0 does not."
    return Table(title="Time over the SM clock", columns=heads, rows=rows, note=note)


def facts(found: PowerSweep) -> Iterator[str]:
    """What was found, a sentence each."""
    for verdict in found.verdicts:
        yield words.clean(verdict.text)
    if found.knee is not None:
        yield f"Knee: {words.clean(found.knee.text)}"
    for slope in found.slopes:
        yield words.clean(slope.text)
    for cap in found.caps:
        if remark := _remark(cap):
            judged = "" if not (cap.disturbed or cap.doubts) else "; not judged"
            yield f"* {words.amount(cap.limit)}: {remark}{judged}."
    yield from map(words.clean, found.notes)


def cards(found: PowerSweep) -> Iterator[str]:
    """What each card had, and has."""
    for card in found.cards:
        name = words.clean(card.name)
        if card.trouble:
            yield f"{name} is NOT as it was found, at {words.amount(card.found)}: {words.clean(card.trouble)}"
        else:
            yield (
                f"{name}: limit {words.amount(card.found)} before, {words.amount(card.restored)} after, read back; "
                f"allowed {words.amount(card.least)} to {words.amount(card.most)}."
            )
    if not found.cards:
        yield "No limit was changed: that needs --set-limits."


def put_back(cards: Sequence[Held]) -> Iterator[str]:
    """What a sweep that was killed had left, and what became of it."""
    for card in cards:
        name = words.clean(card.name)
        if card.trouble:
            yield f"A power sweep was killed, and its limit is not back: {words.clean(card.trouble)}"
        else:
            was = f" from {words.amount(card.met)}" if card.met and card.met.value != card.found.value else ""
            yield f"A power sweep was killed: the limit of {name} is put back{was} to {words.amount(card.restored)}."
    if not cards:
        yield "No limit is to be put back."


def method(found: PowerSweep) -> Iterator[str]:
    """How it was obtained."""
    yield "Each phase alone, one request at a time; times at the client, the driver's telemetry every 50 ms beside it."
    yield (
        "Watts, clock and reasons are those of the readings that lie in the phase's own requests; watts are of all "
        "cards, and energy is theirs by their counters, as in phasewise power."
    )
    if found.caps:
        yield (
            "A cap engaged where the driver named power throttling in 5% of the readings, or where 5% of them were "
            "within 3% of the limit that it enforced."
        )


def recap(run: Run) -> Table:
    """Prefill beside decode."""
    found = run.power_sweep or PowerSweep()
    verdicts = {one.phase: one for one in found.verdicts}
    by_slope = {one.phase: one for one in found.slopes}
    lowest = _lowest(found)
    sides: dict[str, list[Cell]] = {"under caps": [], "at the lowest cap": [], "slope over the clock": []}
    for phase in PHASES:
        verdict, at = verdicts.get(phase), side(lowest, phase) if lowest else None
        sides["under caps"].append(say(_SAID[verdict.answer] if verdict else "no limit was set"))
        sides["at the lowest cap"].append(_ratio(at.ratio) if at else Cell(words.NOTHING))
        slope = by_slope.get(phase)
        sides["slope over the clock"].append(_slope(slope) if slope else Cell(words.NOTHING))
    rows = tuple((say(name), *cells) for name, cells in sides.items())
    return Table(title="Recap", columns=columns("", *PHASES), rows=rows)


def _lowest(found: PowerSweep) -> Cap | None:
    judged = [cap for cap in found.caps if not cap.again and not cap.disturbed and not cap.doubts]
    return min(judged, key=lambda cap: cap.limit.value, default=None)


def _capped(found: PowerSweep, phase: Phase) -> str:
    answer = next(one.answer for one in found.verdicts if one.phase == phase)
    lowest = _lowest(found)
    at = side(lowest, phase) if lowest else None
    if answer in ("slows", "hardly") and lowest and at and at.ratio:
        return f"{phase} {_SAID[answer]}, ×{at.ratio.value:.2f} at {words.amount(lowest.limit)}"
    if answer == "never engaged":
        highest = max((s.drawn.highest_w or 0.0 for cap in found.caps if (s := side(cap, phase))), default=0.0)
        return f"{phase} {_SAID[answer]}: it drew {words.number(highest, 'W')} at most"
    return f"{phase} {_SAID[answer]}"


def _knee(found: PowerSweep) -> str:
    knee = found.knee
    if knee is None or knee.limit is None:
        return ""
    return f"Decode keeps its speed down to {words.amount(knee.limit)}{'' if knee.sure else ', by the medians'}."


def _followed(slope: Slope) -> str:
    value = f" (slope {_two(slope.slope.value)})" if slope.slope else ""
    return f"{slope.phase} {_FOLLOWS[slope.follows]}{value}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _row(cap: Cap, at: AtCap) -> tuple[Cell, ...]:
    drawn = at.drawn
    held = [word for name, word in _HELD if getattr(drawn, name)]
    told = any(getattr(drawn, name) is not None for name, _ in _HELD)
    mark = " again" if cap.again else " *" if _remark(cap) else ""
    return (
        Cell(f"{words.amount(cap.limit)}{mark}", cap.limit),
        give(at.time),
        _ratio(at.ratio) if at.ratio else Cell("1"),
        give(drawn.watts),
        give(drawn.sm),
        Cell(words.number(at.energy.value, "").strip() if at.energy else words.NOTHING, at.energy),
        say({"yes": "yes", "no": "no", "not_checked": "?"}[at.engaged]),
        say(", ".join(held) if told else "not told"),
    )


def _remark(cap: Cap) -> str:
    """Why a cap is not judged, or what else holds."""
    other = f"another limit holds, {words.amount(cap.enforced)}" if cap.enforced else ""
    return words.clean("; ".join(filter(None, (cap.disturbed, *cap.doubts, other))))


def _ratio(ratio: Quantity | None) -> Cell:
    return Cell(f"{ratio.value:.3f}" if ratio else words.NOTHING, ratio)


def _slope(slope: Slope) -> Cell:
    if slope.slope is None:
        return Cell(words.NOTHING)
    one = slope.slope
    between = "" if one.low is None or one.high is None else f" ({_two(one.low)} to {_two(one.high)})"
    return Cell(f"{_two(one.value)}{between}", one)


def _two(value: float) -> str:
    """Two decimals, and no minus before nothing."""
    return f"{round(value, 2) + 0.0:.2f}"


def _of(found: PowerSweep, phase: Phase) -> str:
    tokens = next((at.tokens for cap in found.caps if (at := side(cap, phase))), 0.0)
    asked = measured(tokens, "token", "the server's count")
    return f"A prompt of {words.amount(asked)}." if phase == "prefill" else f"After {words.amount(asked)} of context."
