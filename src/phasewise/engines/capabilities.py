"""The probe's findings in words: one Capability for each thing that was asked."""

from __future__ import annotations

import msgspec

from phasewise.engines.base import Activity, Answer
from phasewise.engines.client import Client
from phasewise.engines.endings import Ending
from phasewise.engines.forms import Settled
from phasewise.engines.models import Served
from phasewise.engines.text import clean
from phasewise.engines.tokenizer import Tokenizer
from phasewise.record.target import Capability

_PROMPTING = {"token_ids": "token ids", "text": "text", "chat": "a chat message"}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe gathered; ``vocabulary`` is a size that the server states and that cannot be."""

    found: Served
    settled: Settled
    ending: Ending
    tokenizer: Tokenizer | None
    activity: Activity | None
    vocabulary: int | None = None


def capabilities(client: Client, evidence: Evidence) -> tuple[Capability, ...]:
    """All findings, in the order in which they were asked."""
    found, settled, answer = evidence.found, evidence.settled, evidence.settled.answer
    prompting = settled.form.prompting
    return (
        _one("reachable", True, f"{client.address.shown} answers"),
        _one("models", bool(found.cards), f"{len(found.cards)} listed at {found.api}/models"),
        _one("endpoint", True, f"{settled.form.path} with {_PROMPTING[prompting]}"),
        _one(
            "token_ids",
            prompting == "token_ids",
            (settled.ids_refused or f"{answer.prompt_tokens} ids sent and counted so") + _disbelieved(evidence),
        ),
        _streaming(answer),
        _usage(answer),
        _running_usage(settled),
        _cached(answer),
        _one("ignore_eos", evidence.ending.honoured, evidence.ending.seen),
        _tokenize(evidence.tokenizer),
        _metrics(evidence.activity),
        _one(
            "cost",
            True,
            f"the probe sent {client.requests} requests: {client.tokens_in} prompt tokens, "
            f"{client.tokens_out} answer tokens by the server's count",
        ),
    )


def _one(name: str, present: bool | None, detail: str) -> Capability:
    return Capability(name=name, present=present, detail=clean(detail, 300))


def _disbelieved(evidence: Evidence) -> str:
    if evidence.vocabulary is None:
        return ""
    return f"; the stated vocabulary of {clean(str(evidence.vocabulary), 20)} tokens cannot be and is ignored"


def _streaming(answer: Answer) -> Capability:
    chunks = sum(1 for chunk in answer.chunks if chunk.tokens or not chunk.empty)
    reads = len({chunk.read for chunk in answer.chunks if chunk.tokens or not chunk.empty})
    if not answer.streamed:
        return _one("streaming", False, "the answer came as one body although a stream was asked for")
    seen = f"{chunks} chunks with tokens came in {reads} reads"
    return _one("streaming", None if chunks < 3 else reads > 1, seen)


def _usage(answer: Answer) -> Capability:
    if answer.completion_tokens is None:
        return _one("usage", False, "the stream gave no token counts")
    return _one("usage", True, f"{answer.prompt_tokens} prompt and {answer.completion_tokens} answer tokens")


def _running_usage(settled: Settled) -> Capability:
    told = sum(chunk.tokens is not None for chunk in settled.answer.chunks if not chunk.empty)
    return _one("running_usage", told > 0, f"{told} of {len(settled.answer.chunks)} chunks told their tokens")


def _cached(answer: Answer) -> Capability:
    if answer.cached_tokens is None:
        return _one(
            "cached_tokens",
            False,
            "usage does not say (vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report)",
        )
    return _one("cached_tokens", True, f"{answer.cached_tokens} of {answer.prompt_tokens} prompt tokens were cached")


def _tokenize(tokenizer: Tokenizer | None) -> Capability:
    if tokenizer is None:
        return _one("tokenize", False, "no /tokenize that counts")
    return _one("tokenize", True, f"{tokenizer.path} takes {tokenizer.field}")


def _metrics(activity: Activity | None) -> Capability:
    if activity is None:
        return _one(
            "metrics", False, "no /metrics with known counters (SGLang: --enable-metrics, llama.cpp: --metrics)"
        )
    known = [name for name in activity.__struct_fields__ if getattr(activity, name) is not None]
    return _one("metrics", True, f"/metrics has {', '.join(known)}")
