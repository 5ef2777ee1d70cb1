"""What a server says it is: engine, version, model file, parallelism, formats, limits."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from phasewise.engines.client import Client
from phasewise.engines.models import Card, Served
from phasewise.engines.prompts import MAX_PROMPT
from phasewise.engines.text import clean
from phasewise.record.target import Reported

_OWNERS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "TensorRT-LLM",
    "library": "Ollama",
    "organization_owner": "LM Studio",
    "phasewise-simulate": "phasewise simulate",
}
"""Engines by the ``owned_by`` of their models."""

_PAGES: dict[str, tuple[str, ...]] = {
    "vLLM": ("/version", "/server_info"),
    "SGLang": ("/get_server_info", "/server_info", "/get_model_info"),
    "llama.cpp": ("/props",),
    "TensorRT-LLM": ("/version",),
    "Ollama": ("/api/version", "/api/ps"),
    "LM Studio": ("/api/v0/models",),
    "phasewise simulate": ("/version",),
    "unknown": ("/version", "/props", "/get_server_info", "/info", "/api/version", "/api/v0/models", "/openapi.json"),
}
"""Pages that say more, by engine; of one that is not known, each shows which engine it is."""

_SHOW = "/api/show"
"""Ollama's page about one model, which is asked for by POST."""

_TRANSFORMERS = {"/load_model", "/reset", "/v1/audio/transcriptions"}
"""Paths that `transformers serve` has together."""

_KEYS: dict[str, tuple[str, ...]] = {
    "version": ("version", "build_info"),
    "model_path": ("model_path", "model_id"),
    "weights": ("model_ftype", "quantization", "quantize", "quantization_level"),
    "dtype": ("dtype", "model_dtype"),
    "kv": ("kv_cache_dtype",),
    "tensor_parallel": ("tp_size", "tensor_parallel_size"),
    "pipeline_parallel": ("pp_size", "pipeline_parallel_size"),
    "data_parallel": ("dp_size", "data_parallel_size"),
    "parameters": ("general.parameter_count",),
    "max_context": ("context_length", "max_model_len", "max_total_tokens", "n_ctx", "loaded_context_length"),
    "parallel": ("total_slots", "max_running_requests", "max_concurrent_requests"),
    "chunked_prefill": ("chunked_prefill_size", "max_num_batched_tokens"),
    "prefix_cache_off": ("disable_radix_cache",),
    "speculative": ("speculative_algorithm",),
    "device": ("device", "model_device_type"),
    "threads": ("n_threads",),
}
"""Our name of a fact, and the names that engines give it."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the server says it is; ``max_context`` is the smallest of the limits that it states and that can be."""

    engine: str
    reported: tuple[Reported, ...]
    max_context: int | None


def identify(client: Client, served: Served) -> Identity:
    """Ask the pages that engines have for what they say of themselves."""
    engine = _OWNERS.get(served.card.owned_by or "", "unknown")
    if engine == "unknown" and "llama.cpp" in served.software:
        engine = "llama.cpp"
    facts = _of_card(served.card)
    if served.software:
        facts.append(Reported(key="software", value=served.software, where="Server header"))
    root = served.root.removesuffix("/api/v0")
    for path in _PAGES[engine]:
        found = client.look(f"{root}{path}")
        if found is not None:
            engine = _engine_of(path, found) if engine == "unknown" else engine
            facts += _of_page(path, found, served.card.id)
    if engine == "Ollama":
        facts += _of_page(_SHOW, client.post(f"{root}{_SHOW}", {"model": served.card.id}), served.card.id)
    limits = [int(fact.value) for fact in facts if fact.key == "max_context" and fact.value.isdecimal()]
    possible = [limit for limit in limits if 0 < limit <= MAX_PROMPT]
    return Identity(engine=engine, reported=_once(facts), max_context=min(possible, default=None))


def _engine_of(path: str, found: dict[str, Any]) -> str:
    if path == "/props" and "default_generation_settings" in found:
        return "llama.cpp"
    if path == "/get_server_info" and found.keys() & {"model_path", "tp_size", "server_args"}:
        return "SGLang"
    if path == "/info" and "model_id" in found:
        return "TGI"
    if path == "/api/version" and "version" in found:
        return "Ollama"
    if path == "/api/v0/models" and isinstance(found.get("data"), list):
        return "LM Studio"
    if path == "/openapi.json" and _has_paths(found.get("paths"), _TRANSFORMERS):
        return "transformers serve"
    return "unknown"


def _has_paths(paths: Any, wanted: set[str]) -> bool:
    return isinstance(paths, dict) and paths.keys() >= wanted


def _of_card(card: Card) -> list[Reported]:
    meta = card.meta
    values: dict[str, object] = {"model": card.id, "model_path": card.root, "max_context": card.max_model_len}
    if meta is not None:
        values |= {
            "max_context": card.max_model_len or meta.n_ctx,
            "parameters": meta.n_params,
            "weight_bytes": meta.size,
            "weights": meta.ftype,
            "vocabulary": meta.n_vocab,
            "trained_context": meta.n_ctx_train,
        }
    return [_fact(key, value, "/v1/models") for key, value in values.items() if value]


def _of_page(path: str, found: Any, model: str) -> list[Reported]:
    """The known facts of a page, from its top level and from the objects right below it.

    Of a page that lists models, those of ``model``.
    """
    found = _entry(found, model)
    if not isinstance(found, dict) or path == "/openapi.json":
        return []
    flat: dict[str, Any] = {}
    for level in (*(value for value in found.values() if isinstance(value, dict)), found):
        flat |= {key: value for key, value in level.items() if isinstance(value, str | int | float)}
    pairs = ((key, flat[name]) for key, names in _KEYS.items() for name in names if name in flat)
    return [_fact(key, value, path) for key, value in pairs if value not in ("", None)]


def _entry(found: Any, model: str) -> Any:
    listed = [found.get(key) for key in ("data", "models")] if isinstance(found, dict) else []
    entries = [entry for entry in next((one for one in listed if isinstance(one, list)), []) if isinstance(entry, dict)]
    return next((entry for entry in entries if model in (entry.get("id"), entry.get("name"))), found)


def _fact(key: str, value: object, where: str) -> Reported:
    text = str(value)
    if key in ("model", "model_path") and (text.startswith("/") or "\\" in text):
        # The folders of somebody's disk say nothing about the model, but may name a person.
        text = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    return Reported(key=key, value=clean(text), where=where)


def _once(facts: list[Reported]) -> tuple[Reported, ...]:
    """Without repetitions of the same key and value; two pages that differ both stay."""
    seen: dict[tuple[str, str], Reported] = {}
    for fact in facts:
        seen.setdefault((fact.key, fact.value), fact)
    return tuple(seen.values())
