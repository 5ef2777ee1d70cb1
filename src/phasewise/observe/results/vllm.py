"""vLLM `bench serve`: one JSON object a run, several on lines of their own with --append-result.

TPOT is (last token chunk − TTFT) / (n − 1) as ours; ITL are raw gaps between chunks; --save-detailed adds a value of
each request (vllm/benchmarks/serve.py).
"""

from __future__ import annotations

from phasewise.observe.results import detailed, serving
from phasewise.observe.results.content import Content, Fields, each
from phasewise.observe.results.detailed import Request
from phasewise.observe.results.figures import MIXED, MS, OVER_BOTH, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import reported
from phasewise.record.results import Figure, Reported

FORM = "vLLM bench serve JSON"

_TTFT = "send to the first chunk of the stream, text or not"
_TPOT = "(last chunk - first chunk) / (tokens - 1)"
_ITL = "gap between chunks, however many tokens each holds"


def sniff(content: Content) -> bool:
    """Whether it says how many tokens went in all, which SGLang names otherwise."""
    return content.has("total_input_tokens", "request_throughput", "completed")


def read(content: Content) -> Reported:
    """A row per run."""
    runs = [one for found in each(content, _runs) for one in found]
    return Reported(
        tool="vLLM bench serve",
        form="JSON" if len(content.objects) == 1 else f"JSON, {len(content.objects)} runs",
        model=content.sole(Fields(content, one).text("model_id") for one in content.objects),
        rows=tuple(serving.row(one) for one in runs),
        checks=serving.checks(runs),
    )


def _runs(fields: Fields) -> list[Served]:
    """A run; where it is detailed and not all of its requests ran together, those that ran alone too."""
    whole, apart = run(fields), detailed.alone(_requests(fields))
    if whole.alone or not apart:
        return [whole]
    seen = detailed.means(apart)
    label = f"{whole.label}: the {seen.requests:,} requests that ran alone"
    found = whole._replace(
        label=label, prompt=seen.prompt, answer=seen.answer, requests=float(seen.requests), duration=None, most=1.0,
        ttft=reported(seen.ttft, "s", f"median TTFT of {seen.requests:,} requests that ran alone"),
        tpot=reported(seen.tpot, "s", "median TPOT of those requests") if seen.tpot else None,
        total=seen.total, decoding=None, figures=(),
    )  # fmt: skip
    return [whole, found]


def _requests(fields: Fields) -> list[Request]:
    """Of --save-detailed, those that succeeded; none where something of it is missing."""
    names = ("start_times", "ttfts", "input_lens", "output_lens")
    starts, ttfts, prompts, answers = (fields.numbers(name) for name in names)
    gaps = fields.items("itls")
    if not len(starts) == len(ttfts) == len(prompts) == len(answers) == len(gaps) or not starts:
        return []
    found = []
    for start, ttft, prompt, answer, itls in zip(starts, ttfts, prompts, answers, gaps, strict=True):
        rest = sum(Fields(fields.content, {"itls": itls}, fields.where).numbers("itls"))
        if ttft > 0 and prompt >= 1 and answer >= 1:
            tpot = rest / (answer - 1) if answer > 1 else None
            found.append(Request(start, start + ttft, start + ttft + rest, prompt, answer, tpot))
    return found


def run(fields: Fields) -> Served:
    """One run."""
    completed, duration = fields.number("completed"), fields.number("duration")
    prompts, answers = fields.number("total_input_tokens"), fields.number("total_output_tokens")
    most = fields.number("max_concurrency")
    ttft, tpot = fields.number("median_ttft_ms", "mean_ttft_ms"), fields.number("median_tpot_ms", "mean_tpot_ms")
    which = "median" if fields.number("median_ttft_ms") else "mean"
    answer = answers / completed if answers and completed else None
    failed = fields.number("failed")
    return Served(
        label=label(fields, most),
        prompt=prompts / completed if prompts and completed else None,
        answer=answer,
        requests=completed,
        duration=duration,
        most=most,
        ttft=reported(ttft * MS, "s", f"{which} TTFT") if ttft else None,
        tpot=reported(tpot * MS, "s", f"{which} TPOT") if tpot else serving.rest(fields, "mean_e2el_ms", answer),
        total=fields.number("mean_e2el_ms", scale=MS),
        gap=fields.number("median_itl_ms", scale=MS),
        decoding=detailed.decoding(_requests(fields)),
        per_step=fields.number("spec_decode_acceptance_length"),
        figures=_figures(fields, alone=most == 1 or completed == 1),
        notes=(f"{failed:,.0f} requests failed and are in no figure",) if failed else (),
    )


def label(fields: Fields, most: float | None) -> str:
    """``concurrency 8``, ``rate 4/s``: what a sweep changes."""
    parts = [f"concurrency {most:,.0f}"] if most else []
    rate = fields.tree.get("request_rate")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < float("inf"):
        parts.append(f"rate {rate:g}/s")
    return ", ".join(parts) or "all requests at once"


def _figures(fields: Fields, alone: bool) -> tuple[Figure, ...]:
    prefill = "TTFT of a request alone: its prefill and the client's share" if alone else "TTFT, queue included"
    found: tuple[Figure, ...] = ()
    for stat in ("median", "mean", "p99"):
        value = {name: fields.number(f"{stat}_{name}_ms", scale=MS) for name in ("ttft", "tpot", "itl", "e2el")}
        found += figure(f"{stat}_ttft_ms", value["ttft"], "s", "ttft", _TTFT, prefill)
        found += figure(f"{stat}_tpot_ms", value["tpot"], "s", "tpot", _TPOT, "TPOT as it stands")
        found += figure(f"{stat}_itl_ms", value["itl"], "s", "icl", _ITL, "a chunk gap (ICL), no token time", "none")
        found += figure(f"{stat}_e2el_ms", value["e2el"], "s", "request time", "send to the last chunk", "as it stands")
    rate = fields.number("request_throughput")
    found += figure("request_throughput", rate, "request/s", "request rate", "completed / duration", "as it stands")
    found += refused(
        "output_throughput", fields.number("output_throughput"), "token/s", "answer tokens / duration", OVER_BOTH
    )
    total = fields.number("total_token_throughput")
    found += refused("total_token_throughput", total, "token/s", "prompt and answer tokens / duration", MIXED)
    peak = fields.number("max_output_tokens_per_s")
    return found + refused(
        "max_output_tokens_per_s", peak, "token/s", "most chunks in one second", "it counts chunks, not tokens"
    )
