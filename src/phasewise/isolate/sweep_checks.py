"""Whether the figures of a sweep can be believed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from phasewise.engines.selfwatch import Watched, verdict
from phasewise.isolate.checks.evidence import many
from phasewise.isolate.checks.surroundings import ASTRAY, FOREIGN, FOREIGN_TOKENS
from phasewise.isolate.crowd import Stream
from phasewise.isolate.group import Group
from phasewise.record.observation import Check
from phasewise.record.sweep import Cell

CACHED = 0.02
"""Part of the prompt tokens that may come from a cache."""

AGREES = 0.03
"""Difference between the server's own time per token and ours that is told."""

OWN_TPOT_MS = ("predicted_per_token_ms", "mean_itl_ms")
"""Names under which servers tell the mean time per token of a request (llama.cpp, vLLM), milliseconds."""

READS = 0.5
"""Reads per token below which something collected tokens on the way."""


class Evidence(NamedTuple):
    """What a sweep left behind."""

    streams: tuple[Stream, ...]
    cells: tuple[Cell, ...]
    idle: tuple[tuple[float | None, float | None, float], ...]
    failures: tuple[str, ...]
    broken_off: int
    client: Watched
    between_s: float = 0.0

    @classmethod
    def of(cls, crowd: Group, cells: Sequence[Cell]) -> Evidence:
        """The evidence that ``crowd`` has gathered so far; of the counters: prompt and answer tokens, requests."""
        idle = [(a.prompt_tokens, a.output_tokens, (a.running or 0) + (a.waiting or 0)) for a in crowd.idle]
        streams, failures = tuple(crowd.streams), tuple(crowd.failures)
        client, between = crowd.watched(), crowd.between()
        return cls(streams, tuple(cells), tuple(idle), failures, crowd.broken_off, client, between)

    @property
    def answers(self) -> list[Stream]:
        """The requests that asked for more than the first token."""
        return [stream for stream in self.streams if stream.asked > 1]


def made(evidence: Evidence) -> tuple[Check, ...]:
    """All checks; none when nothing was measured."""
    if not evidence.streams:
        return ()
    return tuple(found for check in CHECKS if (found := check(evidence)))


def _held(evidence: Evidence) -> Check | None:
    cells = [cell for cell in evidence.cells if cell.trouble in ("", "not proved")]
    if not cells:
        return None
    failed = [cell for cell in cells if cell.proof == "failed"]
    open_ = [cell for cell in cells if cell.proof == "not_checked"]
    text = f"{len(cells) - len(failed) - len(open_)} of {len(cells)} batches and contexts"
    text += " were proved to have run together, none waiting"
    if failed:
        text += f"; batch {failed[0].batch} was not: {failed[0].proved_by}; left out of the fit"
        return Check(name="held", phase="decode", status="failed", detail=text)
    if open_:
        text += f"; batch {open_[0].batch} could not be: {open_[0].proved_by}"
        return Check(name="held", phase="decode", status="not_checked", detail=text)
    return Check(name="held", phase="decode", status="passed", detail=f"{text}: {cells[-1].proved_by}")


def _uncached(evidence: Evidence) -> Check:
    known = [s for s in evidence.streams if s.exchange.cached_tokens is not None]
    if not known:
        text = "the server does not say how many prompt tokens were cached; no prompt was sent twice"
        return Check(name="uncached", phase="prefill", status="not_checked", detail=text)
    cached = sum(s.exchange.cached_tokens or 0 for s in known)
    total = sum(s.prompt_tokens for s in known)
    text = f"{cached:,} of {many(total, 'prompt token')} came from a cache"
    failed = cached > CACHED * total
    return Check(name="uncached", phase="prefill", status="failed" if failed else "passed", detail=text, voids=failed)


def _alone(evidence: Evidence) -> Check:
    counted = [one for one in evidence.idle if one[0] is not None and one[1] is not None]
    if len(counted) < 2:
        text = "the server publishes no counters of tokens, or they could not be read at the end"
        return Check(name="alone", phase="run", status="not_checked", detail=text)
    first, last = counted[0], counted[-1]
    theirs = (last[0] or 0) + (last[1] or 0) - (first[0] or 0) - (first[1] or 0)
    ours = sum(s.prompt_tokens + (s.exchange.completion_tokens or s.asked) for s in evidence.streams)
    text = f"the server's counters rose by {many(theirs, 'token')}, ours were {ours:,}"
    if evidence.failures or evidence.broken_off:
        return Check(name="alone", phase="run", status="not_checked", detail=f"{text}; some requests failed")
    if theirs < ASTRAY * ours:
        text += "; they are not those of the server that answered us"
        return Check(name="alone", phase="run", status="not_checked", detail=text)
    foreign = theirs - ours > max(FOREIGN_TOKENS, FOREIGN * ours)
    return Check(name="alone", phase="run", status="failed" if foreign else "passed", detail=text, voids=foreign)


def _streamed(evidence: Evidence) -> Check | None:
    answers = evidence.answers
    if not answers:
        return None
    whole = sum(s.whole for s in answers)
    if whole:
        text = f"{whole} of {many(len(answers), 'answer')} came as one piece although a stream was asked for"
        voids = whole > len(answers) / 2
        text += "" if voids else ", as from a server that is starved of CPU; such windows are left out"
        return Check(name="streamed", phase="decode", status="failed", detail=text, voids=voids)
    shares = []
    for stream in answers:
        reads = stream.exchange.arrivals.read[stream.exchange.arrivals.are_tokens]
        shares.append(len(set(reads.tolist())) / max(1, len(reads)))
    share = statistics.median(shares)
    text = f"a typical answer came in {share:.2f} reads per chunk"
    if share < READS:
        text += ": something between engine and client collects the stream; steps are timed over several tokens"
        return Check(name="streamed", phase="decode", status="failed", detail=text)
    return Check(name="streamed", phase="decode", status="passed", detail=text)


def _tokens(evidence: Evidence) -> Check | None:
    answers = evidence.answers
    if not answers:
        return None
    missing = sum(s.exchange.completion_tokens is None for s in answers)
    if missing:
        text = f"{missing} of {many(len(answers), 'answer')} gave no token count: chunks are counted as tokens"
        return Check(name="tokens_by_usage", phase="decode", status="failed", detail=text)
    wrong = [s for s in answers if (s.exchange.completion_tokens or 0) > s.asked]
    if wrong:
        counted = wrong[0].exchange.completion_tokens
        text = f"the server counted {counted:,} tokens in an answer of which {wrong[0].asked:,} were asked for"
        return Check(name="tokens_by_usage", phase="decode", status="failed", detail=text, voids=True)
    text = f"the server counted the tokens of {many(len(answers), 'answer')}"
    return Check(name="tokens_by_usage", phase="decode", status="passed", detail=text)


def _ended(evidence: Evidence) -> Check | None:
    answers = evidence.answers
    if not answers:
        return None
    short = [s for s in answers if (s.exchange.completion_tokens or s.asked) < s.asked]
    text = f"{len(answers) - len(short)} of {many(len(answers), 'answer')} had the tokens asked for"
    if short:
        text += "; the others ended early, and a batch was held only until its first did"
        return Check(name="ended_by_length", phase="decode", status="failed", detail=text)
    return Check(name="ended_by_length", phase="decode", status="passed", detail=text)


def _server_timings(evidence: Evidence) -> Check | None:
    """Do the server's own times per token agree with ours, over whole answers?"""
    if not evidence.answers:
        return None
    pairs = []
    for stream in evidence.answers:
        own = next((stream.exchange.reported[name] for name in OWN_TPOT_MS if name in stream.exchange.reported), None)
        if own and stream.exchange.tpot and (stream.exchange.completion_tokens or 0) > 8:
            pairs.append(stream.exchange.tpot / (own * 1e-3) - 1)
    if not pairs:
        text = "the server told no times of its own to hold ours against"
        return Check(name="server_timings", phase="decode", status="not_checked", detail=text)
    off = statistics.median(pairs)
    text = f"our time per token is {off:+.1%} off the server's own over {many(len(pairs), 'answer')} (median)"
    if abs(off) > AGREES:
        text += ": look for a proxy, a busy client, or a server that times only part of its step"
    return Check(
        name="server_timings", phase="decode", status="passed" if abs(off) <= AGREES else "failed", detail=text
    )


def _errors(evidence: Evidence) -> Check:
    sent = len(evidence.streams) + len(evidence.failures)
    text = f"{len(evidence.streams)} of {many(sent, 'request')} were answered"
    if evidence.broken_off:
        text += f"; {evidence.broken_off} more were broken off when the budget was over"
    if evidence.failures:
        text += f"; the last failure: {evidence.failures[-1]}"
        return Check(name="errors", phase="run", status="failed", detail=text)
    return Check(name="errors", phase="run", status="passed", detail=text)


def _client(evidence: Evidence) -> Check:
    stamped = any(s.exchange.stamped for s in evidence.streams)
    by = "the kernel's own stamps" if stamped else "its own clock, as no kernel stamps were to be had"
    # The figures count from when a prompt was sent, and random arrivals that are moved at random are random still (the
    # displacement theorem): what is late by no more than the gap between them is none the worse for it.
    found = verdict([evidence.client], pace_s=evidence.between_s, part=1.0)
    return msgspec.structs.replace(found, detail=f"{found.detail}; times are by {by}")


CHECKS: tuple[Callable[[Evidence], Check | None], ...] = (
    _held,
    _uncached,
    _alone,
    _streamed,
    _tokens,
    _ended,
    _server_timings,
    _errors,
    _client,
)
"""In the order in which they are shown; None where there is nothing to look at."""
