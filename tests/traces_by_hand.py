"""Traced records built by hand, for the tests of what is said of them."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import reported
from phasewise.record.trace import (
    FamilyRow,
    LaunchCost,
    SpeedOfLight,
    Tokens,
    Traced,
    TraceDevice,
    TracedPhase,
    TraceFile,
    TracePhase,
    TraceStep,
)

FRESH = Tokens(requests=1, tokens=2000, context=2000, squares=4_000_000, products=4_000_000)
"""The prompt of the reference case."""

GENERATING = Tokens(requests=1, tokens=1, context=2001, squares=1, products=2001)
"""A generation after 2,000 tokens."""


def step(
    phase: TracePhase,
    start: float,
    busy: float,
    *,
    span: float | None = None,
    kernels: float | None = None,
    prefill: Tokens | None = None,
    decode: Tokens | None = None,
    rank: int = 0,
) -> TraceStep:
    return TraceStep(
        rank=rank,
        label="step",
        phase=phase,
        evidence=("planted",),
        confidence=1.0,
        start_s=start,
        span_s=busy if span is None else span,
        gpu_time_s=busy if kernels is None else kernels,
        union_s=busy,
        kernels=100,
        launches=100,
        graph_launches=0,
        prefill=prefill,
        decode=decode,
    )


def phase(
    steps: list[TraceStep],
    families: dict[str, float] | None = None,
    *,
    graphs_would_save: float | None = None,
    delay: float | None = None,
    speed_of_light: SpeedOfLight | None = None,
    gpu_time: float | None = None,
) -> TracedPhase:
    """A phase of ``steps``; ``families`` are shares of its kernel time."""
    total = sum(one.gpu_time_s for one in steps) if gpu_time is None else gpu_time
    saves = None if graphs_would_save is None else reported(graphs_would_save, "s", "gaps")
    return TracedPhase(
        steps=len(steps),
        kernels=sum(one.kernels for one in steps) or (1 if total else 0),
        gpu_time_s=total,
        union_s=sum(one.union_s for one in steps) if steps else None,
        span_s=sum(one.span_s for one in steps) if steps else None,
        busy_fraction=None,
        median_kernel_s=None,
        kernels_per_step=None,
        requests=None,
        tokens=None,
        families=tuple(
            FamilyRow(family=name, gpu_time_s=share * total, share=share, kernels=1, largest=name)
            for name, share in (families or {}).items()
        ),
        roles=(),
        top=(),
        gaps=None,
        launches=LaunchCost(
            launches=1,
            per_step=1.0,
            graph_launches=0,
            kernels_in_graphs=0,
            cpu_s=0.0,
            median_s=None,
            delay_s=delay,
            graphs_would_save_s=saves,
        ),
        speed_of_light=speed_of_light,
    )


def traced(
    *, devices: int = 1, world: int | None = None, **phases: TracedPhase | tuple[TracedPhase, list[TraceStep]]
) -> Traced:
    """A trace of ``phases``, each given with its steps where it has any."""
    found: dict[TracePhase, TracedPhase] = {}
    steps: list[TraceStep] = []
    for name in ("prefill", "decode", "mixed", "unknown"):
        given = phases.get(name, phase([]))
        one, own = given if isinstance(given, tuple) else (given, [])
        found[name] = one  # type: ignore[index]
        steps += own
    total = sum(one.gpu_time_s for one in found.values())
    idle = {"count": 0, "total_s": 0.0, "long": 0, "largest_s": 0.0}
    device = {
        "name": "",
        "kernels": 1,
        "copies": 0,
        "graph_replays": 0,
        "overlaps": 0,
        "gaps": idle,
        **dict.fromkeys(("gpu_sum_s", "kernel_union_s", "gpu_union_s", "span_s"), total),
        "busy_fraction": 1.0,
        "resident_fraction": 1.0,
    }
    return Traced(
        files=(TraceFile(name="a.json", form="planted", rank=0, world=world, engine="", graph_mode="", devices=("",)),),
        on_cpu=False,
        phases=found,
        outside_s=0.0,
        outside_kernels=0,
        steps=tuple(sorted(steps, key=lambda one: (one.rank, one.start_s))),
        devices=tuple(msgspec.convert({**device, "rank": 0, "device": i}, TraceDevice) for i in range(devices)),
        kernels_total=1,
        gpu_sum_s=total,
        kernel_union_s=total,
        gpu_union_s=total,
        span_s=total,
        busy_fraction=None,
        resident_fraction=None,
        graph_launches=0,
        gpu_graph_replays=0,
    )
