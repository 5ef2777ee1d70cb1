"""Section of predict/: what changes would do to each phase, each alone and all together."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Least times of one configuration.

    Attributes:
        batch, devices: requests in a decode step, and devices that make it.
        ttft_s: seconds to the first token of a prompt.
        step_s: of a decode step (of drafting and verifying, with a draft).
        tokens_per_step: that a request gets from it on average.
        tpot_s: seconds a token of a request.
        stall_s: longest gap between tokens of the requests that decode while a prompt is taken in; None at batch 1.
        tokens_per_s: of the whole batch.
        total_s: TTFT and the further tokens of the stated request at growing context, in such a batch.
        fits: whether weights and KV cache fit in memory, None when that is not known.
    """

    batch: int
    devices: int
    ttft_s: float
    step_s: float
    tokens_per_step: float
    tpot_s: float
    stall_s: float | None
    tokens_per_s: float
    total_s: float
    fits: bool | None = None


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does to one phase.

    Attributes:
        before_s, after_s: TTFT, or seconds a token of decode.
        owner: the operations and the resource that most of the gain comes from (of the loss, where there is no gain);
            empty where nothing changes.
        owner_before_s, owner_after_s: their seconds, per token for decode (per token of the whole batch where only
            throughput gains).
        per: what the owner's seconds are of: ``prefill``, ``token`` or ``token of the batch``.
    """

    before_s: float
    after_s: float
    owner: str = ""
    owner_before_s: float = 0.0
    owner_after_s: float = 0.0
    per: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One change, or all of them.

    ``outcome`` and the gains are None where the change is refused, and ``refused`` says why. ``figures`` are what the
    change itself brings along (tokens per step, break-even batch, ...).
    """

    change: str
    outcome: Outcome | None = None
    prefill: Gain | None = None
    decode: Gain | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()
    figures: dict[str, Quantity] = {}


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Before, each change alone, and all that were not refused together.

    ``together`` is None when fewer than two changes are left or when one thing is changed twice. ``notes`` say what
    the figures before hold.
    """

    before: Outcome
    trials: tuple[Trial, ...]
    together: Trial | None = None
    notes: tuple[str, ...] = ()
