"""Every number that the simulated server plants.

This is the one place where they are named: ``phasewise simulate`` makes a flag of each field (cli/simulate.py).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0)]
"""A time in seconds; its field's name ends in ``_s`` and its flag takes ``8ms`` or ``17us``."""

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Context = Annotated[int, Meta(ge=2)]
Fraction = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Status = Annotated[int, Meta(ge=400, le=599)]
Name = Annotated[str, Meta(min_length=1)]


class OtherLoad(msgspec.Struct, frozen=True):
    """Another client: ``rate`` requests per second (Poisson), each of ``prompt`` and ``answer`` tokens."""

    rate: Annotated[float, Meta(gt=0)]
    prompt: Positive
    answer: Positive


def _help(text: str) -> Meta:
    return Meta(description=text)


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server plants: times in seconds, fractions as plain ratios, counts in tokens unless said otherwise.

    A description says what its flag does; the flag of a field that is True by default takes the feature away.
    """

    prefill_overhead_s: Annotated[Seconds, _help("Prefill: time that does not grow with the prompt.")] = 5e-3
    prefill_per_token_s: Annotated[Seconds, _help("Prefill: time per uncached token.")] = 5e-5
    prefill_per_token2_s: Annotated[Seconds, _help("Prefill: time per squared token (attention).")] = 0.0
    decode_overhead_s: Annotated[Seconds, _help("Decode step: time that is always spent.")] = 8e-3
    decode_per_request_s: Annotated[Seconds, _help("Decode step: time per running request.")] = 1e-4
    decode_per_context_token_s: Annotated[
        Seconds, _help("Decode step: time per token of context, summed over the running requests.")
    ] = 5e-8

    model: Annotated[Name, _help("Name under which the model is served.")] = "simulated"
    max_batch: Annotated[Positive, _help("Requests that run at once; more wait.")] = 64
    max_queue: Annotated[Count | None, _help("Requests that may wait; one more gets a 429.")] = None
    max_context: Annotated[Context, _help("Most tokens of prompt and answer together.")] = 32_768
    prefix_cache: Annotated[bool, _help("Keep prompts: a known prefix is not computed again.")] = False
    block_tokens: Annotated[Positive, _help("Tokens in a block of the prefix cache.")] = 16
    chunk_tokens: Annotated[
        Positive | None, _help("Chunked prefill: prompt tokens per step, in the same step as the running decodes.")
    ] = None
    kv_tokens: Annotated[
        Positive | None, _help("Room in the KV cache: beyond it the latest request is preempted and computed again.")
    ] = None
    graph_batch: Annotated[
        Positive | None, _help("Largest captured graph: a decode step of more requests also takes --eager-step.")
    ] = None
    eager_step_s: Annotated[Seconds, _help("Decode step of more requests than --graph-batch: extra time.")] = 0.0
    answer_tokens: Annotated[
        Positive | None, _help("Answers end by `stop` after this many tokens unless ignore_eos is sent.")
    ] = None
    template_tokens: Annotated[Count, _help("Tokens that the chat template adds to a prompt.")] = 8

    base_path: Annotated[str, _help("Path before /v1, /health and the others, e.g. /api.")] = ""
    endpoints: Annotated[
        Literal["both", "completions", "chat"], _help("Which of /v1/completions and /v1/chat/completions exist.")
    ] = "both"
    token_ids: Annotated[bool, _help("Refuse prompts that are lists of token ids.")] = True
    tokenize: Annotated[bool, _help("Have no POST /tokenize.")] = True
    metrics: Annotated[bool, _help("Have no GET /metrics.")] = True
    reasoning: Annotated[Count, _help("Chat: this many tokens of an answer are reasoning first.")] = 0

    usage: Annotated[bool, _help("Fault: give no token counts.")] = True
    wrong_usage: Annotated[int, _help("Fault: add this to the count of answer tokens.")] = 0
    cached_count: Annotated[bool, _help("Fault: leave the count of cached prompt tokens out of usage.")] = True
    canned_prefix: Annotated[Count, _help("Fault: the first tokens of every prompt count as cached.")] = 0
    tokens_per_chunk: Annotated[
        Positive, _help("Fault: tokens per decode step and streamed event, as in speculative decoding.")
    ] = 1
    stream: Annotated[bool, _help("Fault: send a streamed answer whole, as one event at its end.")] = True
    buffer: Annotated[Count, _help("Fault: hold bytes of a stream back until there are this many, or its end.")] = 0
    role_chunk: Annotated[bool, _help("Fault: send the chat role before prefill, in an event of its own.")] = False
    partial_utf8: Annotated[
        Literal["no", "empty", "withheld"],
        _help("Fault: two tokens of three are incomplete UTF-8, sent as empty text or withheld until complete."),
    ] = "no"
    early_end: Annotated[
        Positive | None, _help("Fault: end by `stop` after this many tokens, whatever the request says.")
    ] = None
    other_load: Annotated[
        OtherLoad | None, _help("Fault: another client sends RATE requests a second of PROMPT and ANSWER tokens.")
    ] = None
    clock_drift: Annotated[float, _help("Fault: steps take longer by this fraction per minute.")] = 0.0
    jitter: Annotated[Fraction, _help("Fault: noise on each step, standard deviation as a fraction.")] = 0.0
    warmup_cost_s: Annotated[Seconds, _help("Fault: extra time of the first step of each shape (compilation).")] = 0.0
    idle_penalty_s: Annotated[Seconds, _help("Fault: extra time of the first step after 0.5 s of idling.")] = 0.0
    error_rate: Annotated[Share, _help("Fault: fraction of generation requests that get a 500.")] = 0.0
    status: Annotated[Status | None, _help("Fault: every generation request gets this HTTP status.")] = None
    drop_after: Annotated[Count | None, _help("Fault: close the connection after this many tokens.")] = None
    stall_after: Annotated[Count | None, _help("Fault: send nothing more after this many tokens.")] = None
    invalid_sse: Annotated[bool, _help("Fault: cut the JSON of every streamed event short.")] = False
    html: Annotated[bool, _help("Fault: answer everything with a web page, as no LLM server does.")] = False
    seed: Annotated[Count, _help("Seed of the noise, the errors and the other client.")] = 0

    @property
    def prefix(self) -> str:
        """``base_path`` as paths carry it: empty, or with a slash before and none behind."""
        return f"/{path}" if (path := self.base_path.strip("/")) else ""
