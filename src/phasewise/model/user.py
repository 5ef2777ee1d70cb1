"""The user's own models.json, read with the line on which each row begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from phasewise.errors import InputError

FILE = "models.json"

_SPACE = re.compile(r"[ \t\n\r]*")


class Entry(NamedTuple):
    """A row: its name, its value, and ``FILE line N`` for errors."""

    name: str
    value: object
    where: str


def entries(path: Path) -> Iterator[Entry]:
    """The members of the JSON object in ``path``, in its order.

    Raises:
        InputError: not a JSON object in UTF-8; the text names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        yield from _members(text, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): save it as JSON in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path} line {error.lineno} is not JSON ({error.msg}): docs/models.md has an example."
        ) from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}): docs/models.md has an example.") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply: docs/models.md has an example.") from None


def _members(text: str, path: str) -> Iterator[Entry]:
    """As the json module reads an object, but member by member, so that the line of each is known."""
    decoder = json.JSONDecoder()
    at = _expect(text, 0, "{")
    first = True
    while (at := _skip(text, at)) < len(text) and not (text[at] == "}" and first):
        first = False
        where = f"{path} line {text.count(chr(10), 0, at) + 1}"
        if text[at] != '"':
            raise json.JSONDecodeError("a name in double quotes is expected", text, at)
        name, at = decoder.raw_decode(text, at)
        value, at = decoder.raw_decode(text, _skip(text, _expect(text, at, ":")))
        yield Entry(name, value, where)
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            break
        at = _expect(text, at, ",")
    if _skip(text, _expect(text, at, "}")) < len(text):
        raise json.JSONDecodeError("nothing may follow the object", text, _skip(text, at + 1))


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, letter: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != letter:
        raise json.JSONDecodeError(f"{letter!r} is expected", text, at)
    return at + 1
