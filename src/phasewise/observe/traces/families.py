"""The family of a kernel by its name: an ordered table of patterns, in which the first that matches wins.

families.csv holds ours; a user's file of the same form goes before it. Patterns ignore case and may match anywhere in
the name. Names of CPU operators (``aten::mm``, ``_C::onednn_mm``), which stand for kernels on a trace without a GPU,
are among them.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from phasewise.errors import InputError

FAMILIES = (
    "gemm",
    "gemv",
    "attention",
    "moe",
    "norm",
    "rope",
    "kv_write",
    "activation",
    "sampling",
    "quantisation",
    "communication",
    "copy",
    "other",
)
"""``copy`` is copies and elementwise work; ``other`` is what no pattern matches."""

_HEADER = ["family", "pattern", "note"]
_NAME = 4096
"""Characters of a name that are looked at: hostile names have no end."""

_FILE, _RULES, _PATTERN = 1 << 20, 1000, 500
"""Limits on a user's file: bytes, rules, characters of a pattern."""


class Rule(NamedTuple):
    """One row of the table. ``own`` is True for a user's: such a pattern is matched by RE2, whose time is linear."""

    family: str
    pattern: str
    note: str
    own: bool = False


def rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in their order: those in ``path`` first, then ours.

    Raises:
        InputError: the file cannot be read, or a line of it is no rule; the text names the line and the cure.
    """
    return (*_of_user(path), *_shipped()) if path else _shipped()


def family_of(names: Sequence[str], table: Sequence[Rule]) -> tuple[str, ...]:
    """The family of every name, in the order of ``names``: call it once for each distinct name, not for each kernel."""
    found = dict.fromkeys(range(len(names)), "other")
    left = {place: name[:_NAME] for place, name in enumerate(names)}
    for (family, own), group in groupby(table, key=lambda rule: (rule.family, rule.own)):
        patterns = tuple(rule.pattern for rule in group)
        for place in _matching(left, patterns) if own else _searched(left, patterns):
            found[place] = family
            del left[place]
    return tuple(found.values())


@functools.cache
def _shipped() -> tuple[Rule, ...]:
    text = resources.files("phasewise.observe.traces").joinpath("families.csv").read_text("utf-8")
    return tuple(Rule(row[0], row[1], row[2]) for row in list(csv.reader(io.StringIO(text)))[1:])


def _searched(names: dict[int, str], patterns: tuple[str, ...]) -> list[int]:
    """Names that one of our own patterns matches: none of them repeats a repeat, so none is slow."""
    search = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE).search
    return [place for place, name in names.items() if search(name)]


def _matching(names: dict[int, str], patterns: tuple[str, ...]) -> list[int]:
    """The same by RE2, which DuckDB brings: a stranger's pattern, or a stranger's name, cannot make it hang."""
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 1}) as base:
        base.execute(
            "create table kernel as select unnest($1) as place, unnest($2) as name", [[*names], [*names.values()]]
        )
        wanted = " or ".join("regexp_matches(name, ?, 'i')" for _ in patterns)
        return [place for (place,) in base.execute(f"select place from kernel where {wanted}", patterns).fetchall()]


def _of_user(path: Path) -> Iterator[Rule]:
    for line, row in _rows(path):
        where = f"{path}, line {line}"
        if len(row) not in (2, 3):
            raise InputError(
                f"{where} has {len(row)} cells: write family,pattern,note, a pattern with commas in quotes."
            )
        family, pattern = row[0].strip(), row[1]
        if family not in FAMILIES:
            raise InputError(f"{where}: {family[:40]!r} is no family: write one of {', '.join(FAMILIES)}.")
        if not pattern or len(pattern) > _PATTERN:
            raise InputError(f"{where}: a pattern has 1 to {_PATTERN} characters, this one {len(pattern)}.")
        if reason := _wrong(pattern):
            raise InputError(
                f"{where}: {pattern[:60]!r} is no pattern of RE2 ({reason}): correct it, without look-around."
            )
        yield Rule(family, pattern, row[2] if len(row) == 3 else "", own=True)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Every row below the header that is not blank, with its line."""
    try:
        with path.open("rb") as file:
            data = file.read(_FILE + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a CSV file of families.") from None
    if len(data) > _FILE:
        raise InputError(f"{path} is over {_FILE >> 20} MiB, which no table of families is: name another file.")
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        if [cell.strip() for cell in next(reader, [])] != _HEADER:
            raise InputError(f"{path}, line 1 is not the header: begin the file with {','.join(_HEADER)}.")
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV in UTF-8 ({error}): write family,pattern,note on each line.") from None
    if len(rows) > _RULES:
        raise InputError(f"{path} has {len(rows)} rules, of which {_RULES} are allowed: join patterns with |.")
    yield from rows


def _wrong(pattern: str) -> str:
    """Why RE2 does not take ``pattern``, "" when it does."""
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 1}) as base:
        try:
            base.execute("select regexp_matches('', ?, 'i')", [pattern])
        except duckdb.Error as error:
            return str(error).partition("Error: ")[2].splitlines()[0] if "Error: " in str(error) else "unreadable"
    return ""
