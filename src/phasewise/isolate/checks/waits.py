"""What TTFT holds besides the pass: the connection, a pause before, the server's queue; and what its cache does."""

from __future__ import annotations

import statistics

from phasewise.engines.timings import own
from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.record.observation import Check, CheckStatus
from phasewise.record.probes import TtftParts
from phasewise.record.quantity import Quantity
from phasewise.units import show

NOTABLE, NOTABLE_S = 0.10, 2e-3
"""Part of TTFT, and time, from which on a difference between two ways of asking is told."""

SCATTERS = 3.0
"""A difference is at least so many times the range of the requests that it is held against."""

ACK_S = (20e-3, 60e-3)
"""A delayed acknowledgement holds a segment back by 40 ms on Linux, seen as 30 to 40."""

LONG_PAUSE_S = 1.0
"""After a shorter pause clocks may not have fallen yet: that nothing was seen then proves nothing."""

WAITED = 0.10
WAITED_S = 1e-3
"""Part of TTFT, and time, in the server's queue that is told."""

LEAST_BLOCKS = 192
"""Tokens of a prompt that fills a block of any cache: vLLM's have 16 tokens, on CPUs 128."""

SPED_UP = 0.30
"""TTFT of a repeated prompt that is shorter by this part comes from a cache."""


def waits(evidence: Evidence) -> list[Check]:
    """What else than the pass is in TTFT; said only where prefill was measured."""
    if not evidence.sent("prefill"):
        return []
    parts = evidence.probes.ttft if evidence.probes else None
    if parts is None:
        skipped = [text for text in (evidence.probes.skipped if evidence.probes else ()) if text.startswith("TTFT")]
        why = skipped[0] if skipped else "no request was sent beside the profile"
        beside = [_check(name, "not_checked", why) for name in ("connection", "idle", "prefix_cache")]
    else:
        beside = [_connection(parts), _idle(parts), _prefix_cache(parts, _per_token(evidence))]
    return [_queue(evidence), *beside]


def _check(name: str, status: CheckStatus, detail: str) -> Check:
    return Check(name=name, phase="prefill", status=status, detail=detail)


def _notable(difference: Quantity | None, ttft: Quantity) -> bool:
    """Whether any two requests of the two ways differ, by more than chance makes of a few, and worth telling."""
    if difference is None or difference.low is None:
        return False
    return difference.low > 0 and difference.value > max(NOTABLE_S, NOTABLE * ttft.value, _scatter(ttft))


def _scatter(ttft: Quantity) -> float:
    """What a difference to ``ttft`` must exceed: of a few requests all may lie on one side by chance."""
    return SCATTERS * ((ttft.high or ttft.value) - (ttft.low or ttft.value))


def _connection(parts: TtftParts) -> Check:
    opening = f"; opening one takes {show(parts.connection.value, 's')}" if parts.connection else ""
    if parts.kept is None:
        return _check("connection", "not_checked", "no request was sent on a new connection")
    if not _notable(parts.kept, parts.ttft):
        return _check("connection", "passed", f"a new connection gives the same TTFT as a kept one{opening}")
    text = f"the first token comes {show(parts.kept.value, 's')} later on a kept connection than on a new one{opening}"
    if ACK_S[0] <= parts.kept.value <= ACK_S[1]:
        text += ": Nagle's algorithm waits for a delayed ACK; set TCP_NODELAY in the server and in proxies before it"
    return _check("connection", "failed", text)


def _idle(parts: TtftParts) -> Check:
    pause = show(parts.idle_s, "s")
    if _notable(parts.idle, parts.ttft) and parts.idle is not None:
        text = f"after a pause of {pause} the first token comes {show(parts.idle.value, 's')} later: clocks that fell"
        return _check("idle", "failed", f"{text}, or threads that slept. TTFT here is that of a busy server")
    text = f"a pause of {pause} before a request changes nothing"
    return _check("idle", "passed" if parts.idle_s >= LONG_PAUSE_S else "not_checked", text)


def _queue(evidence: Evidence) -> Check:
    samples = [sample for group in evidence.prefill.values() for sample in group]
    pairs = [
        (said.queue, sample.answer.ttft)
        for sample in samples
        if (said := own(sample.answer)) is not None and said.queue is not None
    ]
    if not pairs:
        return _check("queue", "not_checked", "the server does not say how long a request waited inside it")
    share = statistics.median(queue / ttft for queue, ttft in pairs)
    waited = statistics.median(queue for queue, _ in pairs)
    text = f"by its own count a request waited {show(waited, 's')} in the server's queue, {share:.0%} of TTFT"
    if share > WAITED and waited > WAITED_S:
        return _check("queue", "failed", f"{text}: TTFT is not prefill alone")
    return _check("queue", "passed", text)


def _per_token(evidence: Evidence) -> float:
    """Seconds of TTFT per prompt token, between the shortest and the longest prompt; 0 with one length."""
    groups = {shape.prompt: group for shape, group in evidence.prefill.items() if group}
    if len(groups) < 2:
        return 0.0
    short, long = min(groups), max(groups)
    grown = (statistics.median(s.answer.ttft for s in groups[at]) for at in (long, short))
    return max(0.0, next(grown) - next(grown)) / (long - short)


def _prefix_cache(parts: TtftParts, per_token: float) -> Check:
    if parts.again is None or parts.again.high is None or parts.ttft.low is None:
        return _check("prefix_cache", "not_checked", "no prompt was sent twice")
    saved = parts.ttft.value - parts.again.value
    faster = parts.again.high < parts.ttft.low and saved > max(SPED_UP * parts.ttft.value, _scatter(parts.ttft))
    seen = f"the same prompt of {many(parts.tokens, 'token')} again: {show(parts.again.value, 's')} instead of "
    seen += show(parts.ttft.value, "s")
    cached = parts.cached_tokens
    if parts.counted_again is not None and parts.counted_again < parts.tokens:
        text = f"{seen}, and counted as {many(parts.counted_again, 'token')}: the server's count leaves out what its"
        return _check("prefix_cache", "failed", f"{text} cache holds, so a rate made of it is undefined")
    if faster and cached == 0:
        return _check("prefix_cache", "failed", f"{seen}, while usage says that nothing was cached: it hides its cache")
    if not faster and cached is not None and cached > parts.tokens / 2:
        text = f"{seen}, though usage says that {many(cached, 'token')} were cached"
        due = per_token * cached
        if saved > due / 2 or due < max(SPED_UP * parts.ttft.value, _scatter(parts.ttft)):
            return _check("prefix_cache", "not_checked", f"{text}: what they save is too little to be seen")
        return _check("prefix_cache", "failed", f"{text}, which should save {show(due, 's')}: they were computed again")
    if faster:
        said = (
            f"{many(cached, 'token')} cached by its usage" if cached else "its usage does not say how much was cached"
        )
        return _check("prefix_cache", "passed", f"{seen}: the prefix cache works, {said}")
    if parts.tokens < LEAST_BLOCKS:
        return _check("prefix_cache", "not_checked", f"{seen}: so short a prompt may not fill a block of its cache")
    return _check("prefix_cache", "passed", f"{seen}: no prefix cache answers, it is off or never hits")
