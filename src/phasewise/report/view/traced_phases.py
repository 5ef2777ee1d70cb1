"""A trace, phase beside phase: steps, kernels, gaps, launches, utilisation, floor, parts."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.record.judgement import Utilisation
from phasewise.record.quantity import Quantity
from phasewise.record.trace import Gaps, LaunchCost, Traced, TracedPhase, TracePhase
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Part, Table, columns, give, say
from phasewise.report.view.traced import (
    NOT_LISTED,
    NOT_MEASURED,
    Pair,
    absent,
    bound,
    device,
    kernels,
    part,
    said,
    seen,
)

_PACKED = 0.05
"""Idle part of a phase's span up to which its kernels are called packed."""

APART = "recorded apart, no shares"
"""In the place of a phase's share: how long each of two recordings is was somebody's choice."""

Row = tuple[str, Callable[[TracedPhase], Cell]]


def side_by_side(found: Traced, pair: Pair) -> Table:
    """Every figure of two phases in two columns; a phase that the trace does not hold says so, once."""
    both = tuple(found.phases[phase] for phase in pair)
    rows = [(label, tuple(cell(one) if seen(one) else Cell("") for one in both)) for label, cell in _rows(found, pair)]
    first = tuple(cell if seen(one) else Cell(absent(found)) for one, cell in zip(both, rows[0][1], strict=True))
    rows[0] = (rows[0][0], first)
    shown = rows if any(map(seen, both)) else rows[:1]
    return Table(
        title=" beside ".join(pair).capitalize(),
        columns=columns("", *pair),
        rows=tuple((say(label), *cells) for label, cells in shown),
    )


def _rows(found: Traced, pair: Pair) -> tuple[Row, ...]:
    where, what = device(found), kernels(found)
    return (
        ("steps", _steps),
        (f"{what} per step" if any(found.phases[phase].steps for phase in pair) else what, _per_step),
        (f"{where} time", _gpu_time),
        (f"share of {where} time", lambda one: _owned(found, one)),
        ("marks on the CPU", lambda one: _or_not(said(one.host_s, "s", "sum of the steps' bands"), "no marks")),
        ("busy (union)", _busy),
        (f"median {what.removesuffix('s')}", lambda one: _or_not(said(one.median_kernel_s, "s"))),
        (f"between {what}", lambda one: say(_gaps(one.gaps, one.span_s))),
        ("between steps", _between),
        (f"launches of {what}", lambda one: say(_launches(one, what))),
        ("launch call", lambda one: say(_call(one.launches))),
        ("graphs would save", lambda one: _would_save(one.launches)),
        ("bound", lambda one: say(bound(one).removeprefix("bound "))),
        ("MFU", lambda one: _utilisation(one, "mfu")),
        ("MBU", lambda one: _utilisation(one, "mbu")),
        ("judged step", _judged),
        ("its floor", lambda one: _or_not(one.verdict.floor if one.verdict else None, words.NOTHING)),
        ("attention's share", _attention),
    )


def _or_not(quantity: Quantity | None, otherwise: str = NOT_MEASURED) -> Cell:
    return say(otherwise) if quantity is None else give(quantity)


def _steps(one: TracedPhase) -> Cell:
    if not one.steps:
        return say("none found")
    if one.steps > 1 and one.requests is not None:
        # A request that decodes is in every step: their sum over the steps would be no number of requests.
        many = one.requests / one.steps
        each = words.number(many, "request") if many == int(many) else f"{many:.1f} requests"
        told = [f"{one.steps:,} of {each}"]
    else:
        told = [f"{one.steps:,}", *([words.number(one.requests, "request")] if one.requests is not None else [])]
    return say(", ".join([*told, *([words.number(one.tokens, "token")] if one.tokens is not None else [])]))


def _per_step(one: TracedPhase) -> Cell:
    if not one.kernels and one.gpu_time_s:
        return say(NOT_LISTED)
    if one.kernels_per_step is None and not one.kernels:
        return say(NOT_MEASURED)
    if one.kernels_per_step is None:
        return say(f"{words.count(one.kernels)} in all")
    return Cell(_mean(one.kernels_per_step), said(one.kernels_per_step, "1", "mean over the steps"))


def _mean(value: float) -> str:
    return words.count(value) if value >= 100 or value == int(value) else f"{value:.1f}"


def _gpu_time(one: TracedPhase) -> Cell:
    if not one.gpu_time_s and not one.kernels:
        return say(NOT_MEASURED)
    each = f", {words.number(one.gpu_time_s / one.steps, 's')} a step" if one.steps > 1 else ""
    return Cell(f"{words.number(one.gpu_time_s, 's')}{each}", said(one.gpu_time_s, "s", "sum of kernels and replays"))


def _owned(found: Traced, one: TracedPhase) -> Cell:
    """Of all kernels, those of no step among them, which are said beside."""
    if found.recordings:
        return say(APART)
    total = sum(phase.gpu_time_s for phase in found.phases.values()) + found.outside_s
    if not one.gpu_time_s:
        return say(NOT_MEASURED)
    share = said(one.gpu_time_s / total, "1", "of all kernels, those of no step among them")
    rest = f"; {words.share(found.outside_s / total)} belongs to no step" if found.outside_s else ""
    return Cell(f"{words.share(one.gpu_time_s / total)}{rest}", share)


def _busy(one: TracedPhase) -> Cell:
    if one.busy_fraction is None:
        return say(NOT_MEASURED)
    text = f"{words.share(one.busy_fraction)} of {words.number(one.span_s, 's')}"
    return Cell(text, said(one.busy_fraction, "1", "union over span of its steps, strays left out"))


def _gaps(gaps: Gaps | None, span: float | None) -> str:
    """``packed: 0.2% idle, 18 gaps over 10 µs``; ``gaps: 86.3% idle, 715 over 10 µs, longest 2.64 ms``."""
    if gaps is None or not span:
        return NOT_MEASURED
    idle = gaps.total_s / span
    word = "packed" if idle <= _PACKED else "gaps"
    longest = f", longest {words.number(gaps.largest_s, 's')}" if gaps.count else ""
    return f"{word}: {words.share(idle)} idle, {gaps.long:,} over 10 µs{longest}"


def _between(one: TracedPhase) -> Cell:
    if one.gaps is None:
        return say(NOT_MEASURED)
    if one.gaps.between_s is None:
        return say(f"{words.NOTHING}: one step" if one.steps == 1 else words.NOTHING)
    return Cell(f"{words.number(one.gaps.between_s, 's')} idle", said(one.gaps.between_s, "s"))


def _fruitless(one: TracedPhase) -> str:
    """Of launches of single kernels, those whose kernel is not on record: `` (857 without a kernel on record)``."""
    cost = one.launches
    assert cost is not None
    lost = cost.launches - cost.graph_launches - max(0, one.kernels - cost.kernels_in_graphs)
    if lost <= 0 or not one.kernels:
        return ""
    return f" ({_mean(lost / one.steps) if one.steps else words.count(lost)} without a kernel on record)"


def _launches(one: TracedPhase, what: str) -> str:
    """``555 a step, no graph``; ``12 a step; 1 graph launch starts 544 kernels``."""
    cost = one.launches
    if cost is None:
        return NOT_MEASURED
    many = f"{words.count(cost.launches)} in all" if cost.per_step is None else f"{_mean(cost.per_step)} a step"
    many += _fruitless(one)
    if not cost.graph_launches:
        return f"{many}, no graph"
    starts = "launch starts" if cost.graph_launches == 1 else "launches start"
    inside = (
        f"{words.count(cost.kernels_in_graphs)} {what}" if cost.kernels_in_graphs else f"{what} that are {NOT_LISTED}"
    )
    return f"{many}; {cost.graph_launches:,} graph {starts} {inside}"


def _call(cost: LaunchCost | None) -> str:
    """``5.01 µs (median); its kernel starts 12.2 ms later``."""
    if cost is None or cost.median_s is None:
        return NOT_MEASURED
    later = "" if cost.delay_s is None else f"; kernel starts {words.number(cost.delay_s, 's')} later"
    return f"{words.number(cost.median_s, 's')}{later} (medians)"


def _would_save(cost: LaunchCost | None) -> Cell:
    if cost is None:
        return say(NOT_MEASURED)
    saved = cost.graphs_would_save_s
    if saved is None:
        return say("nothing: it runs in graphs" if cost.graph_launches else "nothing: no gaps to close")
    return Cell(f"{words.amount(saved)} a step ({saved.provenance})", saved)


def _utilisation(one: TracedPhase, yardstick: str) -> Cell:
    """The utilisation while the device was busy, and after it the one over the whole step, gaps included."""
    used = [u for u in one.verdict.utilisations if u.yardstick == yardstick] if one.verdict else []
    if not used:
        return say(words.NOTHING)
    with_gaps = [words.amount(u.value) for u in used[1:] if u.basis == used[0].basis]
    gaps = f"; gaps included {with_gaps[0]}" if with_gaps else ""
    return Cell(f"{words.amount(used[0].value)} {against(used[0])}{gaps}", used[0].value)


def against(used: Utilisation) -> str:
    """What a utilisation is held against: ``of 5.30 TB/s (datasheet)``."""
    return f"of {words.amount(used.ceiling)} ({words.name(used.basis)})"


def _judged(one: TracedPhase) -> Cell:
    if one.verdict is None or one.verdict.step is None:
        return say(words.NOTHING)
    many = f", mean of {one.verdict.steps:,}" if one.verdict.steps > 1 else ""
    return Cell(f"{words.amount(one.verdict.step)}{many}", one.verdict.step)


def _attention(one: TracedPhase) -> Cell:
    share, floor = (one.verdict.attention, one.verdict.attention_predicted) if one.verdict else (None, None)
    if share is None:
        return say(words.NOTHING)
    why = f": {words.clean(one.verdict.attention_why_null)}" if one.verdict and one.verdict.attention_why_null else ""
    expected = f"{words.share(floor.value)} of the floor (predicted)" if floor else f"not predicted{why}"
    return Cell(f"{words.share(share.value)} of its time; {expected}", share)


def reasons(found: Traced, phase: TracePhase) -> tuple[str, ...]:
    """Why a phase is bound as it is, why a figure of it is missing, and what was assumed; a sentence each."""
    verdict = found.phases[phase].verdict
    if verdict is None:
        return ()
    told = verdict.why_null in verdict.why
    missing = "" if told else f"No MFU, MBU or floor: {verdict.why_null}."
    return tuple(words.clean(text) for text in (verdict.why, missing, *verdict.notes) if text)


def title(found: Traced, phase: TracePhase) -> str:
    """``decode: memory-bound``; ``prefill: not in this trace``."""
    own = found.phases[phase]
    if not seen(own):
        return f"{phase}: {absent(found)}"
    return f"{phase}: {bound(own)}"


def parts(found: Traced, phase: TracePhase) -> tuple[Part, ...]:
    """What the mean judged step is made of, largest first; empty without a floor."""
    verdict = found.phases[phase].verdict
    if verdict is None:
        return ()
    return tuple(
        Part(key=f"step-{one.name}", label=part(one, verdict), seconds=one.seconds, fraction=one.fraction)
        for one in verdict.parts
    )
