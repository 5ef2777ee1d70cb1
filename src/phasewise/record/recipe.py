"""How to start an engine under a profiler: the commands, why each part, and what to do when the trace is empty."""

from __future__ import annotations

from typing import Literal

import msgspec

Profiler = Literal["nsys", "ncu", "torch"]
EngineName = Literal["vllm", "sglang", "trtllm", "llama.cpp", "own"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A flag or a variable: its text, why it is there in one line, and where it is documented."""

    text: str
    why: str
    source: str


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or a piece of code, as it is to be copied."""

    title: str
    text: str
    parts: tuple[Part, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next, with the commands for it when there are any."""

    say: str
    run: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trace may be empty or wrong, what then helps, and who says so."""

    cause: str
    cure: str
    source: str


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Everything to get one trace per phase of ``engine`` from ``profiler``."""

    profiler: Profiler
    engine: EngineName
    name: str
    commands: tuple[Command, ...]
    steps: tuple[Step, ...]
    causes: tuple[Cause, ...]
