"""The OpenAI protocol of the simulated server, on the wire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from simulated_wire import Reply, Wire

from phasewise.engines.simulated import Plan, SimulatedServer

pytestmark = pytest.mark.alone

FAST = {"prefill_overhead_s": 1e-3, "prefill_per_token_s": 0.0, "decode_overhead_s": 5e-4, "decode_per_request_s": 0.0}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with SimulatedServer(Plan(max_context=1000, answer_tokens=12, template_tokens=5, **FAST)) as server:
        yield server.url


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    with Wire(url) as opened:
        yield opened


def test_it_says_what_it_is(wire: Wire) -> None:
    assert wire.get("/health").status == 200
    model = wire.get("/v1/models").json["data"][0]
    assert (model["id"], model["max_model_len"]) == ("simulated", 1000)
    assert wire.get("/version").json["server"] == "phasewise-simulate"


@pytest.mark.parametrize("prompt", [[1, 2, 3, 4], [[1, 2, 3, 4]], "four words of text", ["four words of text"]])
def test_prompts_in_all_their_forms_have_four_tokens(wire: Wire, prompt: object) -> None:
    reply = wire.complete(prompt, 3)
    assert reply.usage == {
        "prompt_tokens": 4,
        "completion_tokens": 3,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert [event.choice["text"] for event in reply.tokens] == [" the", " model", " reads"]
    assert reply.finish == "length"
    assert reply.events[-1].data == "[DONE]"


def test_a_whole_answer(wire: Wire) -> None:
    reply = wire.post("/v1/completions", {"model": "simulated", "prompt": "a b", "max_tokens": 4})
    assert reply.json["choices"][0]["text"] == " the model reads its"
    assert reply.json["choices"][0]["finish_reason"] == "length"
    assert reply.json["usage"]["total_tokens"] == 6
    default = wire.post("/v1/completions", {"prompt": "a b", "ignore_eos": True})
    assert default.json["usage"]["completion_tokens"] == 16


def test_a_chat(wire: Wire) -> None:
    reply = wire.chat("three words here", 2)
    assert reply.usage is not None
    assert reply.usage["prompt_tokens"] == 3 + 5
    assert [event.choice["delta"]["content"] for event in reply.tokens] == [" the", " model"]
    parts = [{"role": "user", "content": [{"type": "text", "text": "one two"}]}, {"role": "assistant", "content": None}]
    whole = wire.post("/v1/chat/completions", {"messages": parts, "max_completion_tokens": 2})
    assert whole.json["choices"][0]["message"] == {"role": "assistant", "content": "the model"}
    assert whole.json["usage"]["prompt_tokens"] == 2 + 5


def test_answers_end_by_themselves_unless_told_not_to(wire: Wire) -> None:
    assert wire.complete(4, 30).usage["completion_tokens"] == 30  # type: ignore[index]
    stopped = wire.complete(4, 30, ignore_eos=False)
    assert (stopped.usage["completion_tokens"], stopped.finish) == (12, "stop")  # type: ignore[index]
    later = wire.complete(4, 30, ignore_eos=False, min_tokens=20)
    assert (later.usage["completion_tokens"], later.finish) == (20, "stop")  # type: ignore[index]
    assert wire.complete(4, 12, ignore_eos=False).finish == "length"


def test_a_stream_tells_usage_and_ids_only_when_asked(wire: Wire) -> None:
    plain = wire.complete(4, 3, stream_options=None)
    assert plain.usage is None
    assert "token_ids" not in plain.tokens[0].choice  # type: ignore[operator]
    full = wire.complete(4, 3, return_token_ids=True, stream_options={"continuous_usage_stats": True})
    assert [event.json["usage"]["completion_tokens"] for event in full.tokens] == [1, 2, 3]
    assert [len(event.choice["token_ids"]) for event in full.tokens] == [1, 1, 1]  # type: ignore[index]


def test_tokenize_counts_as_the_prompt_does(wire: Wire) -> None:
    reply = wire.post("/tokenize", {"prompt": "one two two"}).json
    assert reply["count"] == len(reply["tokens"]) == 3
    assert reply["tokens"][1] == reply["tokens"][2] != reply["tokens"][0]
    assert reply["max_model_len"] == 1000
    chat = wire.post("/tokenize", {"messages": [{"role": "user", "content": "one two"}]}).json
    assert chat["count"] == 2 + 5


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "Invalid request body"),
        (b"{", 400, "Invalid request body"),
        (b"[" * 100_000, 400, "Invalid request body"),
        (b'{"prompt":' + b"[" * 100_000, 400, "Invalid request body"),
        (b'{"x":' + b"[" * 100_000, 400, "Invalid request body"),
        (b'{"prompt": "\xff"}', 400, "Invalid request body"),
        ({"max_tokens": 3}, 400, "prompt"),
        ({"prompt": ""}, 400, "empty"),
        ({"prompt": []}, 400, "empty"),
        ({"prompt": ["a", "b"]}, 400, "one string"),
        ({"prompt": [1, "b"]}, 400, "one string"),
        ({"prompt": [-1]}, 400, "Token ids"),
        ({"prompt": [10**9]}, 400, "Token ids"),
        ({"prompt": {"a": 1}}, 400, "Invalid request body"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({"prompt": "a", "max_tokens": "many"}, 400, "Invalid request body"),
        ({"prompt": "a", "n": 2}, 400, "n must be 1"),
        ({"prompt": [1] * 600, "max_tokens": 500}, 400, "maximum context length is 1000"),
        ({"prompt": [1] * 1000}, 400, "maximum context length is 1000"),
        ({"prompt": "a", "model": "other"}, 404, "does not exist"),
    ],
)
def test_bad_requests_get_an_openai_error_and_the_connection_lives_on(
    wire: Wire, body: object, status: int, says: str
) -> None:
    reply = wire.post("/v1/completions", body)
    error = reply.json["error"]
    assert (reply.status, error["code"]) == (status, status)
    assert says in error["message"]
    assert wire.get("/health").status == 200


def test_unknown_paths_and_methods(wire: Wire) -> None:
    assert wire.get("/v1/nothing").status == 404
    assert wire.post("/v1/models", {}).status == 405
    assert wire.get("/v1/completions").status == 405
    assert wire.post("/v1/chat/completions", {"messages": []}).status == 400


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_not_http_is_refused(url: str, junk: bytes) -> None:
    with Wire(url) as wire:
        wire.socket.sendall(junk)
        assert wire.socket.recv(1000).startswith(b"HTTP/1.1 400 ")
        assert wire.socket.recv(1000) == b""


def test_requests_behind_each_other_on_one_connection(url: str) -> None:
    body = json.dumps({"prompt": "a b", "max_tokens": 3}).encode()
    one = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    last = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with Wire(url) as wire:
        wire.socket.sendall(one + one + last)
        raw = b""
        while data := wire.socket.recv(1 << 16):
            raw += data
    assert raw.count(b"HTTP/1.1 200 OK") == 3
    assert raw.count(b" the model reads") == 2


def test_a_body_in_chunks_after_a_100_continue(url: str) -> None:
    body = json.dumps({"prompt": "a b", "max_tokens": 1}).encode()
    with Wire(url) as wire:
        wire.socket.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        assert wire.socket.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for part in (body[:5], body[5:], b""):
            wire.socket.sendall(b"%x\r\n%b\r\n" % (len(part), part))
        reply = Reply(sent_at=time.perf_counter())
        wire.receive(reply)
    assert reply.json["usage"]["prompt_tokens"] == 2


def test_metrics_in_vllms_names() -> None:
    with (
        SimulatedServer(Plan(prefix_cache=True, model='a"b', decode_overhead_s=0.02)) as server,
        Wire(server.url) as wire,
    ):
        prompt = list(range(40))
        wire.complete(prompt, 5)
        wire.complete(prompt, 5)
        with Wire(server.url) as other:
            other.socket.sendall(_streaming_request(prompt, 1000))
            time.sleep(0.1)
            seen = _metrics(wire)
        assert seen["num_requests_running"] == 1
        assert seen["num_requests_waiting"] == 0
        assert seen["prompt_tokens_total"] == 120
        assert seen["prefix_cache_queries_total"] == 120
        assert seen["prefix_cache_hits_total"] == 64
        assert seen["generation_tokens_total"] > 10
        # A client that leaves frees the engine.
        time.sleep(0.1)
        assert _metrics(wire)["num_requests_running"] == 0


def test_prefix_cache_shortens_prefill_and_says_so() -> None:
    plan = Plan(prefix_cache=True, prefill_overhead_s=1e-3, prefill_per_token_s=1e-4)
    with SimulatedServer(plan) as server, Wire(server.url) as wire:
        prompt = list(range(1000))
        first, second = wire.complete(prompt, 1), wire.complete(prompt, 1)
    assert first.usage["prompt_tokens_details"]["cached_tokens"] == 0  # type: ignore[index]
    assert second.usage["prompt_tokens_details"]["cached_tokens"] == 992  # type: ignore[index]
    assert first.ttft > 0.1
    assert second.ttft < 0.05


def test_a_full_queue_is_a_429() -> None:
    with SimulatedServer(Plan(max_batch=1, max_queue=1, decode_overhead_s=0.05)) as server:
        wires = [Wire(server.url) for _ in range(3)]
        for wire in wires[:2]:
            wire.socket.sendall(_streaming_request([1, 2], 1000))
            time.sleep(0.05)
        assert wires[2].complete(2, 1).status == 429
        for wire in wires:
            wire.socket.close()


def test_key_and_base_path() -> None:
    with SimulatedServer(Plan(base_path="api/"), api_key="s3cret") as server, Wire(server.url) as wire:
        assert server.url.endswith("/api")
        assert wire.get("/health").status == 200
        assert wire.get("/v1/models").status == 401
        assert wire.get("/v1/models", authorization="Bearer wrong").status == 401
        assert wire.complete(2, 1).json["error"]["code"] == 401
        assert wire.get("/v1/models", authorization="Bearer s3cret").status == 200
        wire.base = ""
        assert wire.get("/v1/models").status == 404


@pytest.mark.parametrize("endpoints", ["completions", "chat"])
def test_only_one_endpoint(endpoints: str) -> None:
    plan = Plan(endpoints=endpoints, tokenize=False, token_ids=False)  # type: ignore[arg-type]
    with SimulatedServer(plan) as server, Wire(server.url) as wire:
        completions, chat = wire.complete("a b", 1).status, wire.chat("a b", 1).status
        assert (completions, chat) == ((200, 404) if endpoints == "completions" else (404, 200))
        assert wire.post("/tokenize", {"prompt": "a"}).status == 404
        assert wire.complete([1, 2], 1).status == (400 if endpoints == "completions" else 404)


def test_closing_ends_the_child_at_once_even_with_open_streams() -> None:
    server = SimulatedServer(Plan(decode_overhead_s=0.01))
    with Wire(server.url) as wire:
        wire.socket.sendall(_streaming_request([1], 10_000))
        wire.socket.recv(10)
        began = time.monotonic()
        server.close()
        server.close()
        assert time.monotonic() - began < 4
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_the_child_dies_with_its_parent() -> None:
    script = (
        "import sys, time\nfrom phasewise.engines.simulated import Plan, SimulatedServer\n"
        "server = SimulatedServer(Plan())\nprint(server.url, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    with Wire(url) as wire:
        assert wire.get("/health").status == 200
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    with pytest.raises(OSError):  # noqa: PT012 - until nobody listens any more
        while time.monotonic() < deadline:
            Wire(url).socket.close()
            time.sleep(0.02)


def _streaming_request(prompt: list[int], max_tokens: int) -> bytes:
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "stream": True}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _metrics(wire: Wire) -> dict[str, float]:
    lines = [line for line in wire.get("/metrics").body.decode().splitlines() if not line.startswith("#")]
    assert all(line.startswith("vllm:") and "model_name=" in line for line in lines)
    return {line.split("{")[0].removeprefix("vllm:"): float(line.rsplit(" ", 1)[1]) for line in lines}
