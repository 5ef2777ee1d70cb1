"""The events of one answer, column by column, and the tokens at its ends, as far as they have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.engines.dialect import BLANK, SHOWN, THINKING
from phasewise.engines.exchange import Arrivals, Ints, blanks_are, joined
from phasewise.engines.glance import UNSAID, Glance


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
        """Take events; those that say nothing about tokens (a role, a usage block) are left out of what is returned.

        Batches are small: lists and C loops over them are quicker here than arrays.
        """
        kinds, ids, running = found.kinds, found.ids, found.running
        if 0 in kinds:
            some = [place for place, kind in enumerate(kinds) if kind]
            at, read = at[some], read[some]
            kinds, ids, running = ([column[place] for place in some] for column in (kinds, ids, running))
        tokens = self._counts(ids, running)
        part = Arrivals(at=at, read=read, tokens=np.array(tokens, np.int32), kind=np.array(kinds, np.uint8))
        if kinds:
            self._parts.append(part)
            self._watch(part, kinds, tokens)
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

    def _counts(self, ids: list[int], running: list[int]) -> list[int]:
        """Tokens of some events: by their ids, else by how a count that comes with each of them grew."""
        if self._running is None and running:
            # A count that starts with the first token is a running one; others come with the end.
            self._counted, self._running = running[0] != UNSAID, 0
        if not self._counted:
            return ids
        tokens, total = [], self._running or 0
        for known, now in zip(ids, running, strict=True):
            tokens.append(max(0, now - total) if known == UNSAID != now else known)
            total = max(total, now)
        self._running = total
        return tokens

    def _watch(self, part: Arrivals, kinds: list[int], tokens: list[int]) -> None:
        told: list[int] | range = range(len(kinds))
        if BLANK in kinds or 0 in tokens:
            told = np.flatnonzero(part.are_tokens).tolist()
            blank = np.flatnonzero(part.are_open).tolist()
            self._blanks += len(blank)
            self._open = _and(self._open, part, tokens, blank)
            self.tokens -= len(blank)  # they are counted below, as whatever has no count
        unsaid = tokens.count(UNSAID)
        self.tokens += sum(tokens) + unsaid - UNSAID * unsaid
        self._told = _and(self._told, part, tokens, told)
        self._thought = self._thought or SHOWN | THINKING in kinds
        if not self._answered:
            spoken = (place for place in told if kinds[place] == SHOWN)
            self._answered = next((int(part.at[place]) for place in spoken), 0)


def _and(so_far: Ends | None, part: Arrivals, tokens: list[int], places: Sequence[int]) -> Ends | None:
    """The ends of what was there and of the events at ``places`` that follow it."""
    if not places:
        return so_far
    at, read = part.at, part.read
    if so_far is None:
        so_far = Ends(int(at[places[0]]), 0, int(read[places[0]]), 0)
    in_read = so_far.in_read
    for place in places:
        if read[place] != so_far.read:
            break
        in_read += max(tokens[place], 1)
    return so_far._replace(last=int(at[places[-1]]), in_read=in_read)


def _both(one: Ends | None, other: Ends | None) -> Ends | None:
    """The ends of two sorts of tokens of one answer."""
    if one is None or other is None:
        return one or other
    first = min(one, other)
    in_read = one.in_read + other.in_read if one.read == other.read else first.in_read
    return Ends(first.first, max(one.last, other.last), first.read, in_read)
