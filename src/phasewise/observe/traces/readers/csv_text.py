"""Rows of the CSV files that profilers write: any encoding a console redirects to, damaged rows counted."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from phasewise.observe.traces.opened import Opened


def head(opened: Opened) -> list[str]:
    """The lines in the file's first bytes; the last one may be cut."""
    return opened.head.decode(_encoding(opened.head), "replace").splitlines(keepends=True)


def header(lines: Iterator[str], known: Callable[[list[str]], bool]) -> list[str]:
    """The first line that ``known`` says is a header, [] when none is.

    Every line is taken apart alone: what a program printed before it may hold any quotes.
    """
    for line in lines:
        try:
            row = next(csv.reader([line]), [])
        except csv.Error:
            continue
        if known(row):
            return [cell.strip() for cell in row]
    return []


def lines(opened: Opened) -> Iterator[str]:
    """The lines of the whole file, decoded; what its encoding does not know becomes U+FFFD."""
    stream: Any = io.BufferedReader(_Stream(opened.blocks()), 1 << 20)
    return io.TextIOWrapper(stream, encoding=_encoding(opened.head), errors="replace", newline="")


class Rows:
    """The rows among ``lines``; ``damaged`` counts those that could not be told apart (a quote never closed)."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.damaged = 0
        self._reader = csv.reader(lines)

    def batches(self, size: int) -> Iterator[list[list[str]]]:
        """All of them, ``size`` at a time. A thousand stay in the cache; ten times as many take twice as long."""
        while True:
            batch: list[list[str]] = []
            try:
                # What came before a damaged row stays in the list.
                batch.extend(islice(self._reader, size))
            except csv.Error:
                self.damaged += 1
            else:
                if not batch:
                    return
            yield batch


def _encoding(head: bytes) -> str:
    """PowerShell redirects to UTF-16, with or without the mark; everything else writes UTF-8."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    odd, even = head[1::2], head[::2]
    for zeros, name in ((odd, "utf-16-le"), (even, "utf-16-be")):
        if len(zeros) > 8 and zeros.count(0) > 0.9 * len(zeros):
            return name
    return "utf-8-sig"


class _Stream(io.RawIOBase):
    """Blocks of bytes as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        taken = min(len(buffer), len(self._left))
        buffer[:taken] = self._left[:taken]
        self._left = self._left[taken:]
        return taken
