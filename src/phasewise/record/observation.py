"""Section of isolate/: what each phase did when it ran alone, and the proof that it was clean."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.probes import Probes
from phasewise.record.quantity import Quantity
from phasewise.record.reasoning import Reasoning
from phasewise.record.timings import ServerTimings

Phase = Literal["prefill", "decode"]
CheckStatus = Literal["passed", "failed", "not_checked"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a clean measurement.

    Attributes:
        name: ``warm``, ``uncached``, ``alone``, ``streamed``, ``tokens_by_usage``, ``ended_by_length``,
            ``chunks_per_token``, ``client``, ``clock``, ...
        phase: the phase it speaks of, or ``run`` for both.
        status: ``not_checked`` when it could not be made; never ``passed`` by default.
        detail: what was seen, with numbers.
        voids: True when a failure means that the phase's figures must not be believed.
    """

    name: str
    phase: Literal["prefill", "decode", "run"]
    status: CheckStatus
    detail: str
    voids: bool = False


class PrefillPoint(msgspec.Struct, frozen=True, kw_only=True):
    """TTFT at one prompt length, alone on the server.

    Attributes:
        tokens: prompt length by the server's own count (as sent when it gives none).
        ttft: median over ``samples`` with its interval, seconds.
        best: the fastest sample, seconds.
        samples: how many requests.
    """

    tokens: int
    ttft: Quantity
    best: float
    samples: int


class PrefillFit(msgspec.Struct, frozen=True, kw_only=True):
    """TTFT = overhead + per_token · n + per_token2 · n², all coefficients non-negative, each with its interval.

    ``residual`` is the median absolute relative error of the fit over the points.
    """

    overhead: Quantity
    per_token: Quantity
    per_token2: Quantity
    residual: float

    def at(self, tokens: float) -> float:
        """Fitted TTFT of a prompt of ``tokens``, seconds."""
        return self.overhead.value + self.per_token.value * tokens + self.per_token2.value * tokens * tokens


class DecodePoint(msgspec.Struct, frozen=True, kw_only=True):
    """TPOT of one stretch of decoding, batch 1.

    Attributes:
        context: mean tokens of context over the stretch (prompt plus what was generated before each step).
        prompt_tokens: prompt before it.
        generated: tokens in the stretch.
        tpot: median over ``samples`` with its interval, seconds per token.
        samples: how many requests.
    """

    context: float
    prompt_tokens: int
    generated: int
    tpot: Quantity
    samples: int


class DecodeFit(msgspec.Struct, frozen=True, kw_only=True):
    """Step time = at_zero + per_context_token · context, both non-negative, each with its interval.

    ``residual`` is the median absolute relative error of the fit over the points.
    """

    at_zero: Quantity
    per_context_token: Quantity
    residual: float

    def at(self, context: float) -> float:
        """Fitted step time at ``context`` tokens, seconds."""
        return self.at_zero.value + self.per_context_token.value * context


class PrefillObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything prefill did alone; ``fit`` is None with fewer than two lengths."""

    points: tuple[PrefillPoint, ...]
    fit: PrefillFit | None


class DecodeObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decode did alone.

    Attributes:
        points: stretches by context.
        fit: step time over context; None with fewer than two contexts.
        tpot: the headline: after a short prompt, by the server's usage count, seconds per token.
        tpot_context: mean context of the headline figure, tokens.
        tokens_per_chunk: mean tokens in a chunk that carried any.
    """

    points: tuple[DecodePoint, ...]
    fit: DecodeFit | None
    tpot: Quantity
    tpot_context: float
    tokens_per_chunk: float


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Both clean profiles (either may be missing) and their checks.

    ``requests`` and ``tokens`` count what was sent and received in all, ``stopped`` says why sampling ended.
    ``timings`` are the server's own beside ours, None when it tells none; ``reasoning`` is None when answers held none;
    ``probes`` is what a few requests beside the profiles told, None when none could be made.
    """

    prefill: PrefillObservation | None
    decode: DecodeObservation | None
    checks: tuple[Check, ...]
    requests: int
    prompt_tokens: int
    output_tokens: int
    stopped: str
    timings: ServerTimings | None = None
    reasoning: Reasoning | None = None
    probes: Probes | None = None
