"""The phase of one forward, from what its call asks for. The rules, the first that fits (docs/mark.md):

1. No cached tokens before the new ones: prefill.
2. One new token in each row after cached ones: decode.
3. Several, whose logits are all asked for (``logits_to_keep`` is their number): a verify step, so speculative decode.
4. Several, no more than `MOST_DRAFTED`, into a cache that has decoded before, and the call does not say whose logits it
   wants: a verify step as well, in doubt.
5. Several otherwise: a chunk of a prompt, so prefill.

A packed batch is judged request by request, and is mixed when it holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

from phasewise.mark.call import Call
from phasewise.record.trace import Tokens, TracePhase

MOST_DRAFTED = 16
"""New tokens of a verify step at most, where the call does not say that it is one; drafts are shorter in practice."""

LAST_CHUNK = "the last token of a prompt that came in chunks looks the same"
FEW = "a few tokens into a cache that has decoded: a verify step, or the next turn of a chat"
UNREAD = "the lengths lie on the GPU and are not waited for"
NO_TOKENS = "no argument that holds tokens was recognised"
NO_CACHE = "the module may keep a cache that its call does not show"
NO_LENGTH = "the cache does not say how long it is"


@dataclass(slots=True)
class Seen:
    """What went into one cache so far: its length by shape, passes of prefill, and whether it has decoded.

    One is kept for each cache and brought up to date in place: a new one for each forward costs two microseconds.
    """

    length: int | None = None
    chunks: int = 0
    decoded: bool = False

    def take(self, call: Call, found: Label) -> None:
        """``call``, which was ``found``, has gone into it."""
        if call.packed:
            self.length, self.chunks, self.decoded = None, 0, False
            return
        if call.past == 0:
            self.chunks, self.decoded = 0, False
        self.length = None if call.past is None or call.width is None else call.past + call.width
        if found.phase == "prefill":
            self.chunks += 1
        elif found.phase == "decode":
            self.decoded = True


class Label(NamedTuple):
    """The phase of a forward.

    Attributes:
        phase: what it is.
        prefill: its prompts, None when it has none.
        decode: its generations, None when it has none.
        speculative: a verify step.
        doubt: what else it may be, or why it could not be told; empty when neither.
    """

    phase: TracePhase
    prefill: Tokens | None = None
    decode: Tokens | None = None
    speculative: bool = False
    doubt: str = ""


def label(call: Call | None, seen: Seen) -> Label:
    """The phase of ``call`` into a cache of which ``seen`` is known."""
    if call is None:
        return Label("unknown", doubt=NO_TOKENS)
    if call.packed:
        return _packed(call)
    counts = _tokens(call)
    if call.past is None and call.cache is None:
        return Label("unknown", doubt=NO_CACHE)
    if call.past == 0 and call.width:
        return Label("prefill", prefill=counts)
    if call.width == 1:
        doubt = LAST_CHUNK if seen.chunks > 1 and not seen.decoded else ""
        return Label("decode", decode=counts, doubt=doubt)
    if call.past is None:
        return Label("prefill", prefill=counts, doubt=NO_LENGTH)
    if call.logits == call.width:
        return Label("decode", decode=counts, speculative=True)
    if call.logits is None and seen.decoded and call.width is not None and call.width <= MOST_DRAFTED:
        return Label("decode", decode=counts, speculative=True, doubt=FEW)
    return Label("prefill", prefill=counts)


def _packed(call: Call) -> Label:
    counts = Tokens(requests=call.requests, tokens=call.tokens)
    if call.new is None or call.context is None:
        if call.past == 0:
            return Label("prefill", prefill=counts)
        if call.width == 1 or (call.requests is not None and call.requests == call.tokens):
            return Label("decode", decode=counts)
        return Label("unknown", doubt=UNREAD)
    rows = list(zip(call.new, call.context, strict=True))
    prefill = summed([(q, k) for q, k in rows if q > 1 or k == q])
    decode = summed([(q, k) for q, k in rows if q == 1 and k > q])
    phase: TracePhase = "mixed" if prefill and decode else "decode" if decode else "prefill" if prefill else "unknown"
    return Label(phase, prefill, decode)


def _tokens(call: Call) -> Tokens:
    if call.new is None or call.context is None:
        return Tokens(requests=call.requests, tokens=call.tokens)
    if len(call.new) == 1 and (q := call.new[0]):  # what most calls are, so in the quick way
        k = call.context[0]
        return Tokens(requests=1, tokens=q, context=k, squares=q * q, products=q * k)
    return summed([(q, k) for q, k in zip(call.new, call.context, strict=True) if q]) or Tokens(requests=0, tokens=0)


def summed(rows: Sequence[tuple[int, int]]) -> Tokens | None:
    """The counts of requests with q new tokens and a context of k each, given as (q, k); None without any."""
    if not rows:
        return None
    new, context = zip(*rows, strict=True)
    return Tokens(
        requests=len(rows),
        tokens=sum(new),
        context=sum(context),
        squares=sum(map(mul, new, new)),
        products=sum(map(mul, new, context)),
    )
