"""What a single figure can say of the bound: its floor, and what is likely beyond it."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.model.formats import SIXTEEN
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict.roofline import Roof
from phasewise.record.judgement import Bound
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.prediction import FloorBound

SURE = 1 / 2
"""Share of a step from which its floor is its largest part, whatever else there is."""


class Beyond(NamedTuple):
    """The part beyond the floor that is likeliest, the next, of how many parts, and why."""

    first: Bound
    second: Bound
    why: str
    parts: int = 2


def bound(share: float, meets: FloorBound, rest: Beyond) -> tuple[Bound, Bound | None]:
    """The bound, and its rival where one figure cannot tell the two apart.

    Below an even part of the step, the floor cannot be its largest part.
    """
    if share >= SURE:
        return meets, None
    return (meets, rest.first) if share >= 1 / (1 + rest.parts) else (rest.first, rest.second)


def beyond(phase: Phase, done: Work, model: Model, machine: Machine, roof: Roof) -> Beyond:
    """What is likely beyond the floor of such a step. A sweep, a profile or a trace would tell."""
    tell = "one figure does not tell which: a sweep, `phasewise profile` or a trace would"
    if machine.devices > 1:
        sums = 2 * model.architecture.layers
        why = (
            f"beyond its floor, a step over {machine.devices} devices waits for them to add up their parts (about "
            f"{sums} times with tensor parallelism) before kernels are to blame; {tell}"
        )
        return Beyond("communication", "overhead", why, parts=3)
    if phase == "prefill":
        why = f"beyond its floor, a pass over many tokens has few launches for its work, so kernels come first; {tell}"
        return Beyond("kernel", "overhead", _unpacked(model, roof) + why)
    if _unpacked(model, roof):
        return Beyond("kernel", "overhead", f"{_unpacked(model, roof)}beyond its floor, that comes first; {tell}")
    if float(done.kv_bytes) > float(done.bytes) / 2:
        why = f"most of its bytes are KV cache: an attention kernel that does not split it comes first; {tell}"
        return Beyond("kernel", "overhead", why)
    why = f"beyond its floor, a decode step of small kernels waits for launches, host and scheduler first; {tell}"
    return Beyond("overhead", "kernel", why)


def _unpacked(model: Model, roof: Roof) -> str:
    if roof.dtype in SIXTEEN and model.weights_format not in (*SIXTEEN, "f16", "f32"):
        return f"{model.weights_format} weights are unpacked to {roof.dtype} for the matmul; "
    return ""
