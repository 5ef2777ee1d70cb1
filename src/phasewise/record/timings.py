"""What a server says of its own times, beside ours; part of the section of isolate/."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.quantity import Quantity


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One phase at one size: the time that we saw and the time that the server states, medians of the same requests.

    Attributes:
        phase: prefill compares TTFT, decode the time per token after the first.
        tokens: prompt length; in decode of the prompt before the answer.
        ours: measured at the client, seconds.
        theirs: as the server reported it, seconds.
        rest: ours less theirs, request by request: front end, network and queue in prefill.
        samples: how many requests.
    """

    phase: Literal["prefill", "decode"]
    tokens: int
    ours: Quantity
    theirs: Quantity
    rest: Quantity
    samples: int


class ServerTimings(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own timings, reconciled with ours.

    Attributes:
        who: whose they are (``llama.cpp's timings``).
        rows: by phase and size, ascending.
        queue: typical wait before a prompt was taken up, by the server's count, seconds; None when it does not say.
        load: typical time that making the model ready took before that, likewise.
    """

    who: str
    rows: tuple[Beside, ...]
    queue: Quantity | None = None
    load: Quantity | None = None
