"""JSON that is not quite JSON: what profilers, editors and broken disks make of it, set right where that is safe.

Known faults of writers: quotes and newlines inside names (pytorch#146900, #113001), Windows paths with bare backslashes
(pytorch#98432), control characters and bytes that are no UTF-8 (pytorch#136180, kineto#80), NaN and inf.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from phasewise.observe.traces.events import NOT_SAID
from phasewise.observe.traces.readers.kineto.event import Args, Event
from phasewise.observe.traces.readers.kineto.header import whole


class Damage:
    """How much was wrong.

    Attributes:
        mended: events that were set right.
        lost: events that could not be.
        encoding: bytes that are no UTF-8, and control characters.
        numbers: NaN and infinities.
        broken: True when the last event breaks off.
    """

    def __init__(self) -> None:
        self.mended = 0
        self.lost = 0
        self.encoding = 0
        self.numbers = 0
        self.broken = False


_CONTROL = bytes(range(0x20)).translate(None, b"\t\n\r") + b"\x7f"
_BLANKED = bytes(0x20 if byte < 0x20 else byte for byte in range(256))
_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)[+-]?(?:nan|inf(?:inity)?)(?:\([a-z]+\))?(?=\s*[,}\]])", re.IGNORECASE)
_ESCAPE = re.compile(
    rb'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})|\\'
)
_START = re.compile(r'{\s*"(?:ph|name|cat|ts|pid|tid|args|dur|id|s|bp)"')
_PAIR = re.compile(r'("(?:[^"\\]|\\.)*"\s*:\s*")(.*?)("\s*(?:,\s*"[^"\\]*"\s*:|}))', re.DOTALL)
_LENIENT = json.JSONDecoder(strict=False, parse_float=str)


def mended(piece: bytes, damage: Damage) -> bytes:
    """``piece`` without bytes, characters, numbers and escapes that JSON forbids."""
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        text = piece.decode("utf-8", "replace")
        damage.encoding += text.count("\ufffd") - piece.count("\ufffd".encode())
        piece = text.encode()
    control = len(piece) - len(piece.translate(None, _CONTROL))
    damage.encoding += control
    piece, numbers = _NOT_A_NUMBER.subn(rb"\1null", piece.translate(_BLANKED))
    damage.numbers += numbers
    return _ESCAPE.sub(_escaped, piece)


def _escaped(found: re.Match[bytes]) -> bytes:
    return found[0] if len(found[0]) > 1 else b"\\\\"


def singly(data: bytes, damage: Damage, last: bool) -> tuple[bool, list[Event], bytes]:
    """Events of ``data`` one by one: whether the list ended, the events, and what is behind the last of them.

    ``data`` starts with an event, a comma or the end of the list. With ``last`` nothing comes behind it. What cannot
    be read is skipped to the next event that can.
    """
    text = mended(data, Damage()).decode("utf-8", "replace") if last else data.decode("utf-8", "surrogateescape")
    events: list[Event] = []
    at = 0
    while True:
        at = _skip(text, at)
        if at >= len(text):
            return False, events, b""
        if text[at] == "]":
            return True, events, text[at + 1 :].encode("utf-8", "surrogateescape")
        try:
            value, at = _LENIENT.raw_decode(text, at)
            if isinstance(value, dict):
                events.append(lenient(value))
            continue
        except (ValueError, RecursionError):
            pass
        following = _START.search(text, at + 1)
        while following:
            try:
                value, _ = _LENIENT.raw_decode(text, following.start())
                if "ph" in value:
                    break
            except (ValueError, RecursionError):
                pass
            following = _START.search(text, following.end())
        if following is None:
            damage.broken = last
            return False, events, text[at:].encode("utf-8", "surrogateescape")
        damage.lost += 1
        at = following.start()


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def lenient(told: dict[str, Any]) -> Event:
    """An event of whatever types its values have."""
    args = told.get("args")
    said: dict[str, Any] = args if isinstance(args, dict) else {}
    dims = said.get("Input Dims")
    return Event(
        ph=_text(told.get("ph")),
        cat=_text(told.get("cat")),
        name=_text(told.get("name")),
        pid=_text(told.get("pid")),
        tid=_text(told.get("tid")),
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
            kernel=_text(said.get("kernel")),
            grid=_sides(said.get("grid")),
            block=_sides(said.get("block")),
            dims=msgspec.Raw(json.dumps(dims).encode() if dims else b""),
        ),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _time(value: Any) -> Decimal:
    try:
        return Decimal(value)
    except (TypeError, ValueError, InvalidOperation):
        return Decimal("nan")


def _sides(value: Any) -> list[int]:
    return [whole(side, 0) for side in value] if isinstance(value, list) else []
