"""Server-sent events, incrementally: bytes in as they arrive, complete events out.

Written to the WHATWG HTML standard, section 9.2.6, with two allowances for what LLM servers send: an event that the end
of the stream cuts off before its blank line still counts, and a line ``error: ...`` is an event named ``error``
(llama.cpp wrote its errors so).
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from phasewise.errors import BrokenStream

MAX_EVENT = 16 * 2**20
"""Bytes that one event may hold; more is no answer of a language model."""

_SHORT = 64 * 2**10
"""Bytes of an event begun: a longer one is not copied again with every read."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """One event: its ``name`` (empty by default) and its ``data``, lines joined by LF, not decoded."""

    name: bytes
    data: bytes


class Parser:
    """Cuts a byte stream into events; how the stream is split into reads changes nothing."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._skip_lf = False
        self._first = True
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self.broken: bytes | None = None

    @property
    def between(self) -> bool:
        """Whether an event is complete and nothing of the next has come."""
        return not (self._first or self._skip_lf or self._buffer or self._name or self._data)

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes and return the events that they complete.

        Raises:
            BrokenStream: an event over ``MAX_EVENT`` bytes.
        """
        return [event for event, _ in self._feed(data)]

    def cut(self, data: bytes) -> tuple[list[bytes], list[int]]:
        """The data of the events that ``data`` completes, and how many bytes of it each needed to be complete.

        It is quick for what LLM servers send, a line of data and a blank one each. An event by which the server breaks
        its answer off is left in ``broken``, and what follows it is dropped.

        Raises:
            BrokenStream: as ``feed``.
        """
        if not self._data and not self._name and len(self._buffer) < _SHORT:
            whole = bytes(self._buffer) + data if self._buffer else data
            end = whole.rfind(b"\n\n")
            if end > 0 and whole.startswith(b"data: ") and b"\r" not in whole:
                events = whole[6:end].split(b"\n\ndata: ")
                if whole.count(b"\n", 0, end) == 2 * len(events) - 2:
                    before = len(self._buffer)
                    self._buffer = bytearray(whole[end + 2 :])
                    self._first = self._skip_lf = False
                    self._searched = 0
                    # Of each event, what is not its data: "data: " and two line ends.
                    sizes = accumulate(map(len, events))
                    return events, [size + 8 * number - before for number, size in enumerate(sizes, 1)]
        found, ends = [], []
        for event, end in self._feed(data):
            if event.name == b"error":
                self.broken = event.data
                break
            found.append(event.data)
            ends.append(end)
        return found, ends

    def finish(self) -> list[Event]:
        """Return what the end of the stream completes."""
        events: list[Event] = []
        if self._buffer:
            self._line(bytes(self._buffer), events)
            self._buffer.clear()
        self._line(b"", events)
        return events

    def _feed(self, data: bytes) -> list[tuple[Event, int]]:
        """Events, and the bytes of ``data`` that completed each."""
        skipped = 0
        if self._skip_lf and data:
            # A CR ended the last line at once; if an LF follows, it belonged to it.
            skipped = int(data.startswith(b"\n"))
            data, self._skip_lf = data[skipped:], False
        buffer = self._buffer
        before = len(buffer) - skipped
        buffer += data
        events: list[Event] = []
        ends: list[int] = []
        start = 0
        while found := _LINE_END.search(buffer, max(start, self._searched)):
            self._line(bytes(buffer[start : found.start()]), events)
            start = found.end()
            if len(events) > len(ends):
                ends.append(found.start() + 1 - before)  # the first byte of a line's end ends it
            self._skip_lf = start == len(buffer) and found[0] == b"\r"
        del buffer[:start]
        self._searched = len(buffer)
        if len(buffer) + self._size > MAX_EVENT:
            raise BrokenStream(f"The stream holds an event over {MAX_EVENT >> 20} MiB: this is no answer of a model.")
        return list(zip(events, ends, strict=True))

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                events.append(Event(self._name, b"\n".join(self._data)))
            self._name, self._data, self._size = b"", [], 0
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"error":
            self._name, field = b"error", b"data"
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif field == b"event":
            self._name = value
