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
from phasewise.record.trace import Tokens

Halves = tuple[Tokens | None, Tokens | None]
"""The prompts and the generations of one step."""

NO_PREFIX = "no cached prefix is said, so none is counted"
NO_CONTEXT = (
    "the context of its generations is not said: their KV cache and attention are left out, so that floor, MFU and MBU "
    "are lower bounds"
)
ONE_TOKEN = "each request of a decode step is taken to get one token"
ONE_PROMPT = "how many prompts a step holds is not said, so one is counted"
EQUAL = "the requests of one step are taken to be equally long"

_MOST = 10**15
"""A sum beyond this is no sum of an annotation."""


class Contradiction(ValueError):
    """Sums that no requests can have."""


class Sums(NamedTuple):
    """n, Σq, Σk, Σq² and Σq·k of one half of a step; arrays for many steps."""

    requests: Count
    tokens: Count
    context: Count
    squares: Count
    products: Count


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


def sums(said: Tokens | None, *, decode: bool) -> tuple[Sums | None, tuple[str, ...]]:
    """All five sums of a half from those that were said, and what that takes for granted; None for an empty half.

    Raises:
        Contradiction: no requests have these sums.
    """
    if said is None or not (said.requests or said.tokens):
        return None, ()
    assumed = []
    n, q = said.requests, said.tokens
    if not n:
        n = q if decode and q else 1
        assumed.append(ONE_TOKEN if decode else ONE_PROMPT)
    if not q:
        if not decode:
            return None, ()
        q = n
        assumed.append(ONE_TOKEN)
    _check(said, n, q)
    alike = n == 1 or q == n
    if said.squares is None and not alike:
        assumed.append(EQUAL)
    squares = q * q / n if said.squares is None else float(said.squares)
    if said.context is None and said.products is None:
        assumed.append(NO_CONTEXT if decode else NO_PREFIX)
        return Sums(n, q, q, squares, squares), tuple(dict.fromkeys(assumed))
    if said.context is None:
        if n > 1 and said.products != said.squares:
            assumed.append(EQUAL)
        context = float(q) if said.products == said.squares else (said.products or 0) * n / q
    else:
        context = float(said.context)
    products = said.products
    if products is None and not alike and context > q:
        assumed.append(EQUAL)
    return (
        Sums(n, q, context, squares, squares + q * (context - q) / n if products is None else products),
        tuple(dict.fromkeys(assumed)),
    )


def _check(said: Tokens, n: int, q: int) -> None:
    given = [x for x in (n, q, said.context, said.squares, said.products) if x is not None]
    k, squares, products = said.context, said.squares, said.products
    fine = (
        all(0 < x < _MOST for x in given)
        and q >= n
        and (k is None or k >= q)
        and (squares is None or q * q <= squares * n <= q * q * n)
        and (products is None or products * n >= q * q)
        and (products is None or squares is None or products >= squares)
        and (products is None or k is None or products <= q * k)
    )
    if not fine:
        raise Contradiction(f"{given}")


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
