"""The rows of a run: one per request, one per streamed event, as they lie beside it in Parquet.

Times are seconds from the start of the row's trial (number 0, unless `load --find-rate` made several), negative before
it; where `power sweep` measured under several caps, or `capture` timed prompts (0) and a batch (1), the trials of a run
follow one another and all times count from the start of the first. What did not come is null.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.engines.dialect import SHOWN, THINKING
from phasewise.engines.exchange import Arrivals, Exchange

WARMUP = -1
"""Trial of requests that no figure uses."""


ENDED_BY_US = "broken off"
"""How the error of a request begins that we ended ourselves: it did not fail, and its end is not known."""

PARTS = "rows"
"""Folder of the parts that a run is written in, inside its own."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        trial, request: its number in its trial.
        phase: of a profile or a sweep, what it was sent for: ``prefill``, ``decode``, ``beside``.
        worker: which worker sent it.
        user: of a closed loop.
        due_s: when it should have been sent: by the plan; in a closed loop when the one before had ended; where nothing
            was planned, when it was sent.
        connect_s: opening its connection; 0 on a kept one.
        sent_s: right before its first byte was written; ``sent_s - due_s`` is the client's own queue, ``connect_s``
            included.
        ttft_s: from ``sent_s`` to the first token of any kind; null without a token.
        answer_ttft_s: the same to the first token that is no reasoning.
        tpot_s: see docs: (last - first token) / tokens after the first read; null when undefined.
        last_token_s, ended_s: arrival of the last token, and of the end.
        prompt_tokens_planned, answer_tokens_planned: as asked for.
        prompt_tokens, completion_tokens, cached_tokens: by the server's usage; null when it gave none.
        first_read_tokens: tokens that came in the read of the first.
        status: HTTP; null without.
        finish_reason: as the server said it.
        error: why it failed; null when it did not.
        streamed: false when the body came as one piece. stamped: true when times are the kernel's.
        received_bytes: of the answer, framing included.
    """

    trial: int
    request: int
    phase: str | None
    worker: int
    user: int | None
    due_s: float
    connect_s: float
    sent_s: float | None
    ttft_s: float | None
    answer_ttft_s: float | None
    tpot_s: float | None
    last_token_s: float | None
    ended_s: float | None
    prompt_tokens_planned: int
    answer_tokens_planned: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    first_read_tokens: int
    status: int | None
    finish_reason: str | None
    error: str | None
    streamed: bool
    stamped: bool
    received_bytes: int


class Asked(NamedTuple):
    """What a row says of a request besides its exchange."""

    trial: int
    worker: int
    user: int | None
    prompt_tokens: int
    answer_tokens: int
    phase: str | None = None


def row(exchange: Exchange, asked: Asked, start: float) -> RequestRow:
    """``exchange`` as a row; ``start`` is the ``perf_counter`` second that times count from."""

    def since(at: float) -> float | None:
        return at - start if at else None

    sent = exchange.sent_at
    return RequestRow(
        trial=asked.trial,
        request=exchange.key,
        phase=asked.phase,
        worker=asked.worker,
        user=asked.user,
        due_s=exchange.due - start,
        connect_s=exchange.connect_s,
        sent_s=since(sent),
        ttft_s=exchange.first_at - sent if sent and exchange.first_at else None,
        answer_ttft_s=exchange.answered_at - sent if sent and exchange.answered_at else None,
        tpot_s=exchange.tpot if exchange.first_at else None,
        last_token_s=since(exchange.last_at),
        ended_s=since(exchange.ended_at),
        prompt_tokens_planned=asked.prompt_tokens,
        answer_tokens_planned=asked.answer_tokens,
        prompt_tokens=exchange.prompt_tokens,
        completion_tokens=exchange.completion_tokens,
        cached_tokens=exchange.cached_tokens,
        first_read_tokens=exchange.first_read_tokens,
        status=exchange.status or None,
        finish_reason=exchange.finish_reason,
        error=exchange.error or None,
        streamed=exchange.streamed,
        stamped=exchange.stamped,
        received_bytes=exchange.received,
    )


_SQL = {"int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "str": "VARCHAR"}

REQUEST_TYPES = {name: _SQL[kind.split(" | ")[0]] for name, kind in RequestRow.__annotations__.items()}
"""SQL type of each column of requests.parquet."""

CHUNK_TYPES = {
    "trial": "BIGINT",
    "request": "BIGINT",
    "worker": "BIGINT",
    "at_s": "DOUBLE",
    "read": "INTEGER",
    "tokens": "INTEGER",
    "shows_text": "BOOLEAN",
    "thinking": "BOOLEAN",
}
"""SQL type of each column of chunks.parquet: one row per event that may be a token. ``at_s`` is the arrival of the read
that completed it, ``read`` the number of that read in its answer (equal numbers were coalesced), ``tokens`` what the
server says is in it, null where it does not say."""

TABLES = {"requests": REQUEST_TYPES, "chunks": CHUNK_TYPES}
"""The tables of a run, and the types of their columns."""


class Chunks(msgspec.Struct, frozen=True, array_like=True):
    """Some events on their way: arrays as bytes, little-endian; ``tokens`` is -1 where nothing says."""

    trial: int
    worker: int
    request: bytes
    at_s: bytes
    read: bytes
    tokens: bytes
    kind: bytes

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """By name, as `CHUNK_TYPES` has them."""
        request, kind = np.frombuffer(self.request, np.int64), np.frombuffer(self.kind, np.uint8)
        return {
            "trial": np.full(len(request), self.trial),
            "request": request,
            "worker": np.full(len(request), self.worker),
            "at_s": np.frombuffer(self.at_s, np.float64),
            "read": np.frombuffer(self.read, np.int32),
            "tokens": np.frombuffer(self.tokens, np.int32),
            "shows_text": (kind & SHOWN) != 0,
            "thinking": (kind & THINKING) != 0,
        }


def chunks(taken: list[tuple[int, Arrivals]], trial: int, worker: int, start: float) -> Chunks:
    """Events that a loop handed over, with the keys of their requests."""
    at = np.concatenate([arrivals.at for _, arrivals in taken])
    sizes = [len(arrivals.at) for _, arrivals in taken]
    return Chunks(
        trial,
        worker,
        np.repeat(np.array([key for key, _ in taken], np.int64), sizes).tobytes(),
        ((at - round(start * 1e9)) * 1e-9).tobytes(),
        np.concatenate([arrivals.read for _, arrivals in taken]).astype(np.int32).tobytes(),
        np.concatenate([arrivals.tokens for _, arrivals in taken]).astype(np.int32).tobytes(),
        np.concatenate([arrivals.kind for _, arrivals in taken]).astype(np.uint8).tobytes(),
    )


class Frame(msgspec.Struct, array_like=True):
    """Rows that are handed on together."""

    requests: list[RequestRow] = []
    chunks: list[Chunks] = []
