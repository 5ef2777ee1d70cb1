"""One flat row per request, for the Parquet file beside the Run."""

from __future__ import annotations

import msgspec

from phasewise.isolate.sample import Sample
from phasewise.record.observation import Phase


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request; times in seconds, ``sent_at_s`` and ``ended_at_s`` since the run began.

    ``warmup`` is True for requests that no figure uses. ``completion_counted_by`` says who counted
    ``completion_tokens``: ``usage``, ``token ids``, ``length`` or ``chunks``.
    """

    phase: Phase
    prompt_tokens: int
    max_tokens: int
    completion_tokens: int
    completion_counted_by: str
    cached_tokens: int | None
    sent_at_s: float
    ttft_s: float
    tpot_s: float | None
    ended_at_s: float
    chunks: int
    reads: int
    finish_reason: str | None
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
