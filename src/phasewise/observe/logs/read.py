"""A file to what is kept of it, in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phasewise.errors import InputError, UsageError
from phasewise.observe.logs import lines
from phasewise.observe.logs.azure import azure
from phasewise.observe.logs.distinct import Distinct
from phasewise.observe.logs.histogram import Tally
from phasewise.observe.logs.lengths import Lengths
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.mooncake import mooncake
from phasewise.observe.logs.plain import plain
from phasewise.observe.logs.rows import Block, Clock, Head, Log, Rows

READERS: tuple[Callable[[Head], Log | None], ...] = (mooncake, azure, plain)
"""Every form of log, asked in this order by the first line. A new one is a file in this folder and a name here."""

BLOCK = 512
"""Prompt tokens that an id of Mooncake's stands for."""

Progress = Callable[[str, float], None]


class Reuse(NamedTuple):
    """Blocks of all prompts, and how many different ones there were, with its standard error (0: exact).

    ``tokens`` of a block; None when there are not as many blocks as prompts of ``BLOCK`` tokens each would have.
    """

    blocks: int
    different: float
    error: float
    tokens: int | None


class Observed(NamedTuple):
    """What is kept of one log.

    ``first`` and ``last`` are the earliest and the latest time in seconds, by ``clock``; None when it does not tell.
    """

    path: Path
    form: str
    lengths: Lengths
    clock: Clock | None
    first: float | None
    last: float | None
    reuse: Reuse | None


def read_all(paths: Sequence[Path], progress: Progress = lambda doing, fraction: None) -> tuple[Observed, ...]:
    """Every log of ``paths``.

    Raises:
        UsageError: one is named twice.
        InputError: one cannot be read; names file, line and cure.
    """
    _named_once(paths)
    sizes = [lines.size(path) for path in paths]
    whole, before, found = max(1, sum(sizes)), 0, []
    for path, size in zip(paths, sizes, strict=True):
        offset = before

        def tell(done: int, path: Path = path, offset: int = offset) -> None:
            progress(f"reading {path.name}", min(1.0, (offset + done) / whole))

        found.append(read(path, tell))
        before += size
    return tuple(found)


def _named_once(paths: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        if (other := seen.setdefault((status.st_dev, status.st_ino), path)) is not path:
            raise UsageError(f"{shown(path)} and {shown(other)} are one file: name each log once.")


def read(path: Path, tell: Callable[[int], None] = lambda done: None) -> Observed:
    """One log; ``tell`` is told how many bytes of it were read.

    Raises:
        InputError: it cannot be read; names file, line and cure.
    """
    blocks = lines.blocks(path, tell)
    log: Log | None = None
    kept = _Kept()
    for block in blocks:
        if log is None:
            head = _head(path, block)
            if head is None:
                continue
            log = _log(head)
            block = _from(block, log.line)
        if block.text:
            kept.add(log.rows(block))
    if log is None:
        raise InputError(f"{shown(path)} is empty: name a request log.")
    if not kept.requests:
        raise InputError(f"{shown(path)} holds no request below its header: name a log with rows.")
    found = kept.observed(path, log.form)
    if not found.lengths.prompt.total + found.lengths.answer.total:
        raise InputError(f"{shown(path)} has no request with a token: name a log of requests that were served.")
    return found


def _head(path: Path, block: Block) -> Head | None:
    for line, text in enumerate(block.text.split(b"\n"), block.line):
        if text.strip():
            return Head(path, line, text.decode("utf-8", "replace").strip())
    return None


def _log(head: Head) -> Log:
    for reader in READERS:
        if log := reader(head):
            return log
    raise AssertionError("the last reader refuses what it cannot read")


def _from(block: Block, line: int) -> Block:
    """The part of ``block`` from ``line`` on."""
    text = block.text
    for _ in range(line - block.line):
        text = text[text.index(b"\n") + 1 :]
    return Block(line, text)


class _Kept:
    """What is kept while blocks come."""

    def __init__(self) -> None:
        self.requests = 0
        self._tallies = [Tally() for _ in Lengths._fields]
        self._clock: Clock | None = None
        self._first, self._last = np.inf, -np.inf
        self._ids: Distinct | None = Distinct()
        self._blocks = 0

    def add(self, rows: Rows) -> None:
        """Keep what is needed of ``rows``."""
        self.requests += len(rows.prompt)
        answered = rows.answer > 0
        starts = rows.prompt[answered]
        for tally, numbers in zip(
            self._tallies, (rows.prompt, rows.answer, starts, starts + rows.answer[answered]), strict=True
        ):
            tally.add(numbers)
        self._clock = rows.clock
        if rows.time is not None and len(rows.time):
            self._first, self._last = min(self._first, rows.time.min()), max(self._last, rows.time.max())
        self._see(rows)

    def _see(self, rows: Rows) -> None:
        if rows.block_ids is None:
            self._ids = None
        if self._ids is not None and rows.block_ids is not None:
            self._ids.add(rows.block_ids)
            self._blocks += int((-(-rows.prompt // BLOCK)).sum())

    def observed(self, path: Path, form: str) -> Observed:
        """All that was kept."""
        told = bool(np.isfinite(self._first))
        return Observed(
            path=path,
            form=form,
            lengths=Lengths(*(tally.histogram() for tally in self._tallies)),
            clock=self._clock if told else None,
            first=float(self._first) if told else None,
            last=float(self._last) if told else None,
            reuse=self._reuse(),
        )

    def _reuse(self) -> Reuse | None:
        if self._ids is None or not self._ids.seen:
            return None
        different, error = self._ids.estimate()
        return Reuse(self._ids.seen, different, error, BLOCK if self._ids.seen == self._blocks else None)
