"""Who owns the time of a request, from another tool's TTFT and TPOT."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.record.judgement import Split
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Judged, Reported, Row


def own(row: Row) -> Split | None:
    """Of the row's own request, when TTFT, TPOT and the lengths are known."""
    if row.ttft is None or row.prompt_tokens is None or not row.answer_tokens:
        return None
    if row.tpot is None and row.answer_tokens > 1:
        return None
    return _made(row.prompt_tokens, row.answer_tokens, row.ttft, row.tpot)


def split(said: Reported, rows: tuple[Judged, ...], first: int | None, step: int | None) -> Split | None:
    """Of the row that speaks for decode, else of the first that has one, else of the two rows that speak together."""
    own = [rows[i].split for i in ((step,) if step is not None else ())] + [row.split for row in rows]
    found = next((one for one in own if one), None)
    if found or first is None or step is None or first == step:
        return found
    prefill, decode = said.rows[first], said.rows[step]
    if prefill.prefill is None or decode.decode is None or prefill.prefill.batch.value != 1:
        return None
    if decode.decode.batch.value != 1 or not decode.answer_tokens:
        return None
    return _made(prefill.prefill.tokens.value, decode.answer_tokens, prefill.prefill.time, decode.decode.time)


def _made(prompt: float, answer: float, ttft: Quantity, tpot: Quantity | None) -> Split:
    steps = max(0.0, answer - 1)

    def times(pick: Callable[[Quantity], float | None]) -> float:
        return steps * ((pick(tpot) if pick(tpot) is not None else tpot.value) or 0.0) if tpot else 0.0

    seconds = times(lambda q: q.value)
    decode = Quantity(
        value=seconds,
        low=times(lambda q: q.low),
        high=times(lambda q: q.high),
        unit="s",
        provenance="reported",
        source=f"{steps:,.0f} steps of TPOT",
    )
    total = ttft.value + seconds
    low, high = (ttft.low or ttft.value), (ttft.high or ttft.value)
    apart = low > (decode.high or 0.0) or (decode.low or 0.0) > high
    return Split(
        prompt_tokens=round(prompt),
        answer_tokens=round(answer),
        weight=1.0,
        ttft=ttft,
        decode=decode,
        total=reported(total, "s", "TTFT and decode steps"),
        prefill_share=ttft.value / total,
        decode_share=seconds / total,
        owner="prefill" if ttft.value > seconds else "decode",
        ttft_owner="unknown",
        sure=apart,
    )
