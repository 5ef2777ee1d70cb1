"""Newline-delimited JSON, incrementally: bytes in as they arrive, whole lines out, as `sse.Parser` gives events."""

from __future__ import annotations

from itertools import accumulate

from phasewise.engines import sse
from phasewise.engines.dialect import Wire
from phasewise.errors import BrokenStream


class Lines:
    """Cuts a byte stream into lines; empty ones are no events.

    Attributes:
        broken: always None: a line that tells of an error is told apart when it is read.
        between: always False: see `steady`, which knows server-sent events.
    """

    broken: bytes | None = None
    between = False

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[sse.Event]:
        """Take the next bytes and return the lines that they complete, as events without a name.

        Raises:
            BrokenStream: a line over ``sse.MAX_EVENT`` bytes.
        """
        return [sse.Event(b"", line) for line in self.cut(data)[0]]

    def cut(self, data: bytes) -> tuple[list[bytes], list[int]]:
        """The lines that ``data`` completes, and how many bytes of it each needed to be complete."""
        *whole, rest = data.split(b"\n")
        ends = list(accumulate(len(line) + 1 for line in whole))
        if whole:
            whole[0] = bytes(self._rest) + whole[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > sse.MAX_EVENT:
            raise BrokenStream(f"The stream holds a line over {sse.MAX_EVENT >> 20} MiB: this is no answer of a model.")
        kept = [(line.strip(), end) for line, end in zip(whole, ends, strict=True) if line.strip()]
        return [line for line, _ in kept], [end for _, end in kept]

    def finish(self) -> list[sse.Event]:
        """Return what the end of the stream completes."""
        return self.feed(b"\n")


def framing(wire: Wire) -> sse.Parser | Lines:
    """What cuts an answer of ``wire`` into events."""
    return Lines() if wire.by_line else sse.Parser()
