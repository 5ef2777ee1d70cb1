"""The family of a kernel by its name: an ordered table of patterns, in which the first that matches wins.

families.csv holds ours; a user's file of the same form goes before it. Patterns ignore case and may match anywhere in
the name. Names of CPU operators (``aten::mm``, ``_C::onednn_mm``), which stand for kernels on a trace without a GPU,
are among them.
"""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from phasewise.errors import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
    """One row of the table."""

    family: str
    pattern: str
    note: str


def rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in their order: those in ``path`` first, then ours.

    Raises:
        InputError: the file cannot be read, or a line of it is no rule; the text names the line and the cure.
    """
    return (*_of_user(path), *_shipped()) if path else _shipped()


def family_of(names: Sequence[str], table: Sequence[Rule]) -> tuple[str, ...]:
    """The family of every name, in the order of ``names``: call it once for each distinct name, not for each kernel.

    RE2, which DuckDB brings, does the matching: its time is linear in a name whatever the pattern, so that neither a
    stranger's table nor a stranger's names can make it hang, and thousands of names take some tens of milliseconds.
    """
    if not names or not table:
        return ("other",) * len(names)
    groups = [(family, "|".join(f"(?:{rule.pattern})" for rule in of)) for family, of in groupby(table, _family)]
    choice = " ".join(f"when regexp_matches(name, ?, 'i') then {place}" for place in range(len(groups)))
    rows = [[*range(len(names))], [name[:_NAME].encode("utf-8", "replace").decode() for name in names]]
    with _base() as base:
        base.execute("create table kernel as select unnest($1) as place, unnest($2) as name", rows)
        query = f"select case {choice} else {len(groups)} end from kernel order by place"
        found = base.execute(query, [pattern for _, pattern in groups]).fetchall()
    families = (*(family for family, _ in groups), "other")
    return tuple(families[place] for (place,) in found)


def _family(rule: Rule) -> str:
    return rule.family


def _base() -> DuckDBPyConnection:
    import duckdb

    return duckdb.connect(":memory:", config={"threads": 1})


@functools.cache
def _shipped() -> tuple[Rule, ...]:
    text = resources.files("phasewise.observe.traces").joinpath("families.csv").read_text("utf-8")
    return tuple(Rule(row[0], row[1], row[2]) for row in list(csv.reader(io.StringIO(text)))[1:])


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
        yield Rule(family, pattern, row[2] if len(row) == 3 else "")


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

    with _base() as base:
        try:
            base.execute("select regexp_matches('', ?, 'i')", [pattern])
        except duckdb.Error as error:
            return str(error).partition("Error: ")[2].splitlines()[0] if "Error: " in str(error) else "unreadable"
    return ""
