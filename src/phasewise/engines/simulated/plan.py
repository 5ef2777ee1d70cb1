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
    tokenizing_per_token_s: Annotated[Seconds, _help("Before prefill: time per token of a prompt sent as text.")] = 0.0
    sampling_s: Annotated[Seconds, _help("Decode step: time for each request with top_p under 1.")] = 0.0
    logprobs_s: Annotated[Seconds, _help("Decode step: time for each request with logprobs.")] = 0.0
    guided_s: Annotated[Seconds, _help("Decode step: time for each request with a response_format.")] = 0.0

    base_path: Annotated[str, _help("Path before /v1, /health and the others, e.g. /api.")] = ""
    endpoints: Annotated[
        Literal["both", "completions", "chat"], _help("Which of /v1/completions and /v1/chat/completions exist.")
    ] = "both"
    token_ids: Annotated[bool, _help("Refuse prompts that are lists of token ids.")] = True
    tokenize: Annotated[bool, _help("Have no POST /tokenize.")] = True
    metrics: Annotated[bool, _help("Have no GET /metrics.")] = True
    reasoning: Annotated[Count, _help("Chat: this many tokens of an answer are reasoning first.")] = 0
    text: Annotated[
        Literal["words", "pieces", "spaces"], _help("What a token of an answer is: a word, a third of one, spaces.")
    ] = "words"
    timings: Annotated[
        Literal["no", "vllm", "llama.cpp"], _help("Tell the true times at the end of an answer, as this server does.")
    ] = "no"

    usage: Annotated[bool, _help("Fault: give no token counts.")] = True
    wrong_usage: Annotated[int, _help("Fault: add this to the count of answer tokens.")] = 0
    count: Annotated[
        Literal["tokens", "chunks", "words", "retokenised", "answer"],
        _help("Fault: what usage counts instead of tokens (answer: no reasoning)."),
    ] = "tokens"
    prompt_count: Annotated[
        Literal["all", "uncached"], _help("Fault: uncached: usage leaves cached tokens out of the prompt's.")
    ] = "all"
    timed_tokens: Annotated[
        Positive | None, _help("Fault: --timings of a prefill cover only its last tokens, this many.")
    ] = None
    cut_tokens: Annotated[
        Positive | None, _help("Fault: longer prompts are cut to this many tokens without a word.")
    ] = None
    computed_tokens: Annotated[
        Positive | None, _help("Fault: of longer prompts only this many tokens are computed.")
    ] = None
    cached_count: Annotated[bool, _help("Fault: leave the count of cached prompt tokens out of usage.")] = True
    canned_prefix: Annotated[Count, _help("Fault: the first tokens of every prompt count as cached.")] = 0
    tokens_per_chunk: Annotated[
        Positive, _help("Fault: tokens per decode step and streamed event, as in speculative decoding.")
    ] = 1
    acceptance: Annotated[Share, _help("Drafts: probability that one more of --tokens-per-chunk is accepted.")] = 1.0
    draft_context: Annotated[
        Positive | None, _help("Fault: --acceptance falls with the context, to none at this many tokens.")
    ] = None
    draft_batch: Annotated[Positive | None, _help("Fault: no drafts in a step of more requests than this.")] = None
    stream: Annotated[bool, _help("Fault: send a streamed answer whole, as one event at its end.")] = True
    buffer: Annotated[Count, _help("Fault: hold bytes of a stream back until there are this many, or its end.")] = 0
    replay_s: Annotated[
        Seconds, _help("Fault: make the whole answer first, then stream it with this time between events.")
    ] = 0.0
    ack_delay_s: Annotated[
        Seconds, _help("Fault: on a connection that is used again the first token leaves this much later.")
    ] = 0.0
    write_s: Annotated[Seconds, _help("Fault: one thread writes for all, and each write takes it this long.")] = 0.0
    role_chunk: Annotated[bool, _help("Fault: send the chat role before prefill, in an event of its own.")] = False
    partial_utf8: Annotated[
        Literal["no", "empty", "withheld"],
        _help("Fault: two tokens of three are incomplete UTF-8, sent as empty text or withheld until complete."),
    ] = "no"
    early_end: Annotated[
        Positive | None, _help("Fault: end by `stop` after this many tokens, whatever the request says.")
    ] = None
    chat_stops: Annotated[bool, _help("Fault: the chat endpoint drops ignore_eos and min_tokens.")] = False
    padding_after: Annotated[
        Count | None, _help("Fault: an answer's text ends after this many tokens; padding without text follows.")
    ] = None
    other_load: Annotated[
        OtherLoad | None, _help("Fault: another client sends RATE requests a second of PROMPT and ANSWER tokens.")
    ] = None
    clock_drift: Annotated[float, _help("Fault: steps take longer by this fraction per minute.")] = 0.0
    jitter: Annotated[Fraction, _help("Fault: noise on each step, standard deviation as a fraction.")] = 0.0
    warmup_cost_s: Annotated[Seconds, _help("Fault: extra time of the first step of each shape (compilation).")] = 0.0
    warmup_steps: Annotated[Positive, _help("Fault: so many steps of each shape pay --warmup-cost.")] = 1
    idle_penalty_s: Annotated[Seconds, _help("Fault: extra time of the first step after --idle-after.")] = 0.0
    idle_after_s: Annotated[Seconds, _help("Idling after which --idle-penalty is paid.")] = 0.5
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
