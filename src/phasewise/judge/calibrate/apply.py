"""What a calibration, or a class prior, says of the steps that ``predict`` predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from phasewise.judge.calibrate.interval import COVERAGE, assumed_interval, interval
from phasewise.model.passes import Count, Pass
from phasewise.predict.efficiency import Array, Efficiency, Load, load
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.priors import Prior
from phasewise.record.calibration import Calibrated, CalibratedStep, Calibration, Point
from phasewise.record.observation import Phase
from phasewise.record.prediction import Prediction
from phasewise.record.quantity import Quantity, predicted

REACH = 2.0
"""So many times beyond the largest setting that was measured, or below the smallest, no interval is claimed."""

_SAME = 1.25
"""The same where only one setting was measured, so that nothing is known of what another does."""

_SAMPLES = 64
"""Steps of a request that its mean is taken over; a step's time hardly bends between them."""


class Setting(NamedTuple):
    """One step, as a point has it."""

    phase: Phase
    tokens: float
    batch: float
    context: float


class Outlook(NamedTuple):
    """Something that predicts: a calibration or a prior.

    ``ends`` gives the lower and upper end for steps of a phase, or None; ``why_none`` says for one setting why no
    interval is claimed, and is empty where one is.
    """

    name: str
    about: str
    efficiency: Efficiency
    ends: Callable[[Load, Phase], tuple[Array, Array] | None]
    why_none: Callable[[Setting], str]
    notes: tuple[str, ...]


def from_calibration(kept: Calibration, spread: Spread, machine: str) -> Outlook:
    """What ``kept`` says of ``spread`` on ``machine``; no interval for other than was measured."""
    folds = [Efficiency(**fold) for fold in kept.folds]
    efficiency = Efficiency(**{name: found.value for name, found in kept.parameters.items()})
    elsewhere = _elsewhere(kept, spread, machine)

    def ends(of: Load, phase: Phase) -> tuple[Array, Array] | None:
        mine = [one for one in kept.points if one.point.phase == phase]
        misses = np.log([one.point.seconds / one.held_out_s for one in mine])
        return interval(np.array([folds[one.fold].seconds(of) for one in mine]), misses) if mine else None

    def why_none(setting: Setting) -> str:
        mine = [one.point for one in kept.points if one.point.phase == setting.phase]
        known = any(score.interval for score in kept.scores if score.phase == setting.phase)
        few = "" if known else f"{len(mine)} {setting.phase} points are too few"
        return elsewhere or few or _outside(setting, mine)

    measured_on = f"{kept.model} on {kept.machine}" + (f" under {kept.engine}" if kept.engine else "")
    return Outlook(
        name=kept.name,
        about=f"fitted to {len(kept.points)} points of {measured_on}",
        efficiency=efficiency,
        ends=ends,
        why_none=why_none,
        notes=(*([f"Not what was measured: {elsewhere}."] if elsewhere else []), *kept.notes),
    )


def _elsewhere(kept: Calibration, spread: Spread, machine: str) -> str:
    model, layout = spread.model, spread.layout
    if machine != kept.machine:
        return f"the points are of {kept.machine}, not of {machine}"
    if model.name != kept.model:
        return f"the points are of {kept.model}, not of {model.name}"
    if (model.weights_format, model.kv_format) != (kept.weights, kept.kv):
        return f"the points are of weights in {kept.weights} and a KV cache in {kept.kv}"
    devices = sorted({one.point.devices for one in kept.points})
    if layout != Layout(tp=layout.tp) or not devices[0] <= layout.tp <= devices[-1]:
        return f"the points are of TP={', '.join(map(str, devices))}, not of {layout}"
    return ""


def _outside(setting: Setting, points: Sequence[Point]) -> str:
    ranges = {
        "requests in the step": (setting.batch, [one.batch for one in points]),
        "tokens in the step": (setting.tokens * setting.batch, [one.tokens * one.batch for one in points]),
        "tokens of context": (setting.context + setting.tokens, [one.context + one.tokens for one in points]),
    }
    for what, (value, known) in ranges.items():
        least, most = min(known), max(known)
        reach = REACH if least < most else _SAME
        if not least / reach <= value <= most * reach:
            return f"{what} are far from the points' ({f'{least:,.0f} to ' if least < most else ''}{most:,.0f})"
    return ""


def from_prior(prior: Prior) -> Outlook:
    """What is assumed of a class of machines; the interval spreads every parameter as the prior does."""
    return Outlook(
        name="prior",
        about=f"assumed of {prior.about}",
        efficiency=prior.efficiency,
        ends=lambda of, phase: assumed_interval(prior, of),
        why_none=lambda setting: "",
        notes=("Nothing was measured: every parameter is assumed. `phasewise calibrate` measures them.",),
    )


def apply(outlook: Outlook, spread: Spread, found: Prediction) -> Calibrated:
    """The steps and the request of ``found`` as ``outlook`` sees them."""

    def prefill(tokens: int, batch: int, floor_s: float) -> CalibratedStep:
        return _step(outlook, spread, Setting("prefill", float(tokens), float(batch), 0.0), floor_s)

    def decode(batch: int, floor_s: float) -> CalibratedStep:
        return _step(outlook, spread, Setting("decode", 1.0, float(batch), float(found.decode.tokens)), floor_s)

    request = found.request
    ttft = prefill(request.prompt_tokens, 1, request.ttft_s).time
    tpot = _tpot(outlook, spread, request.prompt_tokens, request.answer_tokens)
    return Calibrated(
        name=outlook.name,
        about=outlook.about,
        coverage=COVERAGE,
        prefill=prefill(found.prefill.tokens, found.prefill.batch, found.prefill.time_s),
        decode=decode(found.decode.batch, found.decode.time_s),
        ttft=ttft,
        tpot=tpot,
        total=_total(ttft, tpot, request.answer_tokens),
        batch=tuple(decode(row.batch, row.step_s) for row in found.batch),
        notes=outlook.notes,
    )


def _step(outlook: Outlook, spread: Spread, setting: Setting, floor_s: float) -> CalibratedStep:
    one = Pass(setting.tokens, setting.context, setting.batch, decode=setting.phase == "decode")
    of = load(spread, one)
    why = outlook.why_none(setting)
    return CalibratedStep(
        phase=setting.phase,
        tokens=setting.tokens,
        batch=setting.batch,
        context=setting.context,
        floor=predicted(floor_s, "s", "plain floor"),
        time=_time(outlook, of, setting.phase, why),
        no_interval=why,
    )


def _time(outlook: Outlook, of: Load, phase: Phase, why_none: str) -> Quantity:
    """Mean over the steps of ``of``; nothing takes less than its floor."""
    least = float(of.floor.mean())
    ends = None if why_none else outlook.ends(of, phase)
    value = max(least, float(outlook.efficiency.seconds(of).mean()))
    return Quantity(
        value=value,
        low=None if ends is None else max(least, float(ends[0].mean())),
        high=None if ends is None else max(value, float(ends[1].mean())),
        unit="s",
        provenance="predicted",
        source=f"{outlook.name}: {outlook.about}",
    )


def _tpot(outlook: Outlook, spread: Spread, prompt: int, answer: int) -> Quantity:
    """Mean decode step of a request alone."""
    contexts: Count = prompt + np.linspace(1.0, max(answer - 1.0, 1.0), min(max(answer - 1, 1), _SAMPLES))
    why = outlook.why_none(Setting("decode", 1.0, 1.0, prompt + answer / 2))
    return _time(outlook, load(spread, Pass(1.0, contexts, 1.0, decode=True)), "decode", why)


def _total(ttft: Quantity, tpot: Quantity, answer: int) -> Quantity:
    """TTFT and the steps after it; the ends add up, as if both missed the same way."""
    steps = max(answer - 1, 0)
    known = None not in (ttft.low, ttft.high, tpot.low, tpot.high)
    return Quantity(
        value=ttft.value + steps * tpot.value,
        low=(ttft.low or 0.0) + steps * (tpot.low or 0.0) if known else None,
        high=(ttft.high or 0.0) + steps * (tpot.high or 0.0) if known else None,
        unit="s",
        provenance="predicted",
        source=ttft.source,
    )
