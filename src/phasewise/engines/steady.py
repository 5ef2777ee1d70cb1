"""A steady stream, cut at once: nothing but HTTP chunks, each of them one event, each event one line of data.

Engines send their tokens so. `cut` proves of the bytes of many reads that all of them are of this form, by a few
passes in C, and then says what llhttp and `sse.Parser` would have said one after the other; of any other bytes it
says nothing, and those two take them.
"""

from __future__ import annotations

from io import BytesIO
from itertools import accumulate, repeat
from operator import itemgetter

_LONGEST = 8192
"""Bytes of a line of data; events of tokens are far shorter."""

_HEADS = [b"%x\r\n" % (size + 1) for size in range(_LONGEST)]
"""How the chunk begins that holds a line of data of so many bytes and a blank line ..."""

_FRAMES = [len(head) + size + len(b"\n\r\n") for size, head in enumerate(_HEADS)]
"""... and how long it is in all."""

_PREFIX = b"data: "
_data = itemgetter(slice(len(_PREFIX), -1))


def cut(raw: bytes) -> tuple[list[bytes], list[int]] | None:
    """The data of the events in ``raw``, and where in it the chunk of each ends.

    ``raw`` begins where a chunk and an event do. None: it is not steady, or ends within a chunk.
    """
    # Of a chunk four lines: its size, the data, a blank line that ends the event, and what ends the chunk.
    lines = BytesIO(raw).readlines()
    heads, data = lines[0::4], lines[1::4]
    count = len(data)
    if len(lines) != 4 * count or lines[2::4] != [b"\n"] * count or lines[3::4] != [b"\r\n"] * count:
        return None
    sizes = list(map(len, data))
    try:
        if heads != list(map(_HEADS.__getitem__, sizes)):
            return None
    except IndexError:
        return None
    # A carriage return would end a line of data too.
    if not all(map(bytes.startswith, data, repeat(_PREFIX))) or b"\r" in b"".join(data):
        return None
    return list(map(_data, data)), list(accumulate(map(_FRAMES.__getitem__, sizes)))
