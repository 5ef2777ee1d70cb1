"""What readers make rows of: the tool's figures, and the passes and steps that they tell."""

from __future__ import annotations

from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Conversion, Figure, Meaning, Step
from phasewise.units import Unit

MS, NS = 1e-3, 1e-9

MIXED = "its numerator counts prompt and answer tokens together, so it says nothing of either phase"
OVER_BOTH = "it divides answer tokens by the time of both phases, so it is no decode rate"


def figure(
    called: str,
    value: float | None,
    unit: Unit,
    means: Meaning,
    defined: str,
    how: str,
    conversion: Conversion = "exact",
) -> tuple[Figure, ...]:
    """One figure, or none where the tool gives no value."""
    if value is None:
        return ()
    said = reported(value, unit, called)
    return (Figure(called=called, defined=defined, means=means, conversion=conversion, how=how, value=said),)


def refused(called: str, value: float | None, unit: Unit, defined: str, why: str) -> tuple[Figure, ...]:
    """A rate that mixes phases, or none where the tool gives no value."""
    return figure(called, value, unit, "combined rate", defined, why, "none")


def between(value: float, low: float | None, high: float | None, unit: Unit, source: str) -> Quantity:
    """A reported number with its bounds."""
    return Quantity(value=value, low=low, high=high, unit=unit, provenance="reported", source=source)


def tokens(value: float, source: str) -> Quantity:
    """A reported number of tokens."""
    return reported(value, "token", source)


def requests(value: float, source: str = "one at a time") -> Quantity:
    """A reported number of requests."""
    return reported(value, "request", source)


def prefill(prompt: float, time: Quantity, *, batch: float = 1.0, cached: float = 0.0, notes: str = "") -> Step:
    """A prefill pass over ``batch`` prompts of ``prompt`` new tokens each."""
    return Step(
        tokens=tokens(prompt, "new tokens of a prompt"),
        batch=requests(batch, "prompts of the pass"),
        time=time,
        cached=cached,
        notes=(notes,) if notes else (),
    )


def decode(context: float, time: Quantity, *, batch: float = 1.0, least: bool = False, notes: str = "") -> Step:
    """A decode step of ``batch`` requests with ``context`` tokens each on average."""
    return Step(
        tokens=tokens(context, "mean context of a request"),
        batch=requests(batch, "requests of the step"),
        time=time,
        least=least,
        notes=(notes,) if notes else (),
    )


def mean_context(before: float, generated: float) -> float:
    """Mean tokens before a step, over the steps that follow ``before`` tokens and make ``generated`` with the first."""
    return before + generated / 2


def from_rate(rate: float, count: float, source: str, spread: float | None = None) -> Quantity:
    """Seconds that ``count`` tokens take at ``rate`` tokens a second, give or take ``spread`` of its repeats."""
    low = high = None
    if spread and spread < rate:
        low, high = count / (rate + spread), count / (rate - spread)
    return between(count / rate, low, high, "s", source)
