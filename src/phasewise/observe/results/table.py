"""Tables in text: Markdown, CSV, and the rows of SQL inserts, as dictionaries by heading."""

from __future__ import annotations

import csv
import io
import re

_INSERT = re.compile(r"INSERT INTO (\w+)\s*\(([^)]*)\)\s*VALUES\s*\((.*)\);?\s*$", re.IGNORECASE)
_RULE = re.compile(r"^[\s|:\-+]+$")
_CELL = re.compile(r"'((?:[^']|'')*)'|([^,\s]+)")


def markdown(text: str) -> list[list[dict[str, str]]]:
    """Every table of ``text``, a list of rows each; lines of another width are left out."""
    tables: list[list[dict[str, str]]] = []
    heads: list[str] = []
    for line in text.splitlines():
        if not line.lstrip().startswith("|"):
            heads = []
            continue
        if _RULE.match(line):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not heads:
            heads = cells
            tables.append([])
        elif len(cells) == len(heads):
            tables[-1].append(dict(zip(heads, cells, strict=True)))
    return [table for table in tables if table]


def comma_separated(text: str) -> list[dict[str, str]]:
    """Rows of a CSV with a header; lines of another width are left out."""
    rows = list(csv.reader(io.StringIO(text), strict=False))
    heads = rows[0] if rows else []
    return [dict(zip(heads, row, strict=True)) for row in rows[1:] if len(row) == len(heads)]


def inserts(text: str, table: str) -> list[dict[str, str]]:
    """Rows of ``INSERT INTO table (names) VALUES (values);`` lines."""
    found = []
    for line in text.splitlines():
        match = _INSERT.search(line)
        if match and match[1].lower() == table:
            names = [name.strip() for name in match[2].split(",")]
            values = [
                quoted.replace("''", "'") if quoted or not bare else bare for quoted, bare in _CELL.findall(match[3])
            ]
            if len(names) == len(values):
                found.append(dict(zip(names, values, strict=True)))
    return found
