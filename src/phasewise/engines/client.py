"""The server as we talk to it: one connection, our headers, its answers as records or errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from phasewise.engines import answers
from phasewise.engines.address import Address
from phasewise.engines.base import Answer
from phasewise.engines.dialect import OPENAI, Wire
from phasewise.engines.flight import Sink
from phasewise.engines.loop import Loop
from phasewise.engines.quiet import no_collection
from phasewise.engines.refusal import KEY_VARIABLES, refusal
from phasewise.engines.text import NOT_JSON
from phasewise.engines.wire import Connection, Page
from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Stalled, UsageError

PAGE_S = 10.0
"""Seconds that a page which costs no inference may take."""


class Client:
    """Requests to one server, with a count of what they cost it (``requests``, ``tokens_in``, ``tokens_out``).

    Args:
        address: where it is.
        api_key: sent as a bearer token; empty to send none.
        insecure: accept any TLS certificate.
        stall_s: seconds without progress after which an answer counts as stalled.
    """

    def __init__(self, address: Address, *, api_key: str, insecure: bool, stall_s: float) -> None:
        self.address = address
        self.served: tuple[str, ...] = ()
        self.requests = self.tokens_in = self.tokens_out = 0
        self._stall_s = stall_s
        self._insecure = insecure
        self._secret = api_key
        self._connection = Connection(address, insecure=insecure)
        authorization = f"Bearer {api_key}" if api_key else address.login
        self._headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Address, str, bool, float]]:
        """Pickled, it is a fresh connection to the same server; the key goes with it, so no pickle goes to a file."""
        return _again, (self.address, self._secret, self._insecure, self._stall_s)

    def again(self) -> Client:
        """Another connection to the same server, with the same headers."""
        return _again(self.address, self._secret, self._insecure, self._stall_s)

    def get(self, path: str) -> Page:
        """Fetch a page, whatever its status.

        Raises:
            EngineError: no answer.
        """
        return self._connection.fetch("GET", path, headers=self._headers | {"Accept": "*/*"}, wait_s=PAGE_S)

    def look(self, path: str) -> dict[str, Any] | None:
        """Fetch a page with a JSON object that a server may or may not have; None when it has none.

        Raises:
            Unreachable: the server is gone.
        """
        found = self._optional("GET", path)
        return found if isinstance(found, dict) else None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Post JSON to an endpoint that a server may or may not have; None when it does not answer with JSON."""
        return self._optional("POST", path, msgspec.json.encode(body))

    def call(self, method: str, path: str, body: bytes = b"", *, wait_s: float) -> Page:
        """Send one request to an endpoint that may take up to ``wait_s`` seconds; its page, whatever its status.

        Raises:
            EngineError: no answer.
        """
        return self._connection.fetch(method, path, body=body, headers=self._headers, wait_s=wait_s)

    def _optional(self, method: str, path: str, body: bytes = b"") -> Any:
        try:
            return _json(self._connection.fetch(method, path, body=body, headers=self._headers, wait_s=PAGE_S))
        except (BrokenStream, NotAnEngine, Stalled):
            return None

    def stream(self, path: str, body: bytes, max_tokens: int, wire: Wire = OPENAI) -> Answer | Page:
        """Send one request for a streamed answer of ``wire``; a page is what came instead, with its status.

        Raises:
            EngineError: no answer, or a broken one.
        """
        self.requests += 1
        headers = self._headers | {"Accept": "text/event-stream"}
        with no_collection():
            reply = self._connection.request("POST", path, body=body, headers=headers, wait_s=self._stall_s)
            if reply.status != 200 or "html" in reply.headers.get("content-type", ""):
                return Page(reply.status, reply.headers, reply.body())
            try:
                answer = answers.receive(reply, max_tokens, self._secret, wire)
            finally:
                reply.abandon()
        self.tokens_in += answer.prompt_tokens or 0
        self.tokens_out += answer.completion_tokens or 0
        return answer

    def loop(self, *, most: int, sink: Sink | None, keep: bool) -> Loop:
        """A loop of many requests at once to the same server, with the same headers."""
        return Loop(
            self.address,
            headers=self._headers,
            secret=self._secret,
            insecure=self._insecure,
            stall_s=self._stall_s,
            most=most,
            sink=sink,
            keep=keep,
        )

    def refusal(self, page: Page, path: str, *, elsewhere: str = "") -> EngineError:
        """The error that ``page`` stands for; ``elsewhere`` is a base path that is known to answer."""
        return refusal(page, self.address, path, served=self.served, secret=self._secret, elsewhere=elsewhere)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _again(address: Address, api_key: str, insecure: bool, stall_s: float) -> Client:
    return Client(address, api_key=api_key, insecure=insecure, stall_s=stall_s)


def api_key(given: str | None) -> str:
    """The key to send: the given one, else from the environment, else empty.

    Raises:
        UsageError: a key that no HTTP header can carry.
    """
    name, key = "The API key", given
    for variable in KEY_VARIABLES:
        if key is None and os.environ.get(variable):
            name, key = variable, os.environ[variable]
    key = (key or "").strip()
    if not key.isascii() or any(not character.isprintable() for character in key):
        raise UsageError(f"{name} holds characters that no HTTP header can carry: set it again.")
    return key


def _json(page: Page) -> Any:
    if page.status != 200:
        return None
    try:
        return msgspec.json.decode(page.body)
    except NOT_JSON:
        return None
