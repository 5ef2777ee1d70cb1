"""Part of the observation: what a few extra requests told of TTFT, of requests sent together, and of their options."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity


class TtftParts(msgspec.Struct, frozen=True, kw_only=True):
    """TTFT of one prompt length taken apart, seconds; a part is None when it could not be told.

    Attributes:
        tokens: of the prompts, by the server's count.
        ttft: typical, on a kept connection, right after another request.
        client: from when a request was due to when it was sent: the client's own queue.
        connection: opening a connection (TCP, TLS), which a kept one does not pay.
        kept: how much later the first token comes on a kept connection than on a new one.
        front_end: how much later it comes when the prompt is text of as many tokens instead of token ids.
        queue: waiting inside the server, as it reports.
        prefill: the pass itself, as the server reports.
        idle_s: pause before the requests that tell ``idle``.
        idle: how much later the first token comes after that pause.
        again: TTFT of the same prompt sent a second time.
        cached_tokens, counted_again: cached and prompt tokens of that second request, by the server's usage.
    """

    tokens: int
    ttft: Quantity
    client: Quantity
    connection: Quantity | None = None
    kept: Quantity | None = None
    front_end: Quantity | None = None
    queue: Quantity | None = None
    prefill: Quantity | None = None
    idle_s: float = 0.0
    idle: Quantity | None = None
    again: Quantity | None = None
    cached_tokens: int | None = None
    counted_again: int | None = None


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Short requests that were sent at the same moment.

    Attributes:
        requests: how many.
        ttft_first, ttft_last: of the first and of the last that got a token, seconds.
        together: most that were between their first and last token at once.
        step: time between two events of one answer while all of them run, seconds; None when they never all did.
        throughput: tokens per second of all together, meanwhile.
        tokens_per_chunk: tokens in an event.
        spread: by how much the events of one step come after its first, seconds; None for one request.
    """

    requests: int
    ttft_first: float
    ttft_last: float
    together: int
    step: Quantity | None
    throughput: Quantity | None
    tokens_per_chunk: float
    spread: float | None = None


class OptionCost(msgspec.Struct, frozen=True, kw_only=True):
    """What an option of a request costs per token.

    Attributes:
        name: in words.
        plain: TPOT without it, seconds.
        tpot: TPOT with it; None when the server refused it or ended the answer at once.
        refused: what the server said to it.
    """

    name: str
    plain: Quantity
    tpot: Quantity | None
    refused: str = ""


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """All of them; ``skipped`` says which were not made and why, a sentence each."""

    ttft: TtftParts | None = None
    bursts: tuple[Burst, ...] = ()
    options: tuple[OptionCost, ...] = ()
    skipped: tuple[str, ...] = ()
