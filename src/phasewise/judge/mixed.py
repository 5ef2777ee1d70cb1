"""What follows from the mix: a chunk size that holds a time between tokens, and whether disaggregation would pay.

Both are arithmetic on what the sweep measured, told with its assumptions. A stall is what a prompt of n tokens costs
every running decode, which in an engine of one queue is the time that prefill takes from decode.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from phasewise.model.model import Model
from phasewise.predict.parallel.link import Link
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.sweep import Advice, Chunk, Interference, Mix, Stall, Swept
from phasewise.units import show

SHOWN_CHUNKS = (256, 512, 1024, 2048, 4096)

LEAST_CHUNK = 64
"""Smaller chunks are no way to prefill: each reads all the weights for fewer tokens than a decode batch has."""


class Question(NamedTuple):
    """What is asked of the mix.

    Attributes:
        prompt, answer: tokens of a typical request.
        goal_s: longest gap between tokens that is owed, seconds; None when none was stated.
        model: for the size of the KV cache.
        link: over which it would move.
    """

    prompt: int
    answer: int
    goal_s: float | None = None
    model: Model | None = None
    link: Link | None = None


def advise(found: Swept, question: Question) -> tuple[Advice, ...]:
    """Both answers; none when the mix was not measured or nothing stalled."""
    mix = found.mix
    if mix is None or not mix.stalls or mix.fit is None:
        return ()
    batch = max(stall.batch for stall in mix.stalls)
    stall = max((one for one in mix.stalls if one.batch == batch), key=lambda one: one.tokens)
    size = _chunk_size(mix, mix.fit, stall, question)
    return size, _disaggregation(found, mix, mix.fit, stall, size, question)


def chunk_tokens(chunk: Chunk | None) -> int | None:
    """The power of two within what was inferred, else the least; None when prompts are not cut."""
    if chunk is None or chunk.most is None:
        return None
    power = 2 ** math.floor(math.log2(chunk.most))
    return power if power >= chunk.least else chunk.least


def longest_added(mix: Mix, fit: Interference, prompt: int) -> float:
    """What the longest step with a part of ``prompt`` takes beyond an undisturbed one, as the engine is, seconds."""
    return fit.of_chunk(chunk_tokens(mix.chunk) or prompt, prompt)


def stalled(mix: Mix, fit: Interference, prompt: int) -> float:
    """What ``prompt`` costs every running decode in all, seconds."""
    size = chunk_tokens(mix.chunk)
    return _work(fit, prompt, 1 if size is None else math.ceil(prompt / size))


def _work(fit: Interference, prompt: int, steps: int) -> float:
    return fit.per_step.value * steps + fit.per_token.value * prompt + fit.per_token2.value * prompt * prompt


def _chunk_size(mix: Mix, fit: Interference, stall: Stall, question: Question) -> Advice:
    prompt, goal_s, step = question.prompt, question.goal_s, stall.step.value
    worst = step + longest_added(mix, fit, prompt)
    today = f"now the longest gap is {show(worst, 's')} for a prompt of {prompt:,}"

    def answered(answer: Literal["yes", "no", "unknown"], text: str, value: Quantity | None = None) -> Advice:
        return Advice(
            name="chunk size",
            answer=answer,
            text=text,
            arithmetic=_steps_by_chunk(fit, step, stall.batch, prompt),
            assumes=("a chunk costs what the stalls measured here cost, in one step with the decodes",),
            value=value,
        )

    if goal_s is None:
        return answered("unknown", f"No limit on the gap between tokens was stated (--itl 50ms); {today}.")
    owed = show(goal_s, "s")
    if worst <= goal_s:
        return answered("yes", f"Nothing to change for gaps up to {owed}: {today}.")
    per_token = fit.per_token.value + 2 * fit.per_token2.value * prompt
    size = math.floor((goal_s - step - fit.per_step.value) / per_token) if per_token > 0 else 0
    if size < LEAST_CHUNK:
        alone = f"an undisturbed step takes {show(step, 's')}"
        return answered("no", f"No chunk size holds {owed} at {stall.batch} decodes: {alone}, {today}.")
    steps = math.ceil(prompt / size)
    ttft = steps * step + _work(fit, prompt, steps)
    return answered(
        "yes",
        f"Chunks of up to {size:,} tokens hold {owed} at {stall.batch} decodes ({today}); a prompt of {prompt:,} then "
        f"takes {steps} steps, about {show(ttft, 's')} to its first token.",
        predicted(size, "token", "room in a step of the stated length, by the fit of stalls"),
    )


def _steps_by_chunk(fit: Interference, step: float, batch: int, prompt: int) -> tuple[str, ...]:
    attention = 2 * fit.per_token2.value * prompt
    adds = f"{show(fit.per_step.value, 's')} + {show(fit.per_token.value, 's/token')}"
    adds += f" + {show(attention, 's/token')} of attention at the end of {prompt:,}" if attention else ""
    lines = [f"an undisturbed step of {batch} decodes takes {show(step, 's')}, a chunk adds {adds}"]
    for size in SHOWN_CHUNKS:
        if size <= prompt:
            longest = show(step + fit.of_chunk(size, prompt), "s")
            lines.append(f"chunks of {size:,}: gaps of up to {longest}, {math.ceil(prompt / size)} for a prompt")
    return tuple(lines)


def _disaggregation(
    found: Swept, mix: Mix, fit: Interference, stall: Stall, size: Advice, question: Question
) -> Advice:
    prompt, answer, batch, goal_s = question.prompt, question.answer, stall.batch, question.goal_s
    prefill = stalled(mix, fit, prompt)
    plane = found.surface.plane if found.surface else None
    step = plane.at(batch, batch * (prompt + answer / 2)) if plane else stall.step.value
    decode = max(1, answer - 1) * step / batch
    share = prefill / (prefill + decode)
    moved, how_moved = _moved(prompt, question.model, question.link)
    answered, text = _verdict(goal_s, size, batch, step, prefill, moved, how_moved)
    return Advice(
        name="disaggregation",
        answer=answered,
        text=text,
        arithmetic=(
            f"a request of {prompt:,} in and {answer:,} out takes {show(prefill, 's')} of prefill and its part of "
            f"{answer - 1:,} steps of {show(step, 's')} at batch {batch}, {show(decode, 's')}: prefill has "
            f"{share:.1%} of the engine's time",
            f"mixed, the mean time per token is {show(step / (1 - share), 's')} and the longest gap "
            f"{show(step + longest_added(mix, fit, prompt), 's')}; apart, both are {show(step, 's')}",
            f"apart, {share / (1 - share):.2f} prefill machines feed one decode machine",
            how_moved,
        ),
        assumes=(
            f"every request is {prompt:,} in and {answer:,} out, and {batch} decode at any time",
            "both pools are machines like this one, and the KV cache moves at the link's full rate after prefill",
        ),
    )


def _verdict(
    goal_s: float | None, size: Advice, batch: int, step: float, prefill: float, moved: float | None, how_moved: str
) -> tuple[Literal["yes", "no", "unknown"], str]:
    if goal_s is None:
        return "unknown", "Whether to run the phases apart depends on the gap that is owed: state it (--itl 50ms)."
    owed, alone = show(goal_s, "s"), show(step, "s")
    if size.answer == "yes":
        how = f"chunks of {size.value.value:,.0f} tokens hold" if size.value else "the engine as it is holds"
        return "no", f"No need to run the phases apart: {how} {owed} on the same machines."
    if step > goal_s:
        return (
            "no",
            f"Not for this goal: a decode step at batch {batch} takes {alone} without any prefill, over {owed}.",
        )
    if moved is None:
        return "unknown", f"Apart, decode would hold {owed}, which no chunk size does; {how_moved}."
    if moved > prefill:
        return (
            "no",
            f"No: moving the KV cache takes {show(moved, 's')}, longer than the prefill ({show(prefill, 's')}).",
        )
    return "yes", (
        f"Yes: no chunk size holds {owed}, decode alone does ({alone}), and the KV cache moves in {show(moved, 's')}, "
        f"less than a prefill takes ({show(prefill, 's')})."
    )


def _moved(prompt: int, model: Model | None, link: Link | None) -> tuple[float | None, str]:
    """Seconds that the KV cache of a prompt takes over the link, and the arithmetic."""
    if model is None:
        return None, "what moving the KV cache takes is unknown without --model"
    size = model.kv_bytes_per_token * prompt
    if link is None:
        return None, f"the KV cache is {show(size, 'B')}; what moving it takes is unknown without --link"
    seconds = size / link.rate.value
    over = f"{show(size, 'B')} over {link.name} ({show(link.rate.value, 'B/s')})"
    return seconds, f"moving the KV cache, {over}, takes {show(seconds, 's')}"
