"""Steady streams cut at once: what is said of them is what the parsers say, and of nothing else is anything said."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_engines_answers import text, usage

from phasewise.engines import address, flight, sse, steady
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.message import Message
from phasewise.errors import EngineError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes, form: bytes = b"%x\r\n%s\r\n") -> bytes:
    return form % (len(data), data)


def event(data: object) -> bytes:
    return chunk(b"data: %s\n\n" % json.dumps(data).encode())


TOKENS = [event(text(word)) for word in (" a", "", "é😀", "x" * 300, r"\n")]
DONE = [event(text("") | {"usage": usage(3)}), chunk(b"data: [DONE]\n\n")]
ODD = [
    chunk(b"data: {}\r\n\r\n"),
    chunk(b"data: {}\n\ndata: {}\n\n"),
    chunk(b"data: {}\ndata: {}\n\n"),
    chunk(b"data: {}\r\n\n"),
    chunk(b"data: {\r}\n\n"),
    chunk(b"data:{}\n\n"),
    chunk(b"data: {"),
    chunk(b"}\n\n"),
    chunk(b"\n"),
    chunk(b": ping\n\n"),
    chunk(b"event: error\ndata: {}\n\n"),
    chunk(b"data: {}\n\n", b"%04x\r\n%s\r\n"),
    chunk(b"data: {}\n\n", b"%X;a=b\r\n%s\r\n"),
    chunk(b"data: {}\n\n", b"%x\n%s\n"),
    chunk(b"data: %s\n\n" % json.dumps(text("y" * 9000)).encode()),
    b"0\r\n\r\n",
    b"0\r\nA: b\r\n\r\n",
    b"data: {}\n\n",
]
FAULTS = [event({"error": {"message": "out of memory"}}), chunk(b"data: no JSON\n\n"), chunk(b"data: \n\n")]
pieces = st.sampled_from([*TOKENS, *TOKENS, *TOKENS, *DONE, *FAULTS, *ODD])


def dechunked(raw: bytes) -> tuple[bytes, list[int]] | None:
    """The body of whole chunks with plain sizes, and of each of its bytes where in ``raw`` it ends."""
    body, ends, at = b"", [], 0
    while at < len(raw):
        head = re.compile(rb"([1-9a-f][0-9a-f]*)\r\n").match(raw, at)
        if head is None:
            return None
        size, start = int(head[1], 16), head.end()
        at = start + size + 2
        if raw[at - 2 : at] != b"\r\n":
            return None
        body += raw[start : at - 2]
        ends += range(start + 1, at - 1)
    return body, ends


@given(st.lists(pieces, min_size=1, max_size=12).map(b"".join))
@example(b"".join(TOKENS))
@example(b"b\r\ndata: {}\n\n\r\n")  # one byte too many by its size
@example(b"")
def test_what_is_cut_is_what_the_parsers_say(raw: bytes) -> None:
    found = steady.cut(raw)
    if found is None:
        return
    oracle = dechunked(raw)
    assert oracle is not None
    body, ends = oracle
    events, needed = sse.Parser().cut(body)
    assert found[0] == events
    assert [end - 2 for end in found[1]] == [ends[size - 1] for size in needed]


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=50))
def test_streams_of_tokens_are_steady(chunks: list[bytes]) -> None:
    found = steady.cut(b"".join(chunks))
    assert found == ([one.split(b"data: ")[1][:-4] for one in chunks], list(itertools.accumulate(map(len, chunks))))


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_chunk_and_nothing_is_said(odd: bytes) -> None:
    assert steady.cut(TOKENS[0] + odd + TOKENS[0]) is None
    assert steady.cut(odd) is None


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=5), st.data())
def test_what_ends_within_a_chunk_is_not_steady(chunks: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(chunks)
    ends = set(itertools.accumulate(map(len, chunks)))
    end = data.draw(st.integers(1, len(raw)).filter(lambda end: end not in ends))
    assert steady.cut(raw[:end]) is None


def flown(reads: list[bytes], batches: list[int]) -> Exchange:
    """The reads arrive at 1, 2, 3... ns; ``batches`` says, over and over, how many are kept before each parsing."""
    order = Order(key=0, path="/", body=b"{}", max_tokens=1000)
    one = flight.Flight(order, address.parse("http://h:1"), "")
    kept = itertools.cycle(batches)
    patience = next(kept)
    for at, data in enumerate(reads, 1):
        one.reads.append(data)
        one.marks.append(at)
        if len(one.reads) >= patience:
            one.parse(0)
            patience = next(kept)
    one.parse(0)
    one.closed()
    return one.exchange()


def columns(got: Exchange) -> list[Any]:
    """All of it, comparable; a broken answer ends at one time, read by read or at once."""
    arrivals = got.arrivals
    rest = [getattr(got, name) for name in got.__struct_fields__ if name != "arrivals"]
    return [*rest, *(column.tolist() for column in (arrivals.at, arrivals.read, arrivals.tokens, arrivals.kind))]


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """Reads: most of one chunk, some of several, some of parts."""
    chunks = draw(st.lists(st.sampled_from(TOKENS) | pieces, min_size=1, max_size=30))
    raw = b"".join([HEAD, *chunks])
    ends = list(itertools.accumulate(map(len, [HEAD, *chunks])))
    left_out = draw(st.sets(st.sampled_from(ends), max_size=4))
    cuts = draw(st.sets(st.integers(1, len(raw) - 1), max_size=3))
    edges = sorted({0, len(raw), *cuts, *ends} - (left_out - {len(raw)}))
    return [raw[start:end] for start, end in itertools.pairwise(edges)]


@given(answers(), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_an_answer_is_the_same_read_by_read(reads: list[bytes], batches: list[int]) -> None:
    at_once = flown(reads, batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady, "cut", lambda raw: None)
        one_by_one = flown(reads, batches)
    assert columns(at_once) == columns(one_by_one)


def test_a_steady_answer_is_cut_at_once() -> None:
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady, "cut", lambda raw, cut=steady.cut: seen.append(cut(raw)) or seen[-1])
        got = flown([HEAD, *TOKENS * 4, *DONE, b"0\r\n\r\n"], [1, 1, 5, 5, 5, 5])
    assert [None if found is None else len(found[0]) for found in seen] == [5, 5, 5, 5, 1]
    assert got.arrivals.at.tolist() == list(range(2, 23))


@given(st.lists(pieces, max_size=8).map(b"".join), st.integers(1, 30))
def test_a_message_is_between_two_chunks_exactly_where_one_ends(body: bytes, size: int) -> None:
    raw = HEAD + body
    message = Message("h")
    for start in range(0, len(raw), size):
        read = raw[start : start + size]
        try:
            message.feed(read)
        except EngineError:
            return
        came = raw[len(HEAD) : start + size]
        # Not after a read of the last byte of a chunk alone, which costs nothing but time.
        assert message.between == (len(read) > 1 and came != b"" and whole(came))


def whole(body: bytes) -> bool:
    """Whether ``body`` is nothing but whole chunks, with sizes of any form, and not the last."""
    at = 0
    while at < len(body):
        head = re.compile(rb"([0-9a-fA-F]+)[^\r\n]*\r\n").match(body, at)
        if head is None or int(head[1], 16) == 0:
            return False
        at = head.end() + int(head[1], 16) + 2
    return at == len(body)
