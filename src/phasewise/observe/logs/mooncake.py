"""Mooncake's traces: one JSON object per line with ``timestamp``, ``input_length``, ``output_length``, ``hash_ids``.

https://github.com/kvcache-ai/Mooncake (FAST '25): timestamps in milliseconds from the start; an id stands for a
block of 512 prompt tokens and all that comes before it, so an id that was seen before is a block that a prefix cache
would have.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from phasewise.errors import InputError
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.rows import LARGEST, Block, Head, Ids, Log, Rows, Whole

_Tokens = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
_TOO_LARGE = 2**64 - 1
_NO_IDS: Ids = np.zeros(0, np.uint64)


class _Request(msgspec.Struct, gc=False):
    timestamp: float
    input_length: _Tokens
    output_length: _Tokens
    hash_ids: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def mooncake(head: Head) -> Log | None:
    """The log, if its lines are JSON objects.

    Raises:
        InputError: one JSON array, which cannot be read line by line.
    """
    if head.text.startswith("["):
        raise InputError(f"{shown(head.path)} is one JSON array: write one object per line, e.g. with jq -c '.[]'.")
    if not head.text.startswith("{"):
        return None
    decoder = msgspec.json.Decoder(_Request)

    def rows(block: Block) -> Rows:
        try:
            found = decoder.decode_lines(block.text)
            return _rows(found, _ids(found))
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return _careful(decoder, head, block)

    return Log("Mooncake JSON lines", head.line, rows)


def _careful(decoder: msgspec.json.Decoder[_Request], head: Head, block: Block) -> Rows:
    """The rows of ``block``, a line at a time.

    Raises:
        InputError: a line that is no request; names it.
    """
    found, ids = [], []
    for line, text in enumerate(block.text.split(b"\n"), block.line):
        if not text.strip():
            continue
        try:
            found.append(decoder.decode(text))
            ids.append(_ids(found[-1:]))
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise InputError(
                f"{shown(head.path)} line {line:,} is no Mooncake request ({_reason(error)}): it takes timestamp, "
                "input_length, output_length and, if known, hash_ids; correct or remove that line."
            ) from None
    known = [one for one in ids if one is not None]
    return _rows(found, np.concatenate([_NO_IDS, *known]) if len(known) == len(found) else None)


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).replace("`", "")


def _rows(found: list[_Request], block_ids: Ids | None) -> Rows:
    n = len(found)
    return Rows(
        prompt=np.fromiter([one.input_length for one in found], np.int64, n),
        answer=np.fromiter([one.output_length for one in found], np.int64, n),
        time=np.fromiter([one.timestamp for one in found], np.float64, n) / 1e3,
        clock="seconds",
        block_ids=block_ids,
        block_counts=None if block_ids is None else _counts(found),
    )


def _counts(found: list[_Request]) -> Whole:
    """How many block ids each request has."""
    lists = [bytes(one.hash_ids) for one in found if isinstance(one.hash_ids, msgspec.Raw)]
    counts = [ids.count(b",") + 1 if ids.translate(None, b"[] \t\r\n") else 0 for ids in lists]
    return np.array(counts, np.int64)


def _ids(found: list[_Request]) -> Ids | None:
    """The block ids of all requests, one after the other; None where a request has none.

    Raises:
        ValueError: not lists of whole numbers from 0 up, or (only if there are several) lists that need care.
    """
    lists = [one.hash_ids for one in found if isinstance(one.hash_ids, msgspec.Raw)]
    if len(lists) < len(found):
        return None
    text = b",".join([ids for ids in lists if len(ids) > len("[]")]).translate(None, b"[] \t\r\n")
    if not text:
        return _NO_IDS
    try:
        ids = np.fromstring(text, np.uint64, sep=",")
    except (ValueError, DeprecationWarning):
        ids = _NO_IDS
    if b"-" in text or len(ids) != text.count(b",") + 1:
        raise ValueError("hash_ids is not a list of whole numbers")
    if int(ids.max()) == _TOO_LARGE:
        raise ValueError("an id of hash_ids needs more than 64 bits")
    return ids
