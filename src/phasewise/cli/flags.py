"""The flags that verbs share: what runs where, and how to print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phasewise.errors import UsageError

if TYPE_CHECKING:
    from phasewise.judge.case import Ask

Model = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="What runs: catalogue name, config.json, GGUF file.")
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ACCELERATOR",
        help="What it runs on: a catalogue name such as h100-sxm, or `this` for this machine's measured ceilings.",
        rich_help_panel=None,
    ),
]
Devices = Annotated[int, typer.Option("--devices", min=1, max=100_000, help="How many of them run the model together.")]
Weights = Annotated[
    str | None, typer.Option("--weights", metavar="FORMAT", help="Format of the weights: bf16, fp8, int8, int4, ...")
]
Kv = Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="Format of the KV cache: bf16, fp8, q8_0, ...")]
Peak = Annotated[
    str | None,
    typer.Option("--peak", metavar="RATE", help="Use this dense peak instead, e.g. 1000TFLOP/s (one device)."),
]
Bandwidth = Annotated[
    str | None,
    typer.Option("--bandwidth", metavar="RATE", help="Use this bandwidth instead, e.g. 3.35TB/s (one device)."),
]
Prompt = Annotated[int, typer.Option("--prompt", min=1, max=100_000_000, help="Tokens in of the stated request.")]
AnswerTokens = Annotated[
    int, typer.Option("--answer", min=1, max=100_000_000, help="Tokens out of the stated request.")
]
ServedModel = Annotated[
    str | None, typer.Option("--served-model", help="Name of the model to ask for, when the server has several.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Accept a self-signed certificate.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds without an event until a request counts as stalled.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of our own engine.")]
Context = Annotated[int, typer.Option("--context", min=64, help="Context of each request of our own engine, tokens.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option("--device", help="Where hf:DIR runs; auto: a GPU if there is one.")
]
Dtype = Annotated[
    Literal["auto", "bf16", "fp16", "fp32"], typer.Option("--dtype", help="What hf:DIR runs in; auto: as it says.")
]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="Run hf:DIR by its config.json alone, on random weights.")
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="ray:local[:N]|ray:auto[:N]|ray://HOST:PORT",
        help="Send from several processes: of this machine, or one on each node of a Ray cluster.",
    ),
]
Power = Annotated[bool, typer.Option("--power/--no-power", help="Read power meanwhile, where it can be read.")]
Exporter = Annotated[
    str,
    typer.Option(
        "--exporter", metavar="URL", help="DCGM exporter of the machine that serves: http://HOST:9400/metrics."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the run [default: ./phasewise-runs].")]
Full = Annotated[bool, typer.Option("--full", help="Print every figure with its interval and source.")]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, plain SI numbers, nothing else there.")
]


def asks(prompt: int, answer: int, mix: str | None) -> tuple[Ask, ...]:
    """The stated request, or those of ``mix`` (``IN:OUT:PART,...``), heaviest first.

    Raises:
        UsageError: a mix that is not written so.
    """
    from phasewise.judge.case import Ask

    if mix is None:
        return (Ask(prompt=prompt, answer=answer),)
    found = []
    for part in mix.split(","):
        fields = part.split(":")
        try:
            tokens_in, tokens_out = int(fields[0]), int(fields[1])
            weight = float(fields[2]) if len(fields) > 2 else 1.0
        except (ValueError, IndexError):
            tokens_in = tokens_out = 0
            weight = 0.0
        if len(fields) > 3 or not (0 < tokens_in <= 10**8 and 0 < tokens_out <= 10**8 and 0 < weight < 1e12):
            raise UsageError(f"--mix {part!r} is not tokens in, tokens out and a part: write 2000:300:0.7,500:50:0.3.")
        found.append(Ask(prompt=tokens_in, answer=tokens_out, weight=weight))
    return tuple(sorted(found, key=lambda ask: -ask.weight))


def numbers(text: str | None) -> tuple[int, ...] | None:
    """The positive whole numbers of ``text`` (``N,N,...``), None for None.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise UsageError(f"--lengths {text!r} is not a list of prompt lengths: write 128,512,2048.")
    return found


def seconds(text: str, flag: str, *, zero: bool = False) -> float:
    """A time of ``flag``: ``50ms``, ``60s``, ``5min``, or a plain number of seconds; none at all where ``zero`` may be.

    Raises:
        UsageError: something else.
    """
    from phasewise.units import parse

    if zero and text.strip() in ("0", "0s"):
        return 0.0
    try:
        return parse(f"{float(text)}s" if text.replace(".", "", 1).isdecimal() else text, "s")
    except UsageError:
        raise UsageError(f"{flag} {text[:40]!r} is not a time: write 50ms, 60s, 5min or a number of seconds.") from None


def budget(text: str) -> float:
    """The seconds of ``--budget``, from a second to a day.

    Raises:
        UsageError: no time, or one outside of that.
    """
    found = seconds(text, "--budget")
    if not 1 <= found <= 86_400:
        raise UsageError(f"--budget {text[:40]!r} is not between 1 s and 24 h.")
    return found
