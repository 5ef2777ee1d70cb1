"""How the loop reads: events of any size, bytes that come while a request is sent, and when it parses."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from engines_loop import fetch, order
from engines_loopback import END, SSE_HEAD, Loopback, Request, Step, chunk, event

from phasewise.engines import address, loop
from phasewise.engines.exchange import Exchange
from phasewise.engines.flight import Flight
from phasewise.engines.loop import Loop

pytestmark = pytest.mark.alone

DONE = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}) + event("[DONE]") + END


def of_size(size: int) -> bytes:
    """One chunk of one event, ``size`` bytes in all."""
    for spare in range(12):
        data = json.dumps({"choices": [{"text": "x" * (size - 40 - spare)}]}).encode()
        whole = chunk(b"data: " + data + b"\n\n")
        if len(whole) == size:
            return whole
    raise AssertionError(size)


@pytest.fixture
def unswept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not seen when it comes is not seen later either."""
    monkeypatch.setattr(loop, "_SWEEP_NS", 60 * 10**9)


@pytest.mark.parametrize("large", [False, True])
def test_an_event_that_was_sent_at_once_is_one_read_whatever_its_size(large: bool) -> None:
    sizes = [100, 478, 479, 480, 481, 1000, 479, 4095, 4096, 4097, 4098, 30_000, 100]
    if large:
        sizes = sizes[::-1]

    def script(request: Request) -> Iterator[Step]:
        yield SSE_HEAD
        for size in sizes:
            yield 0.03
            yield of_size(size)
        yield 0.03
        yield DONE

    with Loopback(script) as server:
        (got,) = fetch(server.url)
    assert got.error == ""
    assert got.arrivals.at.size == len(sizes)
    # On a busy machine two of them may come together, but none comes in parts.
    assert got.arrivals.read[-1] <= 1 + len(sizes)
    assert got.received == len(SSE_HEAD) + sum(sizes) + len(DONE)


def answer_by(serve: Callable[[socket.socket], None], body: bytes = b"{}", **options: float) -> Exchange:
    """What a loop makes of one answer by ``serve``, which has a connection on which a request comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as conn:
                serve(conn)

        thread = threading.Thread(target=accept)
        thread.start()
        (got,) = fetch(f"http://127.0.0.1:{listener.getsockname()[1]}", order(body=body), within_s=8.0, **options)
        thread.join(10)
    return got


def test_urgent_bytes_do_not_hide_what_follows_them() -> None:
    """A read ends before an urgent byte, though more has come."""
    done = threading.Event()

    def serve(conn: socket.socket) -> None:
        conn.recv(65536)
        conn.sendall(SSE_HEAD + of_size(100))
        conn.send(b"!", socket.MSG_OOB)
        conn.sendall(of_size(100) + DONE)
        done.wait(10)

    try:
        got = answer_by(serve, stall_s=3.0)
    finally:
        done.set()
    assert (got.error, got.arrivals.at.size) == ("", 2)


@pytest.mark.usefixtures("unswept")
def test_a_request_is_sent_whole_though_its_answer_has_begun() -> None:
    """Of a connection that can be read and written at once it is told once."""
    body = b"%-8000000d" % 1

    def serve(conn: socket.socket) -> None:
        conn.recv(1000)
        conn.sendall(SSE_HEAD + of_size(100))
        left = len(body)
        while left > 2000:
            conn.sendall(of_size(100)) if left % 7 == 0 else None
            left -= len(conn.recv(100_000))
        conn.sendall(DONE)
        conn.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            while conn.recv(100_000):
                pass

    got = answer_by(serve, body, stall_s=3.0)
    assert got.error == ""
    assert got.completion_tokens == 1


@pytest.mark.usefixtures("unswept")
def test_more_than_fits_into_any_buffer_is_read_though_nothing_follows_it() -> None:
    sent, slept = threading.Event(), threading.Event()

    def script(request: Request) -> Iterator[Step]:
        yield SSE_HEAD + 300 * of_size(30_000)  # so that the system makes room for more
        sent.set()
        slept.wait(10)
        yield 10 * of_size(30_000) + DONE

    with Loopback(script) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as one:
        one.submit(order(max_tokens=400))
        while not sent.is_set():
            one.step(time.perf_counter() + 0.01)
        slept.set()
        time.sleep(0.5)
        done, until = [], time.perf_counter() + 8
        while not done and time.perf_counter() < until:
            done += one.step(time.perf_counter() + 0.1)
    assert [got.error for got in done] == [""]
    assert done[0].arrivals.at.size == 310


@pytest.mark.usefixtures("unswept")
def test_the_end_that_came_with_the_last_bytes_is_seen() -> None:
    def serve(conn: socket.socket) -> None:
        conn.recv(65536)
        conn.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + b'{"choices": [{"text":"a"}]}\n\n'
        )

    got = answer_by(serve, stall_s=3.0)
    assert (got.error, got.arrivals.at.size) == ("", 1)


@pytest.mark.parametrize("pause", [0.0, 0.0005])
def test_reads_are_parsed_many_at_a_time_and_never_too_many(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    parse = Flight.parse

    def noted(self: Flight, offset_ns: int) -> None:
        batches.append(len(self.reads))
        parse(self, offset_ns)

    monkeypatch.setattr(Flight, "parse", noted)

    def script(request: Request) -> Iterator[Step]:
        yield SSE_HEAD
        for _ in range(600):
            yield of_size(100)
            yield pause
        yield DONE

    with Loopback(script) as server:
        (got,) = fetch(server.url, max_tokens=700)
    assert (got.error, got.arrivals.at.size) == ("", 600)
    assert max(batches) <= 257
    if pause:
        assert len(batches) < sum(batches) / 5
