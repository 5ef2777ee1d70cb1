"""`phasewise judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say

_Number = str | None


def _number(name: str, metavar: str, text: str) -> object:
    return typer.Option(name, metavar=metavar, help=text)


def judge(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Results of vLLM or SGLang bench serving, AIPerf, GenAI-Perf, GuideLLM, llama-bench, llama-benchy, "
            "TGI, trtllm-bench, Ollama or llama.cpp; none: the numbers below.",
            show_default=False,
        ),
    ] = None,
    prefill_tokens: Annotated[
        _Number, _number("--prefill-tokens", "N", "Tokens of a prompt, e.g. 2000 or 16k.")
    ] = None,
    ttft: Annotated[_Number, _number("--ttft", "TIME", "TTFT of one request alone, e.g. 50ms.")] = None,
    prefill_tok_s: Annotated[_Number, _number("--prefill-tok-s", "RATE", "Prompt tokens a second of prefill.")] = None,
    cached: Annotated[_Number, _number("--cached", "N", "Tokens of the prompt that a cache had.")] = None,
    prefill_batch: Annotated[
        int, typer.Option("--prefill-batch", min=1, max=1_000_000, help="Prompts of the prefill pass.")
    ] = 1,
    tpot: Annotated[_Number, _number("--tpot", "TIME", "Time per output token of a request, e.g. 5.5ms.")] = None,
    decode_tok_s: Annotated[
        _Number, _number("--decode-tok-s", "RATE", "Tokens a second of decode, all requests of the batch.")
    ] = None,
    context: Annotated[_Number, _number("--context", "N", "Tokens of context of a request, on average.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, max=1_000_000, help="Requests of a decode step.")] = 1,
    answer: Annotated[_Number, _number("--answer", "N", "Tokens of an answer.")] = None,
    request_time: Annotated[_Number, _number("--request-time", "TIME", "Time of a whole request, both phases.")] = None,
    output_tok_s: Annotated[
        _Number, _number("--output-tok-s", "RATE", "Answer tokens over the time of both phases.")
    ] = None,
    total_tok_s: Annotated[
        _Number, _number("--total-tok-s", "RATE", "Prompt and answer tokens over the time of both phases.")
    ] = None,
    tok_s: Annotated[_Number, _number("--tok-s", "RATE", "Of which phase? Asked back, never judged.")] = None,
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """Judge what another tool or you measured: prefill by MFU, decode by MBU, in its own words and in ours.

    Example: phasewise judge results.json --model llama-3-8b --on h100-sxm
    """
    from phasewise.jobs.judge import judge as job
    from phasewise.jobs.subject import Subject
    from phasewise.observe.results.stated import Stated
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    said = Stated(
        prefill_tokens=prefill_tokens,
        cached=cached,
        ttft=ttft,
        prefill_tok_s=prefill_tok_s,
        prefill_batch=prefill_batch,
        tpot=tpot,
        decode_tok_s=decode_tok_s,
        context=context,
        batch=batch,
        answer=answer,
        request_time=request_time,
        output_tok_s=output_tok_s,
        total_tok_s=total_tok_s,
        tok_s=tok_s,
    )
    subject = Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth)
    with bar() as progress:
        done = job(file, said, subject, progress, out or RUNS)
    unsaved = show.judged(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)
