"""A file to what is kept of it, in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from phasewise.errors import InputError, UsageError
from phasewise.observe.logs import lines
from phasewise.observe.logs.azure import azure
from phasewise.observe.logs.kept import Kept, Observed
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.mooncake import mooncake
from phasewise.observe.logs.plain import plain
from phasewise.observe.logs.rows import Block, Head, Log

READERS: tuple[Callable[[Head], Log | None], ...] = (mooncake, azure, plain)
"""Every form of log, asked in this order by the first line. A new one is a file in this folder and a name here."""

Progress = Callable[[str, float], None]


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
            progress(f"reading {shown(Path(path.name))}", min(1.0, (offset + done) / whole))

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
    kept = Kept()
    for block in blocks:
        if log is None:
            if (head := start(path, block)) is None:
                continue
            log = log_of(head)
            block = log.below(block)
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


def start(path: Path, block: Block) -> Head | None:
    """The first line of a log that is not blank, if it is in ``block``."""
    for line, text in enumerate(block.text.split(b"\n"), block.line):
        if text.strip():
            return Head(path, line, text.decode("utf-8", "replace").strip())
    return None


def log_of(head: Head) -> Log:
    """The log that begins so.

    Raises:
        InputError: no form begins so.
    """
    for reader in READERS:
        if log := reader(head):
            return log
    raise AssertionError("the last reader refuses what it cannot read")
