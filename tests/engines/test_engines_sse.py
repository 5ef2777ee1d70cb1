from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.engines import sse
from phasewise.errors import BrokenStream


def parse(*reads: bytes) -> list[tuple[bytes, bytes]]:
    parser = sse.Parser()
    events = [event for data in reads for event in parser.feed(data)]
    return [tuple(event) for event in events + parser.finish()]


def oracle(stream: bytes) -> list[tuple[bytes, bytes]]:
    """The standard read over the whole stream at once, with nothing incremental about it."""
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    events, name, data = [], b"", []
    for line in [*re.split(rb"\r\n|\r|\n", stream), b""]:
        if line == b"":
            if data:
                events.append((name, b"\n".join(data)))
            name, data = b"", []
        elif found := re.fullmatch(rb"(data|event|error)(?:: ?(.*))?", line, re.DOTALL):
            value = found[2] or b""
            if found[1] == b"event":
                name = value
            else:
                name = b"error" if found[1] == b"error" else name
                data.append(value)
    return events


pieces = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: x",
        b"error: ",
        b": ping",
        b"id: 1",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b'{"a": 1}',
        b"[DONE]",
        "é😀".encode(),
        b" ",
        b":",
    ]
)
streams = st.lists(pieces, max_size=40).map(b"".join) | st.binary(max_size=200)


@given(streams, st.data())
def test_any_split_gives_the_events_of_the_whole(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*reads) == oracle(stream)


@given(streams)
def test_byte_by_byte_gives_the_events_of_the_whole(stream: bytes) -> None:
    assert parse(*(stream[index : index + 1] for index in range(len(stream)))) == oracle(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data:a\r\rdata:  b\r\r", [b"a", b" b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": ping\n\n: ping\n\ndata: a\n\n", [b"a"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"id: 7\nretry: 1\nevent: message\n\n", []),
        (b"data: a\n\ndata: cut off", [b"a", b"cut off"]),
        (b"data: a\n\ndata: [DONE]\n\n", [b"a", b"[DONE]"]),
        (b"", []),
    ],
)
def test_by_hand(stream: bytes, events: list[bytes]) -> None:
    assert [data for _, data in parse(stream)] == events


def test_an_event_is_given_by_the_read_that_completes_it() -> None:
    parser = sse.Parser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\nda") == [sse.Event(b"", b"a")]
    assert parser.feed(b"ta: b\r\r") == [sse.Event(b"", b"b")]
    assert parser.feed(b"\n") == []


def test_llama_cpp_writes_errors_as_a_field_of_their_own() -> None:
    assert parse(b'error: {"code": 500}\n\n') == [(b"error", b'{"code": 500}')]


@pytest.mark.parametrize("line_end", [b"", b"\n"])
def test_an_event_without_end_is_refused_before_it_fills_memory(line_end: bytes) -> None:
    block = b"data: " + b"x" * 2**20 + line_end
    with pytest.raises(BrokenStream, match="16 MiB"):
        parse(*[block] * 20)
