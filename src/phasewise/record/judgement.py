"""Section of judge/: prediction against observation, per phase and for the request."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity

Bound = Literal["compute", "memory", "overhead", "kernel", "communication", "power", "queue", "client", "unknown"]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a measured step: its seconds and its fraction of the step."""

    name: Bound
    seconds: Quantity
    fraction: Quantity


class Utilisation(msgspec.Struct, frozen=True, kw_only=True):
    """MFU or MBU of a phase.

    Attributes:
        yardstick: ``mfu`` or ``mbu``.
        basis: the ceilings it is held against (``datasheet``, ``measured``, ``stated``).
        method: ``whole`` (work over time) or ``slope`` (extra work over extra time, free of overhead).
        tokens: prompt length or context it was taken at.
        value: the ratio.
        ceiling: the denominator.
    """

    yardstick: Literal["mfu", "mbu"]
    basis: str
    method: Literal["whole", "slope"]
    tokens: float
    value: Quantity
    ceiling: Quantity


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A utilisation over 100%: what was seen and the likely causes, likeliest first."""

    text: str
    causes: tuple[str, ...]


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The phase's step at one prompt length (prefill) or context (decode): as fitted and at least, seconds."""

    tokens: float
    fit_s: float | None
    floor_s: float | None


class PhaseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One phase judged.

    Attributes:
        phase: which.
        yardstick: the one that fits: ``mfu`` for a prefill above the ridge, else ``mbu``.
        headline: its value (measured ceilings when there are any, else datasheet), None when unknown.
        why_null: why the headline is None and which flag would give it.
        at_tokens: prompt length or context at which the step is taken apart.
        step: measured time of that step.
        floor: predicted least time of that step, None without model or machine.
        bound: the largest part of the step.
        rival: another part that may be the largest, within the interval of the overhead.
        shares: all parts, largest first; empty without a floor.
        utilisations: every figure, for the table.
        curve: fit and floor over what was measured, every measured length or context among them, in rising order.
        notes: sentences a reader must know ("1.2% MFU is normal for decode", "below the ridge", ...).
        believed: False when a voiding check failed or the alarm rang.
    """

    phase: Phase
    yardstick: Literal["mfu", "mbu"]
    headline: Quantity | None
    why_null: str
    at_tokens: float
    step: Quantity
    floor: Quantity | None
    bound: Bound
    shares: tuple[Share, ...]
    rival: Bound | None = None
    utilisations: tuple[Utilisation, ...]
    curve: tuple[CurvePoint, ...] = ()
    notes: tuple[str, ...] = ()
    believed: bool = True


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns the time of one request.

    ``owner`` is ``prefill`` or ``decode``, and ``sure`` says whether their intervals lie apart; ``ttft_owner`` is the
    largest part of TTFT; shares are of the total. A TTFT beyond the longest prompt measured is ``predicted``.
    ``weight`` is the request's part of the user's mix (1 when there is one request).
    """

    prompt_tokens: int
    answer_tokens: int
    weight: float
    ttft: Quantity
    decode: Quantity
    total: Quantity
    prefill_share: float
    decode_share: float
    owner: Phase
    ttft_owner: Bound
    sure: bool = True


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one sentence: which phase owns the time and what that phase is bound on."""

    owner: Phase | None
    bound: Bound
    text: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction met observation.

    ``splits`` holds the stated request first; ``split`` over the whole mix is their weighted sum.
    """

    prefill: PhaseVerdict | None
    decode: PhaseVerdict | None
    splits: tuple[Split, ...]
    prefill_share: float | None
    decode_share: float | None
    verdict: Verdict
    alarms: tuple[Alarm, ...] = ()
