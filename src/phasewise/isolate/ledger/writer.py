"""``python -m phasewise.isolate.ledger.writer FOLDER NAME NUMBER``: the child that writes rows as Parquet.

It says on standard output how many frames are on disk, first of all that it is ready for frame NUMBER. When standard
input ends, however that came about, what is left is written.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import msgspec

from phasewise.isolate.ledger.parts import Parts
from phasewise.isolate.ledger.schema import PARTS, Frame

EVERY_S = 0.25
"""Rows are written at most this long after they came."""

_READ = 1 << 20
_LOWEST = 19
_LONGEST = 300
"""Characters of why, of which a line is made."""


def main(arguments: list[str]) -> int:
    """Write until standard input ends; what goes wrong is one line on standard output, for the parent."""
    folder, name, number = Path(arguments[0]) / PARTS, arguments[1], int(arguments[2])
    _yield()
    try:
        folder.mkdir(exist_ok=True)
        parts = Parts(folder, name, number)
        _say(number)
        for frames in _read(sys.stdin.fileno()):
            for frame in frames:
                parts.add(frame)
            if not frames:
                parts.write()
                _say(parts.number)
    except (OSError, msgspec.DecodeError, duckdb.Error, MemoryError) as error:
        _say(" ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())[:_LONGEST])
        return 1
    return 0


def _yield() -> None:
    """Take no core from an engine of this machine: the parent keeps what it handed over until it is written."""
    with suppress(OSError):
        os.nice(_LOWEST)
    with suppress(OSError):  # where sessions are scheduled against each other, nice alone does nothing
        Path("/proc/self/autogroup").write_text(str(_LOWEST))


def _say(what: int | str) -> None:
    with suppress(BrokenPipeError):  # nobody listens any more; what came is written all the same
        os.write(sys.stdout.fileno(), f"{what}\n".encode())


def _read(fileno: int) -> Iterator[list[Frame]]:
    """Frames as they come, and nothing whenever it is time to write; a frame that was cut short is dropped."""
    decoder, held = msgspec.msgpack.Decoder(Frame), bytearray()
    due: float | None = None
    while True:
        wait = None if due is None else max(0.0, due - time.monotonic())
        data = os.read(fileno, _READ) if select.select([fileno], [], [], wait)[0] else None
        if data:
            held += data
            found = []
            while len(held) >= 4 and len(held) >= 4 + (size := int.from_bytes(held[:4], "little")):
                found.append(decoder.decode(bytes(held[4 : 4 + size])))
                del held[: 4 + size]
            if found:
                yield found
                due = due or time.monotonic() + EVERY_S
        if data == b"" or (due is not None and time.monotonic() >= due):
            yield []
            due = None
        if data == b"":
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
