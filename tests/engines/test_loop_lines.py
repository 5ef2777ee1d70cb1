"""The loop's connections: kept, refused, retried, full, and the order in which requests are sent."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from engines_fake import Fake
from engines_loop import ANSWER, EVENTS, fetch, order, run, well
from engines_loopback import (
    END,
    HANG_UP,
    RESET,
    SSE_HEAD,
    Loopback,
    Request,
    Step,
    chunk,
    event,
    page,
)

from phasewise.engines import address, openai
from phasewise.engines.loop import Loop

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("waiting", ["epoll", "poll"])
def test_many_at_once_each_gets_its_own_answer(waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if waiting == "poll":
        monkeypatch.delattr(select, "epoll", raising=False)  # macOS has none

    def script(request: Request) -> Iterator[Step]:
        count = request.json["max_tokens"]
        yield SSE_HEAD
        for number in range(count):
            yield event({"choices": [{"text": f" {number}"}]})
            yield 0.002
        yield event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": count}})
        yield event("[DONE]") + END

    orders = [order(key, body=b'{"max_tokens": %d}' % (key + 1)) for key in range(20)]
    with Loopback(script) as server:
        done = fetch(server.url, *orders)
        assert server.connections == 20
    assert [one.error for one in done] == [""] * 20
    assert [one.arrivals.at.size for one in done] == [one.completion_tokens for one in done] == list(range(1, 21))


def test_a_kept_connection_is_used_again_and_a_fresh_one_is_not() -> None:
    with (
        Loopback(lambda request: ANSWER) as server,
        Loop(address.parse(server.url), headers={"X-Mine": "yes"}, stall_s=5) as loop,
    ):
        first, second = run(loop, [order(1)]), run(loop, [order(2)])
        assert server.connections == 1
        fresh = run(loop, [order(3, fresh=True)])
        assert server.connections == 2
    for (got,) in (first, second, fresh):
        well(got)
    assert first[0].connect_s > 0 == second[0].connect_s
    assert fresh[0].connect_s > 0
    assert {request.headers["x-mine"] for request in server.requests} == {"yes"}


@pytest.mark.parametrize("end", [HANG_UP, RESET])
def test_a_kept_connection_that_dies_without_a_byte_is_tried_anew_and_timed_anew(end: str) -> None:
    def script(request: Request) -> Iterator[Step]:
        if request.connection == 1 and request.number == 2:
            yield 0.2
            yield end
        yield from ANSWER

    with Loopback(script) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        run(loop, [order(1)])
        (got,) = run(loop, [order(2)])
    well(got)
    assert server.connections == 2
    assert got.slip > 0.19  # the server had it late, and that is said; it is nobody's TTFT
    assert got.ttft < 0.19


@pytest.mark.parametrize("last", [[*ANSWER, HANG_UP], [*ANSWER[:-1], END + b"more that nobody asked for"]])
def test_a_connection_that_cannot_be_used_again_is_opened_anew(last: list[Step]) -> None:
    with Loopback(lambda request: last) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        for key in range(2):
            well(run(loop, [order(key)])[0])
            loop.step(time.perf_counter() + 0.1)
        assert server.connections == 2


def test_a_fresh_connection_that_dies_without_a_byte_is_not_tried_again() -> None:
    with Loopback(lambda request: [HANG_UP]) as server:
        (got,) = fetch(server.url)
        assert len(server.requests) == 1
    assert "closed the connection without an answer" in got.error


def test_no_request_is_sent_twice_once_a_byte_of_an_answer_came() -> None:
    def script(request: Request) -> Iterator[Step]:
        yield from ANSWER if request.number == 1 else [b"HTTP/1.1 200", HANG_UP]

    with Loopback(script) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        run(loop, [order(1)])
        (got,) = run(loop, [order(2)])
        assert len(server.requests) == 2
    assert "inside an answer" in got.error


def test_many_through_few_connections_wait_and_the_wait_is_the_clients() -> None:
    slow = [SSE_HEAD, 0.1, *ANSWER[1:]]
    with Loopback(lambda request: slow) as server:
        done = fetch(server.url, *(order(key) for key in range(4)), most=2)
        assert server.connections == 2
    for got in done:
        well(got)
    assert [got.slip > 0.09 for got in done] == [False, False, True, True]


def test_requests_are_sent_when_they_are_due() -> None:
    with Loopback(lambda request: ANSWER) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        run(loop, [order(0)])
        now = time.perf_counter()
        done = run(loop, [order(key, due=now + 0.05 * key) for key in (3, 1, 2)])
    for got in done:
        well(got)
    assert [round(got.due - now, 3) for got in done] == [0.05, 0.1, 0.15]
    assert all(got.slip >= 0 for got in done)
    assert [request.number for request in server.requests] == [1, 2, 3, 4]


def test_a_pause_of_the_caller_is_no_stall_of_the_server() -> None:
    slow = [SSE_HEAD, event(EVENTS[0]), 0.7, *ANSWER[2:]]
    with Loopback(lambda request: slow) as server, Loop(address.parse(server.url), headers={}, stall_s=0.5) as loop:
        loop.submit(order(1))
        loop.step(time.perf_counter() + 0.05)
        time.sleep(1.2)
        (got,) = run(loop, [])
    well(got)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        ("401 Unauthorized", {"error": {"message": "bad key"}}, "HTTP 401 (bad key): set PHASEWISE_API_KEY"),
        ("429 Too Many Requests", {"error": "slow down"}, "the server limits requests for another 7 s"),
        ("503 Service Unavailable", {"detail": "loading"}, "HTTP 503 (loading): the server is not ready"),
        ("500 Oops", "<html>", "look at the server's log"),
    ],
)
def test_a_refusal_is_said_with_the_next_step_and_keeps_the_connection(status: str, body: object, said: str) -> None:
    def script(request: Request) -> list[Step]:
        return [page(body, status, extra="Retry-After: 7\r\n")] if request.number == 1 else ANSWER

    with Loopback(script) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        (got,) = run(loop, [order(1)])
        assert said in got.error
        assert got.status == int(status[:3])
        well(run(loop, [order(2)])[0])


def test_an_interim_answer_is_none() -> None:
    with Loopback(lambda request: [b"HTTP/1.1 100 Continue\r\n\r\n", 0.05, *ANSWER]) as server:
        (got,) = fetch(server.url)
    well(got)
    assert got.headers_at - got.sent_at > 0.04


def test_what_is_broken_off_comes_back_as_it_is() -> None:
    with (
        Loopback(lambda request: [SSE_HEAD, event(EVENTS[0]), 5.0]) as server,
        Loop(address.parse(server.url), headers={}, stall_s=5) as loop,
    ):
        loop.submit(order(1))
        loop.submit(order(2, due=time.perf_counter() + 60))
        loop.step(time.perf_counter() + 0.2)
        assert (loop.in_flight, loop.waiting) == (1, 1)
        (got,) = loop.cancel()
        assert (loop.in_flight, loop.waiting) == (0, 0)
    assert got.error == "broken off by us"
    assert got.first_at > got.sent_at
    assert got.arrivals.at.size == 1


@pytest.mark.parametrize("more", [[2.0], [*[chunk(b": ping\n\n"), 0.01] * 200], [chunk(b"x" * 2**14)] * 2000])
def test_an_answer_ends_with_done_whatever_follows(more: list[Step]) -> None:
    with (
        Loopback(lambda request: [*ANSWER[:-1], *more, END]) as server,
        Loop(address.parse(server.url), headers={}, stall_s=20) as loop,
    ):
        before = time.perf_counter()
        (got,) = run(loop, [order(1)])
        assert time.perf_counter() - before < 1.9
        well(got)
        assert got.ended_at - got.sent_at < 0.5
        (got,) = run(loop, [order(2)])
        well(got)
        assert server.connections == 2


@pytest.mark.parametrize(
    "end", [b"0\r\nX-Trailer: yes\r\n\r\n", b"0\r\n\r\n", b"000\r\n\r\n", b"0;name=value\r\n\r\n"], ids=repr
)
def test_the_end_is_found_however_it_is_written(end: bytes) -> None:
    with (
        Loopback(lambda request: [*ANSWER[:-1], 0.05, *(bytes([byte]) for byte in end)]) as server,
        Loop(address.parse(server.url), headers={}, stall_s=5) as loop,
    ):
        for key in range(2):
            well(run(loop, [order(key)])[0])
        assert server.connections == 1


def test_an_early_refusal_is_read_while_a_large_request_is_still_being_sent() -> None:
    """The server does not read on: a client that only sends would wait for ever."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 21\r\nConnection: close\r\n\r\n"
    refusal += b'{"error": "too long"}'
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            kept.append(listener.accept()[0])
            kept[0].recv(1000)
            kept[0].sendall(refusal)

        thread = threading.Thread(target=serve)
        thread.start()
        (got,) = fetch(f"http://127.0.0.1:{listener.getsockname()[1]}", order(body=b" " * 2**25))
        thread.join()
        kept[0].close()
    assert "HTTP 413 (too long)" in got.error
    assert got.ended_at - got.sent_at < 2.0


def test_a_large_request_is_sent_whole() -> None:
    body = b'{"pad": "' + b"x" * 2**24 + b'"}'
    with Loopback(lambda request: ANSWER) as server:
        (got,) = fetch(server.url, order(body=body))
        assert server.requests[0].body == body
    well(got)


def test_no_sockets_left_is_said_and_the_client_blames_itself() -> None:
    """Descriptors are used up to the limit: each further connection fails with the cure, and those open go on."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Loopback(lambda request: ANSWER) as server, Loop(address.parse(server.url), headers={}, stall_s=5) as loop:
        taken = [socket.socket()]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0].fileno() + 2, limits[1]))
            with contextlib.suppress(OSError):
                while True:
                    taken.append(socket.socket())
            (got,) = run(loop, [order(1)])
        finally:
            for one in taken:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert "no more sockets" in got.error
        assert "ulimit -n" in got.error
        assert loop.watch.lateness().refused == 1
        well(run(loop, [order(2)])[0])


@pytest.mark.parametrize("make", [lambda: Fake(), lambda: Fake(usage="running"), lambda: Fake(done=False)])
def test_a_whole_engine_by_order_and_loop(make: Callable[[], Fake]) -> None:
    with Loopback(make()) as server:
        engine = openai.connect(server.url, api_key="")
        with engine.loop(most=4) as loop:
            done = run(loop, [engine.order(key, engine.prompt(10 + key), 5) for key in range(6)])
        engine.close()
    assert [got.error for got in done] == [""] * 6
    assert [(got.prompt_tokens, got.completion_tokens) for got in done] == [(10 + key, 5) for key in range(6)]
