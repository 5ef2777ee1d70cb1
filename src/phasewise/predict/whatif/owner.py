"""Which operation, on which resource, a gain comes from."""

from __future__ import annotations

from phasewise.predict.whatif.outcome import Full, Parts
from phasewise.record.whatif import Gain

_SAME = 1e-3
"""A part by which a time has to differ to be called changed."""


def prefill_gain(before: Full, after: Full) -> Gain:
    """TTFT before and after."""
    was, now = before.shown.ttft_s, after.shown.ttft_s
    return _gain(was, now, before.prefill, after.prefill, "prefill")


def decode_gain(before: Full, after: Full) -> Gain:
    """Seconds a token before and after. Where only the batch as a whole gains, the owner is sought in its tokens."""
    was, now = before.shown, after.shown
    tokens = (was.tokens_per_step, now.tokens_per_step)
    per = "token"
    if now.tpot_s > was.tpot_s * (1 - _SAME) and now.tokens_per_s > was.tokens_per_s * (1 + _SAME):
        tokens = (was.batch * tokens[0], now.batch * tokens[1])
        per = "token of the batch"
    return _gain(was.tpot_s, now.tpot_s, _over(before.decode, tokens[0]), _over(after.decode, tokens[1]), per)


def _over(parts: Parts, tokens: float) -> Parts:
    return {name: seconds / tokens for name, seconds in parts.items()}


def _gain(was: float, now: float, before: Parts, after: Parts, per: str) -> Gain:
    saved = {name: _of(before, name) - _of(after, name) for name, _ in before | after}
    total = sum(saved.values())
    if abs(total) <= _SAME * sum(before.values()):
        return Gain(before_s=was, after_s=now)
    owner = max(saved, key=lambda name: saved[name]) if total > 0 else min(saved, key=lambda name: saved[name])
    return Gain(
        before_s=was,
        after_s=now,
        owner=_named(owner, before, after),
        owner_before_s=_of(before, owner),
        owner_after_s=_of(after, owner),
        per=per,
    )


def _of(parts: Parts, operation: str) -> float:
    """Seconds of an operation, whatever it waits for."""
    return sum(seconds for (name, _), seconds in parts.items() if name == operation)


def _named(operation: str, before: Parts, after: Parts) -> str:
    """``MLP (memory)``; ``MLP (memory, then compute)`` where the change moves it to another resource."""
    bounds = dict.fromkeys(bound for parts in (before, after) if (bound := _bound(parts, operation)))
    return f"{operation} ({', then '.join(bounds)})" if bounds else operation


def _bound(parts: Parts, operation: str) -> str:
    """The resource that most of an operation waits for, empty where there is none."""
    bounds = {bound: seconds for (name, bound), seconds in parts.items() if name == operation}
    return max(bounds, key=lambda bound: bounds[bound], default="")
