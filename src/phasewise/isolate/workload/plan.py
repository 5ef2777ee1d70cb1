"""The plan: which request is sent when and by whom, within its bounds. The same in every process that reads it."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.engines.base import Piece
from phasewise.isolate.workload.arrivals import Arrivals, Times
from phasewise.isolate.workload.shapes import Shape, Tokens, draw

Keys = NDArray[np.int64]

_OWN, _SHARED = 0, 1
"""Name spaces of pieces: a request's own tokens, and blocks that several prompts begin with."""


WARMUP_S = 600.0
"""No warm-up request is sent later than this."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may cost: requests, tokens (prompts and whole answers together), and seconds in which it sends."""

    requests: int = 10_000
    tokens: int = 10_000_000
    seconds: float = 60.0


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """Shared prefixes: ids of all prompts' blocks, one request after the other.

    ``ends`` (n,) is where each request's ids end. Equal ids are equal blocks of ``tokens`` tokens; the last block of a
    prompt may be shorter.
    """

    ids: NDArray[np.uint64]
    ends: Keys
    tokens: int

    def of(self, index: int) -> list[int]:
        """The ids of one request."""
        return [int(i) for i in self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, one element of each array.

    Attributes:
        keys: their numbers in the whole plan, ascending; row i of every array is request ``keys[i]``.
        prompt, answer: their tokens.
        due_s: when each is to be sent, seconds from the start; None in a closed loop.
        users: of a closed loop: request k belongs to user k modulo ``users`` and is sent when that user's one before
            it has ended. 0 in an open loop.
        seconds: nothing is sent later than this.
        salt: makes the prompts those of this run, so that no cache has seen them.
        blocks: shared prefixes.
        texts: the prompts' own words, where a log has them; they are sent instead of random tokens.
        cut: what the bounds took away, in words; empty for nothing.
    """

    keys: Keys
    prompt: Tokens
    answer: Tokens
    due_s: Times | None
    users: int = 0
    seconds: float
    salt: int
    blocks: Blocks | None = None
    texts: tuple[str, ...] = ()
    cut: str = ""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def tokens(self) -> tuple[int, int]:
        """Of all prompts, and of all answers when each is as long as it may be."""
        return int(self.prompt.sum()), int(self.answer.sum())

    def user(self, index: int) -> int | None:
        """Whose request the ``index``-th is; None in an open loop."""
        return int(self.keys[index]) % self.users if self.users else None

    def share(self, worker: int, workers: int) -> Plan:
        """What one of ``workers`` sends: every so-manieth request, or user of a closed loop."""
        by = self.keys % self.users if self.users else self.keys
        return self.take(np.flatnonzero(by % workers == worker))

    def take(self, places: Keys) -> Plan:
        """Only the requests at ``places``."""
        blocks = self.blocks
        if blocks is not None:
            begins = np.concatenate([[0], blocks.ends])[places]
            counts = blocks.ends[places] - begins
            taken = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
            ids = blocks.ids[taken + np.arange(len(taken))]
            blocks = Blocks(ids=ids, ends=np.cumsum(counts), tokens=blocks.tokens)
        return msgspec.structs.replace(
            self,
            keys=self.keys[places],
            prompt=self.prompt[places],
            answer=self.answer[places],
            due_s=None if self.due_s is None else self.due_s[places],
            blocks=blocks,
            texts=tuple(self.texts[i] for i in places.tolist()) if self.texts else (),
        )

    def pieces(self, index: int) -> list[Piece]:
        """What the ``index``-th prompt is made of: shared blocks first, then tokens of its own."""
        left, pieces = int(self.prompt[index]), []
        for block in self.blocks.of(index) if self.blocks else ():
            size = min(left, self.blocks.tokens if self.blocks else 0)
            if size <= 0:
                break
            pieces.append(Piece((self.salt, _SHARED, block), size))
            left -= size
        if left > 0:
            pieces.append(Piece((self.salt, _OWN, int(self.keys[index])), left))
        return pieces


def closed(users: int, shapes: tuple[Shape, ...], bounds: Bounds, *, seed: int, salt: int) -> Plan:
    """``users`` that each send their next request when the one before has ended."""
    prompt, answer = draw(shapes, bounds.requests, np.random.default_rng(seed))
    return bounded(_plan(prompt, answer, None, bounds, salt, users), bounds)


def open_loop(arrivals: Arrivals, shapes: tuple[Shape, ...], bounds: Bounds, *, seed: int, salt: int) -> Plan:
    """Requests that are sent when they are due, whatever became of those before."""
    random = np.random.default_rng(seed)
    due = arrivals.due(bounds.seconds, bounds.requests + 1, random)  # one more tells whether the bound cut
    prompt, answer = draw(shapes, len(due), random)
    return bounded(_plan(prompt, answer, due, bounds, salt), bounds)


def warmup(plan: Plan, count: int) -> Plan:
    """The first ``count`` requests of ``plan`` with other content, sent one after the other."""
    first = plan.take(np.arange(min(count, len(plan))))
    return msgspec.structs.replace(
        first, keys=np.arange(len(first)), due_s=None, users=1, seconds=WARMUP_S, salt=plan.salt + (1 << 60)
    )


def bounded(plan: Plan, bounds: Bounds) -> Plan:
    """``plan`` up to its bounds; an open loop then ends where its last request is due."""
    fits = np.cumsum(plan.prompt + plan.answer) <= bounds.tokens
    cut = []
    if not fits.all():
        cut.append(f"--tokens {bounds.tokens:,}")
    if plan.due_s is not None and (late := plan.due_s >= bounds.seconds).any():
        fits &= ~late
        cut.append(f"--duration {bounds.seconds:g}s")
    count = min(bounds.requests, int(fits.sum()))
    if count < fits.sum():
        cut.append(f"--requests {bounds.requests:,}")
    taken = plan.take(np.flatnonzero(fits)[:count])
    return msgspec.structs.replace(taken, seconds=bounds.seconds, cut=" and ".join(cut))


def within(plan: Plan, context: int | None) -> tuple[Plan, int]:
    """``plan`` without the requests that the server's context cannot hold, and how many those were."""
    if context is None:
        return plan, 0
    fits = plan.prompt + plan.answer <= context
    return (plan, 0) if fits.all() else (plan.take(np.flatnonzero(fits)), int((~fits).sum()))


def _plan(prompt: Tokens, answer: Tokens, due: Times | None, bounds: Bounds, salt: int, users: int = 0) -> Plan:
    return Plan(
        keys=np.arange(len(prompt)),
        prompt=prompt,
        answer=answer,
        due_s=due,
        users=users,
        seconds=bounds.seconds,
        salt=salt,
    )
