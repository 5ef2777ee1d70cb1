"""Text that somebody else wrote, made safe to show."""

from __future__ import annotations

import unicodedata

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not the JSON wanted; the last for nesting without end."""


def is_text(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8; bytes of the command line or of a file's name need not be."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def clean(text: str, limit: int = 200, *, secret: str = "") -> str:
    """``text`` on one line without control, format or bidirectional characters, at most ``limit`` characters.

    ``secret`` is replaced in it, before it is cut: a part of a key is still a part of a key.
    """
    text = text.replace(secret, "***") if secret else text
    spaced = " ".join(text[: 20 * limit].split())
    kept = "".join(character for character in spaced if unicodedata.category(character)[0] != "C")
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"
