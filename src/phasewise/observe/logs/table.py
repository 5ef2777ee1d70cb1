"""CSV with a header: a block at once where it is plain, line by line where it is not."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.errors import InputError
from phasewise.observe.logs import times
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.rows import LARGEST, Block, Clock, Head, Log, Rows, Whole

_DELIMITERS = ",;\t"
_SHOWN = 40
_WIDEST_COUNT = len(str(LARGEST))

Characters = npt.NDArray[np.uint8]


class Header(NamedTuple):
    """The names of a CSV file's columns."""

    delimiter: str
    names: tuple[str, ...]

    def find(self, *wanted: str) -> list[int]:
        """Columns with one of these names; case and punctuation do not count."""
        return [i for i, name in enumerate(self.names) if _bare(name) in wanted]


class Columns(NamedTuple):
    """Which column holds what; ``time`` is None when no column does, ``tick`` is its unit in seconds."""

    prompt: int
    answer: int
    time: int | None
    tick: float = 1.0


def header(head: Head) -> Header:
    """The header that a log's first line is, by the delimiter that there is most of."""
    delimiter = max(_DELIMITERS, key=head.text.count)
    try:
        return Header(delimiter, tuple(next(csv.reader([head.text], delimiter=delimiter), ())))
    except csv.Error:
        return Header(delimiter, ())


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def table(form: str, head: Head, found: Header, columns: Columns) -> Log:
    """The log of a CSV file below its header."""
    return Log(form, head.line + 1, _Table(head, found, columns).rows)


class _Table:
    """Turns blocks into rows; remembers from the first row how the log tells time."""

    def __init__(self, head: Head, found: Header, columns: Columns) -> None:
        self.path, self.header, self.columns = head.path, found, columns
        self.clock: Clock | None = None

    def rows(self, block: Block) -> Rows:
        """The rows of ``block``.

        Raises:
            InputError: a line that is no request; names it.
        """
        return self.quick(block) or self.careful(block)

    def quick(self, block: Block) -> Rows | None:
        """The rows of a block whose every line has the header's fields and no oddities; else None."""
        bare = _unquoted(block.text, self.header.delimiter)
        if bare is None or b"\0" in bare:
            return None
        text = np.frombuffer(bare, np.uint8)
        cuts = _cuts(text, self.header)
        if cuts is None:
            return None
        prompt = _counts(_cell_characters(text, cuts, self.columns.prompt))
        answer = _counts(_cell_characters(text, cuts, self.columns.answer))
        if prompt is None or answer is None:
            return None
        if self.columns.time is None:
            return Rows(prompt, answer, None, None)
        characters = _cell_characters(text, cuts, self.columns.time)
        if characters is None:
            return None
        clock = self.clock or times.kind(characters[0].tobytes().decode("ascii", "replace").rstrip("\0"))
        time = times.column(characters, clock)
        if time is None:
            return None
        self.clock = clock
        return Rows(prompt, answer, time * self.columns.tick, clock)

    def careful(self, block: Block) -> Rows:
        """The same, a line at a time."""
        prompt, answer, time = [], [], []
        for line, fields in self._lines(block):
            prompt.append(self._count(fields, self.columns.prompt, line))
            answer.append(self._count(fields, self.columns.answer, line))
            if self.columns.time is not None:
                time.append(self._time(fields, self.columns.time, line))
        seconds = None if self.columns.time is None else np.array(time, np.float64) * self.columns.tick
        return Rows(np.array(prompt, np.int64), np.array(answer, np.int64), seconds, self.clock)

    def _lines(self, block: Block) -> Iterator[tuple[int, list[str]]]:
        """Each line that is not blank: its number and its fields."""
        wanted = len(self.header.names)
        text = block.text.decode("utf-8", "replace").split("\n")[:-1]
        reader = csv.reader(text, delimiter=self.header.delimiter, strict=True)
        line = block.line
        try:
            for fields in reader:
                if reader.line_num != line - block.line + 1:
                    raise self._wrong(line, "has a quoted field that runs over its end: write one request per line")
                if len(fields) == wanted:
                    yield line, fields
                elif len(fields) > 1 or "".join(fields).strip():
                    raise self._wrong(
                        line, f"has {len(fields)} fields where the header has {wanted}: correct or remove that line"
                    )
                line += 1
        except csv.Error as error:
            raise self._wrong(line, f"is not CSV ({error}): write one request per line, quotes in pairs") from None

    def _count(self, fields: Sequence[str], column: int, line: int) -> int:
        text = fields[column]
        if text.isdecimal() and text.isascii() and len(text) < _WIDEST_COUNT:
            return int(text)
        try:
            return count(text.strip())
        except ValueError as error:
            raise self._bad_cell(fields, column, line, f"{error}: correct or remove that line") from None

    def _time(self, fields: Sequence[str], column: int, line: int) -> float:
        text = fields[column].strip()
        self.clock = self.clock or times.kind(text)
        try:
            return times.cell(text, self.clock)
        except ValueError as error:
            raise self._bad_cell(fields, column, line, str(error)) from None

    def _bad_cell(self, fields: Sequence[str], column: int, line: int, what: str) -> InputError:
        return self._wrong(line, f"has {fields[column][:_SHOWN]!a} as {self.header.names[column][:_SHOWN]!a}, {what}")

    def _wrong(self, line: int, what: str) -> InputError:
        return InputError(f"{shown(self.path)} line {line:,} {what}.")


def count(text: str) -> int:
    """A number of tokens: digits, or a float that is whole.

    Raises:
        ValueError: it is none; says what it is.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError("which is no number of tokens" if text else "empty where a number of tokens belongs") from None
    if value != value:
        raise ValueError("which is no number of tokens")
    if value < 0:
        raise ValueError("which is negative")
    if value > LARGEST:
        raise ValueError(f"more than the {LARGEST:,} tokens that a request may have here")
    if value != int(value):
        raise ValueError("which is no whole number of tokens")
    return int(value)


def _unquoted(text: bytes, delimiter: str) -> bytes | None:
    """``text`` without its quotes; None unless each pair encloses one whole field with nothing special in it."""
    if b'"' not in text:
        return text
    characters = np.frombuffer(text, np.uint8)
    special = (characters == ord(delimiter)) | (characters == ord("\n"))
    quotes = np.flatnonzero(characters == ord('"'))
    opening, closing = quotes[0::2], quotes[1::2]
    if len(opening) != len(closing) or not bool(special[closing + 1].all()):
        return None
    if not bool((special[opening - 1] | (opening == 0)).all()):
        return None
    before = np.cumsum(special)
    return text.replace(b'"', b"") if bool((before[opening] == before[closing]).all()) else None


def _cuts(characters: Characters, found: Header) -> Whole | None:
    """Where each line's fields end: an array of lines × (fields + 1) places, the first one that before the line."""
    fields = len(found.names)
    ends = np.flatnonzero(characters == ord("\n"))
    marks = np.flatnonzero(characters == ord(found.delimiter))
    if len(marks) != len(ends) * (fields - 1):
        return None
    before = np.concatenate([[-1], ends[:-1]])
    cuts = np.column_stack([before, marks.reshape(len(ends), fields - 1), ends])
    return cuts if bool((cuts[:, 1:] > cuts[:, :-1]).all()) else None


def _cell_characters(text: Characters, cuts: Whole, column: int) -> Characters | None:
    """One column's cells, a row of characters each, filled up with zeros; None for one that is empty or too long."""
    left, right = cuts[:, column] + 1, cuts[:, column + 1]
    lengths = right - left
    width = int(lengths.max())
    if int(lengths.min()) < 1 or width > _SHOWN:
        return None
    padded = np.concatenate([text, np.zeros(width, np.uint8)])
    found: Characters = np.lib.stride_tricks.sliding_window_view(padded, width)[left]
    if int(lengths.min()) < width:
        found[np.arange(width) >= lengths[:, None]] = 0
    return found


def _counts(characters: Characters | None) -> Whole | None:
    """Each row's digits as a number; None when one is anything else, or too large."""
    if characters is None or characters.shape[1] > _WIDEST_COUNT:
        return None
    values = np.zeros(len(characters), np.int64)
    for column in characters.T:
        here, digit = column != 0, column - np.uint8(ord("0"))
        if bool((digit[here] > 9).any()):
            return None
        values = np.where(here, values * 10 + digit, values)
    return values if bool((values <= LARGEST).all()) else None
