"""A sweep in sentences: what batching buys and until where, what a prompt costs the others, what follows."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.run import Run
from phasewise.record.sweep import Advice, Broken, Gain, Mix, Plane, Stall, Surface, Swept
from phasewise.report.view import crew, heading, words
from phasewise.report.view.heading import Notice, failed


def headline(run: Run) -> str:
    """How much batch buys, until where, and what a prompt costs the others; or why that cannot be said."""
    found = run.sweep
    if void := failed(run, voids=True):
        return f"No verdict: these figures are not to be believed: {words.clean(void[0].detail)}."
    said = [batching(found), until(found), costs(found)] if found and found.measured else []
    told = [part for part in said if part]
    if not told:
        return f"No verdict: {words.clean(run.envelope.reason) or 'nothing was measured'}."
    return f"{'; '.join(told)}."


def notices(run: Run) -> tuple[Notice, ...]:
    """What to know before the numbers."""
    return (*heading.notices(run), *crew.notices(run.sweep.crew if run.sweep else None, crew.of_sweep))


def top(found: Swept) -> Gain | None:
    """The gain at the largest batch, after the shortest prompt."""
    gains = found.surface.gains if found.surface else ()
    shortest = min((gain.prompt_tokens for gain in gains), default=None)
    return max((gain for gain in gains if gain.prompt_tokens == shortest), key=lambda g: g.batch, default=None)


def batching(found: Swept) -> str:
    """What the largest batch buys."""
    gain = top(found)
    if gain is None:
        return "What batching buys was not measured"
    said = f"Batch {gain.batch:,} gives {words.times(gain.measured.value)} the tokens per second of one request"
    return f"{said} ({words.times(gain.predicted.value)} at the floors)" if gain.predicted else said


def until(found: Swept) -> str:
    """Where batching stops paying as it did."""
    surface = found.surface
    if surface is None:
        return ""
    plane = surface.plane
    if plane is not None and plane.broken is not None:
        return broken(plane.broken)
    if surface.limit is not None and surface.limit_by:
        return f"the server runs {surface.limit:,} at once"
    if surface.room is not None:
        return f"the KV cache runs full at about {surface.room.full:,} tokens"
    return _still(surface)


def _still(surface: Surface) -> str:
    """No end was met: what the last step up still bought."""
    good = [cell for cell in surface.cells if cell.throughput and not cell.trouble]
    shortest = min((cell.prompt_tokens for cell in good), default=0)
    rates = [(c.batch, c.throughput.value) for c in good if c.prompt_tokens == shortest and c.throughput]
    if len(rates) < 2:
        return ""
    (before, less), (last, more) = rates[-2:]
    return f"no end of that was met: from {before:,} to {last:,} it still grew {words.times(more / less)}"


def broken(found: Broken) -> str:
    """The bend or jump in one clause."""
    between = (
        f"between {found.after:,} and {found.before:,}" if found.before - found.after > 1 else f"at {found.before:,}"
    )
    if found.kind == "jump":
        return (
            f"{between} requests a step gets {words.amount(found.extra)} ({words.share(found.share)}) longer at once, "
            "as when it leaves the largest captured graph or another kernel takes over"
        )
    slope = f"{words.times(found.share)} as much" if words.finite(found.share) else words.amount(found.extra)
    return f"beyond {found.after:,} each further request costs {slope}, as when compute takes over"


def costs(found: Swept) -> str:
    """What a prompt costs those that decode."""
    stall = heaviest(found.mix)
    if stall is None:
        return ""
    steps = "one slow step" if round(stall.slow_steps) == 1 else f"{stall.slow_steps:.0f} slow steps"
    among = "a running decode" if stall.batch == 1 else f"each of {stall.batch:,} running decodes"
    return f"a prompt of {stall.tokens:,} tokens costs {among} {words.amount(stall.stall)}, in {steps}"


def heaviest(mix: Mix | None) -> Stall | None:
    """The stall of the largest batch by the prompt nearest to a thousand tokens from above, else by the longest."""
    stalls = mix.stalls if mix else ()
    if not stalls:
        return None
    most = max(stall.batch for stall in stalls)
    last = [stall for stall in stalls if stall.batch == most]
    return min((s for s in last if s.tokens >= 1000), key=lambda s: s.tokens, default=max(last, key=lambda s: s.tokens))


def decode_facts(found: Swept) -> Iterator[str]:
    """What the surface says, a sentence each."""
    surface = found.surface
    if surface is None:
        yield "Decode over batch was not measured."
        return
    if surface.plane is not None:
        yield plane(surface.plane)
        if surface.plane.broken is not None:
            yield f"It breaks: {broken(surface.plane.broken)} (measured)."
        yield from _spread(surface)
    else:
        yield "Too few batches and contexts were held for a fit."
    if found.ridge_tokens is not None:
        bound = f"from batch {found.compute_bound_at:,} on" if found.compute_bound_at else "at no batch"
        yield (
            f"Predicted: a step at the shortest context is compute-bound {bound}; the ridge lies at "
            f"{words.amount(found.ridge_tokens)} per step."
        )
    yield from _limits(surface)


def _spread(surface: Surface) -> Iterator[str]:
    """What part of the largest batch's step all its requests share."""
    held = [cell for cell in surface.cells if cell.step and not cell.trouble]
    if held and surface.plane is not None:
        most = max(held, key=lambda cell: (cell.batch, -cell.prompt_tokens))
        part = surface.plane.base.value / surface.plane.at(most.batch, most.batch * most.context)
        yield (
            f"Of a step at batch {most.batch:,} ({words.count(most.context)} tokens each) {words.share(part)} is "
            "shared by all its requests, which is what batching spreads; the rest grows with them."
        )


def plane(found: Plane) -> str:
    """The fit in one line, with its intervals."""
    terms = [
        f"{words.amount(found.base)}{_ends(found.base.low, found.base.high, 's')}",
        f"{words.amount(found.per_request)} per request{_ends(found.per_request.low, found.per_request.high, 's')}",
        f"{words.number(found.per_context_token.value, 's')} per token of context"
        f"{_ends(found.per_context_token.low, found.per_context_token.high, 's')}",
    ]
    return f"step = {' + '.join(terms)}; median error {words.share(found.residual)}"


def _ends(low: float | None, high: float | None, unit: str) -> str:
    if low is None or high is None:
        return " (not told apart)"
    return f" ({words.number(low, unit)} to {words.number(high, unit)})"


def _limits(surface: Surface) -> Iterator[str]:
    if surface.limit is not None:
        yield f"Requests at once: {surface.limit:,} ({words.clean(surface.limit_by)})."
    if surface.room is not None:
        yield (
            f"The KV cache runs full: {surface.room.held:,} tokens of context ran together; at about "
            f"{surface.room.full:,} tokens some requests were preempted or had to wait. Such steps are not fitted."
        )
    for cell in surface.cells:
        if cell.trouble == "preempted":
            why = words.clean(cell.proved_by)
            yield f"Preempted: batch {cell.batch:,} after {cell.prompt_tokens:,} tokens ({why})."
    if abs(surface.tokens_per_chunk - 1) > 0.02:
        yield (
            f"A chunk holds {surface.tokens_per_chunk:.2f} tokens on average, so a time per token is not a step of the "
            "engine: speculative decoding, or text that waits for its character."
        )


def mix_facts(found: Swept) -> Iterator[str]:
    """What the mix says, a sentence each."""
    mix = found.mix
    if mix is None:
        yield "The mix was not measured."
        return
    if mix.fit is not None:
        fit = mix.fit
        square = f" + {words.number(fit.per_token2.value, 's')} · tokens²" if fit.per_token2.value else ""
        yield (
            f"stall = {words.amount(fit.per_step)} per slow step + {words.number(fit.per_token.value, 's')} per token"
            f"{square}; median error {words.share(fit.residual)}"
        )
    yield from _chunked(mix)
    yield from traffic(mix)


def _chunked(mix: Mix) -> Iterator[str]:
    chunk = mix.chunk
    if chunk is None:
        return
    shared = {
        True: "running decodes get their tokens in the same steps",
        False: "prefill has steps of its own, for which running decodes wait",
        None: "whether decodes share these steps could not be told",
    }[chunk.shared]
    if chunk.most is None:
        yield f"No prompt up to {chunk.least:,} tokens was cut into chunks; {shared}."
    else:
        size = f"{chunk.least:,}" if chunk.least == chunk.most else f"{chunk.least:,} to {chunk.most:,}"
        yield f"Chunked prefill: {size} tokens a step, by the number of slow steps; {shared}."


def traffic(mix: Mix) -> Iterator[str]:
    """Prompts at random: queue, and what the mix adds."""
    seen = mix.traffic
    if seen is None:
        yield "Prompts at random were not sent: there was no time for enough of them."
        return
    formula = f", {words.amount(seen.wait_formula)} in the long run (M/D/1)" if seen.wait_formula else ""
    yield (
        f"Prompts of {seen.tokens:,} tokens at random, {words.amount(seen.rate)} among {seen.batch:,} decodes "
        f"({words.share(seen.load)} of the time by prefill alone): TTFT {words.amount(seen.ttft)} over "
        f"{len(seen.arrivals):,} on average = "
        f"{words.amount(seen.ttft_alone)} alone + {words.amount(seen.wait_arrivals)} of queue for these "
        f"arrivals{formula} + {words.amount(seen.mix)} of the mix."
    )
    yield (
        f"Meanwhile a decode's token took {words.amount(seen.tpot)} (p99 of the gaps {words.amount(seen.itl_p99)}), "
        f"undisturbed {words.amount(seen.step_alone)}."
    )


def advice(one: Advice) -> str:
    """``Chunk size: ...``."""
    return f"{one.name.capitalize()}: {words.clean(one.text)}"
