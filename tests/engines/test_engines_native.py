"""Ollama's and TGI's own APIs, and the ways of other servers, by pages written from their source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from engines_fake import NOT_FOUND, Fake
from engines_loopback import END, SSE_HEAD, Loopback, Request, Script, Step, event, page
from engines_native import NDJSON, Ollama, Tgi, line

from phasewise.engines import openai
from phasewise.engines.base import Answer
from phasewise.engines.exchange import Exchange
from phasewise.engines.openai import OpenAIServer
from phasewise.engines.timings import own
from phasewise.errors import BrokenStream, Refused

pytestmark = pytest.mark.alone


@contextmanager
def connected(script: Script, path: str = "") -> Iterator[tuple[OpenAIServer, Loopback]]:
    with Loopback(script) as server:
        engine = openai.connect(server.url + path, api_key="")
        try:
            yield engine, server
        finally:
            engine.close()


def looped(engine: OpenAIServer, tokens: int, answer: int) -> Exchange:
    import time

    with_loop = engine.loop()
    try:
        with_loop.submit(engine.order(1, engine.prompt(tokens), answer))
        (done,) = with_loop.step(time.perf_counter() + 20)
        return done
    finally:
        with_loop.close()


def said(engine: OpenAIServer) -> dict[str, str]:
    return {fact.key: fact.value for fact in engine.target.reported}


def test_ollama_is_asked_by_its_own_api_with_raw_text() -> None:
    with connected(Ollama()) as (engine, server):
        answer = engine.ask(engine.prompt(40), 12)
    assert (engine.target.engine, engine.target.endpoint, engine.target.prompting) == (
        "Ollama",
        "/api/generate",
        "text",
    )
    assert engine.target.max_context == 4096
    assert said(engine)["weights"] == "Q4_K_M"
    assert said(engine)["parameters"] == "134515008"
    assert (answer.prompt_tokens, answer.completion_tokens, answer.finish_reason) == (40, 12, "length")
    assert len(answer.chunks) == 12, "the last line, which holds the counts, is no token"
    assert answer.streamed
    body = server.asked("/api/generate")[-1].json
    assert body["raw"] is True
    assert body["truncate"] is False, "a prompt over the context must be refused, not cut"
    assert body["options"] == {"num_predict": 12, "temperature": 0, "seed": 1}


def test_ollama_is_known_by_its_version_page_when_the_model_is_a_users() -> None:
    with connected(Ollama(namespace="somebody")) as (engine, _):
        assert engine.target.engine == "Ollama"
        assert engine.target.endpoint == "/api/generate"


def test_a_url_that_ends_in_v1_asks_for_ollamas_openai_route() -> None:
    def both(request: Request) -> Iterable[Step]:
        if request.path in ("/v1/completions", "/v1/chat/completions"):
            return Fake(models=[{"id": "small:latest"}], ids=False)(request)
        return Ollama()(request)

    with connected(both, "/v1") as (engine, server):
        assert engine.target.endpoint == "/v1/completions"
        assert not server.asked("/api/generate")


def test_ollamas_durations_are_its_own_times() -> None:
    with connected(Ollama(pause=0.01, load=0.25)) as (engine, _):
        told = own(engine.ask(engine.prompt(40), 11))
    assert told is not None
    assert told.prefill == pytest.approx(0.040)
    assert told.step == pytest.approx(0.010), "eval_duration spans the steps after the first token"
    assert told.load == pytest.approx(0.25)


@pytest.mark.parametrize(("processed_only", "counted"), [(True, None), (False, 40)])
def test_ollama_leaves_the_count_of_a_cached_prompt_out_rather_than_saying_0(
    processed_only: bool, counted: int | None
) -> None:
    script = Ollama()
    with connected(script) as (engine, _):
        script.cached, script.processed_only = 10**6, processed_only
        answer = engine.ask(engine.prompt(40), 4)
    assert answer.prompt_tokens == counted


def test_a_prompt_over_ollamas_context_is_refused_by_the_server() -> None:
    script = Ollama(context=10**5)
    with connected(script) as (engine, _):
        script.context = 30
        with pytest.raises(Refused, match="exceeds the context length"):
            engine.ask(engine.prompt(40), 4)


def test_thinking_by_ollamas_chat_is_told_from_the_answer() -> None:
    def chat_only(request: Request) -> Iterable[Step]:
        return [NOT_FOUND] if request.path == "/api/generate" else Ollama(thoughts=3, pause=0.01)(request)

    with connected(chat_only) as (engine, _):
        answer = engine.ask(engine.prompt(40), 8)
        exchange = looped(engine, 40, 8)
    assert engine.target.endpoint == "/api/chat"
    assert [chunk.thinking for chunk in answer.chunks] == [True] * 3 + [False] * 5
    assert answer.answered_at == answer.chunks[3].at > answer.first_at
    assert exchange.answered_at > exchange.first_at + 0.02


def test_an_answer_of_ollama_that_breaks_off_without_its_last_line_keeps_what_came() -> None:
    script = Ollama()
    with connected(script) as (engine, _):
        script.repeats = 5
        answer = engine.ask(engine.prompt(20), 40)
    assert (answer.completion_tokens, answer.finish_reason, len(answer.chunks)) == (None, None, 5)


def test_an_error_inside_ollamas_stream_is_told() -> None:
    script = Ollama()

    def failing(request: Request) -> Iterable[Step]:
        if request.path == "/api/generate" and len(server.asked("/api/generate")) > 2:
            return [NDJSON, line({"response": "a", "done": False}), line({"error": "model runner stopped"}), END]
        return script(request)

    with Loopback(failing) as server:
        engine = openai.connect(server.url, api_key="")
        with pytest.raises(BrokenStream, match="model runner stopped"):
            engine.ask(engine.prompt(20), 8)
        assert "model runner stopped" in looped(engine, 20, 8).error
        engine.close()


def test_what_is_no_line_of_ollama_is_told() -> None:
    def nonsense(request: Request) -> Iterable[Step]:
        if request.path == "/api/generate" and len(server.asked("/api/generate")) > 2:
            return [NDJSON, b"5\r\n<b>x\n\r\n", END]
        return Ollama()(request)

    with Loopback(nonsense) as server:
        engine = openai.connect(server.url, api_key="")
        with pytest.raises(BrokenStream, match="no line of Ollama"):
            engine.ask(engine.prompt(20), 8)
        engine.close()


@pytest.mark.parametrize("script", [Ollama(pause=0.004), Tgi(pause=0.004)], ids=["ollama", "tgi"])
def test_the_loop_reads_a_native_stream_as_the_blocking_client_does(script: Script) -> None:
    with connected(script) as (engine, _):
        answer, exchange = engine.ask(engine.prompt(30), 16), looped(engine, 30, 16)
    assert exchange.error == ""
    assert exchange.streamed
    assert exchange.arrivals.are_tokens.sum() == len(answer.chunks) == 16
    assert (exchange.prompt_tokens, exchange.completion_tokens) == (answer.prompt_tokens, answer.completion_tokens)
    assert exchange.finish_reason == answer.finish_reason == "length"
    assert exchange.reported.keys() == answer.reported.keys()
    assert exchange.last_at - exchange.first_at == pytest.approx(15 * 0.004, rel=1.0)


def test_a_line_cut_anywhere_is_one_line() -> None:
    whole = line({"response": " é\\n", "done": False}) + line({"response": "b", "done": False})

    def split(request: Request) -> Iterable[Step]:
        if request.path == "/api/generate" and len(server.asked("/api/generate")) > 2:
            last = {"response": "", "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2}
            data = NDJSON + whole + line(last) + END
            return [step for i in range(0, len(data), 7) for step in (data[i : i + 7], 0.001)]
        return Ollama()(request)

    with Loopback(split) as server:
        engine = openai.connect(server.url, api_key="")
        answer, exchange = engine.ask(engine.prompt(20), 8), looped(engine, 20, 8)
        engine.close()
    assert answer.completion_tokens == exchange.completion_tokens == 2
    assert len(answer.chunks) == exchange.arrivals.are_tokens.sum() == 2


def test_tgi_is_asked_by_its_own_api_and_counts_by_its_details() -> None:
    with connected(Tgi()) as (engine, server):
        prompt = engine.prompt(50)
        answer = engine.ask(prompt, 12)
    assert (engine.target.engine, engine.target.endpoint) == ("TGI", "/generate_stream")
    assert engine.target.max_context == 1024
    assert prompt.exact, "/tokenize counts the text"
    assert (answer.prompt_tokens, answer.completion_tokens, answer.finish_reason) == (50, 12, "length")
    assert [chunk.tokens for chunk in answer.chunks] == [1] * 12
    assert server.asked("/generate_stream")[-1].json["parameters"] == {
        "max_new_tokens": 12,
        "do_sample": False,
        "details": True,
    }


def test_tgi_that_ends_early_says_so() -> None:
    with connected(Tgi(eos=5)) as (engine, _):
        answer = engine.ask(engine.prompt(50), 12)
    assert (answer.completion_tokens, answer.finish_reason) == (5, "eos_token")
    honoured = next(found for found in engine.target.capabilities if found.name == "ignore_eos")
    assert honoured.present is False


LM_STATS = {
    "tokens_per_second": 51.4,
    "time_to_first_token": 0.111,
    "generation_time": 0.954,
    "stop_reason": "eosFound",
}


def lm_studio(request: Request) -> Iterable[Step]:
    """LM Studio, which answers every path that it does not know with 200 and an error."""
    native = request.path.startswith("/api/v0")
    base = request.path.removeprefix("/api/v0" if native else "/v1")
    if base == "/models" and native:
        loaded = {"id": "small", "object": "model", "type": "llm", "publisher": "somebody", "arch": "llama"}
        loaded |= {
            "quantization": "Q4_K_M",
            "state": "loaded",
            "max_context_length": 8192,
            "loaded_context_length": 4096,
        }
        return [page({"object": "list", "data": [loaded]})]
    if base == "/models":
        return [
            page({"object": "list", "data": [{"id": "small", "object": "model", "owned_by": "organization_owner"}]})
        ]
    if base == "/completions" and isinstance(request.json["prompt"], str):
        return _lm_answer(request.json, {"stats": LM_STATS} if native else {"stats": {}})
    if base == "/completions":
        return [page({"error": "'prompt' must be a string"}, "400 Bad Request")]
    return [page({"error": f"Unexpected endpoint or method. ({request.method} {request.path})"})]


def _lm_answer(body: dict[str, Any], more: dict[str, Any]) -> Iterable[Step]:
    yield SSE_HEAD
    for index in range(body["max_tokens"]):
        yield event({"choices": [{"index": 0, "text": f" w{index}", "finish_reason": None}]})
    usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": body["max_tokens"]}
    yield event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}], "usage": usage} | more)
    yield event("[DONE]")
    yield END


def test_lm_studio_by_its_openai_route() -> None:
    with connected(lm_studio) as (engine, _):
        answer = engine.ask(engine.prompt(30), 8)
    assert (engine.target.engine, engine.target.endpoint) == ("LM Studio", "/v1/completions")
    assert engine.target.max_context == 4096
    assert (answer.prompt_tokens, answer.completion_tokens) == (30, 8)
    assert own(answer) is None


def test_lm_studio_by_its_own_route_tells_its_time_to_first_token() -> None:
    with connected(lm_studio, "/api/v0") as (engine, _):
        answer, exchange = engine.ask(engine.prompt(30), 8), looped(engine, 30, 8)
    assert (engine.target.engine, engine.target.endpoint) == ("LM Studio", "/api/v0/completions")
    told = own(answer)
    assert told is not None
    assert told.prefill == 0.111
    assert told.step is None, "nothing says what its generation_time spans"
    assert exchange.reported["time_to_first_token"] == 0.111


TRTLLM: dict[str, Any] = {
    "models": [{"id": "m", "object": "model", "owned_by": "tensorrt_llm"}],
    "usage": "running",
    "unknown": ("cache_prompt", "timings_per_token"),
    "cached": 0,
    "pages": {
        "/version": page({"version": "1.3.0"}),
        "/metrics": page([{"iter": 7, "numActiveRequests": 1}]),
        "/prometheus/metrics": page(
            'trtllm_num_requests_running{engine_type="x"} 0.0\ntrtllm_num_requests_waiting{engine_type="x"} 0.0\n'
            'trtllm_prompt_tokens_total{engine_type="x"} 32.0\ntrtllm_generation_tokens_total{engine_type="x"} 8.0\n',
            kind="text/plain; version=0.0.4",
        ),
    },
}


def test_tensorrt_llm_takes_token_ids_and_has_its_counters_elsewhere() -> None:
    with connected(Fake(**TRTLLM)) as (engine, _):
        activity = engine.activity()
    assert (engine.target.engine, engine.target.prompting) == ("TensorRT-LLM", "token_ids")
    assert activity is not None
    assert (activity.running, activity.waiting, activity.prompt_tokens, activity.output_tokens) == (0, 0, 32, 8)


def test_sglang_takes_token_ids_and_a_running_usage() -> None:
    pages = {"/get_server_info": page({"version": "0.5.23", "tp_size": 2, "disable_radix_cache": True})}
    with connected(
        Fake(models=[{"id": "m", "owned_by": "sglang", "max_model_len": 4096}], usage="running", pages=pages)
    ) as (
        engine,
        _,
    ):
        answer = engine.ask(engine.prompt(64), 8)
    assert (engine.target.engine, engine.target.prompting) == ("SGLang", "token_ids")
    assert said(engine)["tensor_parallel"] == "2"
    assert [chunk.tokens for chunk in answer.chunks] == [1] * 8


def test_transformers_serve_is_known_by_its_routes() -> None:
    routes = {"/load_model": {}, "/reset": {}, "/v1/audio/transcriptions": {}, "/v1/models": {}}
    pages = {"/openapi.json": page({"info": {"title": "FastAPI"}, "paths": routes})}
    with connected(Fake(models=[{"id": "m", "owned_by": "local"}], ids=False, done=False, pages=pages)) as (engine, _):
        assert engine.target.engine == "transformers serve"


@pytest.mark.parametrize("paths", [None, [], [["/load_model"]], "x", {"/reset": 1}])
def test_routes_that_are_none_make_no_engine(paths: object) -> None:
    with connected(Fake(pages={"/openapi.json": page({"paths": paths})})) as (engine, _):
        assert engine.target.engine == "unknown"


def vllm_answer(request: Request, metrics: dict[str, Any]) -> list[Step]:
    tokens = request.json["max_tokens"]
    usage = {"prompt_tokens": len(request.json["prompt"]), "completion_tokens": tokens}
    pieces = [event({"choices": [{"text": f" w{i}"}]}) for i in range(tokens)]
    return [SSE_HEAD, *pieces, event({"choices": [], "usage": usage, "metrics": metrics}), event("[DONE]"), END]


def test_vllms_metrics_of_a_request_are_its_own_times() -> None:
    metrics = {"time_to_first_token_ms": 30.0, "generation_time_ms": 70.0, "queue_time_ms": 0.5, "mean_itl_ms": 10.0}
    metrics |= {"tokens_per_second": 80.0, "speculative_decoding": None}

    def script(request: Request) -> Iterable[Step]:
        if request.path == "/v1/completions":
            return vllm_answer(request, metrics)
        return Fake(models=[{"id": "m", "owned_by": "vllm"}])(request)

    with connected(script) as (engine, _):
        answer, exchange = engine.ask(engine.prompt(20), 8), looped(engine, 20, 8)
    told = own(answer)
    assert told is not None
    assert (told.prefill, told.queue) == (0.030, 0.0005)
    assert told.step == pytest.approx(0.010), "70 ms over the 7 steps after the first token"
    assert exchange.reported == answer.reported


@pytest.mark.parametrize(
    "reported",
    [{}, {"prompt_ms": -1.0}, {"time_to_first_token_ms": 1.0}, {"eval_duration": 5.0}, {"something": 1.0}],
)
def test_figures_that_do_not_suffice_make_no_step(reported: dict[str, float]) -> None:
    answer = Answer(
        sent_at=0,
        headers_at=0,
        first_at=1,
        last_at=1,
        ended_at=1,
        chunks=(),
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=None,
        finish_reason="length",
        reported=reported,
    )
    told = own(answer)
    assert told is None or told.step is None


def test_llama_cpps_rate_of_one_token_makes_no_step() -> None:
    timings = json.loads('{"prompt_n": 16, "prompt_ms": 12.5, "predicted_n": 4, "predicted_ms": 27.028}')
    answer = Answer(
        sent_at=0,
        headers_at=0,
        first_at=1,
        last_at=1,
        ended_at=1,
        chunks=(),
        prompt_tokens=16,
        completion_tokens=4,
        cached_tokens=0,
        finish_reason="length",
        reported=timings,
    )
    told = own(answer)
    assert told is not None
    assert told.step == pytest.approx(9.0093e-3, rel=1e-4), "as its own predicted_per_token_ms: 27.028 over 3 steps"
