"""The clients that others are built on, written as plainly as their users write them; each is optional.

Every one sends some bodies at once and returns, for each answer, when it was sent, when its first and its last token
were seen, and how many tokens there were, by ``time.perf_counter``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, NamedTuple

PATH = "/v1/completions"
HEADERS = {"Content-Type": "application/json"}


class Seen(NamedTuple):
    sent_at: float
    first_at: float
    last_at: float
    tokens: int
    prompt_tokens: int


class Reader:
    """What every one of them does with a line of a stream."""

    def __init__(self) -> None:
        self.sent_at = time.perf_counter()
        self.first_at = self.last_at = 0.0
        self.tokens = self.prompt_tokens = 0

    def line(self, line: bytes | str) -> None:
        at = time.perf_counter()
        text = line.decode() if isinstance(line, bytes) else line
        if not text.startswith("data: ") or text.startswith("data: [DONE]"):
            return
        event = json.loads(text[6:])
        if event["choices"]:
            self.first_at, self.last_at = self.first_at or at, at
            self.tokens += 1
        if event.get("usage"):
            self.prompt_tokens = event["usage"]["prompt_tokens"]

    def seen(self) -> Seen:
        return Seen(self.sent_at, self.first_at, self.last_at, self.tokens, self.prompt_tokens)


Rounds = list[list[bytes]]
"""Bodies to send at once, several times over the same connections."""


async def with_aiohttp(url: str, rounds: Rounds) -> list[list[Seen]]:
    import aiohttp

    async def one(session: Any, body: bytes) -> Seen:
        reader = Reader()
        async with session.post(url + PATH, data=body, headers=HEADERS) as response:
            async for line in response.content:
                reader.line(line)
        return reader.seen()

    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        return [await asyncio.gather(*(one(session, body) for body in bodies)) for bodies in rounds]


async def with_httpx(url: str, rounds: Rounds) -> list[list[Seen]]:
    import httpx

    async def one(client: Any, body: bytes) -> Seen:
        reader = Reader()
        async with client.stream("POST", url + PATH, content=body, headers=HEADERS) as response:
            async for line in response.aiter_lines():
                reader.line(line)
        return reader.seen()

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:
        return [await asyncio.gather(*(one(client, body) for body in bodies)) for bodies in rounds]


class _Protocol(asyncio.Protocol):
    """httptools on a bare transport: the least that asyncio can do."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.left = b""
        self.reader = Reader()
        self.done: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def send(self, body: bytes) -> asyncio.Future[None]:
        import httptools

        self.parser = httptools.HttpResponseParser(self)
        self.done = asyncio.get_running_loop().create_future()
        self.reader = Reader()
        head = f"POST {PATH} HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        return self.done

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        *lines, self.left = (self.left + body).split(b"\n")
        for line in lines:
            self.reader.line(line)

    def on_message_complete(self) -> None:
        self.done.set_result(None)


async def with_httptools(url: str, rounds: Rounds) -> list[list[Seen]]:
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    lines = [(await loop.create_connection(lambda: _Protocol(host), host, int(port)))[1] for _ in rounds[0]]
    found = []
    for bodies in rounds:
        await asyncio.gather(*(line.send(body) for line, body in zip(lines, bodies, strict=True)))
        found.append([line.reader.seen() for line in lines])
    for line in lines:
        line.transport.close()
    return found


Client = Callable[[str, Rounds], Coroutine[Any, Any, list[list[Seen]]]]
PEERS: dict[str, tuple[str, Client]] = {
    "aiohttp": ("aiohttp", with_aiohttp),
    "httpx": ("httpx", with_httpx),
    "uvloop and httptools": ("uvloop", with_httptools),
}
"""By name: the package that must be installed, and the client."""


def installed(package: str) -> ModuleType | None:
    try:
        return __import__(package)
    except ImportError:
        return None


def run(name: str, url: str, rounds: Rounds) -> list[list[Seen]]:
    package, client = PEERS[name]
    if package == "uvloop":
        with asyncio.Runner(loop_factory=installed("uvloop").new_event_loop) as runner:  # type: ignore[union-attr]
            return runner.run(client(url, rounds))
    return asyncio.run(client(url, rounds))
