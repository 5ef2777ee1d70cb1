"""Section of `phasewise power sweep`: what a power cap, or the clock, does to each phase."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity

Engaged = Literal["yes", "no", "not_checked"]

Answer = Literal["slows", "hardly", "undecided", "never engaged", "throttled otherwise", "not measured"]
"""What caps do to a phase. ``never engaged``: its power reached none of them, which says nothing of its sensitivity.
``throttled otherwise``: heat or the board held the clock down, so that the cap cannot be told from them."""

Follows = Literal["clock", "memory", "both", "undecided", "too little spread", "not measured"]
"""What a phase's time follows: the SM clock (slope 1, compute-bound), not the clock (slope 0), or partly."""


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry of the cards together while requests of one phase ran.

    Attributes:
        readings: how many of each card lie in the requests.
        watts: drawn by all cards together, mean.
        highest_w: what one card drew at most (95th percentile, the highest card), watts.
        sm: mean SM clock.
        capped: share of the readings in which the power cap held the clock down; None when the driver does not say.
        hot: the same for heat.
        slowed: the same for the board: power brake, hardware slowdown.
        limit_w: range of the enforced limit that was read meanwhile, watts of one card; None when it is not told.
    """

    readings: int
    watts: Quantity | None
    highest_w: float | None
    sm: Quantity | None
    capped: float | None
    hot: float | None
    slowed: float | None
    limit_w: tuple[float, float] | None


class AtCap(msgspec.Struct, frozen=True, kw_only=True):
    """One phase under one cap.

    Attributes:
        tokens: of the prompt, for prefill; of context, for decode.
        time: TTFT of that prompt, or TPOT, seconds.
        ratio: to the same uncapped; None where there is nothing to compare with.
        drawn: what the cards did meanwhile.
        energy: joules of all cards per token of the prompt, or per token of the answer.
        engaged: whether the cap held the phase down.
        otherwise: what else did, ``heat`` or ``board``; empty for nothing that was seen.
    """

    tokens: float
    time: Quantity
    ratio: Quantity | None = None
    drawn: Drawn
    energy: Quantity | None = None
    engaged: Engaged = "not_checked"
    otherwise: str = ""


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """One cap, in the order in which they were set; the first is the one that the others are held against.

    Attributes:
        asked: of each card.
        limit: what the driver said after it was set, of each card.
        enforced: the least limit that held, when it is another.
        prefill, decode: None when nothing was measured.
        again: the first one once more, at the end, to see whether the machine drifted.
        disturbed: what somebody else did meanwhile, one sentence; such a point is not judged.
        doubts: checks that failed and void the figures, a sentence each.
    """

    asked: Quantity
    limit: Quantity
    enforced: Quantity | None = None
    prefill: AtCap | None = None
    decode: AtCap | None = None
    again: bool = False
    disturbed: str = ""
    doubts: tuple[str, ...] = ()


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A card whose limit was changed.

    Attributes:
        name: ``GPU 0 (NVIDIA H200)``.
        found: its limit before.
        least: of its allowed range.
        most: of its allowed range.
        met: its limit right before it was put back; None when it could not be read.
        restored: its limit after; None when it could not be read.
        trouble: why it is not what it was; empty when it is.
    """

    name: str
    found: Quantity
    least: Quantity
    most: Quantity
    met: Quantity | None = None
    restored: Quantity | None = None
    trouble: str = ""


class CapVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What caps do to ``phase``, in a word and a sentence."""

    phase: Phase
    answer: Answer
    text: str


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest cap that costs decode less than ``costs``.

    Attributes:
        limit: that cap; None when every lower one costs more.
        sure: the whole interval of the cost lies under it, not only its middle.
        text: the sentence.
    """

    limit: Quantity | None
    sure: bool
    text: str


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """How a phase's time follows the SM clock: d log(time) / d log(1/clock), over requests of equal length.

    Attributes:
        phase: of the requests.
        follows: in a word.
        slope: with its interval; None when the clock moved too little.
        lowest, highest: SM clocks that requests ran at.
        samples: requests.
        moved: what held the clock down, as the driver says.
        text: the sentence.
    """

    phase: Phase
    follows: Follows
    slope: Quantity | None
    lowest: Quantity | None
    highest: Quantity | None
    samples: int
    moved: tuple[str, ...]
    text: str


class PowerSweep(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: caps when limits were set, slopes over the clock otherwise (and of the caps' requests too).

    Attributes:
        cards: whose limits were set, or whose clocks were read.
        caps: empty when no limit was set.
        verdicts: of prefill and decode; empty when no limit was set.
        knee: None when no limit was set or decode was not measured.
        slopes: of prefill and decode.
        notes: what a reader must know, a sentence each.
        stopped: why it ended early; empty when it did not.
    """

    cards: tuple[Held, ...] = ()
    caps: tuple[Cap, ...] = ()
    verdicts: tuple[CapVerdict, ...] = ()
    knee: Knee | None = None
    slopes: tuple[Slope, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str = ""
