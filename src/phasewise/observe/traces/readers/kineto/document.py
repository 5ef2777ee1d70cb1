"""The JSON document of a Kineto trace, read in order and in pieces: lists of events, and every other key.

Events are decoded some megabytes at a time: what is read is cut behind the last event that seems whole, and the cut was
right when the piece decodes as a list. A piece that does not decode is mended (mend.py), then taken event by event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from phasewise.observe.traces.readers.kineto.event import EXACT_BELOW, Event, ExactEvent
from phasewise.observe.traces.readers.kineto.mend import Damage, mended, singly

_CUT = re.compile(rb'}\s*,\s*(?={\s*"(?:ph|name|cat|ts|pid|tid|args|dur|id|s|bp)")')
"""Between two events."""

_TAIL = 1 << 16
"""Bytes at the end of a piece in which a cut is looked for first."""

_LIMIT = 64 << 20
"""Bytes that no single event, and no other value of the document, has."""

_QUICK = msgspec.json.Decoder(list[Event], strict=False)
_EXACT = msgspec.json.Decoder(list[ExactEvent], strict=False)
_ANY = json.JSONDecoder(strict=False)
_SPACE = b" \t\r\n\xef\xbb\xbf"


class Document:
    """Walks a document once.

    Attributes:
        header: every key but ``traceEvents``.
        damage: what was wrong and got past.
        shape: what the document is: ``object``, ``list``, ``empty`` or ``text``.
        complete: False when it breaks off.
        lists: how many lists of events it has.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.header: dict[str, Any] = {}
        self.damage = Damage()
        self.shape = "empty"
        self.complete = False
        self.lists = 0
        self._blocks = blocks
        self._data = b""
        self._ended = False
        self._exact = False

    def events(self) -> Iterator[list[Event]]:
        """Every event, in lists of some thousand."""
        first = self._next()
        if first == b"[":
            self.shape = "list"
            yield from self._list()
        elif first == b"{":
            self.shape = "object"
            yield from self._object()
        elif first:
            self.shape = "text"

    def _object(self) -> Iterator[list[Event]]:
        self._data = self._data[1:]
        while self._next() == b'"':
            key, known = self._value()
            if not known or self._next() != b":":
                return
            self._data = self._data[1:]
            if key == "traceEvents" and self._next() == b"[":
                yield from self._list()
            else:
                value, known = self._value()
                if not known:
                    return
                self.header[str(key)] = value
            if self._next() == b",":
                self._data = self._data[1:]
        self.complete = self._next() == b"}"

    def _more(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            self._ended = True
            return False
        self._data += block
        return True

    def _next(self) -> bytes:
        """The next byte that is no space; b"" at the end."""
        while True:
            self._data = self._data.lstrip(_SPACE)
            if self._data or not self._more():
                return self._data[:1]

    def _value(self) -> tuple[Any, bool]:
        """The value that comes next, and whether there was one."""
        window = _TAIL
        self._next()
        while True:
            text = self._data[:window].decode("utf-8", "surrogateescape")
            try:
                value, end = _ANY.raw_decode(text)
            except (ValueError, RecursionError):
                end = len(text)
            if end < len(text):
                self._data = self._data[len(text[:end].encode("utf-8", "surrogateescape")) :]
                return value, True
            window *= 4
            if len(self._data) < window and not self._more() or window > _LIMIT:
                return None, False

    def _list(self) -> Iterator[list[Event]]:
        self._data = self._data[1:]
        self.lists += 1
        while True:
            more = self._more()
            if cut := _last_cut(self._data):
                start, end = cut
                if (some := self._decoded(self._data[:start])) is not None:
                    self._data = self._data[end:]
                    yield some
                    continue
            if cut or not more or len(self._data) > _LIMIT:
                done, some, self._data = singly(self._data, self.damage, last=not more)
                yield some
                if done:
                    self.complete = self.shape == "list"
                    return
                if not more or len(self._data) > _LIMIT:
                    self._data = b""
                    self._blocks = iter(())
                    return

    def _decoded(self, piece: bytes) -> list[Event] | None:
        try:
            return self._decode(piece)
        except (ValueError, RecursionError):
            try:
                return self._decode(mended(piece, self.damage))
            except (ValueError, RecursionError):
                return None

    def _decode(self, piece: bytes) -> list[Event]:
        whole = b"".join((b"[", piece, b"]"))
        if not self._exact:
            events = _QUICK.decode(whole)
            if max((event.ts for event in events), default=0.0) < EXACT_BELOW:
                return events
            self._exact = True
        exact: list[Any] = _EXACT.decode(whole)
        return exact


def _last_cut(data: bytes) -> tuple[int, int] | None:
    """Where the last event before another one ends, and where the other one starts."""
    window = _TAIL
    while True:
        start = max(0, len(data) - window)
        last = None
        for last in _CUT.finditer(data, start):
            pass
        if last:
            # The event ends with its brace, which the cut begins with.
            return last.start() + 1, last.end()
        if not start:
            return None
        window *= 8
