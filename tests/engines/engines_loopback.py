"""A server for tests that answers each request from a script: bytes, pauses, a hang-up. No code of phasewise."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HANG_UP = "hang up"
RESET = "reset"
Step = bytes | float | str
"""Send these bytes; wait so many seconds; close; close with a TCP reset."""


@dataclass
class Request:
    """A request as it came, with the number of its connection (from 1) and of itself on it (from 1)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    number: int

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


Script = Callable[[Request], Iterable[Step]]


class Loopback:
    """Serves ``script`` on a free port while its context is open."""

    def __init__(
        self, script: Script, *, certificate: Path | None = None, listener: socket.socket | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._script = script
        self._tls = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)
        self._leaving = threading.Event()
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def __enter__(self) -> Loopback:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving.set()
        # shutdown wakes a thread that waits in accept or recv; close alone does not.
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                count = 0
                while request := _read(stream, number, count + 1):
                    count += 1
                    self.requests.append(request)
                    for step in self._script(request):
                        if isinstance(step, bytes):
                            connection.sendall(step)
                        elif isinstance(step, float):
                            self._leaving.wait(step)
                        else:
                            if step == RESET:
                                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                            return


def _read(stream: Any, connection: int, number: int) -> Request | None:
    first = stream.readline().split()
    if len(first) != 3 or not b"".join(first).isascii():
        return None
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(first[0].decode(), first[1].decode(), headers, body, connection, number)


def page(body: bytes | str | object, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """A whole answer with its length; ``body`` that is neither bytes nor text is sent as JSON."""
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    return head.encode() + data


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: object) -> bytes:
    """One server-sent event in a chunk of its own."""
    text = data if isinstance(data, str) else json.dumps(data)
    return chunk(f"data: {text}\n\n".encode())


def stream(events: Iterable[object], *, done: bool = True) -> list[Step]:
    """A streamed answer, each event in a write of its own."""
    return [SSE_HEAD, *map(event, events), *([event("[DONE]")] if done else []), END]


CERTIFICATE = """
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJHTKjz2UrQB1b5Bf
yVPSb8bBP1SXCCXXnY1cRwnR3VShRANCAASIGsrE/VDLcjmSVkqd0CTJOSDqG4Li
+aFQ8noBfnPd6OqAjLPHBgTAh0kWcBd6v0AJ+LvpU7lGvCHTmvPeJuj2
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBlDCCATugAwIBAgIUUMz4ySElnWshA5duWT6Oe9jacPMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyOTIwMDk1NFoYDzIxMjYxMTA1
MjAwOTU0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASIGsrE/VDLcjmSVkqd0CTJOSDqG4Li+aFQ8noBfnPd6OqAjLPHBgTA
h0kWcBd6v0AJ+LvpU7lGvCHTmvPeJuj2o2kwZzAdBgNVHQ4EFgQU0fL1KMnr4ZBc
TzNuA0EHZl+4CmEwHwYDVR0jBBgwFoAU0fL1KMnr4ZBcTzNuA0EHZl+4CmEwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
RwAwRAIgU1gKgozhSh0JMa/2IhvFbpJAreiTvIZ3B/YW4+RW2OgCIFPXcFx68I4g
KHtIalZD4APOAmOgyUvR13jZYfly8lDW
-----END CERTIFICATE-----
"""
"""Self-signed, made for these tests with `openssl req -x509`; it protects nothing."""
