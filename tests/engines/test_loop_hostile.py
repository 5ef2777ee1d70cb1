"""Servers that mean harm: each costs one sentence, bounded memory, bounded time, and the loop goes on."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines_loop import fetch, order, run
from engines_loopback import END, HANG_UP, RESET, SSE_HEAD, Loopback, Request, Script, Step, chunk, event, page, stream

from phasewise.engines import address
from phasewise.engines.loop import Loop

pytestmark = pytest.mark.alone

STALL_S = 1.0
BUDGET = 128 * 2**20
"""Bytes that the whole process, the server's threads with it, may grow by."""

TOKEN = {"choices": [{"text": " a"}]}
GOOD = stream([TOKEN, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}])


def forever(start: bytes, more: bytes, pause: float = 0.0) -> Script:
    def script(request: Request) -> Iterator[Step]:
        yield start
        while True:
            yield more
            if pause:
                yield pause

    return script


def once(*steps: Step) -> Script:
    return lambda request: steps


def drip(data: bytes, pause: float = 0.3) -> Script:
    return lambda request: [step for byte in data for step in (bytes([byte]), pause)]


def length(count: int, *body: Step) -> Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {count}\r\n\r\n"
    return once(head.encode(), *body)


MILLION = json.dumps({"choices": [{"text": " a" * 1_000_000}]})
COUNTED = json.dumps({"choices": [{"text": " a", "token_ids": [7] * 1_000_000}]})
EVENT = b'data: {"choices":[{"text":" a"}]}\n\n'
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

HOSTILE: dict[str, tuple[Script, str]] = {
    "endless headers": (forever(b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n" * 1000), "headers without end"),
    "endless header": (forever(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 10_000), "headers without end"),
    "endless interim": (forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), "headers without end"),
    "endless trailers": (forever(SSE_HEAD + b"0\r\n", b"X: y\r\n" * 1000), "without end"),
    "a line without end": (forever(SSE_HEAD, chunk(b"x" * 2**20)), "an event over 16 MiB"),
    "an event without end": (forever(SSE_HEAD, chunk(b"data: " + b"x" * 2**20 + b"\n")), "an event over 16 MiB"),
    "a page without end": (forever(JSON_HEAD + b"Content-Length: 99999999999\r\n\r\n", b" " * 2**20), "without end"),
    "a refusal without end": (forever(b"HTTP/1.1 500 Oops\r\n\r\n", b"x" * 2**20), "without end"),
    "a head by the byte": (drip(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), "sent nothing for 1 s"),
    "a page by the byte": (lambda r: [JSON_HEAD + b"Content-Length: 90\r\n\r\n", *drip(b" " * 90)(r)], "sent nothing"),
    "an event by the byte": (lambda r: [SSE_HEAD, *drip(chunk(EVENT))(r)], "sent nothing for 1 s"),
    "silence": (once(30.0), "sent nothing for 1 s"),
    "silence after the head": (once(SSE_HEAD, 30.0), "sent nothing for 1 s"),
    "comments for ever": (forever(SSE_HEAD, chunk(b": ping\n\n"), 0.05), "sent nothing for 1 s"),
    "a flood of comments": (forever(SSE_HEAD, chunk(b": ping\n\n" * 8000)), "sent nothing|without end"),
    "a length too short": (length(len(EVENT) - 5, EVENT), "no chunk of an answer"),
    "a length too long": (length(500, EVENT, HANG_UP), "inside an answer"),
    "two lengths": (once(JSON_HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), "does not speak HTTP"),
    "binary": (once(bytes(range(256)) * 100), "does not speak HTTP"),
    "binary events": (once(SSE_HEAD, chunk(bytes(range(256)) * 100), END), "holds no token"),
    "binary data": (once(SSE_HEAD, chunk(b"data: \xff\xfe\x00\n\n"), END), "no chunk of an answer"),
    "NUL bytes": (once(SSE_HEAD, chunk(b"data: \0\0\0\n\n"), END), "no chunk of an answer"),
    "a NUL in the head": (once(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), "does not speak HTTP"),
    "a redirect": (
        once(page("", "307 Temporary Redirect", extra="Location: https://u:pw@evil.example/x?t=1\r\n")),
        "redirects to https://evil.example/x, which is not followed",
    ),
    "a million ids in an event": (once(SSE_HEAD, chunk(f"data: {COUNTED}\n\n".encode()), END), "far more than the 100"),
    "a count of a million": (
        once(*stream([TOKEN, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1_000_000}}])),
        "far more than the 100 tokens",
    ),
    "more than asked": (forever(SSE_HEAD, chunk(EVENT * 100)), "far more than the 100 tokens"),
    "a reset in a token": (once(SSE_HEAD, chunk(EVENT), b"20\r\ndata: {", 0.1, RESET), "inside an answer"),
    "an end in a token": (once(SSE_HEAD, chunk(EVENT), b"20\r\ndata: {", HANG_UP), "inside an answer"),
    "gzip": (
        once(page(gzip.compress(EVENT), kind="text/event-stream", extra="Content-Encoding: gzip\r\n")),
        "compresses its answer",
    ),
    "a chunk of 2^63 bytes": (once(SSE_HEAD, b"8000000000000000\r\n", 30.0), "sent nothing|framing"),
    "a chunk of 2^64 bytes": (once(SSE_HEAD, b"10000000000000000\r\nx", 30.0), "framing"),
    "a chunk size without end": (forever(SSE_HEAD, b"0" * 2**16), "without end|framing|sent nothing"),
    "a chunk extension without end": (forever(SSE_HEAD + b"5;", b"x" * 2**16), "without end|framing|sent nothing"),
    "a negative chunk": (once(SSE_HEAD, b"-5\r\nhello\r\n"), "framing"),
    "deep JSON": (once(SSE_HEAD, chunk(b"data: " + b"[" * 100_000 + b"\n\n"), END), "no chunk of an answer"),
    "deep JSON in a choice": (
        once(SSE_HEAD, chunk(b'data: {"choices":' + b'[{"delta":' * 50_000 + b"\n\n"), END),
        "no chunk of an answer",
    ),
    "a deep page": (once(page("[" * 100_000, "500 Oops")), "HTTP 500"),
    "numbers without end": (
        once(SSE_HEAD, chunk(b'data: {"usage":{"completion_tokens":' + b"9" * 100_000 + b"}}\n\n"), END),
        "no chunk of an answer|holds no token",
    ),
    "an error of a megabyte": (
        once(*stream([{"error": {"message": "\x1b[31m" + "x" * 2**20}}])),
        "broke its answer off",
    ),
    "HTML": (once(page("<html>hello</html>", kind="text/html")), "no OpenAI-compatible server"),
    "another protocol": (once(b"+PONG\r\n"), "does not speak HTTP"),
    "an upgrade": (once(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "does not speak HTTP"),
    "no content": (once(b"HTTP/1.1 204 No Content\r\n\r\n"), "no OpenAI-compatible server"),
}


@contextlib.contextmanager
def grows_at_most(bytes_: int) -> Iterator[None]:
    """The process's peak memory meanwhile, by the kernel's count."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # start the count of the peak again
        before = _peak()
    except OSError:
        yield  # no Linux: nothing to read it from
        return
    yield
    assert _peak() - before < bytes_


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server_costs_a_sentence(name: str) -> None:
    script, said = HOSTILE[name]
    served = 0

    def hostile_first(request: Request) -> object:
        nonlocal served
        served += 1
        return script(request) if served == 1 else GOOD

    with Loopback(hostile_first) as server, Loop(address.parse(server.url), headers={}, stall_s=STALL_S) as loop:  # type: ignore[arg-type]
        before = time.perf_counter()
        with grows_at_most(BUDGET):
            (got,) = run(loop, [order(1)])
        assert time.perf_counter() - before < 10 * STALL_S
        assert got.error
        assert _matches(said, got.error), got.error
        assert got.error.isprintable(), "one line, no control characters"
        assert len(got.error) < 600
        assert "pw@" not in got.error
        (after,) = run(loop, [order(2)])
        assert after.error == ""
        assert after.completion_tokens == 1


def _matches(said: str, error: str) -> bool:
    return any(one in error for one in said.split("|"))


def test_a_million_tokens_in_one_event_are_one_event() -> None:
    """Nothing in it says how many they are, so there is nothing to refuse; it costs its own bytes, no more."""
    script = once(SSE_HEAD, chunk(f"data: {MILLION}\n\n".encode()), event("[DONE]"), END)
    with Loopback(script) as server, grows_at_most(BUDGET):
        (got,) = fetch(server.url)
    assert got.error == ""
    assert got.arrivals.at.size == 1
    assert got.tpot is None


def test_a_million_comments_hide_no_token() -> None:
    noise = chunk(b": keep-alive\n\n" * 1000)
    script = once(SSE_HEAD, *[noise] * 1000, *GOOD[1:])
    with Loopback(script) as server, grows_at_most(BUDGET):
        (got,) = fetch(server.url, stall_s=30.0)
    assert got.error == ""
    assert got.completion_tokens == 1
    assert got.received > 14_000_000


def test_hostile_streams_end_alone() -> None:

    def script(request: Request) -> Iterator[Step]:
        if request.json == "sound":
            yield SSE_HEAD
            for _ in range(20):
                yield chunk(EVENT)
                yield 0.02
            yield event("[DONE]") + END
        else:
            yield from forever(SSE_HEAD, chunk(b": ping\n\n" * 1000), 0.002)(request)

    with Loopback(script) as server:
        done = fetch(server.url, order(1, body=b'"sound"'), order(2, body=b'"x"'), order(3, body=b'"x"'), stall_s=2.0)
    sound, *floods = done
    assert sound.error == ""
    assert sound.arrivals.at.size == 20
    assert all("sent nothing" in flood.error or "without end" in flood.error for flood in floods)


def paced(events: int, per_write: int) -> Callable[[Request], Iterator[Step]]:
    def script(request: Request) -> Iterator[Step]:
        yield SSE_HEAD
        block = chunk(EVENT) * per_write
        for _ in range(events // per_write):
            yield block
        yield event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": events}})
        yield event("[DONE]") + END

    return script


def test_a_million_tokens_with_a_sink_leave_nothing_behind() -> None:
    taken = 0

    def sink(key: int, part: object) -> None:
        nonlocal taken
        taken += part.at.size  # type: ignore[attr-defined]

    with Loopback(paced(1_000_000, 250)) as server, grows_at_most(24 * 2**20):
        (got,) = fetch(server.url, max_tokens=1_000_000, sink=sink, within_s=100.0)
    assert got.error == ""
    assert taken == got.completion_tokens == 1_000_000
    assert got.arrivals.at.size == 0
    assert got.tpot is not None


def test_a_million_tokens_without_a_sink_cost_their_columns() -> None:
    """8 + 4 + 4 + 1 bytes an event, twice while they are joined."""
    with Loopback(paced(1_000_000, 250)) as server, grows_at_most(24 * 2**20 + 3 * 17 * 1_000_000):
        (got,) = fetch(server.url, max_tokens=1_000_000, within_s=100.0)
    assert got.error == ""
    assert got.arrivals.at.size == 1_000_000


def test_a_reader_slower_than_its_server_holds_the_server_back() -> None:
    """While nobody steps the loop, the kernel's buffers fill and the server waits: nothing grows on our side."""
    sent = 0

    def script(request: Request) -> Iterator[Step]:
        nonlocal sent
        for step in paced(400_000, 250)(request):
            yield step
            sent += 250

    with Loopback(script) as server, Loop(address.parse(server.url), headers={}, stall_s=30.0) as loop:
        loop.submit(order(1, max_tokens=400_000))
        loop.step(time.perf_counter() + 0.05)
        with grows_at_most(2**24):
            time.sleep(1.0)
        held = sent
        assert held < 400_000
        (got,) = run(loop, [], 60.0)
    assert got.error == ""
    assert got.completion_tokens == got.arrivals.at.size == 400_000
