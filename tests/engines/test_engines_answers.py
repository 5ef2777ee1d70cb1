"""What counts as a token, in streams of the shapes that llama.cpp, vLLM, SGLang and transformers serve send."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engines_loop import fetch
from engines_loopback import END, SSE_HEAD, Loopback, Step, chunk, event, page, stream

from phasewise.engines import address, answers
from phasewise.engines.base import Answer, Chunk
from phasewise.engines.dialect import SHOWN, THINKING
from phasewise.engines.glance import UNSAID
from phasewise.engines.wire import Connection
from phasewise.errors import BrokenStream

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "servers"


Receive = Callable[..., Answer]


def ask(*steps: Step, max_tokens: int = 100) -> Answer:
    """By the client of one request at a time."""
    with Loopback(lambda request: steps) as server:
        wire = Connection(address.parse(server.url))
        try:
            return answers.receive(wire.request("POST", "/", body=b"{}", wait_s=5), max_tokens)
        finally:
            wire.close()


def fly(*steps: Step, max_tokens: int = 100) -> Answer:
    """By the loop of many, in the words of the other."""
    with Loopback(lambda request: steps) as server:
        (got,) = fetch(server.url, max_tokens=max_tokens)
    if got.error:
        raise BrokenStream(got.error)
    seen = got.arrivals
    rows = zip(seen.at.tolist(), seen.read.tolist(), seen.tokens.tolist(), seen.kind.tolist(), strict=True)
    chunks = tuple(
        Chunk(
            at=at * 1e-9,
            read=read,
            tokens=None if tokens == UNSAID else tokens,
            empty=not kind & SHOWN,
            thinking=bool(kind & THINKING),
        )
        for at, read, tokens, kind in rows
    )
    return Answer(
        **{name: getattr(got, name) for name in Answer.__struct_fields__ if name != "chunks"},
        chunks=chunks,
    )


@pytest.fixture(params=[ask, fly])
def receive(request: pytest.FixtureRequest) -> Receive:
    return request.param  # type: ignore[no-any-return]


def text(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **more}]}


def delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage(completion: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 50, "completion_tokens": completion, "total_tokens": 50 + completion, **more}


def spaced(*events: object) -> list[Step]:
    """Each event in a read of its own."""
    steps: list[Step] = [SSE_HEAD]
    for one in events:
        steps += [event(one), 0.06]
    return [*steps, event("[DONE]"), END]


def counted(answer: Answer) -> list[bool]:
    return [bool(chunk.tokens) or not chunk.empty for chunk in answer.chunks]


def test_llama_cpp_completions_withhold_incomplete_text(receive: Receive) -> None:
    timings = {"prompt_n": 50, "prompt_ms": 95.5, "predicted_n": 3, "predicted_ms": 14.0, "cache_n": 0, "note": "x"}
    last = text("", "length") | {"usage": usage(3, prompt_tokens_details={"cached_tokens": 7}), "timings": timings}
    answer = receive(*stream([text("a"), text("b"), last]))
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (50, 3, 7)
    assert answer.finish_reason == "length"
    assert answer.reported == {"prompt_n": 50, "prompt_ms": 95.5, "predicted_n": 3, "predicted_ms": 14, "cache_n": 0}
    assert [chunk.empty for chunk in answer.chunks] == [False, False, True]


def test_llama_cpp_counts_tokens_in_the_timings_of_each_chunk(receive: Receive) -> None:
    events = [text("a") | {"timings": {"predicted_n": 1}}, text("😄") | {"timings": {"predicted_n": 4}}]
    last = text("", "length") | {"usage": usage(4), "timings": {"predicted_n": 4}}
    answer = receive(*spaced(*events, last))
    assert [chunk.tokens for chunk in answer.chunks] == [1, 3, 0]
    assert answer.last_at == answer.chunks[1].at


def test_llama_cpp_chat_ends_with_a_chunk_that_counts_nothing(receive: Receive) -> None:
    events = [
        delta(content="a") | {"timings": {"predicted_n": 1}},
        delta(content="b") | {"timings": {"predicted_n": 3}},
    ]
    answer = receive(*spaced(delta(role="assistant", content=None), *events, delta("length"), {"usage": usage(3)}))
    assert [chunk.tokens for chunk in answer.chunks] == [1, 2, 0]
    assert answer.last_at == answer.chunks[1].at


def test_vllm_sends_tokens_of_incomplete_text_as_empty_chunks(receive: Receive) -> None:
    events = [text(""), text(""), text("😄"), text(""), text("a", "length"), {"choices": [], "usage": usage(5)}]
    answer = receive(*spaced(*events))
    assert [chunk.empty for chunk in answer.chunks] == [True, True, False, True, False]
    assert counted(answer) == [True] * 5
    assert answer.first_at == answer.chunks[0].at < answer.chunks[1].at
    assert answer.last_at == answer.chunks[4].at


def test_vllm_chat_ends_with_the_token_that_ends_it(receive: Receive) -> None:
    events = [delta(role="assistant", content=""), delta(content="a"), delta(content="b"), delta("stop", content="")]
    answer = receive(*spaced(*events, {"choices": [], "usage": usage(3)}))
    assert [chunk.empty for chunk in answer.chunks] == [False, False, True]
    assert answer.first_at > answer.headers_at + 0.01  # the role chunk came 60 ms before
    assert answer.last_at == answer.chunks[2].at


def test_empty_chunks_that_no_count_proves_are_no_tokens(receive: Receive) -> None:
    answer = receive(*spaced(text(""), text("a"), text("b"), text("", "stop"), {"choices": [], "usage": usage(2)}))
    assert [chunk.tokens for chunk in answer.chunks] == [0, None, None, 0]
    assert (answer.first_at, answer.last_at) == (answer.chunks[1].at, answer.chunks[2].at)


def test_without_usage_empty_chunks_stay_open(receive: Receive) -> None:
    answer = receive(*stream([text(""), text("a"), text("b", "length")]))
    assert [chunk.tokens for chunk in answer.chunks] == [None, None, None]
    assert answer.first_at == answer.chunks[1].at
    assert answer.completion_tokens is None


def test_token_ids_prove_and_count(receive: Receive) -> None:
    events = [text("", token_ids=[5]), text("ab", token_ids=[6, 7]), text("", "length", token_ids=[])]
    answer = receive(*spaced(*events, {"choices": [], "usage": usage(3)}))
    assert [chunk.tokens for chunk in answer.chunks] == [1, 2, 0]
    assert (answer.first_at, answer.last_at) == (answer.chunks[0].at, answer.chunks[1].at)


def test_running_usage_counts_several_tokens_in_a_chunk(receive: Receive) -> None:
    events = [
        text("abc") | {"usage": usage(3)},
        text("") | {"usage": usage(4)},
        text("de", "length") | {"usage": usage(6)},
    ]
    answer = receive(*stream([*events, {"choices": [], "usage": usage(6)}]))
    assert [chunk.tokens for chunk in answer.chunks] == [3, 1, 2]
    assert [chunk.empty for chunk in answer.chunks] == [False, True, False]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thinking_counts_as_tokens_from_the_first(receive: Receive, name: str) -> None:
    events = [delta(role="assistant"), delta(**{name: "hm"}), delta(content="a"), delta("length")]
    answer = receive(*spaced(*events, {"choices": [], "usage": usage(2)}))
    assert [chunk.thinking for chunk in answer.chunks if not chunk.empty] == [True, False]
    assert answer.first_at == answer.chunks[0].at < answer.last_at


def test_a_tool_call_is_a_token(receive: Receive) -> None:
    call = [{"index": 0, "function": {"name": "f", "arguments": ""}}]
    answer = receive(*stream([delta(role="assistant", content=None), delta(tool_calls=call), delta("tool_calls")]))
    assert [chunk.empty for chunk in answer.chunks] == [False, True]


def test_a_first_chunk_with_role_and_text_is_a_token(receive: Receive) -> None:
    answer = receive(*stream([delta(role="assistant", content="a"), delta("length", content="b")]))
    assert [chunk.empty for chunk in answer.chunks] == [False, False]


def test_one_token_that_shows_nothing_is_still_found(receive: Receive) -> None:
    last = text("", "length") | {"usage": usage(1)}
    answer = receive(*stream([last]), max_tokens=1)
    assert answer.first_at == answer.last_at == answer.chunks[0].at
    assert answer.chunks[0].tokens == 1


def test_transformers_ends_without_done(receive: Receive) -> None:
    answer = receive(*stream([text("a"), text("b"), text("", "length") | {"usage": usage(2)}], done=False))
    assert answer.completion_tokens == 2
    assert answer.ended_at >= answer.last_at


def test_a_stream_that_stays_open_after_done_ends_there(receive: Receive) -> None:
    answer = receive(SSE_HEAD, event(text("a", "length")), event("[DONE]"), 2.0, END)
    assert answer.ended_at - answer.sent_at < 1.0


def test_events_of_one_read_share_its_time_and_number(receive: Receive) -> None:
    answer = receive(SSE_HEAD, 0.1, event(text("a")) + event(text("b")), 0.1, event(text("c", "length")), END)
    first, second, third = answer.chunks
    assert (first.at, first.read) == (second.at, second.read)
    assert third.read > second.read
    assert third.at - second.at > 0.03


def test_old_sglang_counts_cached_tokens_beside_the_details(receive: Receive) -> None:
    answer = receive(*stream([text("a", "length"), {"choices": [], "usage": usage(1, cached_tokens=4)}]))
    assert answer.cached_tokens == 4


def test_an_answer_in_one_piece_is_told_from_a_stream(receive: Receive) -> None:
    body = {
        "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": usage(3),
    }
    answer = receive(page(body))
    assert not answer.streamed
    assert (answer.completion_tokens, answer.finish_reason) == (3, "stop")
    assert answer.first_at == answer.last_at == answer.ended_at


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (stream([text("a"), {"error": {"message": "out of memory", "code": 500}}]), "out of memory"),
        (stream([text("a"), {"error": "overloaded"}]), "overloaded"),
        (stream([text("a"), {"object": "error", "message": "gone wrong"}]), "gone wrong"),
        ([SSE_HEAD, chunk(b'error: {"code": 500, "message": "slot died"}\n\n'), END], "slot died"),
        ([SSE_HEAD, chunk(b'event: error\ndata: {"message": "too long"}\n\n'), END], "too long"),
        (stream(['{"choices": [{"text": "a"']), "no chunk"),
        (stream(["hello"]), "no chunk"),
        (stream(['{"choices": [{"text": 5}]}']), "no chunk"),
        (stream([[1, 2]]), "no chunk"),
        ([SSE_HEAD, chunk(b"data: \xff\xfe\n\n"), END], "no chunk"),
        (stream([]), "no token"),
        ([SSE_HEAD, chunk(b"this is no event stream\n\n"), END], "no token"),
        (stream([delta(role="assistant", content="")]), "no token"),
        (stream([text(""), text(""), text("", "stop") | {"usage": usage(2)}]), "no token"),
        (stream([text("a")] * 400), "far more"),
        ([page("not json")], "no chunk"),
        ([page({"error": {"message": "not today"}})], "not today"),
    ],
)
def test_what_is_no_answer_is_a_broken_stream(receive: Receive, steps: list[Step], said: str) -> None:
    with pytest.raises(BrokenStream, match=said) as caught:
        receive(*steps)
    assert "\n" not in str(caught.value)


def recorded(name: str) -> list[Step]:
    if not RECORDED.is_dir():
        pytest.skip("skipped: no shared data")
    head, _, body = (RECORDED / name).read_bytes().partition(b"\r\n\r\n")
    frames = [chunk(frame + b"\n\n") for frame in re.split(rb"\r?\n\r?\n", body) if frame.strip()]
    return [head + b"\r\n\r\n", *frames, END]


@pytest.mark.parametrize(
    # Frames counted in the recordings by hand: those with text, the empty ones after the role, and the usage.
    ("name", "prompt", "completion", "with_text", "empty", "empty_are_tokens", "cached", "finish"),
    [
        ("llamacpp.completions.stream.sse", 50, 24, 11, 1, False, 0, "length"),
        ("llamacpp.chat.stream.sse", 37, 12, 12, 1, False, 0, "length"),
        ("vllm.completions.stream.sse", 50, 24, 11, 13, True, 0, "length"),
        ("vllm.chat.stream.sse", 37, 8, 7, 1, True, 0, "stop"),
        ("transformers.completions.stream.sse", 50, 24, 10, 1, False, None, "length"),
        ("transformers.chat.stream.sse", 37, 8, 7, 1, True, None, "stop"),
    ],
)
def test_recorded_streams(
    name: str,
    prompt: int,
    completion: int,
    with_text: int,
    empty: int,
    empty_are_tokens: bool,
    cached: int | None,
    finish: str,
    receive: Receive,
) -> None:
    answer = receive(*recorded(name))
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (prompt, completion, cached)
    assert answer.finish_reason == finish
    assert sum(not chunk.empty for chunk in answer.chunks) == with_text
    assert sum(chunk.empty for chunk in answer.chunks) == empty
    assert sum(bool(chunk.tokens) for chunk in answer.chunks if chunk.empty) == (empty if empty_are_tokens else 0)


def test_recorded_body_that_was_not_streamed(receive: Receive) -> None:
    if not RECORDED.is_dir():
        pytest.skip("skipped: no shared data")
    for name in ("llamacpp", "vllm", "transformers"):
        body = (RECORDED / f"{name}.chat.json.http").read_bytes().partition(b"\r\n\r\n")[2]
        answer = receive(page(body))  # paths were shortened in the recordings, so their own Content-Length is not right
        assert not answer.streamed
        assert answer.prompt_tokens == 37
