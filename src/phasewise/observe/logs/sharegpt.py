"""ShareGPT: one JSON array of conversations, each with ``conversations: [{from, value}, ...]``; no times, no counts.

The form of the datasets on Hugging Face that other load tools sample from. As they do (vLLM, SGLang), the first turn is
the prompt and the second the answer; later turns are left out.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from phasewise.errors import InputError
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.rows import Whole

CHARACTERS_PER_TOKEN = 4.0
"""Of English text, by the usual rule of thumb: assumed, until a server has counted."""

LARGEST = 2 << 30
"""Bytes of a file; the published ones have some 650 MB."""


class _Turn(msgspec.Struct, gc=False):
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn] = msgspec.field(default_factory=list)


def sharegpt(path: Path) -> tuple[Whole, Whole, tuple[str, ...]] | None:
    """Estimated prompt and answer tokens, and the prompts' words; None for a file that is no JSON array.

    Raises:
        InputError: a JSON array of something else, or one that cannot be read.
    """
    data = _array(path)
    if data is None:
        return None
    try:
        found = msgspec.json.decode(data, type=list[_Conversation])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(
            f"{shown(path)} is a JSON array, but not ShareGPT's ({str(error).replace('`', '')}): it takes objects with "
            "conversations: [{from, value}, ...]; of request logs, write one object per line (jq -c '.[]')."
        ) from None
    pairs = [(one.conversations[0].value, one.conversations[1].value) for one in found if len(one.conversations) > 1]
    pairs = [(prompt, answer) for prompt, answer in pairs if prompt.strip() and answer.strip()]
    if not pairs:
        raise InputError(f"{shown(path)} holds no conversation with a prompt and an answer: name a ShareGPT file.")
    return _estimated(p for p, _ in pairs), _estimated(a for _, a in pairs), tuple(prompt for prompt, _ in pairs)


def _estimated(texts: Iterable[str]) -> Whole:
    counts = [len(text) / CHARACTERS_PER_TOKEN for text in texts]
    return np.maximum(1, np.rint(counts)).astype(np.int64)


def _array(path: Path) -> bytes | None:
    """The bytes of a file, plain or gzip, that begins with ``[``."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            if not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                return None
            file.seek(0)
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error):
        return None  # the reader of lines says what is wrong with it
    if len(data) > LARGEST:
        raise InputError(f"{shown(path)} has over {LARGEST >> 30} GiB: cut it, no run sends as much.")
    return data.removeprefix(b"\xef\xbb\xbf")
