"""How many devices pay."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from phasewise.errors import UsageError
from phasewise.predict.launches import KERNELS_PER_LAYER, LAUNCH_S, host_s
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.spread import Spread
from phasewise.record.parallel import Advice, AdviceRow
from phasewise.record.quantity import assumed
from phasewise.units import show

WORTH = 0.5
"""Twice the devices pay when a step gets at least 2^WORTH = √2 times as fast: halfway, as ratios go, between nothing
and all that they could give."""

_UNKNOWN = "No link is known, so how many devices pay cannot be said: give --link, such as --link 64GB/s."

TRIED = (1, 2, 4, 8)
"""Numbers of devices, beside the one that is asked for."""


def paying(step_s: Mapping[int, float]) -> int:
    """The most devices such that each number, over the one before, makes the step (m/n)^WORTH times as fast.

    ``step_s`` are seconds of one step by devices, predicted or measured, from the smallest number that works at all.
    What is faster per device is always the smallest: replicas of it serve more tokens a second.
    """
    sizes = sorted(step_s)
    best = sizes[0]
    for few, many in pairwise(sizes):
        if step_s[few] < step_s[many] * (many / few) ** WORTH:
            break
        best = many
    return best


def efficiency(step_s: Mapping[int, float], devices: int) -> float:
    """Time on the fewest devices, per device, over that on ``devices``: 1 when they are that many times as fast."""
    few = min(step_s)
    return step_s[few] * few / (step_s[devices] * devices)


def advise(spread: Spread, *, prompt: int, answer: int, batch: int, memory: float | None) -> Advice:
    """Tensor parallelism over more and more devices, and how many of them pay in decode.

    Beside the floor and the communication a step is taken to cost what launching it kernel by kernel takes, which no
    number of devices makes less.
    """
    model = spread.model
    by_size = {n: one for n in sorted({*TRIED, spread.layout.devices}) if (one := _over(spread, n)) is not None}
    fixed = host_s(model)
    steps = {n: float(one.decode(float(prompt), float(batch)).time_s) for n, one in by_size.items()}
    rows: list[AdviceRow] = []
    for n, one in by_size.items():
        held = one.held(batch, prompt + answer)
        rows.append(
            AdviceRow(
                devices=n,
                held_bytes=held,
                fits=None if memory is None else held <= memory,
                prefill_s=float(one.prefill(float(prompt)).time_s),
                decode_s=steps[n],
                efficiency=efficiency(steps, n),
                pays_below_s=_break_even(steps, rows[-1].devices, n) if rows else None,
            )
        )
    fitting = {row.devices: row.decode_s + fixed for row in rows if row.fits is not False}
    source = f"{KERNELS_PER_LAYER} kernels a layer at {show(LAUNCH_S, 's')} a launch"
    said = Advice(rows=tuple(rows), devices=None, fixed=assumed(fixed, "s", source), text=_UNKNOWN)
    if spread.link is None and len(rows) > 1:
        return said
    best = paying(fitting) if fitting else None
    return msgspec.structs.replace(said, devices=best, text=_text(rows, best, fixed))


def _over(spread: Spread, devices: int) -> Spread | None:
    """``spread`` as tensor parallelism over ``devices``; None where the model cannot be cut so."""
    layout = Layout(tp=devices, head=spread.layout.head)
    try:
        found = Spread(spread.model, layout, spread.roof, spread.link)
        _ = found.own
    except UsageError:
        return None
    return found


def _break_even(steps: Mapping[int, float], few: int, many: int) -> float:
    """Seconds of a step that may be the same on ``few`` and ``many`` devices, so that ``many`` still pay."""
    gain = float((many / few) ** WORTH)
    return max(0.0, (steps[few] - gain * steps[many]) / (gain - 1))


def _text(rows: list[AdviceRow], best: int | None, fixed: float) -> str:
    if best is None:
        most = rows[-1]
        return (
            f"It does not fit: {most.devices} devices would have to hold {show(most.held_bytes, 'B')} each. "
            "More devices, fewer bytes a weight or a smaller batch would do."
        )
    fewest = next(row for row in rows if row.fits is not False).devices
    smallest = f"{fewest} is the fewest that it fits on. " if fewest > 1 else ""
    after = next((later for later in rows if later.devices > best), None)
    limit = "" if after is None or after.pays_below_s is None else _limit(after, fixed)
    return f"{smallest}{_chosen(rows, best, fewest)}{limit}"


def _chosen(rows: list[AdviceRow], best: int, fewest: int) -> str:
    row = next(row for row in rows if row.devices == best)
    if best == 1:
        return f"One device is enough for decode ({show(row.decode_s, 's')} at least)."
    replicas = f"; for tokens a second, replicas of {fewest} give more" if best > fewest else ""
    figures = f"{show(row.decode_s, 's')} at least, efficiency {show(row.efficiency, '1', 2)}"
    return f"{best} devices pay for a shorter decode step ({figures}{replicas})."


def _limit(after: AdviceRow, fixed: float) -> str:
    if not after.pays_below_s:
        return f" {after.devices} would not make a step 1.41 times as fast, even by the floor."
    return (
        f" {after.devices} pay only while what does not shrink with devices takes under "
        f"{show(after.pays_below_s, 's')} of a step (assumed {show(fixed, 's')})."
    )
