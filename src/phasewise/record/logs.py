"""Section of `phasewise logs`: what a request log asked for, and where the accelerator's time goes for it."""

from __future__ import annotations

import msgspec

from phasewise.record.observation import Phase
from phasewise.record.prediction import FloorBound
from phasewise.record.quantity import Quantity


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of all prompts, or of all answers.

    Attributes:
        tokens: their sum.
        p50, p90, p99: the shortest length that at least so many percent do not exceed.
        longest: the longest.
        none: how many have no token at all.
    """

    tokens: Quantity
    p50: int
    p90: int
    p99: int
    longest: int
    none: int


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Accelerator time of a log at one decode batch: the floor, all devices of the machine together.

    Attributes:
        batch: requests that share a decode step; each costs its part of the step.
        prefill: seconds of every prompt prefilled alone, nothing of it cached.
        decode: seconds of every decode step.
        prefill_share: prefill's part of both.
        decode_share: decode's part of both.
        owner: the larger of the two.
        machines: how many such machines that keeps busy on average over the log's time; None without times.
    """

    batch: int
    prefill: Quantity
    decode: Quantity
    prefill_share: float
    decode_share: float
    owner: Phase
    machines: Quantity | None = None


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its form, its totals, its time span and its demand at the stated batch, where they are known."""

    name: str
    form: str
    requests: int
    prompt_tokens: Quantity
    answer_tokens: Quantity
    span: Quantity | None
    demand: Demand | None


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the log's time span."""

    requests_per_s: float
    prompt_tokens: Quantity
    answer_tokens: Quantity


class Beyond(msgspec.Struct, frozen=True, kw_only=True):
    """What the model's context cannot hold: tokens beyond its first ``max_context`` of a request, of all tokens."""

    max_context: int
    tokens: Quantity
    share: Quantity


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """What a prefix cache that forgets nothing could skip: prompt blocks that came before in the same file.

    ``block_tokens`` is None when the log's blocks do not fit the size that its form has.
    """

    block_tokens: int | None
    blocks: int
    share: Quantity


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """All files together.

    Attributes:
        files: each of them.
        requests: rows of all files.
        prompt, answer: their lengths.
        tokens_in_per_token_out: prompt tokens over answer tokens; None without answers.
        span: seconds from the earliest to the latest request.
        rates: means over the span.
        demands: accelerator time at each decode batch, 1 first; empty when model or machine is not known.
        batch: the decode batch that was stated.
        bounds: what each phase is bound on at that batch, over all its steps.
        basis: whose ceilings, with the dtype of the matmuls.
        beyond: what lies beyond the model's context.
        reuse: what prompts repeat of earlier ones.
        flags: the flags that say what runs where, as given.
        missing: why a part is None, by its name.
    """

    files: tuple[LogFile, ...]
    requests: int
    prompt: Spread
    answer: Spread
    tokens_in_per_token_out: float | None
    span: Quantity | None
    rates: Rates | None
    demands: tuple[Demand, ...]
    batch: int
    bounds: dict[Phase, FloorBound]
    basis: str
    beyond: Beyond | None
    reuse: Reuse | None
    flags: str
    missing: dict[str, str] = {}

    def at(self, batch: int) -> Demand | None:
        """The demand at one decode batch."""
        return next((demand for demand in self.demands if demand.batch == batch), None)
