"""A calibration and what it predicts, as tables and sentences."""

from __future__ import annotations

from phasewise.record.calibration import Calibrated, CalibratedStep, Calibration, PhaseScore
from phasewise.record.quantity import Quantity, measured, predicted
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say

_NAMES = {
    "compute": "share of the peak that matmuls reach",
    "attention": "what attention's math reaches of that",
    "bandwidth": "share of the bandwidth",
    "corner": "corner between math and bytes, p",
    "start_s": "start and end of a kernel",
    "walk_s": "least time of a kernel, hides behind its bytes",
    "launch_s": "host time for a layer, hides behind the device",
    "link": "share of the link's rate",
    "message_s": "latency of a collective",
    "step_s": "host time of a step",
    "prompt_s": "host time to admit a prompt",
    "answer_s": "host time for each answered request",
}
"""What each parameter is."""


def headline(found: Calibration) -> str:
    """What was fitted, and how far left-out points are from it."""
    engine = f" under {words.name(found.engine)}" if found.engine else ""
    return f"{words.name(found.model)} on {words.name(found.machine)}{engine}, {len(found.points)} points. " + " ".join(
        _score(one) for one in found.scores
    )


def _score(one: PhaseScore) -> str:
    return (
        f"{one.phase.capitalize()}: a point that the fit has not seen is missed by {words.share(one.held_out_mean)} on "
        f"average ({words.share(one.held_out_median)} in the middle), by the plain floor {words.share(one.plain_mean)}."
    )


def parameters(found: Calibration) -> Table:
    """Every parameter with its interval and whether it was measured."""
    return Table(
        title="Parameters",
        columns=columns("parameter", ">value", "80% interval", "", "what it is"),
        rows=tuple(
            (
                say(name),
                Cell(_value(name, quantity), quantity),
                say(_interval(name, quantity)),
                say(quantity.provenance),
                say(_NAMES.get(name, "")),
            )
            for name, quantity in found.parameters.items()
        ),
        note=f"Assumed are those that the points hardly narrowed: {words.clean(found.assumed_from)}. Shares are of the "
        f"{words.clean(found.basis)} ceilings.",
    )


def _value(name: str, quantity: Quantity) -> str:
    return f"{quantity.value:.2f}" if name == "corner" else words.amount(quantity)


def _interval(name: str, quantity: Quantity) -> str:
    if name == "corner" and quantity.low is not None and quantity.high is not None:
        return f"{quantity.low:.2f} to {quantity.high:.2f}"
    return words.interval(quantity)


def points(found: Calibration) -> Table:
    """Every point beside its floor, the fit, and the fit that had not seen it."""
    rows = []
    for one in sorted(found.points, key=lambda one: (one.point.phase == "decode", one.point.devices)):
        point = one.point
        seconds = measured(point.seconds, "s", point.source)
        left_out = predicted(one.held_out_s, "s", "fit without this point")
        rows.append(
            (
                say(point.phase),
                Cell(words.count(point.tokens if point.phase == "prefill" else point.context)),
                Cell(words.count(point.batch)),
                Cell(str(point.devices)),
                give(seconds),
                give(predicted(one.floor_s, "s", "plain floor")),
                give(predicted(one.fitted_s, "s", "fit")),
                give(left_out),
                Cell(f"{100 * (one.held_out_s / point.seconds - 1):+.1f}%"),
            )
        )
    return Table(
        title="Points",
        columns=columns("phase", ">tokens", ">batch", ">tp", ">measured", ">floor", ">fit", ">left out", ">off by"),
        rows=tuple(rows),
        note="Tokens are of the prompt (prefill) or of the context (decode). Left out: by the fit without the point.",
    )


def steps(found: Calibrated) -> Table:
    """Prefill, decode, and decode over the batch: floor, calibrated time, interval."""
    batches = [step for step in found.batch if step.batch != found.decode.batch]
    return Table(
        title="Calibrated",
        columns=columns(
            "step", ">floor", ">calibrated", f"{words.share(found.coverage).removesuffix('.0%')}% interval"
        ),
        rows=tuple(_step(step) for step in (found.prefill, found.decode, *batches)),
        note=_why(found),
    )


def _step(step: CalibratedStep) -> tuple[Cell, ...]:
    prefill = step.phase == "prefill"
    what = words.number(step.tokens if prefill else step.context, "token")
    many = "" if prefill and step.batch == 1 else f", batch {words.count(step.batch)}"
    shown = words.interval(step.time) or "none"
    return say(f"{step.phase}, {what}{many}"), give(step.floor), give(step.time), say(shown)


def _why(found: Calibrated) -> str:
    reasons = dict.fromkeys(one.no_interval for one in (found.prefill, found.decode, *found.batch) if one.no_interval)
    return f"No interval where {words.clean('; '.join(reasons))}." if reasons else ""


def request(found: Calibrated) -> str:
    """The request in one sentence."""
    interval = words.interval(found.total)
    return (
        f"The request alone: TTFT {words.amount(found.ttft)}, TPOT {words.amount(found.tpot)}, in all "
        f"{words.amount(found.total)}{f' ({interval})' if interval else ''}."
    )
