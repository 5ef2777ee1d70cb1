"""The events of one answer, column by column, and the tokens at its ends, as far as they have come."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.engines.exchange import Arrivals, Bools, Ints, blanks_are, joined
from phasewise.engines.glance import SHOWN, THINKING, UNSAID, Glance


class Ends(NamedTuple):
    """Times of the first and the last of some tokens, ns, and the number of the first's read, with the tokens in it."""

    first: int
    last: int
    read: int
    in_read: int


class Outcome(NamedTuple):
    """What an answer came to.

    ``arrivals`` are the events that nobody took before, ``ends`` is None without any token, ``answered`` is as
    `Exchange.answered_at`, ns.
    """

    arrivals: Arrivals
    ends: Ends | None
    answered: int


class Tally:
    """Counts events as they come.

    Attributes:
        tokens: those known so far, one for each event that shows something and has no count.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._parts: list[Arrivals] = []
        self._running: int | None = None
        self._counted = self._thought = False
        self._told: Ends | None = None
        self._open: Ends | None = None
        self._blanks = self._answered = 0

    def add(self, at: Ints, read: NDArray[np.int32], found: Glance) -> Arrivals:
        """Take events; those that say nothing about tokens (a role, a usage block) are left out of what is returned."""
        kinds = np.array(found.kinds, np.uint8)
        some = np.flatnonzero(kinds)
        kind, at, read = kinds[some], at[some], read[some]
        tokens = self._counts(np.array(found.ids, np.int32)[some], np.array(found.running, np.int64)[some])
        part = Arrivals(at=at, read=read, tokens=tokens, kind=kind)
        self._told = _and(self._told, part, part.are_tokens)
        if some.size:
            self._watch(part)
            self._parts.append(part)
        return part

    def forget(self) -> None:
        """Keep no events from before now; their ends stay known."""
        self._parts.clear()

    def outcome(self, completion_tokens: int | None) -> Outcome:
        """What it came to, given the server's final count."""
        arrivals = joined(self._parts)
        blanks = blanks_are(completion_tokens, self.tokens, self._blanks)
        if self._blanks and blanks is not None:
            arrivals = msgspec.structs.replace(
                arrivals, tokens=np.where(arrivals.are_open, blanks, arrivals.tokens).astype(np.int32)
            )
        ends = _both(self._told, self._open) if blanks else self._told
        answered = self._answered if self._thought or ends is None else ends.first
        return Outcome(arrivals, ends, answered)

    def _counts(self, ids: NDArray[np.int32], running: Ints) -> NDArray[np.int32]:
        """Tokens of some events: by their ids, else by how a count that comes with each of them grew."""
        if not ids.size:
            return ids
        if self._running is None:
            # A count that starts with the first token is a running one; others come with the end.
            self._counted, self._running = bool(running[0] != UNSAID), 0
        if not self._counted:
            return ids
        totals = np.maximum.accumulate(np.maximum(running, self._running))
        grown = np.diff(totals, prepend=self._running)
        self._running = int(totals[-1])
        return np.where((ids == UNSAID) & (running != UNSAID), grown, ids).astype(np.int32)

    def _watch(self, part: Arrivals) -> None:
        is_open = part.are_open
        if is_open.any():
            self._blanks += int(np.count_nonzero(is_open))
            self._open = _and(self._open, part, is_open)
        self.tokens += int(np.where(part.tokens == UNSAID, 1, part.tokens)[~is_open].sum())
        thinking = part.kind & THINKING != 0
        self._thought = self._thought or bool(thinking.any())
        if not self._answered:
            spoken = np.flatnonzero((part.kind & SHOWN != 0) & ~thinking & part.are_tokens)
            self._answered = int(part.at[spoken[0]]) if spoken.size else 0


def _and(so_far: Ends | None, part: Arrivals, which: Bools) -> Ends | None:
    """The ends of what was there and of ``which`` of the events that follow it."""
    places = np.flatnonzero(which)
    if not places.size:
        return so_far
    last = int(part.at[places[-1]])
    if so_far is None:
        so_far = Ends(int(part.at[places[0]]), last, int(part.read[places[0]]), 0)
    same = places[part.read[places] == so_far.read]
    return so_far._replace(last=last, in_read=so_far.in_read + int(np.maximum(part.tokens[same], 1).sum()))


def _both(one: Ends | None, other: Ends | None) -> Ends | None:
    """The ends of two sorts of tokens of one answer."""
    if one is None or other is None:
        return one or other
    first = min(one, other)
    together = one.read == other.read
    return Ends(
        first.first, max(one.last, other.last), first.read, one.in_read + other.in_read if together else first.in_read
    )
