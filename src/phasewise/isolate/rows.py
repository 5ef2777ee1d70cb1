"""One flat row per request of a profile, for what is joined to it; on disk lies the `ledger`."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.isolate.sample import Beside, Sample


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request; times in seconds, ``sent_at_s`` and ``ended_at_s`` since the run began.

    ``phase`` is ``beside`` for requests that no profile holds; ``warmup`` is True for those that no figure uses.
    """

    phase: Literal["prefill", "decode", "beside"]
    prompt_tokens: int
    max_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    sent_at_s: float
    ttft_s: float
    tpot_s: float | None
    ended_at_s: float
    warmup: bool


def row(sample: Sample, *, began: float, warmup: bool) -> Row:
    """``sample`` as a row; ``began`` is the perf_counter() reading at the start of the run."""
    answer = sample.answer
    return Row(
        phase=sample.phase,
        prompt_tokens=sample.prompt_tokens,
        max_tokens=sample.shape.answer,
        completion_tokens=sample.counted[0],
        cached_tokens=answer.cached_tokens,
        sent_at_s=answer.sent_at - began,
        ttft_s=answer.ttft,
        tpot_s=sample.tpot,
        ended_at_s=answer.ended_at - began,
        warmup=warmup,
    )


def row_beside(one: Beside, *, began: float) -> Row:
    """A request that was sent beside the profiles."""
    answer = one.exchange
    return Row(
        phase="beside",
        prompt_tokens=one.prompt_tokens,
        max_tokens=one.shape.answer,
        completion_tokens=one.counted[0],
        cached_tokens=answer.cached_tokens,
        sent_at_s=answer.sent_at - began,
        ttft_s=answer.ttft,
        tpot_s=answer.tpot,
        ended_at_s=answer.ended_at - began,
        warmup=False,
    )
