"""SQLite files of profilers, opened without a chance to write: no lock, no journal beside them, no SQL of their own."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\0"

DAMAGE = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What sqlite3 raises for a damaged file; the last for names that are no text, or when its message quotes the file."""


def connected(path: Path, *pragmas: str) -> sqlite3.Connection:
    """Read-only and immutable; functions of the schema's own (views, generated columns) may do nothing unsafe."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for pragma in ("PRAGMA trusted_schema = OFF", "PRAGMA query_only = ON", *pragmas):
        connection.execute(pragma)
    return connection


def tables_of(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The columns of each table. Views and virtual tables are none: reading those would run their SQL."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        str(table): frozenset(str(row[1]) for row in connection.execute(f"PRAGMA table_info({quoted(str(table))})"))
        for table, sql in found
        if not str(sql).upper().startswith("CREATE VIRTUAL")
    }


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def unfinished(path: Path) -> tuple[Path, ...]:
    """Journals beside a database whose writer was not done: what is in there is unread."""
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return tuple(file for file in beside if file.is_file() and file.stat().st_size)
