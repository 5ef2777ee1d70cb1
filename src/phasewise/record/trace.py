"""Section of `phasewise trace`: whose time it was, step by step and phase by phase, and what each phase was bound on.

Times are seconds, as the trace reported them (its own clock, nothing of ours), from the earliest event of the trace.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.judgement import Alarm, Bound, Utilisation
from phasewise.record.observation import CheckStatus
from phasewise.record.quantity import Quantity

TracePhase = Literal["prefill", "decode", "mixed", "unknown"]
TRACE_PHASES: tuple[TracePhase, ...] = ("prefill", "decode", "mixed", "unknown")


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What one half of a step (its prompts, or its generations) was asked to do, as an engine's annotation says.

    Attributes:
        requests: how many.
        tokens: Σq, the new tokens of the step.
        context: Σk, what those tokens attend to at the end of the step; None where only counts were given.
        squares: Σq².
        products: Σq·k.
    """

    requests: int | None = None
    tokens: int | None = None
    context: int | None = None
    squares: int | None = None
    products: int | None = None


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of the model on one rank.

    Attributes:
        rank: index of the file it is in.
        label: the annotation that marks it, "" when it was found by its rhythm.
        phase: what it was.
        evidence: why, strongest first, each one phrase (``annotation execute_...``, ``one graph launch``, ...).
        confidence: 0 to 1; below 0.6 the phase is ``unknown``.
        start_s: start of its first kernel (of its band when it launched none).
        span_s: first start to last end of its kernels, strays left out.
        gpu_time_s: sum of its kernels and graph replays.
        union_s: time in which at least one of its kernels, copies or replays ran.
        kernels: how many ran; graph replays whose kernels are not listed count none.
        launches: runtime calls that launched them.
        graph_launches: those that launched a graph.
        host_s: length of its CPU band, None when nothing marks it.
        requests: of both halves, None when not said.
        tokens: new tokens of both halves, None when not said.
        prefill: its prompts.
        decode: its generations.
        speculative: True for a verify step.
    """

    rank: int
    label: str
    phase: TracePhase
    evidence: tuple[str, ...]
    confidence: float
    start_s: float
    span_s: float
    gpu_time_s: float
    union_s: float
    kernels: int
    launches: int
    graph_launches: int
    host_s: float | None = None
    requests: int | None = None
    tokens: int | None = None
    prefill: Tokens | None = None
    decode: Tokens | None = None
    speculative: bool = False


class FamilyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one family in one phase: seconds, share of the phase's kernel time, how many, and the largest."""

    family: str
    gpu_time_s: float
    share: float
    kernels: int
    largest: str


class RoleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels in one place of the layer (``norm``, ``qkv``, ``rope``, ``attention``, ...)."""

    role: str
    gpu_time_s: float
    share: float
    kernels: int


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel name in one phase."""

    name: str
    family: str
    kernels: int
    gpu_time_s: float
    share: float
    median_s: float


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Time in which nothing ran on the device, inside the phase's steps, and between one step and the next.

    Attributes:
        count: gaps inside steps.
        total_s: their sum.
        long: those over 10 µs.
        largest_s: the longest of them.
        between_s: device idle from the end of one step to the start of the next, summed; None with one step.
    """

    count: int
    total_s: float
    long: int
    largest_s: float
    between_s: float | None = None


class LaunchCost(msgspec.Struct, frozen=True, kw_only=True):
    """What starting the kernels cost.

    Attributes:
        launches: kernel and graph launch calls.
        per_step: per step, mean; None without steps.
        graph_launches: of those, graphs.
        kernels_in_graphs: kernels that graph launches started.
        cpu_s: time inside the launch calls, summed.
        median_s: median length of a launch call; None when none was recorded.
        delay_s: median time from a launch call to the start of its (first) kernel; None when unknown.
        graphs_would_save_s: gaps between kernels that were launched one by one, less what is left between kernels of a
            graph, per step; None when the phase runs in graphs or has no gaps to close.
    """

    launches: int
    per_step: float | None
    graph_launches: int
    kernels_in_graphs: int
    cpu_s: float
    median_s: float | None
    delay_s: float | None
    graphs_would_save_s: Quantity | None = None


class SpeedOfLight(msgspec.Struct, frozen=True, kw_only=True):
    """Speed Of Light of the kernels with counters, weighted by their time; percent of the sustained peak.

    Attributes:
        compute: SM throughput; None when not collected.
        memory: memory throughput (the larger of L1, L2 and DRAM, as Nsight Compute defines it).
        dram: DRAM throughput.
        dram_bandwidth: bytes/s that DRAM gave and took.
        occupancy: warps that were there, of those that fit.
        sm_clock: Hz at which the counters were read; ncu holds it at its base unless told --clock-control none.
        kernels: how many had counters.
        duration_s: their time.
        rule: NVIDIA's SOLBottleneck rule on the weighted figures: ``latency`` when both are under 60%, else the larger.
    """

    compute: float | None
    memory: float | None
    dram: float | None
    kernels: int
    duration_s: float
    rule: Literal["compute", "memory", "latency", "not measured"]
    dram_bandwidth: float | None = None
    occupancy: float | None = None
    sm_clock: float | None = None


class MeasuredKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel with counters; None where a counter was not collected."""

    name: str
    family: str
    device: str
    phase: TracePhase
    duration_s: float | None
    compute: float | None
    memory: float | None
    dram: float | None
    waves: float | None
    rule: Literal["compute", "memory", "latency", "not measured"]
    notes: tuple[str, ...] = ()
    dram_bytes: float | None = None
    occupancy: float | None = None
    sm_clock: float | None = None


PartName = Literal["floor", "kernels", "communication", "copies", "launches", "host"]


class TracePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a phase's mean step, seconds and fraction of it.

    ``kernels`` is what they took beyond the floor (all that they took where no floor is known), ``launches`` the gaps
    that CUDA graphs would close, ``host`` every other gap.
    """

    name: PartName
    seconds: Quantity
    fraction: float


class TraceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of a trace judged against what its steps had to do.

    Attributes:
        bound: ``compute`` or ``memory`` (the floor's side) when the floor is the largest part, else ``kernel``,
            ``overhead`` (launches, host, copies) or ``communication``; ``unknown`` when nothing tells.
        called: the bound in words, the same in every place: ``copy-bound`` for an overhead that is mostly copies,
            ``latency-bound`` where counters say so; "" when it is unknown.
        why: one sentence with the numbers.
        why_null: what is missing for MFU, MBU and floor, "" when they are there.
        steps: how many steps were judged: those with token counts where work is judged, else all that ran kernels.
        step: mean time of a judged step, start to start where steps follow each other, else its span.
        floor: mean floor of those steps. It, MFU and MBU are ``at least`` (their low end, the high one open) where the
            contexts are not said, and the kernels beyond it ``at most``.
        utilisations: MFU and MBU of the mean step, the yardstick of the phase first; over the time in which the device
            was busy, then over the whole step, gaps included.
        parts: what the mean step is made of, largest first.
        attention: attention's share of kernel time, and beside it the share that the floors predict; None when
            unknown or left out of the floor, as ``attention_why_null`` says.
        alarm: a utilisation over 100%.
        notes: sentences a reader must know: what was assumed of the token counts, of the devices, of the model.
    """

    bound: Bound
    why: str
    why_null: str
    steps: int = 0
    step: Quantity | None = None
    floor: Quantity | None = None
    utilisations: tuple[Utilisation, ...] = ()
    parts: tuple[TracePart, ...] = ()
    attention: Quantity | None = None
    attention_predicted: Quantity | None = None
    attention_why_null: str = ""
    called: str = ""
    alarm: Alarm | None = None
    notes: tuple[str, ...] = ()


class TracedPhase(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one phase did, over all ranks.

    Attributes:
        steps: how many.
        kernels: how many.
        gpu_time_s: sum of kernels and graph replays.
        union_s: time in which any kernel, copy or replay of the phase ran, summed over the steps.
        span_s: sum of the steps' spans, strays left out.
        busy_fraction: union over span; None without a timeline.
        median_kernel_s: median kernel; None without kernels.
        kernels_per_step: mean; None without steps.
        requests, tokens: of all steps that say so; None when none does.
        host_s: sum of the CPU bands that mark its steps; None when nothing marks them.
        families, roles, top: who had the time; roles are empty where they cannot be told.
        gaps, launches: between the kernels; None without a timeline.
        speed_of_light: None when no counters came.
        verdict: set by judge.
    """

    steps: int
    kernels: int
    gpu_time_s: float
    union_s: float | None
    span_s: float | None
    busy_fraction: float | None
    median_kernel_s: float | None
    kernels_per_step: float | None
    requests: int | None
    tokens: int | None
    families: tuple[FamilyRow, ...]
    roles: tuple[RoleRow, ...]
    top: tuple[KernelRow, ...]
    gaps: Gaps | None
    launches: LaunchCost | None
    host_s: float | None = None
    speed_of_light: SpeedOfLight | None = None
    verdict: TraceVerdict | None = None


class TraceDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one rank: the figures of data that everybody can recompute.

    ``gpu_sum_s`` sums its kernels, ``kernel_union_s`` is the union of kernels, ``gpu_union_s`` of kernels, copies, sets
    and graph replays, ``span_s`` from the first start to the last end of those, ``gaps`` what the union leaves of it;
    ``overlaps`` counts events after which the next one of their stream starts over 2 ns too early.
    """

    rank: int
    device: int
    name: str
    kernels: int
    copies: int
    graph_replays: int
    gpu_sum_s: float
    kernel_union_s: float
    gpu_union_s: float
    span_s: float
    busy_fraction: float
    resident_fraction: float
    overlaps: int
    gaps: Gaps | None = None


class TraceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: what it is, by whose word."""

    name: str
    form: str
    rank: int | None
    world: int | None
    engine: str
    graph_mode: str
    devices: tuple[str, ...]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that would make the figures wrong. ``not_checked`` when the trace does not hold what is needed."""

    check: str
    status: CheckStatus
    detail: str


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch on the timeline: ``lane`` (``gpu 0``, ``host``, ``steps``), seconds, family or phase."""

    lane: str
    start_s: float
    length_s: float
    kind: str
    label: str


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """A whole trace.

    Attributes:
        files: its files, one rank each.
        recordings: how many of the files each recording has, where two stand side by side (--prefill, --decode): what
            one has is no part of the other's job. Empty where all files are the ranks of one job.
        on_cpu: True when operators on CPU threads stand for the kernels.
        phases: all four, in the order of TRACE_PHASES; a phase without steps has zeros.
        outside_s, outside_kernels: kernels that belong to no step.
        steps: every step, by rank and time.
        devices: every device.
        kernels_total: kernels of all devices.
        gpu_sum_s, kernel_union_s, gpu_union_s, span_s: summed over the devices; unions and span without those of files
            that only show graphs being captured.
        busy_fraction: gpu_union_s over span_s; None without a timeline.
        resident_fraction: what a utilisation counter would have shown: the share of 1/6 s windows (at least one; see
            busy.py) in which any kernel was resident; None without a timeline.
        graph_launches: calls that launched a graph.
        gpu_graph_replays: replays that the device reported as one interval.
        measured: kernels with counters.
        health: every check, failed ones first.
        timeline: for the picture; at most some thousand bars, what was left out is said in ``timeline_note``.
        how: how the steps were found, one sentence.
        text: the answer in one sentence; set by judge.
        missing: why a part is None, by its name.
    """

    files: tuple[TraceFile, ...]
    on_cpu: bool
    phases: dict[TracePhase, TracedPhase]
    outside_s: float
    outside_kernels: int
    steps: tuple[TraceStep, ...]
    devices: tuple[TraceDevice, ...]
    kernels_total: int
    gpu_sum_s: float
    kernel_union_s: float | None
    gpu_union_s: float | None
    span_s: float | None
    busy_fraction: float | None
    resident_fraction: float | None
    graph_launches: int
    gpu_graph_replays: int
    measured: tuple[MeasuredKernel, ...] = ()
    health: tuple[Health, ...] = ()
    timeline: tuple[Bar, ...] = ()
    timeline_note: str = ""
    how: str = ""
    text: str = ""
    missing: dict[str, str] = {}
    recordings: tuple[int, ...] = ()
