"""Names of bands that mean a step: an ordered table of dialects, each one small parser.

The counts an engine writes are taken as they stand. ``sq``, ``sk``, ``sqsq``, ``sqsk`` are Σq, Σk, Σq² and Σq·k over
the requests of one half of the batch: q new tokens that attend to k.

Sources: vLLM `vllm/v1/worker/gpu_worker.py` (annotate_profile); SGLang
`python/sglang/srt/model_executor/step_span_utils.py`; TensorRT-LLM `_torch/pyexecutor/py_executor.py` (_forward_step);
ATOM's labels as AMD-AGI/TraceLens documents them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from phasewise.record import marks
from phasewise.record.trace import Tokens, TracePhase


class Mark(NamedTuple):
    """What the name of a band says of its step.

    Attributes:
        dialect: who writes it so.
        phase: what it was; ``unknown`` when the name marks a step and no more.
        prefill: its prompts, None when it has none.
        decode: its generations, None when it has none.
        speculative: a verify or draft pass.
        idle: the engine ran without a request: no step, unless it launched something.
        exact: one pass of the model for certain. A range of the user's own may hold many.
        draft: a draft model's pass over what was just extended: the phase of the step before it.
        request: may hold the prompt's pass as well as the generation (``generate``).
    """

    dialect: str
    phase: TracePhase
    prefill: Tokens | None = None
    decode: Tokens | None = None
    speculative: bool = False
    idle: bool = False
    exact: bool = True
    draft: bool = False
    request: bool = False


def parse(name: str) -> Mark | None:
    """What a band called ``name`` says of its step; None when it marks none."""
    name = name.strip()
    if len(name) > _LONGEST or not _MAYBE.match(name):
        return None
    for pattern, dialect in _DIALECTS:
        if (found := pattern.match(name)) and (mark := dialect(found)) is not None:
            return mark
    return None


def is_capture(name: str) -> bool:
    """Whether the band is the capture of a graph (``capture_32_FULL``): work of neither phase."""
    return _CAPTURE.match(name) is not None


def _halves(dialect: str, prefill: Tokens | None, decode: Tokens | None) -> Mark:
    """The mark of a step by which of its halves holds requests."""
    prefill, decode = _held(prefill), _held(decode)
    if prefill is None and decode is None:
        return Mark(dialect, "unknown", idle=True)
    phase: TracePhase = "mixed" if prefill and decode else "prefill" if prefill else "decode"
    return Mark(dialect, phase, prefill, decode, speculative=_drafted(decode))


def _held(half: Tokens | None) -> Tokens | None:
    return half if half and any((half.requests, half.tokens)) else None


def _drafted(decode: Tokens | None) -> bool:
    """More than one new token per generating request is a verify step."""
    return bool(decode and decode.requests and decode.tokens and decode.tokens > decode.requests)


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _vllm_detailed(found: re.Match[str]) -> Mark:
    numbers = [int(text) for text in found.groups()]
    prefill, decode = (
        Tokens(requests=half[0], tokens=half[1], context=half[2], squares=half[3], products=half[4])
        for half in (numbers[:5], numbers[5:])
    )
    return _halves("vLLM", prefill, decode)


def _vllm(found: re.Match[str]) -> Mark:
    """``N(T)``; an older fork writes ``N(T_S)``, S being Σq² (888_788544: 888² = 788,544)."""
    contexts, tokens, squares, generations, new, new_squares = found.groups()
    return _halves(
        "vLLM",
        Tokens(requests=int(contexts), tokens=int(tokens), squares=_int(squares)),
        Tokens(requests=int(generations), tokens=int(new), squares=_int(new_squares)),
    )


def _vllm_new_cached(found: re.Match[str]) -> Mark:
    """Older vLLM: requests new in this step, and those that ran before, be it decode or a later chunk of a prompt."""
    new, cached = int(found[1]), int(found[2])
    if cached:
        return Mark("vLLM", "unknown")
    return _halves("vLLM", Tokens(requests=new), None)


def _sglang(found: re.Match[str]) -> Mark:
    mode, values = found[1], {key: int(value) for key, value in _PAIR.findall(found[2])}
    requests, tokens = values.get("bs"), values.get("toks")
    if mode == "IDLE":
        return Mark("SGLang", "unknown", idle=True)
    if mode == "MIXED":
        if "c" not in values or "g" not in values:
            return Mark("SGLang", "mixed")
        return _halves("SGLang", _sums(values, "c_", values["c"]), _sums(values, "g_", values["g"]))
    if mode in ("EXTEND", "SPLIT_PREFILL"):
        return Mark("SGLang", "prefill", prefill=_sums(values, "c_", requests, tokens))
    if mode == "DECODE":
        return _halves("SGLang", None, _sums(values, "g_", requests, requests))
    if mode == "TARGET_VERIFY":
        return Mark("SGLang", "decode", decode=_sums(values, "g_", requests, tokens), speculative=True)
    if mode.startswith("DRAFT_EXTEND"):
        return Mark("SGLang", "decode", speculative=True, draft=True)
    return Mark("SGLang", "unknown")


def _sums(values: dict[str, int], prefix: str, requests: int | None, tokens: int | None = None) -> Tokens:
    return Tokens(
        requests=requests,
        tokens=values.get(f"{prefix}sq", tokens),
        context=values.get(f"{prefix}sk"),
        squares=values.get(f"{prefix}sqsq"),
        products=values.get(f"{prefix}sqsk"),
    )


def _atom(found: re.Match[str]) -> Mark:
    """``bs=117/128`` is the batch and what it was padded to; ``p`` and ``d`` count prompts and generations."""
    values = {key: int(value) for key, value in _PAIR.findall(found[2])}
    half = Tokens(
        requests=values.get("bs"),
        tokens=values.get("tok"),
        context=values.get("sk"),
        squares=values.get("sqsq"),
        products=values.get("sqsk"),
    )
    if found[1] == "prefill":
        return Mark("ATOM", "prefill", prefill=half)
    if values.get("p"):
        return Mark("ATOM", "mixed")
    return Mark("ATOM", "decode", decode=half, speculative=bool(values.get("spec")) or _drafted(half))


def _tensorrt(found: re.Match[str]) -> Mark:
    contexts, tokens, generations, new = found.groups()
    return _halves(
        "TensorRT-LLM",
        Tokens(requests=int(contexts), tokens=_int(tokens)),
        Tokens(requests=int(generations), tokens=_int(new)),
    )


def _phasewise(found: re.Match[str]) -> Mark | None:
    """A mark of `phasewise.mark`: its format lies in `record.marks`."""
    named = marks.read(found[0])
    if named is None:
        return None
    return Mark("phasewise", named.phase, named.prefill, named.decode, speculative=named.speculative, exact=named.step)


def _own(found: re.Match[str]) -> Mark | None:
    """A range that the user or llama.cpp opened; tokens and requests where it names them."""
    word, rest = found["word"].lower(), (found["rest"] or "").lower()
    if not _COUNTING.issuperset(_WORD.findall(rest)):
        return None
    phase = _WORDS[word]
    tokens, requests = _int(_first(_TOKENS, rest)), _int(_first(_REQUESTS, rest))
    half = None if tokens is None and requests is None else Tokens(requests=requests, tokens=tokens)
    return Mark(
        "own mark",
        phase,
        prefill=half if phase == "prefill" else None,
        decode=half if phase == "decode" else None,
        speculative=word.endswith("verify"),
        exact=False,
        request=word.startswith("generat"),
    )


def _first(patterns: tuple[str, ...], text: str) -> str | None:
    return next((found[1] for pattern in patterns if (found := re.search(pattern, text))), None)


_LONGEST = 500
_MAYBE = re.compile(
    r"(?i)execute_|step\[|profilerstep#|phasewise:step |\[executor\]|(?:\w+[:./ ]+)?(?:llama_)?"
    r"(?:pre-?fill|decod|generat|prompt|context|extend|mixed|token_gen|(?:target_)?verify)"
)
"""What any mark begins with: millions of other names are turned away here."""

_CAPTURE = re.compile(r"capture_\d+_\w+$")
_PAIR = re.compile(r"(\w+)=(\d+)")
_SUMS = r"(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
_WORDS: dict[str, TracePhase] = {
    **dict.fromkeys(("prefill", "pre-fill", "prompt", "context", "prompt_eval", "extend"), "prefill"),
    **dict.fromkeys(("decode", "decoding", "generate", "generation", "token_gen", "verify", "target_verify"), "decode"),
    "mixed": "mixed",
}
_WORD = re.compile(r"[a-z]+")
_COUNTING = frozenset(
    _WORD.findall(
        """tokens token tok toks requests request reqs req bs batch size step iter iteration len length seq seqlen seqs
        ctx kv n pos position start chunk of b t id rank gpu phase new one single next first last all num k i q prompt
        prompts in out input output eval"""
    )
)
"""Words that number or measure a step. ``decode_latents``, ``prefill/layer_3`` are something else."""
_TOKENS = (r"\b(?:num_)?tok(?:en)?s?\s*[=:]\s*(\d+)", r"(\d+)\s*tok(?:en)?s?\b")
_REQUESTS = (r"\b(?:requests|reqs|bs|batch(?:_size)?)\s*[=:]\s*(\d+)", r"(\d+)\s*(?:requests|reqs)\b")

_DIALECTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Mark | None]], ...] = (
    (re.compile(rf"execute_\d+_context_{_SUMS}_generation_{_SUMS}"), _vllm_detailed),
    (re.compile(r"execute_context_(\d+)\((\d+)(?:_(\d+))?\)_generation_(\d+)\((\d+)(?:_(\d+))?\)"), _vllm),
    (re.compile(r"execute_new_(\d+)_cached_(\d+)$"), _vllm_new_cached),
    (re.compile(r"step\[(\w+)\b([^\]]*)\]"), _sglang),
    (re.compile(r"(prefill|decode)\[([^\]]*=[^\]]*(?:\[[^\]]*\][^\]]*)?)\]"), _atom),
    (
        re.compile(
            r"\[Executor\] _forward_step[^:]*:?\s*(\d+) ctx reqs(?:, (\d+) ctx tokens)?"
            r", (\d+) gen reqs(?:, (\d+) gen tokens)?"
        ),
        _tensorrt,
    ),
    (re.compile(rf"{marks.PREFIX}.*"), _phasewise),
    (re.compile(r"ProfilerStep#\d+$"), lambda _: Mark("PyTorch profiler", "unknown", exact=False)),
    (re.compile(r"llama_decode\b"), lambda _: Mark("llama.cpp", "unknown")),
    (
        re.compile(
            r"(?i)(?:(?:phasewise|model|stage|phase|engine|llm)[:./ ]+)?"
            rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
            r"(?:[_\- ]?(?:step|phase|stage|iter(?:ation)?|pass|batch|forward|loop|chunk|token))?"
            r"(?P<rest>(?:[\s_\-#:.\[(,/=].*|\d+)?)$"
        ),
        _own,
    ),
)
"""First match wins; the fuller form of a dialect comes before its shorter one."""
