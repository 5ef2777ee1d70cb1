"""What each phase did: its steps, families, roles, largest kernels, gaps and launches, from the laid-out trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from phasewise.observe.traces.busy import codes, gaps, ordered
from phasewise.observe.traces.events import Ints, LaunchKind, Trace
from phasewise.observe.traces.kinds import Kinds, rows
from phasewise.observe.traces.laid import Laid, of_phase
from phasewise.observe.traces.launching import launch_costs
from phasewise.observe.traces.roles import roles
from phasewise.observe.traces.split import Split, Step
from phasewise.record.trace import TRACE_PHASES, Tokens, TracedPhase, TracePhase, TraceStep


def steps(trace: Trace, split: Split, laid: Laid) -> tuple[TraceStep, ...]:
    """Every step of the record, by rank and time."""
    count = len(split.steps)
    inside = split.kernel >= 0
    busy = np.bincount(split.kernel[inside], laid.duration[inside], count)
    replayed = split.replay >= 0
    busy = busy + np.bincount(split.replay[replayed], _length(trace.replays.start, trace.replays.end)[replayed], count)
    kernels = np.bincount(split.kernel[inside], minlength=count)
    kind = trace.launches.kind
    graph = (split.launch >= 0) & (kind == LaunchKind.GRAPH)
    single = (split.launch >= 0) & (kind == LaunchKind.KERNEL)
    graphs, singles = (np.bincount(split.launch[one], minlength=count) for one in (graph, single))
    ran = laid.last > laid.first
    return tuple(
        TraceStep(
            rank=step.rank,
            label=step.label,
            phase=step.phase,
            evidence=step.evidence,
            confidence=step.confidence,
            start_s=int(laid.first[place] if ran[place] else step.start) / 1e9,
            span_s=int(laid.last[place] - laid.first[place]) / 1e9,
            gpu_time_s=int(busy[place]) / 1e9,
            union_s=int(laid.cover.union[place]) / 1e9,
            kernels=int(kernels[place]),
            launches=int(graphs[place] + singles[place]),
            graph_launches=int(graphs[place]),
            host_s=max(step.end - step.start, 0) / 1e9 if step.band >= 0 else None,
            requests=_said(step, "requests"),
            tokens=_said(step, "tokens"),
            prefill=step.prefill,
            decode=step.decode,
            speculative=step.speculative,
        )
        for place, step in enumerate(split.steps)
    )


def _length(start: Ints, end: Ints) -> Ints:
    return np.asarray(np.maximum(end - start, 0))


def _said(step: Step, what: str) -> int | None:
    return total(getattr(half, what) for half in (step.prefill, step.decode) if isinstance(half, Tokens))


def total(said: Iterable[int | None]) -> int | None:
    """The sum of what is said, None when nothing is."""
    known = [one for one in said if one is not None]
    return sum(known) if known else None


def phases(
    trace: Trace, split: Split, laid: Laid, kind: Kinds, made: Sequence[TraceStep]
) -> dict[TracePhase, TracedPhase]:
    """All four phases, in their order; one without steps has zeros."""
    place = roles(laid.order, split.kernel, kind.family, kind.of, kind.names)
    costs, between = launch_costs(trace, split, laid), _between(split, laid)
    idle_phase = of_phase(laid.phase, laid.at)
    found: dict[TracePhase, TracedPhase] = {}
    for code, name in enumerate(TRACE_PHASES):
        mine = [step for step in made if step.phase == name]
        chosen = np.flatnonzero(laid.kernel_phase == code)
        lengths = laid.duration[chosen]
        union, span = sum(step.union_s for step in mine), sum(step.span_s for step in mine)
        found[name] = TracedPhase(
            steps=len(mine),
            kernels=len(lengths),
            gpu_time_s=sum(step.gpu_time_s for step in mine),
            union_s=union,
            span_s=span,
            busy_fraction=union / span if span else None,
            median_kernel_s=float(np.median(lengths)) / 1e9 if len(lengths) else None,
            kernels_per_step=len(lengths) / len(mine) if mine else None,
            requests=total(step.requests for step in mine),
            tokens=total(step.tokens for step in mine),
            **rows(Kinds(kind.names, kind.family, kind.of[chosen]), lengths, place[chosen]),
            gaps=gaps(laid.cover.idle[idle_phase == code], between[code]) if mine else None,
            launches=costs.get(name) if mine else None,
            host_s=in_bands(mine),
        )
    return found


def in_bands(steps: Iterable[TraceStep]) -> float | None:
    """Seconds of the CPU bands that mark some steps; None when nothing marks them."""
    marked = [step.host_s for step in steps if step.host_s is not None]
    return sum(marked) if marked else None


def _between(split: Split, laid: Laid) -> list[float | None]:
    """By phase, the seconds that a device idled from one step to the next of the same phase; None without two steps."""
    idle: list[float | None] = [None] * len(TRACE_PHASES)
    ran = np.flatnonzero(laid.device >= 0)
    if not len(ran):
        return idle
    rank = np.array([split.steps[place].rank for place in ran.tolist()], np.int64)
    lane, _ = codes(rank, laid.device[ran])
    order = ordered(lane, laid.first[ran])
    steps, lanes = ran[order], lane[order]
    phase = laid.phase[steps]
    follows = (lanes[1:] == lanes[:-1]) & (phase[1:] == phase[:-1])
    waited = np.maximum(laid.first[steps][1:] - laid.last[steps][:-1], 0)
    for code in range(len(TRACE_PHASES)):
        of = follows & (phase[1:] == code)
        if of.any():
            idle[code] = int(waited[of].sum()) / 1e9
    return idle
