"""A log row by row, to send its requests again: lengths, times, block ids, and the prompts' words where it has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phasewise.errors import InputError
from phasewise.observe.logs import lines
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.read import log_of, start
from phasewise.observe.logs.rows import Ids, Real, Rows, Whole
from phasewise.observe.logs.sharegpt import sharegpt

MOST = 5_000_000
"""Rows that are kept; each takes some 50 bytes."""


class Requests(NamedTuple):
    """The rows of a log, one element each; ``form`` is its name.

    ``block_ids`` of all prompts one after the other and ``block_counts`` of them per row; None where one has none.
    ``texts`` are the prompts' words; empty where the log has none, and then counts are of whoever wrote it, else
    estimated by ``sharegpt``.
    """

    form: str
    prompt: Whole
    answer: Whole
    time: Real | None
    block_ids: Ids | None = None
    block_counts: Whole | None = None
    texts: tuple[str, ...] = ()


def requests(path: Path, tell: Callable[[int], None] = lambda done: None) -> Requests:
    """Every row of one log; ``tell`` is told how many bytes of it were read.

    Raises:
        InputError: it cannot be read, or is too long to be kept; names file, line and cure.
    """
    if (found := sharegpt(path)) is not None:
        prompts, answers, texts = found
        return Requests("ShareGPT JSON", prompts, answers, None, texts=texts)
    log, kept, count = None, list[Rows](), 0
    for block in lines.blocks(path, tell):
        if log is None:
            if (head := start(path, block)) is None:
                continue
            log = log_of(head)
            block = log.below(block)
        if block.text:
            kept.append(log.rows(block))
            count += len(kept[-1].prompt)
        if count > MOST:
            raise InputError(f"{shown(path)} has over {MOST:,} requests: cut it, no run sends as many.")
    if log is None or not count:
        raise InputError(f"{shown(path)} holds no request: name a log with rows.")
    return _joined(log.form, kept)


def _joined(form: str, kept: list[Rows]) -> Requests:
    times = [rows.time for rows in kept if rows.time is not None]
    ids = [rows.block_ids for rows in kept if rows.block_ids is not None]
    counts = [rows.block_counts for rows in kept if rows.block_counts is not None]
    told, shared = len(times) == len(kept), len(ids) == len(counts) == len(kept)
    return Requests(
        form=form,
        prompt=np.concatenate([rows.prompt for rows in kept]),
        answer=np.concatenate([rows.answer for rows in kept]),
        time=np.concatenate(times) if told else None,
        block_ids=np.concatenate(ids) if shared else None,
        block_counts=np.concatenate(counts) if shared else None,
    )
