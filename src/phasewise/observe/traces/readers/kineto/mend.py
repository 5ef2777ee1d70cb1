"""JSON that is not quite JSON, set right where that is safe, and otherwise read event by event around what is not.

Known faults of writers: quotes and newlines inside names (pytorch#146900, #113001), Windows paths with bare backslashes
(pytorch#98432), control characters and bytes that are no UTF-8 (pytorch#136180, kineto#80), NaN and inf.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from phasewise.observe.traces.events import NOT_SAID
from phasewise.observe.traces.readers.kineto.event import Args, Event
from phasewise.observe.traces.readers.kineto.header import text, whole

_BLANKED = bytes(0x20 if byte < 0x20 else byte for byte in range(256))
_CONTROL = bytes(byte for byte in range(0x20) if byte not in b"\t\r\n")
_NUMBERS = tuple(
    # The word first and then what is before it: a pattern that starts with a word is found fast.
    (word, re.compile(word + rb"(?<=[:\[,\s]" + word + rb")(?=\s*[,}\]])"))
    for sign in (b"", b"-")
    for word in (sign + b"NaN", sign + b"nan", sign + b"Infinity", sign + b"inf", sign + b"Inf")
)
"""NaN and infinities as Python, C and C++ write them."""

_ESCAPE = re.compile(
    rb'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\"
)
"""An escape that is right; half a surrogate pair; a bare backslash."""

_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_NAME = re.compile(rb'"name"\s*:\s*"')
_SOUND = re.compile(rb'(?:[^"\\]++|\\.)*+"(?=\s*(?:}|,\s*"[^"\\]*+"\s*:))', re.DOTALL)
"""The rest of a string that ends where JSON says it does."""

_END = re.compile(rb'"(?=\s*(?:,\s*"(?:pid|tid|ts|dur|ph|cat|args|id)"\s*:|}\s*[,}\]]))')
"""The end of a name, whatever is in it."""

_LONGEST = 1 << 13
"""Bytes of a name with quotes inside."""

_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_START = re.compile(r'{\s*"(?:ph|name|cat|ts|pid|tid)"')
_LENIENT = json.JSONDecoder(strict=False, parse_float=str)

_WINDOW = 1 << 14
"""Characters that most events fit in: an error costs as much as the text before and behind it is long."""

_DEEP = -2
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[][{}]', re.DOTALL)

_EFFORT = 128 << 20
"""Characters that looking for the next good event may take in one file; a hostile one would take for ever."""


def mended(piece: bytes) -> tuple[bytes, Counter[str]]:
    """``piece`` without the bytes, numbers, escapes and quotes that JSON forbids, and how many of them there were.

    Mending twice is mending once.
    """
    wrong: Counter[str] = Counter()
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        replaced = piece.decode("utf-8", "replace")
        wrong["bytes"] = replaced.count("\ufffd") - piece.count("\ufffd".encode())
        piece = replaced.encode()
    wrong["control"] = len(piece) - len(piece.translate(None, _CONTROL))
    piece = piece.translate(_BLANKED)
    for word, pattern in _NUMBERS:
        if word in piece:
            piece, count = pattern.subn(b"null", piece)
            wrong["numbers"] += count
    piece, wrong["quotes"] = _quoted(_ESCAPE.sub(_escape, piece))
    return piece, wrong


def _escape(found: re.Match[bytes]) -> bytes:
    if len(found[0]) == 1:
        return b"\\\\"
    return rb"\ufffd" if _HALF.fullmatch(found[0]) else found[0]


def _quoted(piece: bytes) -> tuple[bytes, int]:
    """``piece`` with the bare quotes inside names escaped, and how many there were."""
    parts, done, count = [], 0, 0
    for name in _NAME.finditer(piece):
        start = name.end()
        if start < done or _SOUND.match(piece, start):
            continue
        limit = piece.find(b'"name"', start, start + _LONGEST)
        end = _END.search(piece, start, limit if limit >= 0 else start + _LONGEST)
        if end:
            text = _QUOTE.sub(lambda one: rb"\"" if one[0] == b'"' else one[0], piece[start : end.start()])
            parts += [piece[done:start], text]
            count += len(text) - (end.start() - start)
            done = end.start()
    return b"".join((*parts, piece[done:])), count


def singly(piece: bytes, damage: Counter[str]) -> tuple[bool, list[Event], bytes]:
    """Events of a mended ``piece`` one by one: whether their list ends in it, the events, and what is left of it.

    What cannot be read is left out up to the next event that can, and counted; at the end of the piece it is what is
    left.
    """
    told = piece.decode("utf-8", "replace")
    events: list[Event] = []
    at = 0
    while True:
        at = _skip(told, at)
        if at >= len(told):
            return False, events, b""
        if told[at] == "]":
            return True, events, told[at + 1 :].encode()
        value, end = _decoded(told, at, damage)
        if end < 0:
            kind = "deep" if end == _DEEP else "lost"
            end = _closed(told, at) if end == _DEEP else -1
            end = end if end >= 0 else _next_good(told, at + 1, damage)
            if end < 0:
                return False, events, told[at:].encode()
            damage[kind] += 1
        elif isinstance(value, dict):
            events.append(lenient(value))
        at = end


def _skip(told: str, at: int) -> int:
    while at < len(told) and told[at] in " \t\r\n,":
        at += 1
    return at


def _decoded(told: str, at: int, damage: Counter[str]) -> tuple[Any, int]:
    """The value at ``at`` and its end; -1 when it is none, `_DEEP` when it is nested too deeply to tell."""
    for length in (_WINDOW, len(told)):
        part = told[at : at + length]
        whole_text = at + length >= len(told)
        try:
            value, end = _LENIENT.raw_decode(part)
        except json.JSONDecodeError as error:
            damage["effort"] += error.pos + 256
            if error.pos + 16 < len(part) and not error.msg.startswith("Unterminated"):
                break
        except RecursionError:
            damage["effort"] += _WINDOW
            return None, _DEEP
        except ValueError:
            damage["effort"] += _WINDOW
            break
        else:
            if end < len(part) or whole_text:
                return value, at + end
        if whole_text:
            break
    return None, -1


def _closed(told: str, at: int) -> int:
    """The end of the object or list at ``at`` by its brackets alone; -1 when it has none."""
    depth = 0
    for token in _TOKEN.finditer(told, at):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth <= 0:
            return token.end()
    return -1


def _next_good(told: str, at: int, damage: Counter[str]) -> int:
    """Where the next event starts that can be read; -1 when there is none."""
    found = _START.search(told, at)
    while found and damage["effort"] < _EFFORT:
        value, end = _decoded(told, found.start(), damage)
        if end >= 0 and "ph" in value:
            return found.start()
        found = _START.search(told, found.start() + 1)
    return -1


def lenient(told: dict[str, Any]) -> Event:
    """An event of whatever types its values have; what is of a wrong one is not said."""
    args = told.get("args")
    said: dict[str, Any] = args if isinstance(args, dict) else {}
    dims = said.get("Input Dims")
    return Event(
        ph=text(told.get("ph")),
        cat=text(told.get("cat")),
        name=text(told.get("name")),
        pid=_place(told.get("pid")),
        tid=_place(told.get("tid")),
        ts=_time(told.get("ts")),
        dur=_time(told.get("dur", 0)),
        args=Args(
            device=whole(said.get("device"), NOT_SAID),
            stream=whole(said.get("stream"), NOT_SAID),
            correlation=whole(said.get("correlation"), NOT_SAID),
            external=whole(said.get("External id"), NOT_SAID),
            graph=whole(said.get("graph id"), NOT_SAID),
            node=whole(said.get("graph node id"), 0),
            bytes=whole(said.get("bytes"), 0),
            kernel=text(said.get("kernel")),
            grid=_sides(said.get("grid")),
            block=_sides(said.get("block")),
            dims=msgspec.Raw(json.dumps(dims).encode() if dims else b""),
        ),
    )


def _place(value: Any) -> int | str:
    """A number stays one, as in typed decoding: 78 and "78" would be two threads."""
    return value if type(value) is int else text(value)


def _time(value: Any) -> Decimal:
    if not isinstance(value, int | float | str | Decimal):  # a list would be taken as digits
        return Decimal("nan")
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal("nan")


def _sides(value: Any) -> list[int]:
    return [whole(side, 0) for side in value] if isinstance(value, list) else []
