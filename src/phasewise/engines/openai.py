"""Any OpenAI-compatible server as an Engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from phasewise.engines import address
from phasewise.engines.address import Address
from phasewise.engines.base import Activity, Answer, Piece, Prompt
from phasewise.engines.client import Client
from phasewise.engines.client import api_key as _key
from phasewise.engines.exchange import Order
from phasewise.engines.flight import Sink
from phasewise.engines.loop import Loop
from phasewise.engines.probe import Findings, activity, probe
from phasewise.engines.prompts import Calibration, Words, check
from phasewise.engines.text import is_text
from phasewise.engines.wire import Page
from phasewise.errors import UsageError
from phasewise.record.target import Target

MAX_STALL_S = 86_400.0
"""A day: the longest time without an event that can be waited for."""


class OpenAIServer:
    """A server that was probed; implements ``engines.base.Engine``.

    Pickled, it is the same server for another process, which asks it nothing again and makes the same prompts.
    """

    def __init__(self, client: Client, findings: Findings) -> None:
        self._client = client
        self._findings = findings
        self._words = Words(Calibration())

    @property
    def target(self) -> Target:
        """What it is and what it can do, as probed."""
        return self._findings.target

    def prompt(self, tokens: int) -> Prompt:
        """A new prompt of ``tokens`` tokens that shares no prefix with any other prompt of this run.

        Raises:
            UsageError: none that long can be, or the server states a shorter context.
        """
        check(tokens, self.target.max_context)
        return self._findings.prompts(tokens)

    def pieced(self, pieces: Sequence[Piece]) -> Prompt:
        """A prompt of ``pieces``: the same in every process that connected to this server.

        Raises:
            UsageError: none that long can be, or the server states a shorter context.
        """
        check(sum(piece.tokens for piece in pieces), self.target.max_context)
        return self._findings.prompts.pieced(pieces)

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        """Send one request, greedy, that should end by length after ``max_tokens`` tokens; wait for the end.

        Raises:
            EngineError: one of its subclasses, when the server fails.
        """
        form = self._findings.form
        answer = self._client.stream(form.path, form.body(prompt.payload, max_tokens), max_tokens, form.wire)
        if isinstance(answer, Page):
            raise self._client.refusal(answer, form.path)
        return answer

    def text(self, tokens: int) -> Prompt | None:
        """A new prompt of about ``tokens`` tokens as text; None where prompts are sent as text anyway."""
        check(tokens, self.target.max_context)
        if self._findings.form.prompting != "token_ids":
            return None
        return Prompt(payload=" ".join(self._words.draw(tokens)), tokens=tokens, exact=False)

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
        """The same request, with ``options`` as more fields, for a loop: see `engines.exchange.Order`."""
        form = self._findings.form
        if options:
            form = msgspec.structs.replace(form, fields={**form.fields, **options})
        body = form.body(prompt.payload, max_tokens)
        return Order(key=key, path=form.path, body=body, max_tokens=max_tokens, due=due, fresh=fresh, wire=form.wire)

    def loop(self, *, most: int = 4096, sink: Sink | None = None, keep: bool = False) -> Loop:
        """Many requests at once, in this thread; the caller closes it."""
        return self._client.loop(most=most, sink=sink, keep=keep)

    def activity(self) -> Activity | None:
        """The server's counters now; None when it publishes none."""
        path = self._findings.metrics_path
        return None if path is None else activity(self._client, path)

    @property
    def address(self) -> Address:
        """Where it is."""
        return self._client.address

    @property
    def root(self) -> str:
        """Path of the server's own pages, as ``/metrics``; empty where they stand at its root."""
        return self._findings.root

    def beside(self) -> Client:
        """A connection of its own to the same server; the caller closes it."""
        return self._client.again()

    def reach(self) -> None:
        """See that it answers, whatever it answers.

        Raises:
            EngineError: it does not.
        """
        self._client.get("/")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def connect(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    insecure: bool = False,
    stall_s: float = 60.0,
    progress: Callable[[str], None] | None = None,
) -> OpenAIServer:
    """Connect to the server at ``url`` and find out what it can do.

    Args:
        url: with or without ``/v1``, with or without a path before it.
        model: name of the served model to ask for; needed when there are several.
        api_key: else taken from PHASEWISE_API_KEY, else OPENAI_API_KEY.
        insecure: accept any TLS certificate.
        stall_s: seconds without an event after which the server counts as stalled.
        progress: told what is being done, in a few words.

    Raises:
        UsageError: a URL, key or model name that cannot be.
        EngineError: one of its subclasses, when the server fails.
    """
    if not 0 < stall_s <= MAX_STALL_S:
        raise UsageError(
            f"{stall_s:g} s is no time to wait for an event: give --timeout seconds over 0 and up to a day "
            f"({MAX_STALL_S:.0f})."
        )
    if model is not None and not is_text(model):
        raise UsageError("--served-model holds bytes that are no text: write the name as the server lists it.")
    client = Client(address.parse(url), api_key=_key(api_key), insecure=insecure, stall_s=stall_s)
    try:
        return OpenAIServer(client, probe(client, model, progress or (lambda doing: None)))
    except BaseException:
        client.close()
        raise
