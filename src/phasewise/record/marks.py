"""The names of our own marks: what `mark/` writes into a trace and `observe/traces/annotations.py` reads from it.

    phasewise:prefill requests=1 tokens=2000
    phasewise:step prefill requests=1 tokens=512 context=512 + decode requests=3 tokens=3 context=900
    phasewise:step decode requests=1 tokens=5 speculative

Without ``step`` it is a range of the user's own, which may hold several passes of the model; with it, exactly one. The
counts are those of `Tokens`, under its names; one that is not known is left out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from phasewise.record.trace import Tokens, TracePhase

PREFIX = "phasewise:"

_COUNTS = ("requests", "tokens", "context", "squares", "products")
_HALF = r"(?:prefill|decode|mixed|unknown)(?: (?:requests|tokens|context|squares|products)=\d{1,18})*"
_NAME = re.compile(rf"{PREFIX}(step )?({_HALF})(?: \+ ({_HALF}))?( speculative)?$")


class Named(NamedTuple):
    """What a mark says: ``step`` for exactly one pass; the halves as far as they are counted."""

    step: bool
    phase: TracePhase
    prefill: Tokens | None
    decode: Tokens | None
    speculative: bool


def range_name(phase: str, tokens: Tokens | None = None) -> str:
    """The name of a range that the user opened around ``phase``, with the tokens of all that it holds."""
    return f"{PREFIX}{phase}{_counts(tokens)}"


def step_name(phase: TracePhase, prefill: Tokens | None, decode: Tokens | None, *, speculative: bool = False) -> str:
    """The name of one pass of the model; a half is counted when it is not None."""
    halves = [f"{word}{_counts(half)}" for word, half in (("prefill", prefill), ("decode", decode)) if half is not None]
    return f"{PREFIX}step {' + '.join(halves) or phase}{' speculative' if speculative else ''}"


def read(name: str) -> Named | None:
    """What ``name`` says; None when it is no mark of ours."""
    found = _NAME.match(name)
    if found is None:
        return None
    step, first, second, speculative = found.groups()
    halves = [(half.partition(" ")[0], _tokens(half)) for half in (first, second) if half]
    by_word = dict(halves)
    if len(by_word) < len(halves) or (second and set(by_word) != {"prefill", "decode"}):
        return None
    phase: TracePhase = "mixed" if second else halves[0][0]  # type: ignore[assignment]
    return Named(bool(step), phase, by_word.get("prefill"), by_word.get("decode"), bool(speculative))


def _counts(tokens: Tokens | None) -> str:
    if tokens is None:
        return ""
    counted = ((key, getattr(tokens, key)) for key in _COUNTS)
    return "".join(f" {key}={int(value)}" for key, value in counted if value is not None)


def _tokens(half: str) -> Tokens | None:
    counts = {key: int(value) for key, _, value in (part.partition("=") for part in half.split()[1:])}
    return Tokens(**counts) if counts else None
