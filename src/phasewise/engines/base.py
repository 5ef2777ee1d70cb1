"""What isolate/ may ask of an engine, whatever the engine is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from phasewise.record.target import Target

if TYPE_CHECKING:
    from phasewise.engines.exchange import Order
    from phasewise.engines.flight import Sink
    from phasewise.engines.loop import Loop


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that no cache has seen.

    ``payload`` is token ids where the engine takes them, else text (for chat: the user message). ``tokens`` is its
    length as the engine will count it; ``exact`` says whether that is known (token ids, or counted by the server) or
    estimated.
    """

    payload: tuple[int, ...] | str
    tokens: int
    exact: bool


class Piece(NamedTuple):
    """A stretch of a prompt of ``tokens`` tokens: equal keys give equal tokens, in every process."""

    key: tuple[int, ...]
    tokens: int


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One streamed event that carried, or may have carried, tokens.

    Attributes:
        at: ``time.perf_counter()`` right after the read that completed it, before any parsing.
        read: number of the socket read it came in; equal numbers mean that events were coalesced.
        tokens: tokens in it when the server says (token ids, running usage), else None.
        empty: True when it carried no text (a token of incomplete UTF-8, or no token at all).
        thinking: True for reasoning content.
    """

    at: float
    read: int
    tokens: int | None
    empty: bool
    thinking: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its streamed answer, times by ``time.perf_counter()`` in seconds.

    Attributes:
        sent_at: right before the first byte of the request was written, on an open connection.
        headers_at: right after the read that held the status line.
        first_at: of the first chunk that counts as a token (see design: TTFT).
        last_at: of the last chunk that counts as a token.
        ended_at: end of the response.
        chunks: every event that may count as a token, in order; a role-only chunk is none.
        prompt_tokens, completion_tokens, cached_tokens: by the server's usage, None when it gave none.
        finish_reason: as the server said it.
        streamed: False when the body came as one piece although a stream was asked for.
        reported: the server's own timings and counts, by its own names and in its own units (llama.cpp: milliseconds).
        stamped: True when the times are the kernel's.
        received: bytes.
    """

    sent_at: float
    headers_at: float
    first_at: float
    last_at: float
    ended_at: float
    chunks: tuple[Chunk, ...]
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str | None
    streamed: bool = True
    reported: dict[str, float] = {}
    stamped: bool = False
    received: int = 0

    @property
    def ttft(self) -> float:
        """Send of the request to the first token, seconds."""
        return self.first_at - self.sent_at

    @property
    def answered_at(self) -> float | None:
        """Of the first token that is no reasoning; None when there is none."""
        spoken = (chunk.at for chunk in self.chunks if (chunk.tokens or not chunk.empty) and not chunk.thinking)
        return next(spoken, None)


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's own counters say at one moment; None where it has no such counter.

    ``prompt_tokens`` and ``output_tokens`` are totals since it started, ``running`` and ``waiting`` are requests now.
    """

    running: float | None = None
    waiting: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None


class Engine(Protocol):
    """A running engine that answers one request at a time for us.

    All methods raise ``errors.EngineError`` (one of its subclasses) when the engine fails.
    """

    @property
    def target(self) -> Target:
        """What it is and what it can do, as probed."""

    def prompt(self, tokens: int) -> Prompt:
        """A new prompt of ``tokens`` tokens that shares no prefix with any other prompt of this run."""

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        """Send one request, greedy, that should end by length after ``max_tokens`` tokens; wait for the end."""

    def activity(self) -> Activity | None:
        """The server's counters now; None when it publishes none."""

    def close(self) -> None:
        """Close connections; stop the engine when we started it. Safe to call twice."""


@runtime_checkable
class Crowdable(Engine, Protocol):
    """An engine that also takes many requests at once."""

    def order(
        self,
        key: int,
        prompt: Prompt,
        max_tokens: int,
        *,
        due: float = 0.0,
        fresh: bool = False,
        options: Mapping[str, Any] = {},
    ) -> Order:
        """The request of ``ask``, with more fields, for a loop: see `engines.exchange.Order`."""

    def text(self, tokens: int) -> Prompt | None:
        """A new prompt of about ``tokens`` tokens as text; None where prompts are sent as text anyway."""

    def loop(self, *, most: int = 4096, sink: Sink | None = None, keep: bool = False) -> Loop:
        """Many requests at once, in the thread that calls; the caller closes it."""
