from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from engines_fake import LLAMA_CPP, TRANSFORMERS, VLLM, Fake
from engines_loopback import Loopback, Script, page

from phasewise.engines import openai
from phasewise.errors import UsageError

Probing = AbstractContextManager[tuple[openai.OpenAIServer, Loopback]]


def probed(path: str = "", *, model: str | None = None, **flags: Any) -> Probing:
    return probing(Fake(**flags), path, model=model)


@contextmanager
def probing(
    script: Script, path: str = "", *, model: str | None = None
) -> Iterator[tuple[openai.OpenAIServer, Loopback]]:
    with Loopback(script) as server:
        engine = openai.connect(server.url + path, model=model, api_key="")
        try:
            yield engine, server
        finally:
            engine.close()


def found(engine: openai.OpenAIServer) -> dict[str, bool | None]:
    return {one.name: one.present for one in engine.target.capabilities}


def detail(engine: openai.OpenAIServer, name: str) -> str:
    return next(one.detail for one in engine.target.capabilities if one.name == name)


def reported(engine: openai.OpenAIServer) -> dict[str, str]:
    return {one.key: one.value for one in engine.target.reported}


def test_llama_cpp() -> None:
    with probed(**LLAMA_CPP) as (engine, server):
        target = engine.target
        assert (target.engine, target.served_model, target.prompting) == ("llama.cpp", "tiny.gguf", "token_ids")
        assert target.endpoint == "/v1/completions"
        assert target.max_context == 4096  # what a slot has, not what the model was given
        facts = reported(engine)
        assert facts["parameters"] == "134515008"
        assert facts["weight_bytes"] == "96576768"
        assert facts["weights"] == "Q4_1"
        assert facts["model_path"] == "tiny.gguf"
        assert not any("somebody" in fact.value for fact in target.reported)
        names = (
            "reachable",
            "models",
            "endpoint",
            "token_ids",
            "usage",
            "cached_tokens",
            "ignore_eos",
            "tokenize",
            "metrics",
        )
        assert all(found(engine)[name] for name in names)
        asked = server.asked("/v1/completions")[-1].json
        assert asked["cache_prompt"] is False
        assert asked["temperature"] == 0
        activity = engine.activity()
        assert activity is not None
        assert (activity.running, activity.waiting, activity.prompt_tokens, activity.output_tokens) == (1, 2, 88, 48)


def test_vllm() -> None:
    with probed(**VLLM) as (engine, server):
        target = engine.target
        assert (target.engine, target.max_context) == ("vLLM", 4096)
        assert reported(engine)["version"] == "0.32.0"
        assert reported(engine)["model_path"] == "org/model"
        assert found(engine)["running_usage"] is True
        assert found(engine)["cached_tokens"] is False
        assert "--enable-prompt-tokens-details" in detail(engine, "cached_tokens")
        activity = engine.activity()
        assert activity is not None
        assert (activity.running, activity.waiting, activity.prompt_tokens, activity.output_tokens) == (0, 3, 124, 40)
        answer = engine.ask(engine.prompt(20), 5)
        assert [chunk.tokens for chunk in answer.chunks] == [1] * 5
        assert server.asked("/v1/completions")[-1].json["ignore_eos"] is True


def test_a_server_that_refuses_unknown_fields_gets_none() -> None:
    with probed(**TRANSFORMERS) as (engine, server):
        assert engine.target.prompting == "text"
        assert found(engine)["token_ids"] is False
        assert found(engine)["ignore_eos"] is False
        assert found(engine)["usage"] is True
        last = server.asked("/v1/completions")[-1].json
        assert last["stream_options"] == {"include_usage": True}
        assert "ignore_eos" not in last


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/completions", "/v1/chat/completions", "/v1/models"])
@pytest.mark.parametrize("prefix", ["", "/llm/a"])
def test_the_base_path_is_found_however_the_url_is_written(prefix: str, path: str) -> None:
    flags = VLLM | {"pages": {f"{prefix}{path}": body for path, body in VLLM["pages"].items()}}
    with probed(prefix + path, base=f"{prefix}/v1", root=prefix, **flags) as (engine, _):
        assert engine.target.endpoint == f"{prefix}/v1/completions"
        assert found(engine)["metrics"] is True
        assert found(engine)["tokenize"] is True
        assert reported(engine)["version"] == "0.32.0"


def test_a_base_path_without_v1() -> None:
    with probed("/openai", base="/openai", root="/openai") as (engine, _):
        assert engine.target.endpoint == "/openai/completions"


def test_the_only_model_is_taken_and_one_of_several_must_be_named() -> None:
    several = [{"id": "a"}, {"id": "b"}]
    with pytest.raises(UsageError, match="--served-model one of a, b"), probed(models=several):
        pass
    with probed(models=several, model="b") as (engine, server):
        assert engine.target.served_model == "b"
        assert {request.json["model"] for request in server.asked("/v1/completions")} == {"b"}


def test_a_server_without_a_list_of_models_is_asked_for_the_named_one() -> None:
    fake = Fake()

    def script(request: Any) -> Any:
        return [page({"detail": "Not Found"}, "404 Not Found")] if request.path.endswith("models") else fake(request)

    with probing(script, model="m") as (engine, _):
        assert engine.target.endpoint == "/v1/completions"


def test_chat_is_used_where_there_is_nothing_else() -> None:
    with probed(endpoints=("chat/completions",), template=9) as (engine, server):
        assert (engine.target.prompting, engine.target.endpoint) == ("chat", "/v1/chat/completions")
        prompt = engine.prompt(50)
        answer = engine.ask(prompt, 4)
        assert answer.prompt_tokens == prompt.tokens == 50
        assert not prompt.exact
        assert len(answer.chunks) == 4  # the role chunk is no token
        assert "messages" in server.requests[-1].json


def test_a_server_that_renamed_the_limit() -> None:
    with probed(limit="max_completion_tokens", endpoints=("chat/completions",)) as (engine, _):
        assert engine.ask(engine.prompt(20), 3).completion_tokens == 3


@pytest.mark.parametrize(
    ("honours", "unknown", "floor", "present"),
    [
        (("ignore_eos",), (), None, True),
        (("min_tokens",), (), "min_tokens", True),
        (("min_tokens",), ("ignore_eos",), "min_tokens", True),
        ((), (), None, False),
    ],
)
def test_answers_are_kept_from_ending_by_what_the_server_honours(
    honours: tuple[str, ...], unknown: tuple[str, ...], floor: str | None, present: bool
) -> None:
    with probed(honours=honours, unknown=unknown) as (engine, server):
        assert found(engine)["ignore_eos"] is present
        engine.ask(engine.prompt(20), 7)
        assert server.requests[-1].json.get("min_tokens") == (7 if floor else None)


def test_without_chat_the_ending_is_not_put_to_the_test() -> None:
    with probed(endpoints=("completions",)) as (engine, _):
        assert found(engine)["ignore_eos"] is None
        assert "not put to the test" in detail(engine, "ignore_eos")


@pytest.mark.parametrize("where", ["status", "stream"])
def test_ids_out_of_the_vocabulary_narrow_the_range(where: str) -> None:
    with probed(vocabulary=5000, vocabulary_error=where) as (engine, _):
        assert engine.target.prompting == "token_ids"
        for _ in range(20):
            assert max(engine.prompt(100).payload) < 5000


def test_ids_that_are_taken_for_something_else_are_not_used() -> None:
    fake = Fake()

    def script(request: Any) -> Any:
        if request.path == "/v1/completions" and isinstance(request.json["prompt"], list):
            # A server that writes the list out as text counts its digits.
            digits = " ".join(str(request.json["prompt"]))
            request.body = json.dumps(request.json | {"prompt": digits}).encode()
        return fake(request)

    with probing(script) as (engine, _):
        assert engine.target.prompting == "text"


def test_a_begin_token_is_part_of_the_length() -> None:
    with probed(begin=1) as (engine, server):
        prompt = engine.prompt(50)
        assert prompt.tokens == 50
        assert engine.ask(prompt, 1).prompt_tokens == 50
        assert len(server.requests[-1].json["prompt"]) == 49


@pytest.mark.parametrize("tokenize", ["prompt", "content"])
@pytest.mark.parametrize("endpoint", ["completions", "chat/completions"])
def test_text_is_cut_to_the_exact_length_by_the_servers_tokenizer(tokenize: str, endpoint: str) -> None:
    with probed(ids=False, tokenize=tokenize, endpoints=(endpoint,), template=7, begin=1) as (engine, _):
        assert found(engine)["tokenize"] is True
        for tokens in (10, 64, 333):
            prompt = engine.prompt(tokens)
            assert (prompt.tokens, prompt.exact) == (tokens, True)
            assert engine.ask(prompt, 1).prompt_tokens == tokens


def test_without_usage_nothing_is_claimed() -> None:
    with probed(ids=False, usage="never") as (engine, _):
        assert found(engine)["usage"] is False
        prompt = engine.prompt(30)
        assert not prompt.exact
        answer = engine.ask(prompt, 3)
        assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)
        assert len(answer.chunks) == 3


def test_a_server_that_does_not_stream_is_seen() -> None:
    with probed(streams=False) as (engine, _):
        assert found(engine)["streaming"] is False
        answer = engine.ask(engine.prompt(10), 5)
        assert not answer.streamed
        assert answer.completion_tokens == 5
        assert answer.first_at == answer.last_at


def test_chunks_that_come_apart_show_that_it_streams() -> None:
    with probed(pause=0.02) as (engine, _):
        assert found(engine)["streaming"] is True


def test_the_probe_tells_what_it_cost() -> None:
    with probed(**VLLM) as (engine, server):
        sent = [*server.asked("/v1/completions"), *server.asked("/v1/chat/completions")]
        assert f"{len(sent)} requests" in detail(engine, "cost")
        assert sum(request.json["max_tokens"] for request in sent) <= 64


def test_names_from_the_server_are_cleaned() -> None:
    hostile = "m\x1b[31m\x07\u202e" + "x" * 500
    with probed(models=[{"id": hostile, "owned_by": "\x1b]0;x\x07"}]) as (engine, server):
        assert server.asked("/v1/completions")[-1].json["model"] == hostile  # sent as the server named it
        for fact in engine.target.reported:
            assert fact.value.isprintable()
            assert len(fact.value) <= 200


@pytest.mark.parametrize(
    ("page_path", "body", "engine_name"),
    [
        ("/get_server_info", {"model_path": "org/m", "tp_size": 2, "quantization": "fp8", "version": "0.5"}, "SGLang"),
        ("/props", {"default_generation_settings": {"n_ctx": 512}}, "llama.cpp"),
        ("/info", {"model_id": "org/m", "max_total_tokens": 2048}, "TGI"),
        ("/version", {"version": "1"}, "unknown"),
    ],
)
def test_pages_tell_which_engine_it_is(page_path: str, body: dict[str, Any], engine_name: str) -> None:
    with probed(pages={page_path: page(body)}) as (engine, _):
        assert engine.target.engine == engine_name
        if engine_name == "SGLang":
            facts = reported(engine)
            assert (facts["tensor_parallel"], facts["weights"], facts["model_path"]) == ("2", "fp8", "org/m")


def test_optional_pages_that_hang_or_break_do_not_stop_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.engines.client.PAGE_S", 0.3)
    fake = Fake()

    def script(request: Any) -> Any:
        if request.path in ("/props", "/metrics"):
            return [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", 5.0]
        return [b"garbage\r\n\r\n"] if request.path == "/version" else fake(request)

    with probing(script) as (engine, _):
        assert found(engine)["metrics"] is False


@pytest.mark.parametrize("vocabulary", [1, 0, -7, 2**60, 10**300])
def test_a_vocabulary_that_cannot_be_is_ignored_and_the_finding_says_so(vocabulary: int) -> None:
    with probed(models=[{"id": "m", "meta": {"n_vocab": vocabulary}}]) as (engine, _):
        assert found(engine)["token_ids"] is True
        assert "cannot be and is ignored" in detail(engine, "token_ids")
        assert engine.ask(engine.prompt(20), 3).prompt_tokens == 20


def test_a_vocabulary_that_can_be_is_not_talked_about() -> None:
    with probed(**LLAMA_CPP) as (engine, _):
        assert "ignored" not in detail(engine, "token_ids")


@pytest.mark.parametrize("vocabulary", ["49152", [1], {"a": 1}, 1e300, True])
def test_a_fact_that_is_not_what_it_should_be_spoils_no_other(vocabulary: object) -> None:
    card = {"id": "m", "owned_by": 5, "max_model_len": 4096, "meta": {"n_vocab": vocabulary, "ftype": "Q4_1"}}
    with probed(models=[card]) as (engine, _):
        facts = reported(engine)
        assert (facts["max_context"], facts["weights"]) == ("4096", "Q4_1")
        assert "vocabulary" not in facts
        assert found(engine)["token_ids"] is True


@pytest.mark.parametrize("limit", [0, -5, 10**18, 2**63, "x", "²"])
def test_a_context_that_cannot_be_is_not_believed(limit: object) -> None:
    pages = {"/version": page({"max_model_len": limit})}
    with probed(models=[{"id": "m", "max_model_len": limit}], pages=pages) as (engine, _):
        assert engine.target.max_context is None
        assert engine.prompt(20).tokens == 20


def test_a_prompt_beyond_the_stated_context_is_the_users_mistake() -> None:
    with probed(models=[{"id": "m", "max_model_len": 4096}]) as (engine, server):
        asked = len(server.requests)
        with pytest.raises(UsageError, match=r"context of 4,096"):
            engine.prompt(1_000_000_000)
        assert len(server.requests) == asked
