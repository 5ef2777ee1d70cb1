"""The JSON document of a Kineto trace, read once and in pieces: lists of events, and every other key.

Events are decoded some megabytes at a time: what is read is cut behind the last event that seems whole, and the cut was
right when the piece decodes as a list. A piece that does not is mended, and if need be taken event by event (mend.py).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from phasewise.observe.traces.readers.kineto.event import Decoders, Event
from phasewise.observe.traces.readers.kineto.mend import mended, singly

_CUT = re.compile(rb'}\s*,\s*(?={\s*"(?:ph|name|cat|ts|pid|tid|args|dur|id|s|bp)")')
"""Between two events."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*(?=\[)')

_WINDOW = 1 << 16
"""Bytes in which a cut is looked for first, from the end, and a value of the header, from the start."""

_LIMIT = 16 << 20
"""Bytes that no single event, and no value of the header, has."""

_VALUE = json.JSONDecoder(strict=False)
_SPACE = b" \t\r\n\xef\xbb\xbf"


class Document:
    """Walks a document.

    Attributes:
        header: every key but ``traceEvents``.
        damage: what was wrong and got past, counted by kind (mend.py).
        kind: ``object``, ``list``, ``other`` or ``empty``.
        lists: how many lists of events there were.
        complete: False when it breaks off.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.header: dict[str, Any] = {}
        self.damage: Counter[str] = Counter()
        self.kind = "empty"
        self.lists = 0
        self.complete = False
        self._blocks = blocks
        self._data = b""
        self._decoders = Decoders(float)
        self._piece = b""

    def events(self) -> Iterator[list[Event]]:
        """Every event, in lists of some thousand."""
        first = self._next()
        if first == b"[":
            self.kind = "list"
            self.complete = yield from self._list()
        elif first == b"{":
            self.kind = "object"
            yield from self._object()
        elif first:
            self.kind = "other"
        if self.complete and self._next().strip(b"\0"):
            self.damage["behind"] = 1

    def exactly(self) -> list[Event]:
        """The events that came last once more, with the digits of their times; those to come have theirs too."""
        self._decoders = Decoders(Decimal)
        return self._decoded(self._piece)

    def _object(self) -> Iterator[list[Event]]:
        self._data = self._data[1:]
        while (first := self._next()) not in (b"}", b""):
            if first == b",":
                self._data = self._data[1:]
                continue
            key = self._value()
            if isinstance(key, str) and self._next() == b":":
                self._data = self._data[1:]
                if key == "traceEvents" and self._next() == b"[":
                    if not (yield from self._list()):
                        return
                    continue
                value = self._value()
                if value is not _NOTHING:
                    self.header[key] = value
                    continue
            if not self._seek():
                return
            self.damage["header"] += 1
        self.complete = first == b"}"
        self._data = self._data[1:]

    def _more(self) -> bool:
        block = next(self._blocks, b"")
        self._data += block
        return bool(block)

    def _next(self) -> bytes:
        """The next byte that is no space; b"" at the end."""
        while True:
            self._data = self._data.lstrip(_SPACE)
            if self._data or not self._more():
                return self._data[:1]

    def _value(self) -> Any:
        """The value that comes next; `_NOTHING` when it is none."""
        self._next()
        window = _WINDOW
        while True:
            while len(self._data) < window and self._more():
                pass
            text = self._data[:window].decode("utf-8", "surrogateescape")
            try:
                value, end = _VALUE.raw_decode(text)
            except (ValueError, RecursionError):
                end = len(text)
            if end < len(text):
                self._data = self._data[len(text[:end].encode("utf-8", "surrogateescape")) :]
                return value
            window *= 4
            if len(self._data) < window // 4 or window > _LIMIT:
                return _NOTHING

    def _seek(self) -> bool:
        """Go on to the key of the events, over what cannot be read."""
        while not (found := _EVENTS.search(self._data)):
            self._data = self._data[-_WINDOW:]
            if not self._more():
                return False
        self._data = self._data[found.start() :]
        return True

    def _list(self) -> Generator[list[Event], None, bool]:
        """The events of a list; whether it came to its end."""
        self._data = self._data[1:]
        self.lists += 1
        while True:
            more = self._more()
            cut = _last_cut(self._data)
            if cut:
                piece, rest = self._data[: cut[0]], self._data[cut[1] :]
                try:
                    events = self._decoded(piece)
                except (ValueError, RecursionError):
                    pass
                else:
                    self._data = rest
                    yield events
                    continue
            elif more and len(self._data) < _LIMIT:
                continue
            if not more or not cut:
                piece, rest = self._data, b""
            done, events, left = self._slowly(piece)
            yield events
            if done:
                self._data = left + rest
                return True
            if not more:
                return False
            if len(left) > _LIMIT:
                self.damage["lost"] += 1
                left = b""
            self._data = b", ".join(part for part in (left, rest) if part)

    def _slowly(self, piece: bytes) -> tuple[bool, list[Event], bytes]:
        """See `singly`; a piece that mending makes whole is decoded as one."""
        piece, wrong = mended(piece)
        self.damage.update(wrong)
        try:
            return False, self._decoded(piece), b""
        except (ValueError, RecursionError):
            return singly(piece, self.damage)

    def _decoded(self, piece: bytes) -> list[Event]:
        self._piece = piece
        whole = b"".join((b"[", piece, b"]"))
        try:
            return self._decoders.known.decode(whole)
        except msgspec.ValidationError:
            return self._decoders.whole.decode(whole)


_NOTHING = object()


def _last_cut(data: bytes) -> tuple[int, int] | None:
    """Where the last event that another one follows ends, and where that other one starts."""
    window = _WINDOW
    while True:
        start = max(0, len(data) - window)
        found = None
        for found in _CUT.finditer(data, start):  # noqa: B007
            pass
        if found:
            return found.start() + 1, found.end()
        if not start:
            return None
        window *= 8
