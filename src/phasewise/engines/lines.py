"""Newline-delimited JSON, incrementally: bytes in as they arrive, whole lines out, as `sse.Parser` gives events."""

from __future__ import annotations

from phasewise.engines import sse
from phasewise.engines.dialect import Wire
from phasewise.errors import BrokenStream


class Lines:
    """Cuts a byte stream into lines; empty ones are no events.

    Attributes:
        broken: always None: a line that tells of an error is told apart when it is read.
    """

    broken: bytes | None = None

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def pending(self) -> bool:
        """Whether a part of a line waits for the rest."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[sse.Event]:
        """Take the next bytes and return the lines that they complete, as events without a name.

        Raises:
            BrokenStream: a line over ``sse.MAX_EVENT`` bytes.
        """
        return [sse.Event(b"", line) for line in self.data(data)]

    def data(self, data: bytes) -> list[bytes]:
        """The same without the events around the lines."""
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > sse.MAX_EVENT:
                raise BrokenStream(
                    f"The stream holds a line over {sse.MAX_EVENT >> 20} MiB: this is no answer of a model."
                )
            return []
        *lines, rest = (bytes(self._rest) + data).split(b"\n")
        self._rest = bytearray(rest)
        return [line for line in map(bytes.strip, lines) if line]

    def finish(self) -> list[sse.Event]:
        """Return what the end of the stream completes."""
        return self.feed(b"\n")


def framing(wire: Wire) -> sse.Parser | Lines:
    """What cuts an answer of ``wire`` into events."""
    return Lines() if wire.by_line else sse.Parser()
