"""The work of steps that an engine's annotations describe by sums over their requests.

A half of a step (its prompts, or its generations) has n requests. Request i gets q new tokens and ends at k tokens of
context, of which k - q were cached before. An annotation gives n, Σq, Σk, Σq² and Σq·k (vLLM's ``sq``, ``sk``, ``sqsq``
and ``sqsk``), or only some of them.

New token j of a request (1 to q) attends to k - q + j tokens under a causal mask, so that the pairs are

    Σ (q·(k - q) + q·(q + 1)/2) = Σq·k - Σq²/2 + Σq/2

The counted convention (see ``Pass.pairs``) leaves out half of a prompt token's meeting with itself, which is Σq/2, and
all of a generated token's, which is Σq. The linear work follows from Σq, the cache that is read from Σk - Σq, lm_head
from n (of generations from Σq).

All of these are met by one equivalent pass: b requests with Σq/b new tokens after (Σk - Σq)/b cached ones, where
b = Σq·(Σk - Σq/2) / (Σq·k - Σq²/2) makes the pairs come out, and b = n when the requests are equal. A second pass
without tokens brings the requests back to n. FLOPs and bytes are then exact where attention grows with pairs and reach.
Where it stops growing (a window, a chunk, a choice of tokens) or where the cheaper of two ways is taken (MLA), they are
exact for equal requests only, and ``inexact`` says so. All attention of a half counts as one operation of the floor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from phasewise.model import work
from phasewise.model.mixers.latent import Latent
from phasewise.model.model import Model
from phasewise.model.passes import Count, Pass
from phasewise.model.work import Operation, Work
from phasewise.predict.roofline import Roof, floor
from phasewise.predict.sums import NO_CONTEXT, Contradiction, Sums, sums
from phasewise.record.trace import Tokens

Halves = tuple[Tokens | None, Tokens | None]
"""The prompts and the generations of one step."""


class Group(NamedTuple):
    """``steps`` steps that hold the same halves: arrays of ``steps`` numbers, None for a half that they do not hold."""

    steps: int
    prefill: Sums | None
    decode: Sums | None

    @property
    def passes(self) -> tuple[Pass, ...]:
        """What the steps do."""
        return (*_passes(self.decode, decode=True), *_passes(self.prefill, decode=False))


class Counted(NamedTuple):
    """The steps whose work can be counted.

    Attributes:
        which: their indices among those given.
        groups: their sums.
        assumed: what was taken for granted, a phrase each.
        contradictory: steps whose sums contradict each other.
    """

    which: tuple[int, ...]
    groups: tuple[Group, ...]
    assumed: tuple[str, ...]
    contradictory: int

    @property
    def mean(self) -> tuple[Pass, ...]:
        """The passes of one step that stands for all: the means of their sums."""
        steps = len(self.which)
        halves = [
            [getattr(group, name) for group in self.groups if getattr(group, name)] for name in ("prefill", "decode")
        ]
        prefill, decode = (
            Sums(*(sum(float(np.sum(each[i])) for each in half) / steps for i in range(5))) if half else None
            for half in halves
        )
        return Group(steps, prefill, decode).passes

    @property
    def without_context(self) -> bool:
        """Whether contexts are not said, so that KV cache and attention are left out of the work."""
        return NO_CONTEXT in self.assumed

    @property
    def tokens(self) -> float:
        """New tokens of the mean step."""
        return float(sum(one.all_tokens for one in self.mean))

    @property
    def context(self) -> float:
        """Tokens that a generation of the mean step has cached, on average; 0 without generations."""
        own = [one for one in self.mean if one.decode]
        requests = float(sum(one.batch for one in own))
        return float(sum(one.past * one.batch for one in own)) / requests if requests else 0.0


class MeanStep(NamedTuple):
    """Work of the mean step, its floor in seconds, and the part of the floor that is attention's."""

    work: Work
    floor_s: float
    attention_s: float


def count(steps: Sequence[Halves]) -> Counted:
    """Sort out which of ``steps`` say enough to count their work, and put their sums into arrays."""
    kept: dict[tuple[bool, bool], list[tuple[Sums | None, Sums | None]]] = {}
    which: list[int] = []
    assumed: dict[str, None] = {}
    contradictory = 0
    for index, (prompts, generations) in enumerate(steps):
        try:
            prefill, taken = sums(prompts, decode=False)
            decode, taken_too = sums(generations, decode=True)
        except Contradiction:
            contradictory += 1
            continue
        if prefill is None and decode is None:
            continue
        which.append(index)
        assumed |= dict.fromkeys((*taken, *taken_too))
        kept.setdefault((prefill is not None, decode is not None), []).append((prefill, decode))
    groups = tuple(Group(len(rows), *(_columns(half) for half in zip(*rows, strict=True))) for rows in kept.values())
    return Counted(tuple(which), groups, tuple(assumed), contradictory)


def _columns(rows: Iterable[Sums | None]) -> Sums | None:
    found = [row for row in rows if row is not None]
    return Sums(*np.array(found, dtype=float).T) if found else None


def _passes(half: Sums | None, *, decode: bool) -> tuple[Pass, ...]:
    """The equivalent pass, and a second one that brings its requests to n."""
    if half is None:
        return ()
    cached = half.context - half.tokens
    batch = half.tokens * (half.context - half.tokens / 2) / (half.products - half.squares / 2)
    same = Pass(half.tokens / batch, cached / batch, batch, decode=decode)
    return same, Pass(0.0, 0.0, half.requests - batch, decode=decode)


def inexact(model: Model, counted: Counted) -> bool:
    """Whether unequal requests make the count an approximation: attention that does not grow with every pair."""
    mixers = [getattr(block.mixer, "own", None) or block.mixer for block in model.architecture.working]
    limited = any(
        isinstance(mixer, Latent) or any(getattr(mixer, limit, None) for limit in ("window", "chunk", "indexer"))
        for mixer in mixers
    )
    return limited and any(np.any(np.asarray(half.requests) > 1) for g in counted.groups for half in g[1:] if half)


def mean_step(model: Model, roof: Roof, counted: Counted) -> MeanStep:
    """Work and floor of the steps, averaged; the operations of one name are added up."""
    steps = len(counted.which)
    totals: dict[str, list[float]] = {}
    least = attention = 0.0
    for group in counted.groups:
        done = work.step(model, *group.passes)
        for op in done.operations:
            amounts = totals.setdefault(op.name, [0.0, 0.0, 0.0])
            for place, amount in enumerate(op[1:]):
                amounts[place] += _sum(amount, group.steps) / steps
        least += _sum(floor(done, roof), group.steps) / steps
        own = Work(tuple(op for op in done.operations if op.name in work.ATTENTION))
        attention += _sum(floor(own, roof), group.steps) / steps
    return MeanStep(Work(tuple(Operation(name, *amounts) for name, amounts in totals.items())), least, attention)


def _sum(amount: Count, steps: int) -> float:
    return float(np.broadcast_to(np.asarray(amount, dtype=float), (steps,)).sum())
