"""What the shapes of operators tell of a pass: its tokens, the rows that get logits, queries against keys."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from phasewise.observe.traces.events import Small, Trace


class Widths(NamedTuple):
    """Of each step, 0 where no shape tells.

    Attributes:
        tokens: rows of its embedding lookup, or of most of its matmuls.
        logits: rows of its matmul with the vocabulary.
        queries, keys: length of both sides of its attention, where an operator is given whole sequences.
    """

    tokens: Small
    logits: Small
    queries: Small
    keys: Small


_EMBEDDING = re.compile(r"embedding$")
_MATMUL = re.compile(r"(?:^|[:_])(?:mm|addmm|linear|matmul|gemm\w*|_?scaled_mm|onednn_mm)$|unquantized_gemm|gemm_a\d")
_ATTENTION = re.compile(r"scaled_dot_product_(?:\w*attention)\w*$")
_SOFTMAX = re.compile(r"_?(?:safe_)?softmax$")
_PICK = re.compile(r"argmax$")

_HUGE = 1 << 31
_SMALLEST = 256
"""A vocabulary holds every byte at least; without its table, only a far larger choice is one from a vocabulary."""

TOKENS, ROWS, LOGITS, QUERIES, KEYS = range(5)


def widths(trace: Trace, step: Small, steps: int) -> Widths:
    """What the shapes say of each step; ``step`` is that of each operator, -1 outside."""
    ops = trace.ops
    rows = np.flatnonzero(ops.shape >= 0)
    found = np.zeros((5, steps), np.int32)
    if not len(rows):
        return Widths(found[TOKENS], found[LOGITS], found[QUERIES], found[KEYS])
    pair, dense = np.unique(ops.name[rows].astype(np.int64) << 32 | ops.shape[rows], return_inverse=True)
    read = [(trace.names[code >> 32], _dims(trace.shapes[code & 0xFFFFFFFF])) for code in pair.tolist()]
    vocabulary = max((table for name, dims in read if (table := _table(name, dims))), default=0)
    values = np.array([_values(name, dims, vocabulary) for name, dims in read], np.float64)
    values = np.minimum(values, _HUGE - 1).astype(np.int64)
    for kind in range(5):
        value = values[dense, kind]
        told = (value > 0) & (step[rows] >= 0)
        found[kind] = _commonest(step[rows[told]], value[told], steps)
    tokens = np.where(found[TOKENS] > 0, found[TOKENS], found[ROWS])
    return Widths(tokens.astype(np.int32), found[LOGITS], found[QUERIES], found[KEYS])


def _commonest(step: Small, value: np.ndarray[Any, np.dtype[np.int64]], steps: int) -> Small:
    """The value most often seen in each step, 0 in a step without one."""
    found = np.zeros(steps, np.int32)
    if len(step):
        pair, count = np.unique(step.astype(np.int64) << 40 | value, return_counts=True)
        order = np.argsort(count, kind="stable")
        found[pair[order] >> 40] = pair[order] & ((1 << 40) - 1)
    return found


def _dims(text: str) -> list[list[int]]:
    """The dimensions of the tensors among an operator's inputs; none when they cannot be read."""
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        return []
    if not isinstance(parsed, list):
        return []
    return [one for one in parsed if isinstance(one, list) and one and all(_size(size) for size in one)]


def _size(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _HUGE


def _table(name: str, dims: list[list[int]]) -> int:
    """Rows of an embedding table: a vocabulary (or a rank's share of it) is the largest of them."""
    return dims[0][0] if _EMBEDDING.search(name) and dims and len(dims[0]) == 2 and dims[0][0] >= _SMALLEST else 0


def _values(name: str, dims: list[list[int]], vocabulary: int) -> tuple[int, int, int, int, int]:
    tokens = rows = logits = queries = keys = 0
    if vocabulary and _table(name, dims) == vocabulary and len(dims) > 1:
        tokens = prod(dims[1])
    elif _PICK.search(name) and dims and len(dims[0]) > 1 and dims[0][-1] >= _SMALLEST:
        whole = dims[0][-1] % vocabulary == 0 if vocabulary else dims[0][-1] >= 16 * _SMALLEST
        logits = prod(dims[0][:-1]) if whole else 0
    elif _ATTENTION.search(name) and len(dims) > 1 and len(dims[0]) == len(dims[1]) == 4:
        queries, keys = dims[0][2], dims[1][2]
    elif _SOFTMAX.search(name) and dims and len(dims[0]) == 4:
        queries, keys = dims[0][2:]
    elif _MATMUL.search(name):
        rows, out = _matmul(dims)
        if vocabulary and out == vocabulary:
            rows, logits = 0, rows
    return tokens, rows, logits, queries, keys


def _matmul(dims: list[list[int]]) -> tuple[int, int]:
    """Rows and columns of a matrix product, of the first two inputs that can be multiplied (either way round)."""
    for left, right in pairwise(one for one in dims if len(one) > 1):
        if len(right) == 2 and left[-1] in right:
            return prod(left[:-1]), right[1] if left[-1] == right[0] else right[0]
    matrix = next((one for one in dims if len(one) > 1), None)
    return (prod(matrix[:-1]), 0) if matrix else (0, 0)
