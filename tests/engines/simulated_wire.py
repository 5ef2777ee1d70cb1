"""A client for the tests of the simulated server: plain sockets, no code of phasewise.

Every read is stamped with the time at which the kernel had its bytes (on Linux; else when the read returned), so that a
busy machine that runs the test late does not spoil what the test measures.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

SO_TIMESTAMPNS = 35  # Linux


@dataclass
class Event:
    """One server-sent event: when the bytes that completed it came, and its data."""

    at: float
    data: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.data)

    @property
    def choice(self) -> dict[str, Any] | None:
        choices = self.json["choices"] if self.data != "[DONE]" else []
        return choices[0] if choices else None


@dataclass
class Reply:
    """A response as it came; ``closed`` when the server hung up before its end."""

    sent_at: float
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    events: list[Event] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    closed: bool = False

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def tokens(self) -> list[Event]:
        """Events with a choice: those that may carry tokens."""
        return [event for event in self.events if event.choice is not None]

    @property
    def ttft(self) -> float:
        return self.tokens[0].at - self.sent_at

    @property
    def tpot(self) -> float:
        return (self.tokens[-1].at - self.tokens[0].at) / (len(self.tokens) - 1)

    @property
    def usage(self) -> dict[str, Any] | None:
        found = [event.json.get("usage") for event in self.events if event.data != "[DONE]"]
        return found[-1] if found else None

    @property
    def finish(self) -> str | None:
        return self.tokens[-1].choice["finish_reason"]  # type: ignore[index]


class Wire:
    """One keep-alive connection."""

    def __init__(self, url: str, timeout: float = 20.0) -> None:
        parts = urlsplit(url)
        self.base = parts.path
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, b"", headers)

    def post(self, path: str, body: object, **headers: str) -> Reply:
        return self.send("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

    def complete(self, prompt: object, max_tokens: int, **more: object) -> Reply:
        """A streamed completion; ``prompt`` as it is, or a number of random token ids."""
        if isinstance(prompt, int):
            prompt = [random.randrange(100_000) for _ in range(prompt)]
        body = {"prompt": prompt, "max_tokens": max_tokens, "stream": True, "ignore_eos": True}
        return self.post("/v1/completions", body | {"stream_options": {"include_usage": True}} | more)

    def chat(self, content: str, max_tokens: int, **more: object) -> Reply:
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "stream": True}
        return self.post("/v1/chat/completions", body | {"stream_options": {"include_usage": True}} | more)

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        lines = [f"{method} {self.base}{path} HTTP/1.1", "host: test", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode() + body
        reply = Reply(sent_at=time.perf_counter())
        self.socket.sendall(request)
        self.receive(reply)
        return reply

    def receive(self, reply: Reply) -> None:
        raw = b""
        while not _complete(reply, raw):
            data, ancillary, *_ = self.socket.recvmsg(1 << 16, 64)
            wall, at = time.time_ns(), time.perf_counter()
            if ancillary:
                seconds, nanoseconds = struct.unpack("@ll", ancillary[0][2])
                at -= (wall - seconds * 10**9 - nanoseconds) * 1e-9
            if not data:
                reply.closed = True
                break
            raw += data
            reply.reads.append(at)
            _parse(reply, raw, at)


def _complete(reply: Reply, raw: bytes) -> bool:
    if not reply.status:
        return False
    if "chunked" in reply.headers.get("transfer-encoding", ""):
        return raw.endswith(b"0\r\n\r\n")
    return len(reply.body) >= int(reply.headers.get("content-length", "0"))


def _parse(reply: Reply, raw: bytes, at: float) -> None:
    head, found, rest = raw.partition(b"\r\n\r\n")
    if not found:
        return
    first, *lines = head.decode("latin-1").split("\r\n")
    reply.status = int(first.split()[1])
    reply.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    chunked = "chunked" in reply.headers.get("transfer-encoding", "")
    reply.body = _unchunk(rest) if chunked else rest
    if reply.headers.get("content-type", "").startswith("text/event-stream"):
        datas = [part.removeprefix(b"data: ") for part in reply.body.split(b"\n\n")[:-1]]
        reply.events += [Event(at, data.decode()) for data in datas[len(reply.events) :]]


def _unchunk(rest: bytes) -> bytes:
    body = b""
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found or len(rest) < int(size, 16) + 2:
            return body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
