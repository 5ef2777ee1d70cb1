"""What a flight makes of reads: the same whatever their sizes and however many are parsed at a time."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_engines_answers import delta, text, usage

from phasewise.engines import address, flight
from phasewise.engines.exchange import Arrivals, Exchange, Order, blanks_are

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def new(max_tokens: int = 1000, key: int = 0, sink: flight.Sink | None = None) -> flight.Flight:
    order = Order(key=key, path="/", body=b"{}", max_tokens=max_tokens)
    return flight.Flight(order, address.parse("http://h:1"), "", sink)


def flown(reads: list[bytes], batches: list[int], sink: flight.Sink | None = None) -> Exchange:
    """The reads arrive at 1, 2, 3... ns; ``batches`` says how many are kept before each parsing."""
    one, kept = new(sink=sink), iter(batches)
    patience = next(kept, 1)
    for at, data in enumerate(reads, 1):
        one.reads.append(data)
        one.marks.append(at)
        if len(one.reads) >= patience:
            one.parse(0)
            patience = next(kept, 1)
    one.parse(0)
    one.closed()
    return one.exchange()


token = st.sampled_from(["", " a", "é😀", "x" * 50]).map(lambda word: ("token", json.dumps(text(word))))
other = st.sampled_from([("other", json.dumps({"choices": [], "usage": None})), ("other", json.dumps(delta(role="a")))])
noise = st.sampled_from([("noise", ": ping"), ("noise", "retry: 5"), ("noise", "id: 7")])
newline = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """A body, and for each event that may be a token the number of bytes after which it is complete."""
    body, ends = b"", []
    for kind, data in draw(st.lists(token | token | other | noise, max_size=30)):
        line = draw(newline)
        space = draw(st.sampled_from(["data: ", "data: ", "data:"]))
        whole = (data if kind == "noise" else f"{space}{data}").encode() + 2 * line.encode()
        if kind == "token":
            ends.append(len(body) + len(whole) - (len(line) - 1))
        body += whole
    return body, ends


@st.composite
def framed(draw: st.DrawFn) -> tuple[list[bytes], list[int]]:
    """Reads of a whole answer, and for each event that may be a token the number of the read that completes it."""
    body, ends = draw(streams())
    size = draw(st.integers(1, 400))
    raw, places = HEAD, []
    if draw(st.booleans()):
        raw += b"Transfer-Encoding: chunked\r\n\r\n"
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            raw += b"%x\r\n" % len(piece)
            places += range(len(raw) + 1, len(raw) + len(piece) + 1)
            raw += piece + b"\r\n"
        raw += b"0\r\n\r\n"
    else:
        raw += draw(st.sampled_from([b"\r\n", b"Content-Length: %d\r\n\r\n" % len(body)]))
        places = list(range(len(raw) + 1, len(raw) + len(body) + 1))
        raw += body
    cuts = sorted(draw(st.sets(st.integers(1, len(raw) - 1), max_size=40)))
    edges = [0, *cuts, len(raw)]
    reads = [raw[start:end] for start, end in itertools.pairwise(edges)]
    return reads, [sum(cut < places[end - 1] for cut in cuts) + 1 for end in ends]


@given(framed(), st.lists(st.integers(1, 30), max_size=20))
def test_each_event_bears_the_time_of_the_read_that_completed_it(
    answer: tuple[list[bytes], list[int]], batches: list[int]
) -> None:
    reads, ends = answer
    got = flown(reads, batches)
    assert got.arrivals.read.tolist() == ends
    assert got.arrivals.at.tolist() == ends
    assert got.received == sum(map(len, reads))
    assert (got.error == "") == bool(got.arrivals.are_tokens.any())


events = st.lists(
    st.sampled_from(
        [
            text("a"),
            text(""),
            text("", token_ids=[7]),
            text("ab", token_ids=[7, 8]),
            text("a", token_ids=[]),
            delta(reasoning="hm"),
            delta(content="a"),
            delta(),
        ]
    ),
    min_size=1,
    max_size=25,
)


def said(one: dict[str, Any]) -> tuple[int | None, bool]:
    """Tokens, None where it is open; whether it shows something that is no reasoning."""
    choice = one["choices"][0]
    if choice.get("token_ids") is not None:
        return len(choice["token_ids"]), choice["text"] == "ab"
    shown = bool(choice.get("text") or choice.get("delta"))
    return (1 if shown else None), shown and "reasoning" not in choice.get("delta", {})


@given(
    events,
    st.sampled_from(["nothing", "told", "all", "odd"]),
    st.lists(st.integers(1, 12), max_size=8),
    st.sets(st.integers(0, 24)),
)
def test_the_ends_are_those_of_the_tokens_with_a_sink_and_without(
    answer: list[dict[str, Any]], counted: str, batches: list[int], together: set[int]
) -> None:
    """The oracle: tokens told by ids or text; empty ones are tokens exactly when the count lacks all of them."""
    seen = [said(one) for one in answer]
    told = sum(tokens or 0 for tokens, _ in seen)
    blank = sum(tokens is None for tokens, _ in seen)
    count = {"nothing": None, "told": told, "all": told + blank, "odd": told + blank + 1}[counted]
    reads = [HEAD + b"\r\n"]
    number = []
    for place, one in enumerate(answer):
        data = f"data: {json.dumps(one)}\n\n".encode()
        if place in together:
            reads[-1] += data
        else:
            reads.append(data)
        number.append(len(reads))
    if count is not None:
        reads.append(f"data: {json.dumps({'choices': [], 'usage': usage(count)})}\n\n".encode())
    if counted == "all":
        seen = [(1 if tokens is None else tokens, spoken) for tokens, spoken in seen]
    read = [place for place, (tokens, _) in zip(number, seen, strict=True) if tokens]
    spoken = [place for place, (tokens, spoken) in zip(number, seen, strict=True) if tokens and spoken]

    taken: list[Arrivals] = []
    for sink in (None, lambda key, part: taken.append(part)):
        got = flown(reads, batches, sink)
        assert (got.error == "") == bool(read)
        ends = (
            (read[0], read[-1], sum(t or 0 for (t, _), n in zip(seen, number, strict=True) if n == read[0]))
            if read
            else (0, 0, 0)
        )
        assert (round(got.first_at * 1e9), round(got.last_at * 1e9), got.first_read_tokens) == ends
        if not any(one["choices"][0].get("delta", {}).get("reasoning") for one in answer):
            assert got.answered_at == got.first_at
        else:
            assert round(got.answered_at * 1e9) == (spoken[0] if spoken else 0)
    assert sum(part.at.size for part in taken) == len(answer)
    assert got.arrivals.at.size == 0


def test_a_running_count_that_goes_back_counts_nothing_twice() -> None:
    told = [text("a") | {"usage": usage(count)} for count in (1, 3, 2, 4)]
    got = flown([HEAD + b"\r\n", *(f"data: {json.dumps(one)}\n\n".encode() for one in told)], [2, 1])
    assert got.arrivals.tokens.tolist() == [1, 2, 0, 1]
    assert got.completion_tokens == 4


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("batch", [1, 1000])
def test_a_stream_byte_by_byte(line: bytes, batch: int) -> None:
    event = b"data: " + json.dumps(text("a")).encode() + 2 * line
    head = HEAD + b"\r\n"
    got = flown([bytes([byte]) for byte in head + 2 * event], [batch] * 1000)
    first = len(head) + len(event) - len(line) + 1
    assert got.arrivals.at.tolist() == [first, first + len(event)]
    assert round(got.headers_at * 1e9) == len(head)


@pytest.mark.parametrize(
    ("count", "others", "blanks", "verdict"),
    [(None, 3, 2, None), (3, 3, 2, 0), (5, 3, 2, 1), (4, 3, 2, None), (9, 3, 2, None), (3, 3, 0, 0)],
)
def test_blanks_are_tokens_when_exactly_they_are_missing(
    count: int | None, others: int, blanks: int, verdict: int | None
) -> None:
    assert blanks_are(count, others, blanks) == verdict


def test_an_interrupt_between_a_read_and_its_stamp_loses_that_read_only() -> None:
    one = new()
    one.reads += [HEAD + b"\r\n", f"data: {json.dumps(text('a'))}\n\n".encode(), b"data: {"]
    one.marks += [1, 2]
    one.parse(0)
    assert one.exchange().first_at == 2e-9


def test_stamps_of_the_kernel_are_brought_to_our_clock() -> None:
    one = new()
    one.reads += [HEAD + b"\r\n", f"data: {json.dumps(text('a'))}\n\n".encode()]
    one.marks += [struct.pack("qq", 1_790_000_000, 5), struct.pack("qq", 1_790_000_001, 6)]
    one.parse(1_790_000_000 * 10**9)
    got = one.exchange()
    assert (got.headers_at, got.first_at, got.stamped) == (5e-9, pytest.approx(1 + 6e-9), True)


def test_patience_is_for_chunked_streams_of_events_and_ends_with_them() -> None:
    cases = {
        b"Transfer-Encoding: chunked\r\n": 128,
        b"Content-Length: 900\r\n": 0,
        b"": 0,
    }
    for framing, patience in cases.items():
        one = new()
        assert one.patience == 0
        one.reads.append(HEAD + framing + b"\r\n")
        one.marks.append(1)
        one.parse(0)
        assert one.patience == patience
    one.reads.append(b"data: [DONE]\n\n")
    one.marks.append(2)
    one.parse(0)
    assert one.patience == 0
