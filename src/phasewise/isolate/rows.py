"""One flat row per request of a profile, for what is joined to it; on disk lies the `ledger`."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.isolate.sample import Beside, Sample


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request; times in seconds, ``sent_at_s`` and ``ended_at_s`` since the run began.

    ``phase`` is ``beside`` for requests that no profile holds; ``warmup`` is True for those that no figure uses.
    ``completion_counted_by`` says who counted ``completion_tokens``: ``usage``, ``token ids``, ``length``, ``chunks``.
    Of a saved run it, ``chunks``, ``reads`` and ``finish_reason`` are None.
    """

    phase: Literal["prefill", "decode", "beside"]
    prompt_tokens: int
    max_tokens: int
    completion_tokens: int
    completion_counted_by: str | None = None
    cached_tokens: int | None
    sent_at_s: float
    ttft_s: float
    tpot_s: float | None
    ended_at_s: float
    chunks: int | None = None
    reads: int | None = None
    finish_reason: str | None = None
    warmup: bool


def row(sample: Sample, *, began: float, warmup: bool) -> Row:
    """``sample`` as a row; ``began`` is the perf_counter() reading at the start of the run."""
    answer = sample.answer
    tokens, by = sample.counted
    return Row(
        phase=sample.phase,
        prompt_tokens=sample.prompt_tokens,
        max_tokens=sample.shape.answer,
        completion_tokens=tokens,
        completion_counted_by=by,
        cached_tokens=answer.cached_tokens,
        sent_at_s=answer.sent_at - began,
        ttft_s=answer.ttft,
        tpot_s=sample.tpot,
        ended_at_s=answer.ended_at - began,
        chunks=len(answer.chunks),
        reads=len({chunk.read for chunk in answer.chunks}),
        finish_reason=answer.finish_reason,
        warmup=warmup,
    )


def row_beside(one: Beside, *, began: float) -> Row:
    """A request that was sent beside the profiles."""
    answer = one.exchange
    tokens, by = one.counted
    return Row(
        phase="beside",
        prompt_tokens=one.prompt_tokens,
        max_tokens=one.shape.answer,
        completion_tokens=tokens,
        completion_counted_by=by,
        cached_tokens=answer.cached_tokens,
        sent_at_s=answer.sent_at - began,
        ttft_s=answer.ttft,
        tpot_s=answer.tpot,
        ended_at_s=answer.ended_at - began,
        chunks=len(answer.arrivals.at),
        reads=len(set(answer.arrivals.read.tolist())),
        finish_reason=answer.finish_reason,
        warmup=False,
    )
