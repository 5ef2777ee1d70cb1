"""Where the time of a phase's mean step went: what kernels and copies filled, and what nothing filled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from phasewise.record.judgement import Bound
from phasewise.record.prediction import FloorBound
from phasewise.record.quantity import Quantity, predicted, reported
from phasewise.record.trace import PartName, TracedPhase, TracePart, TraceStep

IDLE_S = 10e-3
"""A wait for the next step that is longer than this, and than the step itself, is a server without work, no step."""

MATMULS = ("gemm", "gemv", "moe")
"""Families that multiply by weights."""


class MeanTime(NamedTuple):
    """The mean step, seconds.

    Attributes:
        steps: how many it is the mean of; 0 when the phase has kernels but no steps, whose time then stands for it.
        step: from its start to the start of the next one, or its span.
        busy: of that, in which a kernel, copy or replay ran.
        communication: of ``busy``, as the family's share of kernel time.
        copies: of ``busy``, beside kernels; at least, since kernels that overlap hide some.
        launches: of the rest, the gaps that CUDA graphs would close.
    """

    steps: int
    step: float
    busy: float
    communication: float
    copies: float
    launches: float

    @property
    def kernels(self) -> float:
        """Kernels other than communication."""
        return max(0.0, self.busy - self.communication - self.copies)

    @property
    def host(self) -> float:
        """Gaps that are not due to launching kernels one by one."""
        return max(0.0, self.step - self.busy - self.launches)

    @property
    def overhead(self) -> float:
        """What is neither kernels nor communication."""
        return self.launches + self.host + self.copies


def lengths(steps: Sequence[TraceStep]) -> list[float]:
    """Seconds of each of ``steps`` (all of a trace): to the start of the next on its rank, else its span.

    A step is followed by the next when that one starts after its end and before the wait makes it another burst of
    work. A profiler slows the host down, so that the gaps in it may be longer than without one.
    """
    found = [max(step.span_s, step.union_s) for step in steps]
    order = sorted(
        (i for i, step in enumerate(steps) if step.union_s > 0), key=lambda i: (steps[i].rank, steps[i].start_s)
    )
    for here, following in pairwise(order):
        step, after = steps[here], steps[following]
        wait = after.start_s - step.start_s - found[here]
        if after.rank == step.rank and 0 <= wait <= max(found[here], IDLE_S):
            found[here] += wait
    return found


def in_a_row(steps: Sequence[TraceStep]) -> int:
    """How many of ``steps`` a rank goes through one after another, at most; ranks and devices run side by side.

    A step that starts in the first half of the one before is that step on another device of the rank.
    """
    rows: dict[int, list[TraceStep]] = {}
    for step in sorted(steps, key=lambda one: (one.rank, one.start_s)):
        row = rows.setdefault(step.rank, [])
        if not row or step.start_s >= row[-1].start_s + row[-1].span_s / 2:
            row.append(step)
    return max(map(len, rows.values()), default=0)


def mean_time(phase: TracedPhase, steps: Sequence[TraceStep], seconds: Sequence[float]) -> MeanTime:
    """The mean of ``steps`` of ``phase``, that took ``seconds`` each; of the phase as a whole where there are none."""
    if steps:
        step, busy, kernels = (
            sum(values) / len(steps)
            for values in (seconds, [one.union_s for one in steps], [one.gpu_time_s for one in steps])
        )
    else:
        busy = kernels = phase.gpu_time_s if phase.union_s is None else phase.union_s
        step = busy if phase.span_s is None else max(busy, phase.span_s)
    copies = max(0.0, busy - kernels)
    saves = phase.launches.graphs_would_save_s if phase.launches else None
    return MeanTime(
        steps=len(steps),
        step=step,
        busy=busy,
        communication=family_share(phase, "communication") * (busy - copies),
        copies=copies,
        launches=min(saves.value if saves and steps else 0.0, step - busy),
    )


def family_share(phase: TracedPhase, *names: str) -> float:
    """Share of the phase's kernel time that is of these families."""
    return sum(row.share for row in phase.families if row.family in names)


def at_least(quantity: Quantity) -> Quantity:
    """``quantity`` as the low end of an interval whose high end is open."""
    return msgspec.structs.replace(quantity, low=quantity.value, high=None)


def parts(time: MeanTime, floor: float | None, *, open_ended: bool = False) -> tuple[TracePart, ...]:
    """What the mean step is made of, largest first; parts of no length are left out and the others add up to it.

    With ``open_ended`` the floor is at least what it is, and kernels beyond it are at most.
    """
    least = 0.0 if floor is None else min(floor, time.kernels)
    found: list[tuple[PartName, Quantity]] = [
        ("floor", predicted(least, "s", "least time of the work")),
        ("kernels", reported(time.kernels - least, "s", "kernels" if floor is None else "kernels beyond the floor")),
        ("communication", reported(time.communication, "s", "kernels of communication")),
        ("copies", reported(time.copies, "s", "copies beside kernels")),
        ("launches", reported(time.launches, "s", "gaps between kernels launched one by one")),
        ("host", reported(time.host, "s", "gaps in which the device waited for anything else")),
    ]
    if open_ended:
        found[0] = ("floor", at_least(found[0][1]))
        found[1] = ("kernels", msgspec.structs.replace(found[1][1], high=found[1][1].value))
    made = [
        TracePart(name=name, seconds=seconds, fraction=seconds.value / time.step)
        for name, seconds in found
        if seconds.value > 0
    ]
    return tuple(sorted(made, key=lambda part: -part.seconds.value))


def bound(time: MeanTime, floor: float | None, side: FloorBound | None, *, open_ended: bool = False) -> Bound:
    """The largest part; without a floor ``unknown`` where kernels are, since nothing tells what they should take.

    A floor that is only a lower bound (``open_ended``) may be as long as all kernels, so that any other part is the
    largest only when it is longer than these.
    """
    least = 0.0 if floor is None else min(floor, time.kernels)
    found: dict[Bound, float] = {
        side or "unknown": least,
        "overhead": time.overhead,
        "communication": time.communication,
        "unknown" if floor is None else "kernel": time.kernels - least,
    }
    largest = max(found, key=lambda name: found[name])
    if open_ended and largest != side and found[largest] <= time.kernels:
        return "unknown"
    return largest


class Excess(NamedTuple):
    """Kernels of ``families``: what they took of the mean step, and what their work takes at least, seconds."""

    name: str
    families: tuple[str, ...]
    took: float
    least: float

    @property
    def seconds(self) -> float:
        """Beyond the floor."""
        return self.took - self.least


def excesses(phase: TracedPhase, kernels: float, floor: float, attention: float | None) -> tuple[Excess, ...]:
    """Kernel families by what they took, of ``kernels`` seconds, beyond the floor of their work, largest first.

    The floor is that of matrices and of attention (``attention`` of it): all others could be fused away. With None the
    floor leaves attention out, so that nothing is said of its kernels.
    """
    others = [row.family for row in phase.families if row.family not in (*MATMULS, "attention", "communication")]
    groups: list[tuple[str, tuple[str, ...], float]]
    groups = [("matrix multiplies", MATMULS, floor - (attention or 0.0))]
    groups += [("attention", ("attention",), attention)] if attention is not None else []
    groups += [(family.replace("_", " "), (family,), 0.0) for family in dict.fromkeys(others)]
    found = [Excess(name, own, family_share(phase, *own) * kernels, least) for name, own, least in groups]
    return tuple(sorted(found, key=lambda one: -one.seconds))
