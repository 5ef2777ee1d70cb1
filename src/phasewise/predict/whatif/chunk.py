"""``chunk=512``: chunked prefill. A prompt goes through in chunks, each in a step with the decodes that are running."""

from __future__ import annotations

from math import ceil

import msgspec

from phasewise.errors import UsageError
from phasewise.predict.whatif.change import Change, Changed, Refused, whole
from phasewise.predict.whatif.outcome import outcome
from phasewise.predict.whatif.setup import Setup
from phasewise.record.quantity import predicted
from phasewise.units import show

_MOST = 100_000
"""Chunks of one prompt."""


def _apply(value: str, setup: Setup) -> Changed:
    chunk = whole("chunk", value, example="512", most=10**8)
    fresh = setup.prompt - setup.cached
    if not setup.decodes:
        raise Refused(
            "at batch 1 no other request decodes while the prompt is taken in, so chunks protect nobody and only read "
            "the weights more often: give --batch, or batch=32 beside it"
        )
    if chunk >= fresh:
        raise Refused(f"the {fresh:,} prompt tokens to compute are one chunk")
    steps = ceil(fresh / chunk)
    if steps > _MOST:
        raise UsageError(f"--what-if chunk={chunk} makes {steps:,} chunks of {fresh:,} tokens: write a larger one.")
    changed = msgspec.structs.replace(setup, chunk=chunk)
    whole_prompt, pieces = outcome(setup).shown, outcome(changed).shown
    before, after = whole_prompt.stall_s or 0.0, pieces.stall_s or 0.0
    return Changed(
        changed,
        (
            f"{steps} mixed steps in place of one: {setup.decodes} decodes wait {show(after, 's')} for a token instead "
            f"of {show(before, 's')} while a prompt is taken in ({show(pieces.step_s, 's')} otherwise), and its first "
            f"token comes after {show(pieces.ttft_s, 's')} instead of {show(before, 's')} in one mixed step",
        ),
        {
            "chunks": predicted(steps, "1", f"{fresh} tokens in chunks of {chunk}"),
            "itl_before_s": predicted(before, "s", "one step with the whole prompt and the decodes"),
            "itl_after_s": predicted(after, "s", "the longest step with a chunk and the decodes"),
        },
    )


CHUNK = Change("chunk", "512", _apply)
