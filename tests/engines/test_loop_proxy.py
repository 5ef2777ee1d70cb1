"""Through an HTTP/1.1 reverse proxy: requests go where the URL says, and what the proxy holds back shows."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from engines_loop import fetch, order
from engines_loopback import END, SSE_HEAD, Loopback, Request, Step, event

pytestmark = pytest.mark.alone

COUNT = 24


def tokens(request: Request) -> Iterator[Step]:
    yield SSE_HEAD
    for number in range(COUNT):
        yield event({"choices": [{"text": f" {number}"}]})
        yield 0.02
    yield event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": COUNT}})
    yield event("[DONE]") + END


def lines(stream: object) -> bytes:
    """The lines of a head, without the blank one; nothing at the end of a connection."""
    head = b""
    while (line := stream.readline()) not in (b"\r\n", b""):  # type: ignore[attr-defined]
        head += line
    return head


def unchunked(stream: object) -> Iterator[bytes]:
    """The pieces of a chunked body, as they come."""
    while size := int(stream.readline(), 16):  # type: ignore[attr-defined]
        yield stream.read(size)  # type: ignore[attr-defined]
        stream.readline()  # type: ignore[attr-defined]


@contextlib.contextmanager
def proxy(port: int, *, hold: int, piece: int) -> Iterator[str]:
    """Forwards one connection's requests; gives the body on in chunks of ``piece`` once it holds ``hold`` bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError, ValueError), listener.accept()[0] as near:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with near.makefile("rb") as asked, socket.create_connection(("127.0.0.1", port)) as far:
                while head := lines(asked):
                    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    far.sendall(head + b"Via: 1.1 test\r\n\r\n" + asked.read(length))
                    with far.makefile("rb") as answer:
                        near.sendall(lines(answer) + b"Via: 1.1 test\r\n\r\n")
                        held = b""
                        for data in unchunked(answer):
                            held += data
                            if len(held) >= hold:
                                near.sendall(chunks(held, piece))
                                held = b""
                        near.sendall(chunks(held, piece) + END)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        thread.join(timeout=10)


def chunks(data: bytes, piece: int) -> bytes:
    parts = (data[start : start + piece] for start in range(0, len(data), piece))
    return b"".join(b"%X\r\n%s\r\n" % (len(part), part) for part in parts)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_proxy_that_cuts_anew_changes_no_time(piece: int) -> None:
    with Loopback(tokens) as server, proxy(server.port, hold=1, piece=piece) as url:
        (got,) = fetch(url)
        assert server.requests[0].headers["via"] == "1.1 test"
    assert got.error == ""
    assert got.completion_tokens == got.arrivals.at.size == COUNT
    assert len(set(got.arrivals.read.tolist())) > COUNT / 2
    assert got.last_at - got.first_at > 0.02 * (COUNT - 1) * 0.9


def test_a_proxy_that_buffers_shows_as_events_in_one_read() -> None:
    with Loopback(tokens) as server, proxy(server.port, hold=300, piece=1000) as url:
        (got,) = fetch(url)
    assert got.error == ""
    assert got.completion_tokens == got.arrivals.at.size == COUNT
    assert len(set(got.arrivals.read.tolist())) < COUNT / 4
    assert got.first_read_tokens > 4


def test_proxy_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Loopback(tokens) as server:
        (got,) = fetch(server.url, order(1))
    assert got.error == ""
