"""Request logs for the tests: where the shared ones are, and small ones written by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data" / "requests"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
DAY = "2023-11-16 18:17:0"


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip("skipped: no shared data")
    return path


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def azure(*rows: tuple[object, object]) -> str:
    return AZURE + "".join(f"{DAY}{i % 10}.{i:07d},{p},{a}\n" for i, (p, a) in enumerate(rows))
