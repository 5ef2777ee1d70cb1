"""Section of `phasewise capture`: one trace per phase from a live engine, and the client's times beside them.

Each phase ran twice: timed by a client without a profiler (``Run.observation``), then under the engine's profiler. The
traces themselves are in ``Run.traced``, prefill beside decode; that of the mix is here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.judgement import Utilisation
from phasewise.record.observation import Check
from phasewise.record.quantity import Quantity
from phasewise.record.sweep import Cell
from phasewise.record.trace import TracePhase, TraceStep

CapturedName = Literal["prefill", "decode", "mixed"]
PartName = Literal["kernels", "gaps", "between", "front end", "profiler"]


class CapturedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that the profiler wrote.

    Attributes:
        path: where it lies: in the run's folder (relative to it), or where the engine wrote it.
        bytes: its size; None for one on another machine.
        role: a worker's, or that of the engine's front end, which holds no steps.
        place: ``run`` when ``path`` is in the run's folder, ``engine`` where the engine left it on this machine,
            ``server`` for one on another machine, which ``path`` names by a pattern.
    """

    path: str
    bytes: int | None
    role: Literal["rank", "front end"] = "rank"
    place: Literal["run", "engine", "server"] = "run"


class CapturedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the client's time per step, seconds; the profiler's is negative: the client's run was without it."""

    name: PartName
    seconds: Quantity
    means: str


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """One phase under the profiler.

    A step is one prompt in prefill, whatever the number of chunks, and one token of each request in decode.

    Attributes:
        name: which.
        files: what came.
        requests: whose work it holds.
        prompt_tokens: of each prompt in it, by the server's count.
        batch: requests that decoded together; 0 for none.
        steps: how many the trace marks, by phase; empty when it was not read.
        context: mean tokens of context of a request in the steps recorded; None without decode.
        client: seconds per step as a client times it, without a profiler: of prefill alone, of decode at ``batch``.
        slowed: the same while the profiler ran.
        traced: seconds per step by the trace's clock.
        kernels: sum of the kernels (on a CPU: of the operators) of a step.
        floor: predicted least seconds of such a step; None without model and machine.
        utilisations: MFU and MBU of ``client``, then of the time in which kernels of the trace ran.
        parts: what ``client`` is made of; they add up to it. Empty when a time is missing.
        agrees: whether ``traced`` is within 5% of ``client``; None when one is missing.
        why_null: why times are missing; empty when none is.
        text: the comparison in one sentence.
        checks: what shows that it holds this phase alone and all of it.
        marked: of the mix, every step.
    """

    name: CapturedName
    files: tuple[CapturedFile, ...] = ()
    requests: int = 0
    prompt_tokens: tuple[int, ...] = ()
    batch: int = 0
    steps: dict[TracePhase, int] = {}
    context: float | None = None
    client: Quantity | None = None
    slowed: Quantity | None = None
    traced: Quantity | None = None
    kernels: Quantity | None = None
    floor: Quantity | None = None
    utilisations: tuple[Utilisation, ...] = ()
    parts: tuple[CapturedPart, ...] = ()
    agrees: bool | None = None
    why_null: str = ""
    text: str = ""
    checks: tuple[Check, ...] = ()
    marked: tuple[TraceStep, ...] = ()


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """What was captured.

    Attributes:
        profiler: whose, in words: ``vLLM's torch profiler``.
        folder: where it wrote, on the server's disk; empty when nobody says.
        phases: in the order in which they were recorded.
        held: the batch as a client timed it, without a profiler; None when it was not.
        on_cpu: the traces hold operators of a CPU in the place of kernels.
        notes: what a reader must know: stacks on, files left where they are, what to copy from where.
        proceed: the commands to go on with, when the traces are not here.
    """

    profiler: str
    folder: str
    phases: tuple[Captured, ...]
    held: Cell | None = None
    on_cpu: bool = False
    notes: tuple[str, ...] = ()
    proceed: tuple[str, ...] = ()
