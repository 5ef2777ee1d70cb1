"""The flags that verbs share: what runs where, and how to print it."""

from __future__ import annotations

from typing import Annotated

import typer

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
    str | None, typer.Option("--peak", metavar="RATE", help="Use this dense peak instead, e.g. 1000TFLOP/s (one device).")
]
Bandwidth = Annotated[
    str | None, typer.Option("--bandwidth", metavar="RATE", help="Use this bandwidth instead, e.g. 3.35TB/s (one device).")
]
Prompt = Annotated[int, typer.Option("--prompt", min=1, max=100_000_000, help="Tokens in of the stated request.")]
AnswerTokens = Annotated[int, typer.Option("--answer", min=1, max=100_000_000, help="Tokens out of the stated request.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, plain SI numbers, nothing else there.")]
