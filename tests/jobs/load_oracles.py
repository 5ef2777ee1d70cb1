"""What a load run should see, computed without phasewise: queues by Lindley's recursion, caches by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np


def rows(folder: Path, table: str, sql: str = "*", where: str = "trial >= 0") -> list[tuple[Any, ...]]:
    """Rows of a run, merged or in parts, in the order of requests."""
    files = [folder / f"{table}.parquet"] if (folder / f"{table}.parquet").exists() else []
    files = files or sorted((folder / "rows").glob(f"{table}-*.parquet"))
    with duckdb.connect() as connection:
        return connection.sql(
            f"SELECT {sql} FROM read_parquet({[str(file) for file in files]}) WHERE {where} ORDER BY trial, request"
        ).fetchall()


def lindley(due: Sequence[float], service: float) -> np.ndarray:
    """Time from arrival to end of each customer of a single server that takes ``service`` seconds, first come first."""
    free, took = -1.0, []
    for at in due:
        free = max(free, at) + service
        took.append(free - at)
    return np.array(took)


def cached(requests: Sequence[tuple[int, Sequence[int]]], block: int, page: int) -> list[int]:
    """Tokens that a prefix cache serves each of ``requests`` (tokens, ids), sent one after the other.

    A prompt's ids, in order, were seen or not; the cache has whole pages, and never a prompt's last token.
    """
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for tokens, ids in requests:
        hit = 0
        for count in range(1, len(ids) + 1):
            prefix, held = tuple(ids[:count]), min(tokens, block * count)
            known = seen.get(prefix, 0)
            hit = max(hit, min(known, held))
            seen[prefix] = max(known, held)
        pages = min(hit, tokens - 1) // page
        found.append(pages * page)
    return found


def server_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
