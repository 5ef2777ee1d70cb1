"""Rows of a worker on our clock."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from phasewise.isolate.ledger.schema import Chunks, Frame, RequestRow

Ours = Callable[[float], float]
"""Seconds from the start on the worker's clock to seconds from the start on ours: a straight line."""


def common(frame: Frame, ours: Ours) -> Frame:
    """``frame`` with every moment put on our clock. What lasts (TTFT, connecting) is left as the one clock saw it."""
    zero = ours(0.0)
    slope = ours(1.0) - zero - 1.0  # a millionth or so: kept apart from 1, and from the zero
    return Frame(
        requests=[_request(row, ours) for row in frame.requests],
        chunks=[_chunks(chunks, zero, slope) for chunks in frame.chunks],
    )


def _request(row: RequestRow, ours: Ours) -> RequestRow:
    def moment(at: float | None) -> float | None:
        return None if at is None else ours(at)

    return msgspec.structs.replace(
        row,
        due_s=ours(row.due_s),
        sent_s=moment(row.sent_s),
        last_token_s=moment(row.last_token_s),
        ended_s=moment(row.ended_s),
    )


def _chunks(chunks: Chunks, zero: float, slope: float) -> Chunks:
    at = np.frombuffer(chunks.at_s, np.float64)
    return msgspec.structs.replace(chunks, at_s=(at + (zero + slope * at)).tobytes())
