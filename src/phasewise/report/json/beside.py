"""The parts of ``profile --json`` that requests beside the profile told."""

from __future__ import annotations

from phasewise.record.probes import Burst, OptionCost, TtftParts
from phasewise.record.quantity import measured, reported
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing
from phasewise.report.view import beside


def sections(run: Run) -> dict[str, object]:
    """``ttft_parts``, ``bursts``, ``options`` and why any was skipped."""
    probes = beside.of(run)
    if probes is None:
        return {"beside": Missing("no request was sent beside the profile")}
    found = {
        "ttft_parts": _parts(probes.ttft) if probes.ttft else Missing("TTFT was not taken apart"),
        "bursts": [_burst(burst) for burst in probes.bursts],
        "options": [_option(option) for option in probes.options],
        "skipped": probes.skipped,
    }
    return {"beside": found}


def _parts(seen: TtftParts) -> dict[str, object]:
    untold = Missing("the server does not tell it")
    return {
        "tokens": reported(seen.tokens, "token", "the server's count"),
        "ttft_s": seen.ttft,
        "client_s": seen.client,
        "connection_s": seen.connection or Missing("no connection was opened"),
        "kept_connection_s": seen.kept or Missing("no connection was opened"),
        "front_end_s": seen.front_end or Missing("the server does not take both text and token ids"),
        "queue_s": seen.queue or untold,
        "prefill_s": seen.prefill or untold,
        "pause_s": measured(seen.idle_s, "s", "pause before a request"),
        "idle_s": seen.idle or Missing("no pause was made"),
        "again_s": seen.again or Missing("no prompt was sent twice"),
        "cached_tokens": _count(seen.cached_tokens),
        "counted_again": _count(seen.counted_again),
    }


def _count(tokens: int | None) -> object:
    if tokens is None:
        return Missing("the server does not tell it")
    return reported(tokens, "token", "usage of a prompt sent a second time")


def _burst(burst: Burst) -> dict[str, object]:
    apart = Missing("they never all ran at once")
    return {
        "requests": measured(burst.requests, "request", "sent together"),
        "together": measured(burst.together, "request", "most under way at once"),
        "ttft_first_s": measured(burst.ttft_first, "s", "first of the burst"),
        "ttft_last_s": measured(burst.ttft_last, "s", "last of the burst"),
        "step_s": burst.step or apart,
        "tokens_per_s": burst.throughput or apart,
        "tokens_per_chunk": measured(burst.tokens_per_chunk, "token/chunk", "tokens over events"),
        "spread_s": apart if burst.spread is None else measured(burst.spread, "s", "first to last event of a step"),
    }


def _option(option: OptionCost) -> dict[str, object]:
    return {
        "name": option.name,
        "plain_s": option.plain,
        "tpot_s": option.tpot or Missing(option.refused or "its answers hold no interval"),
    }
