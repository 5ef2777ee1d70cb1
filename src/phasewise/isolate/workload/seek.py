"""The highest rate that holds the limits: double until one breaks them, then bisect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from phasewise.record.load import Found, Limits, Trial

REQUESTS = 200
"""Requests of a trial at least: 90% of so many is told from 86% or 94%."""

OVERLOAD = 0.05
"""A rate this much above what the server sustains must show: its queue grows by 5% of the time, so a trial lasts until
that is the TTFT limit."""

LEAST_S = 5.0

CLOSE = 1.1
"""Rates whose ratio is no more than this are close enough."""

MOST_TRIALS = 14


def seconds(rate: float, limits: Limits) -> float:
    """How long a trial at ``rate`` must send."""
    return max(LEAST_S, REQUESTS / rate, (limits.ttft_s or 0.0) / OVERLOAD)


def drain(limits: Limits, longest_answer: int, most_s: float) -> float:
    """How long after its last request a trial must be watched: what has not ended by then broke a limit."""
    if limits.ttft_s is None or limits.tpot_s is None:
        return most_s
    return min(most_s, 1.0 + limits.ttft_s + longest_answer * limits.tpot_s)


def seek(attempt: Callable[[float, int], Trial | None], first: float) -> tuple[tuple[Trial, ...], Found]:
    """Try rates from ``first`` on; ``attempt`` takes a rate and a trial's number, and gives None when it may not."""
    trials: list[Trial] = []
    held: Trial | None = None
    broke: Trial | None = None
    rate = first
    while len(trials) < MOST_TRIALS:
        trial = attempt(rate, len(trials))
        if trial is None:
            break
        trials.append(trial)
        if met(trial):
            held = trial if held is None or trial.rate > held.rate else held
        else:
            broke = trial if broke is None or trial.rate < broke.rate else broke
        if held is not None and broke is not None:
            if broke.rate / held.rate <= CLOSE:
                break
            rate = math.sqrt(held.rate * broke.rate)
        else:
            rate = rate * 2 if broke is None else rate / 2
    return tuple(trials), _found(trials, held, broke)


def met(trial: Trial) -> bool:
    """Whether the part that met the limits is at least the wanted one, sure or not."""
    return trial.goodput.met.value >= trial.goodput.limits.part


def _found(trials: Sequence[Trial], held: Trial | None, broke: Trial | None) -> Found:
    if not trials:
        return Found(held=None, broke=None, text="no rate was tried to its end")
    if held is None:
        return Found(held=None, broke=broke.rate if broke else None, text="every rate that was tried broke the limits")
    sure = "with 95% confidence" if held.goodput.holds == "holds" else "by its figure, its interval crosses the line"
    text = f"{held.rate:.3g} requests a second held them ({sure})"
    if broke is None:
        return Found(held=held.rate, broke=None, text=f"{text}; none that was tried broke them")
    sure = "with 95% confidence" if broke.goodput.holds == "breaks" else "by its figure, its interval crosses the line"
    return Found(held=held.rate, broke=broke.rate, text=f"{text}; {broke.rate:.3g} broke them ({sure})")
