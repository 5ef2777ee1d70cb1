"""Sentences on a phase that a reader must know: what nothing can improve, what grows too fast, what the probes told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from phasewise.judge.utilisation import sharp
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor
from phasewise.record.observation import DecodeObservation
from phasewise.record.probes import Burst, OptionCost, Probes, TtftParts
from phasewise.record.quantity import Quantity
from phasewise.units import show

AT_CEILING = 0.85
"""Part of the ceiling beyond which no setting is left to find."""

STEEP = 2.0
"""A step that grows with context by this many times what reading the KV cache takes is told."""

LARGE = 0.2
"""Part of TTFT, or of the time per token, from which on something is told."""

GAIN = 0.5
"""Less than this part of the requests in a burst as the gain in tokens per second is told."""

IN_TURN = 0.75
"""TTFT that grows by this part of a lone one with each further request of a burst is a queue."""

SPREAD, SPREAD_S = 0.3, 1e-3
"""Part of a step, and time, over which the tokens of one step may reach their clients."""

DRAFTS = 1.3
"""Tokens in an event from which on drafts are at work."""


def at_ceiling(headline: Quantity | None, yardstick: str) -> Iterator[str]:
    """When a phase is as fast as its machine."""
    if headline is not None and AT_CEILING <= headline.value <= 1:
        yield (
            f"{show(headline.value, '1', 2)} {yardstick.upper()} is as fast as this machine gets: only less work or "
            "another machine makes it faster, no setting does"
        )


def steep(model: Model, roof: Roof, seen: DecodeObservation) -> Iterator[str]:
    """When decode slows down with context by more than the KV cache explains."""
    if seen.fit is None or not sharp(seen.fit.per_context_token):
        return
    slope, far = seen.fit.per_context_token, max(point.context for point in seen.points)
    floor = (float(decode_floor(model, roof, far)) - float(decode_floor(model, roof, 0.0))) / far if far > 0 else 0.0
    if floor > 0 and (slope.low or 0.0) > STEEP * floor:
        yield (
            f"the step grows by {show(1000 * slope.value, 's')} per 1,000 tokens of context, {slope.value / floor:.1f} "
            "times what reading their KV cache takes: the attention kernel or what is done per block"
        )


def of_prefill(probes: Probes | None) -> Iterator[str]:
    """What TTFT holds besides the pass, and what it is in a burst."""
    if probes is None:
        return
    if probes.ttft is not None:
        yield from _parts(probes.ttft)
    if len(probes.bursts) > 1:
        yield from _queue(probes.bursts[0], probes.bursts[-1])


def of_decode(probes: Probes | None) -> Iterator[str]:
    """What a burst gains, how its tokens are written, and what options cost."""
    if probes is None:
        return
    if len(probes.bursts) > 1:
        yield from _gain(probes.bursts)
        yield from _spread(probes.bursts[-1])
    for option in probes.options:
        yield from _option(option)


def _parts(parts: TtftParts) -> Iterator[str]:
    whole = f"a TTFT of {show(parts.ttft.value, 's')} at {parts.tokens:,} tokens"
    for part, what in (
        (parts.front_end, "prompts sent as text instead of token ids (tokenising, the server's front end) add"),
        (parts.idle, f"a pause of {show(parts.idle_s, 's')} before the request adds"),
    ):
        if part is not None and (part.low or 0.0) > LARGE * parts.ttft.value:
            yield f"{what} {show(part.value, 's')} to {whole}"
    for part, what in (
        (parts.kept, "the kept connection (a delayed ACK, a proxy) takes"),
        (parts.queue, "the server's queue takes, as it reports,"),
        (parts.client, "the client's own queue takes"),
    ):
        if part is not None and (part.value if part.low is None else part.low) > LARGE * parts.ttft.value:
            yield f"{what} {show(part.value, 's')} of {whole}"


def _queue(one: Burst, burst: Burst) -> Iterator[str]:
    sent = f"of {burst.requests} short requests sent together"
    last = f"the last one's TTFT was {show(burst.ttft_last, 's')} where one alone has {show(one.ttft_first, 's')}"
    if burst.together < burst.requests:
        yield f"{sent} {burst.together} ran at once, and {last}: TTFT under load is a place in the queue, not prefill"
    elif burst.ttft_last > one.ttft_first * (1 + IN_TURN * (burst.requests - 1)):
        yield f"{sent} all ran, but were prefilled in turn: {last}, which is its place in a queue of prefills"


class _Ran(NamedTuple):
    """A burst whose requests all ran at once: seconds of a step, tokens per second, tokens in an event."""

    requests: int
    step: float
    rate: float
    tokens: float


def _gain(bursts: tuple[Burst, ...]) -> Iterator[str]:
    ran = [
        _Ran(burst.requests, burst.step.value, burst.throughput.value, burst.tokens_per_chunk)
        for burst in bursts
        if burst.step and burst.throughput and burst.together == burst.requests
    ]
    if len(ran) < 2 or ran[0].requests != 1:
        return
    one, most = ran[0], ran[-1]
    gain = most.rate / one.rate
    rate = f"{most.requests} short requests at once made {most.rate:,.0f} tokens/s, {gain:.1f} times one alone"
    if gain >= GAIN * most.requests:
        yield f"{rate}: a figure at batch 1 is not the server's throughput"
        return
    grew = f"a step takes {show(most.step, 's')} with them and {show(one.step, 's')} with one"
    yield f"{rate}, for {grew}: {', and '.join(_why(one, ran[-2], most))}"


def _why(one: _Ran, before: _Ran, most: _Ran) -> list[str]:
    """What may be behind a batch that gains little."""
    found = []
    if one.tokens > DRAFTS > most.tokens:
        found.append(
            f"drafts are switched off ({one.tokens:.1f} tokens per step alone, {most.tokens:.1f} with the others)"
        )
    elif one.tokens > DRAFTS:
        found.append("verifying drafts takes the compute that a batch needs")
    if before.requests > 1 and most.step > 2 * before.step and before.step < 1.5 * one.step:
        found.append(f"the step jumps beyond {before.requests} requests, as where a batch leaves the largest graph")
    return found or ["each request adds to the step, by work per sequence on the host or kernels that do not batch"]


def _spread(burst: Burst) -> Iterator[str]:
    if burst.spread is None or burst.step is None:
        return
    if burst.spread > max(SPREAD_S, SPREAD * burst.step.value):
        yield (
            f"the tokens of one step reach {burst.requests} clients over {show(burst.spread, 's')} of a step of "
            f"{show(burst.step.value, 's')}: they are written one after the other, by too few threads"
        )


def _option(option: OptionCost) -> Iterator[str]:
    if option.tpot is None:
        return
    more = option.tpot.value - option.plain.value
    if more > LARGE / 2 * option.plain.value:
        share = show(more / option.plain.value, "1", 2)
        yield f"{option.name} adds {show(more, 's')} per token, {share} of a greedy step: done on the host, per request"
