"""Every number that the simulated server plants.

A field carries its help text and unit; the flags of ``phasewise simulate`` are made from them (cli/simulate.py).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class OtherLoad(msgspec.Struct, frozen=True):
    """Another client: ``rate`` requests per second (Poisson), each of ``prompt`` and ``answer`` tokens."""

    rate: Annotated[float, Meta(gt=0)]
    prompt: Annotated[int, Meta(ge=1)]
    answer: Annotated[int, Meta(ge=1)]


def _about(help_text: str) -> Meta:
    return Meta(description=help_text)


Seconds = Annotated[float, Meta(ge=0)]
"""A time in seconds; its field's name ends in ``_s`` and its flag takes ``8ms`` or ``17us``."""

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Context = Annotated[int, Meta(ge=2)]
Fraction = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Status = Annotated[int, Meta(ge=400, le=599)]
Name = Annotated[str, Meta(min_length=1)]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server plants: times in seconds, fractions as plain ratios, counts in tokens unless said otherwise."""

    prefill_overhead_s: Annotated[Seconds, _about("Prefill: time that does not grow with the prompt.")] = 5e-3
    prefill_per_token_s: Annotated[Seconds, _about("Prefill: time per uncached token.")] = 5e-5
    prefill_per_token2_s: Annotated[Seconds, _about("Prefill: time per squared token (attention).")] = 0.0
    decode_overhead_s: Annotated[Seconds, _about("Decode step: time that is always spent.")] = 8e-3
    decode_per_request_s: Annotated[Seconds, _about("Decode step: time per running request.")] = 1e-4
    decode_per_context_token_s: Annotated[
        Seconds, _about("Decode step: time per token of context, summed over running requests.")
    ] = 5e-8

    model: Annotated[Name, _about("Name under which the model is served.")] = "simulated"
    max_batch: Annotated[Positive, _about("Requests that run at once; more wait.")] = 64
    max_queue: Annotated[Count | None, _about("Requests that may wait; one more gets a 429.")] = None
    max_context: Annotated[Context, _about("Most tokens of prompt and answer together.")] = 32_768
    prefix_cache: Annotated[bool, _about("Keep prompts; their known prefix is not computed again.")] = False
    block_tokens: Annotated[Positive, _about("Block of the prefix cache, tokens.")] = 16
    chunk_tokens: Annotated[
        Positive | None, _about("Chunked prefill: prompt tokens per step, beside the decodes.")
    ] = None
    answer_tokens: Annotated[
        Positive | None, _about("Answers end by 'stop' after this many tokens unless ignore_eos is sent.")
    ] = None
    template_tokens: Annotated[Count, _about("Tokens that the chat template adds to a prompt.")] = 8

    base_path: Annotated[str, _about("Path before /v1, /health, /metrics; '/api' for example.")] = ""
    endpoints: Annotated[
        Literal["both", "completions", "chat"], _about("Which of /v1/completions and /v1/chat/completions exist.")
    ] = "both"
    token_ids: Annotated[bool, _about("Take prompts that are lists of token ids.")] = True
    tokenize: Annotated[bool, _about("Have POST /tokenize.")] = True
    metrics: Annotated[bool, _about("Have GET /metrics.")] = True
    usage: Annotated[bool, _about("Give token counts when asked.")] = True
    cached_count: Annotated[bool, _about("Give the count of cached prompt tokens in usage.")] = True
    stream: Annotated[bool, _about("Stream for real; without it the whole answer comes as one event.")] = True
    role_chunk: Annotated[bool, _about("Chat: send a chunk with only the role before prefill ends.")] = False
    reasoning: Annotated[Count, _about("Chat: the first tokens of an answer are reasoning.")] = 0

    canned_prefix: Annotated[Count, _about("Fault: treat the first tokens of every prompt as cached.")] = 0
    tokens_per_chunk: Annotated[Positive, _about("Fault: tokens per decode step and chunk (speculative decoding).")] = 1
    buffer: Annotated[Count, _about("Fault: hold bytes back until there are this many, or the answer ends.")] = 0
    early_end: Annotated[Positive | None, _about("Fault: end by 'stop' after this many tokens whatever is asked.")] = None
    wrong_usage: Annotated[int, _about("Fault: add this to the usage count of answer tokens.")] = 0
    partial_utf8: Annotated[
        Literal["no", "empty", "withheld"],
        _about("Fault: two tokens of three are incomplete UTF-8: sent as empty text, or withheld until complete."),
    ] = "no"
    other_load: Annotated[
        OtherLoad | None, _about("Fault: another client's requests: RATE per second, PROMPT and ANSWER tokens.")
    ] = None
    clock_drift: Annotated[float, _about("Fault: steps take longer by this fraction per minute.")] = 0.0
    warmup_cost_s: Annotated[Seconds, _about("Fault: extra time of the first step at each new shape.")] = 0.0
    idle_penalty_s: Annotated[Seconds, _about("Fault: extra time of the first step after idling 0.5 s.")] = 0.0
    jitter: Annotated[Fraction, _about("Fault: noise on each step: standard deviation as a fraction.")] = 0.0
    error_rate: Annotated[Share, _about("Fault: fraction of generation requests answered with 500.")] = 0.0
    status: Annotated[Status | None, _about("Fault: answer every generation request with this status.")] = None
    drop_after: Annotated[Count | None, _about("Fault: close the connection after this many tokens.")] = None
    stall_after: Annotated[Count | None, _about("Fault: send nothing more after this many tokens.")] = None
    invalid_sse: Annotated[bool, _about("Fault: cut the JSON of every streamed event short.")] = False
    html: Annotated[bool, _about("Fault: answer everything with a web page, as no LLM server does.")] = False
    seed: Annotated[Count, _about("Fault: seed of noise, errors and the other client's arrivals.")] = 0
