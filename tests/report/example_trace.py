"""Traces as the other stages would hand them on, made by hand.

The SGLang figures (Qwen3-8B on an MI300X: one prefill of 15,360 tokens, then one decode step of 32 requests from a
graph), the eager B200 ones and the vLLM decode step are sums, unions, counts and medians of public traces
(AMD-AGI/TraceLens, MIT), added up by plain scripts. Floors and utilisations are round numbers.
"""

from __future__ import annotations

import msgspec
from example_parts import change
from example_run import HOSTILE, twisted

from phasewise.record.envelope import Envelope
from phasewise.record.judgement import Alarm, Utilisation
from phasewise.record.quantity import Quantity, predicted, reported
from phasewise.record.remedies import Rejected, Remedies, Remedy
from phasewise.record.run import Run
from phasewise.record.trace import (
    Bar,
    FamilyRow,
    Gaps,
    Health,
    KernelRow,
    LaunchCost,
    MeasuredKernel,
    RoleRow,
    SpeedOfLight,
    Tokens,
    Traced,
    TraceDevice,
    TracedPhase,
    TraceFile,
    TracePart,
    TraceStep,
    TraceVerdict,
)

US = 1e-6
_SHEET = {
    "mfu": Quantity(value=1307.4e12, unit="FLOP/s", provenance="datasheet", source="MI300X datasheet, dense bf16"),
    "mbu": Quantity(value=5.3e12, unit="B/s", provenance="datasheet", source="MI300X datasheet"),
}
LAYER = ("norm", "gemm", "copy", "norm", "norm", "rope", "copy", "attention", "attention", "gemm", "norm", "gemm")
LAYER += ("activation", "gemm", "copy")
_WEIGHT = {"norm": 1, "gemm": 10, "rope": 1, "attention": 3, "activation": 2, "copy": 1}

ABSENT = TracedPhase(
    steps=0,
    kernels=0,
    gpu_time_s=0.0,
    union_s=None,
    span_s=None,
    busy_fraction=None,
    median_kernel_s=None,
    kernels_per_step=None,
    requests=None,
    tokens=None,
    families=(),
    roles=(),
    top=(),
    gaps=None,
    launches=None,
)


def _families(total: float, **times: tuple[float, int]) -> tuple[FamilyRow, ...]:
    return tuple(
        FamilyRow(family=name, gpu_time_s=t * US, share=t / total, kernels=n, largest=f"{name}_kernel")
        for name, (t, n) in times.items()
    )


def _roles(total: float, **times: tuple[float, int]) -> tuple[RoleRow, ...]:
    return tuple(RoleRow(role=name, gpu_time_s=t * US, share=t / total, kernels=n) for name, (t, n) in times.items())


def _top(total: float, *rows: tuple[str, str, int, float]) -> tuple[KernelRow, ...]:
    return tuple(
        KernelRow(name=name, family=of, kernels=n, gpu_time_s=t * US, share=t / total, median_s=t * US / n)
        for name, of, n, t in rows
    )


def used(yardstick: str, value: float, tokens: float) -> Utilisation:
    share = predicted(value, "1", "counted work over the trace's time")
    ceiling = _SHEET[yardstick]
    return Utilisation(  # type: ignore[arg-type]
        yardstick=yardstick, basis="datasheet", method="whole", tokens=tokens, value=share, ceiling=ceiling
    )


def _parts(step: float, **seconds: float) -> tuple[TracePart, ...]:
    return tuple(
        TracePart(
            name=name,  # type: ignore[arg-type]
            seconds=predicted(s * US, "s", "floor") if name == "floor" else reported(s * US, "s", "trace"),
            fraction=s / step,
        )
        for name, s in seconds.items()
    )


def _launched(calls: int, graphs: int, in_graphs: int, cpu: float, median: float, delay: float) -> LaunchCost:
    """What starting the kernels of one step cost, in µs."""
    return LaunchCost(
        launches=calls,
        per_step=float(calls),
        graph_launches=graphs,
        kernels_in_graphs=in_graphs,
        cpu_s=cpu * US,
        median_s=median * US,
        delay_s=delay * US,
    )


def _one_step(
    kernels: int,
    micros: tuple[float, float, float, float],
    asked: tuple[int, int],
    *,
    families: dict[str, tuple[float, int]],
    roles: dict[str, tuple[float, int]],
    top: tuple[tuple[str, str, int, float], ...],
    gaps: Gaps,
    launches: LaunchCost,
    verdict: tuple[str, dict[str, float], tuple[Utilisation, ...], float],
) -> TracedPhase:
    """A phase of one step, kernel-bound.

    ``micros``: sum of its kernels, their union, its span, the median kernel. ``asked``: requests and tokens.
    ``verdict``: why, µs of its parts, utilisations, attention's share of the floor.
    """
    total, union, span, median = micros
    why, held, utilisations, attention = verdict
    return TracedPhase(
        steps=1,
        kernels=kernels,
        gpu_time_s=total * US,
        union_s=union * US,
        span_s=span * US,
        busy_fraction=union / span,
        median_kernel_s=median * US,
        kernels_per_step=float(kernels),
        requests=asked[0],
        tokens=asked[1],
        families=_families(total, **families),
        roles=_roles(total, **roles),
        top=_top(total, *top),
        gaps=gaps,
        launches=launches,
        verdict=TraceVerdict(
            bound="kernel",
            why=why,
            why_null="",
            steps=1,
            step=reported(span * US, "s", "span of the step"),
            floor=predicted(held["floor"] * US, "s", "sum over operations"),
            utilisations=utilisations,
            parts=_parts(span, **held),
            attention=reported(families["attention"][0] / total, "1", "of kernel time"),
            attention_predicted=predicted(attention, "1", "of the floor"),
        ),
    )


PREFILL = _one_step(
    527,
    (492_773.592, 492_806.864, 494_005.158, 132.557),
    (15, 15_360),
    families={
        "gemm": (420_305.7, 145),
        "norm": (26_258.6, 145),
        "attention": (20_079.8, 36),
        "activation": (16_508.1, 36),
        "rope": (4_725.1, 36),
        "copy": (3_537.9, 127),
        "sampling": (1_358.4, 2),
    },
    roles={"mlp": (295_000.0, 108), "qkv": (80_000.0, 36), "attention": (20_079.8, 36)},
    top=(
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x1", "gemm", 36, 243_643.021),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x1", "gemm", 72, 124_930.912),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x1", "gemm", 36, 51_295.484),
    ),
    gaps=Gaps(count=520, total_s=1_198.294 * US, long=17, largest_s=60.0 * US),
    launches=_launched(527, 0, 0, 3_200.0, 5.0, 228_843.461),
    verdict=(
        "kernels take 331 ms beyond the floor of 163 ms.",
        {"kernels": 329_784.86, "floor": 163_022.0, "launches": 1_198.298},
        (used("mfu", 0.330, 15_360), used("mbu", 0.0069, 15_360)),
        0.0071,
    ),
)

DECODE = _one_step(
    555,
    (9_765.437, 9_772.929, 10_454.538, 5.167),
    (32, 32),
    families={
        "gemm": (5_782.3, 145),
        "attention": (2_133.3, 72),
        "norm": (684.0, 145),
        "copy": (406.2, 80),
        "activation": (324.4, 36),
        "rope": (195.8, 36),
        "sampling": (239.437, 41),
    },
    roles={"mlp": (3_900.0, 108), "attention": (2_133.3, 72), "lm_head": (260.0, 1)},
    top=(
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16", "gemm", 36, 2_417.659),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>", "attention", 36, 1_949.556),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16", "gemm", 36, 1_461.907),
    ),
    gaps=Gaps(count=540, total_s=681.609 * US, long=6, largest_s=120.0 * US),
    launches=_launched(12, 1, 544, 500.0, 6.0, 5_043.34),
    verdict=(
        "kernels take 5.70 ms beyond the floor of 4.08 ms.",
        {"kernels": 5_695.929, "floor": 4_077.0, "launches": 681.609},
        (used("mbu", 0.390, 1_024), used("mfu", 0.038, 1_024)),
        0.228,
    ),
)


def layers(start: float, length: float, lane: str, gap: float, count: int = 36) -> tuple[Bar, ...]:
    """``count`` layers of kernels from ``start``, together ``length`` seconds, ``gap`` of each bar's room idle."""
    unit = length / count / sum(_WEIGHT[kind] for kind in LAYER)
    bars, at = [], start
    for layer in range(count):
        for kind in LAYER:
            room = unit * _WEIGHT[kind]
            bars.append(Bar(lane=lane, start_s=at, length_s=room * (1 - gap), kind=kind, label=f"{kind} {layer}"))
            at += room
    return tuple(bars)


_TIMELINE = (
    Bar(lane="steps", start_s=0.4936, length_s=0.494005, kind="prefill", label="execute_15360_context_15"),
    Bar(lane="steps", start_s=0.9878, length_s=0.010455, kind="decode", label="execute_32_context_0"),
    Bar(lane="host", start_s=0.0, length_s=0.5227, kind="prefill", label="execute_15360_context_15"),
    Bar(lane="host", start_s=0.524, length_s=0.4657, kind="decode", label="execute_32_context_0"),
    *layers(0.4936, 0.494005, "gpu 0", 0.002),
    *layers(0.9878, 0.010455, "gpu 0", 0.065),
)

HEALTH = (
    Health(check="stray_kernels", status="failed", detail="1 kernel on stream 2 lies 463 ms before its step; left out"),
    Health(check="gpu_name", status="not_checked", detail="the file names no GPU (304 SMs)"),
    Health(check="counters", status="not_checked", detail="not measured: the trace holds none"),
    Health(check="launches", status="passed", detail="1,082 of 1,082 kernels have a launch record"),
    Health(check="whole", status="passed", detail="the file ends where it should"),
)

STEPS = (
    TraceStep(
        rank=0,
        label="execute_15360_context_15(sq15360sk15360)_generation_0",
        phase="prefill",
        evidence=("annotation execute_15360_context_15", "attention kernels of prefill"),
        confidence=0.99,
        start_s=0.4936,
        span_s=0.494005158,
        gpu_time_s=0.492773592,
        union_s=0.492806864,
        kernels=527,
        launches=527,
        graph_launches=0,
        host_s=0.522741423,
        requests=15,
        tokens=15_360,
        prefill=Tokens(requests=15, tokens=15_360, context=15_360, squares=15_728_640, products=15_728_640),
    ),
    TraceStep(
        rank=0,
        label="execute_32_context_0_generation_32(sq32sk32785)",
        phase="decode",
        evidence=("annotation execute_32_context_0_generation_32", "one graph launch"),
        confidence=0.99,
        start_s=0.9878,
        span_s=0.010454538,
        gpu_time_s=0.009765437,
        union_s=0.009772929,
        kernels=555,
        launches=12,
        graph_launches=1,
        requests=32,
        tokens=32,
        decode=Tokens(requests=32, tokens=32, context=32_785, squares=32, products=32_785),
    ),
)

_FIXES = Remedies(
    fixes=(
        Remedy(
            name="4-bit weights",
            phase="decode",
            saves=Quantity(value=2.3e-3, low=1.9e-3, high=2.6e-3, unit="s", provenance="predicted", source="the floor"),
            saves_share=0.22,
            step_before=10.45e-3,
            step_after=8.15e-3,
            why="decode reads the weights once a step.",
            verify="phasewise trace again with the new weights",
        ),
    ),
    rejected=(Rejected(name="CUDA graphs", phase="decode", reason="it runs in graphs already"),),
)


def envelope(name: str) -> Envelope:
    return Envelope(
        id=f"20261129T193000Z-{name}",
        command="trace",
        arguments=(f"{name}.json.gz",),
        created="2026-11-29T19:30:00Z",
        duration_s=0.8,
        status="complete",
        versions={"phasewise": "0.1.0"},
    )


def sglang() -> Run:
    """Both phases, one file, judged."""
    traced = Traced(
        files=(
            TraceFile(
                name="sglang_prefill_then_decode.json.gz",
                form="Kineto",
                rank=None,
                world=None,
                engine="SGLang",
                graph_mode="",
                devices=(),
            ),
        ),
        on_cpu=False,
        phases={"prefill": PREFILL, "decode": DECODE, "mixed": ABSENT, "unknown": ABSENT},
        outside_s=0.0,
        outside_kernels=0,
        steps=STEPS,
        devices=(
            TraceDevice(
                rank=0,
                device=0,
                name="",
                kernels=1_082,
                copies=10,
                graph_replays=0,
                gpu_sum_s=0.502539029,
                kernel_union_s=0.502528647,
                gpu_union_s=0.502579793,
                span_s=1.0,
                busy_fraction=0.502579793,
                resident_fraction=1.0,
                overlaps=0,
                gaps=Gaps(count=1_070, total_s=0.497420207, long=27, largest_s=0.493),
            ),
        ),
        kernels_total=1_082,
        gpu_sum_s=0.502539029,
        kernel_union_s=0.502528647,
        gpu_union_s=0.502579793,
        span_s=1.0,
        busy_fraction=0.502579793,
        resident_fraction=1.0,
        graph_launches=1,
        gpu_graph_replays=0,
        health=HEALTH,
        timeline=_TIMELINE,
        text="Decode and prefill both pay for kernels: prefill 33.0% MFU, decode 39.0% MBU.",
        missing={"speed_of_light": "not measured: the files hold no counters"},
    )
    return Run(envelope=envelope("sglang"), traced=traced, remedies=_FIXES)


def of(run: Run) -> Traced:
    assert run.traced is not None
    return run.traced


def with_trace(run: Run, **fields: object) -> Run:
    return change(run, traced=change(of(run), **fields))


def with_phases(run: Run, **phases: TracedPhase) -> Run:
    return with_trace(run, phases={**of(run).phases, **phases})


def only_decode() -> Run:
    """One phase: the other column says that it was not seen."""
    run = with_phases(sglang(), prefill=ABSENT)
    kept = tuple(bar for bar in of(run).timeline if bar.start_s > 0.9)
    return change(
        with_trace(run, steps=STEPS[1:], timeline=kept, kernels_total=555, text="Decode: 39.0% MBU."), remedies=None
    )


def eager() -> Run:
    """Launch-bound and unannotated: what its steps were cannot be told, graphs would save most of them."""
    gaps = Gaps(count=760, total_s=72_890.7 * US, long=715, largest_s=2_638.105 * US, between_s=1e-3)
    saves = predicted(70e-3, "s", "gaps of eager kernels less those inside graphs")
    launches = change(
        PREFILL.launches,
        launches=768,
        per_step=768.0,
        median_s=6.3 * US,
        delay_s=10.061 * US,
        graphs_would_save_s=saves,
    )
    phase = change(
        PREFILL,
        steps=2,
        kernels=1_536,
        kernels_per_step=768.0,
        gpu_time_s=10_862.916 * US,
        union_s=11_596.479 * US,
        span_s=84_487.178 * US,
        busy_fraction=0.137257,
        median_kernel_s=6.288 * US,
        requests=None,
        tokens=None,
        families=_families(10_862.916, moe=(5_910.9, 300), communication=(2_141.5, 73), attention=(816.0, 36)),
        roles=(),
        gaps=gaps,
        launches=launches,
        verdict=TraceVerdict(
            bound="overhead", why="gaps between launches are 86% of it.", why_null="no model: give --model"
        ),
    )
    steps = tuple(
        change(
            STEPS[0],
            phase="unknown",
            label="",
            evidence=("rhythm of 768 kernels",),
            confidence=0.4,
            start_s=t,
            span_s=0.042,
            kernels=768,
            requests=None,
            tokens=None,
        )
        for t in (0.0, 0.042)
    )
    bars = (*layers(0.0, 0.042, "gpu 0", 0.86, 52), *layers(0.042, 0.042, "gpu 0", 0.86, 52))
    return change(
        with_trace(
            with_phases(sglang(), prefill=ABSENT, decode=ABSENT, unknown=phase),
            steps=steps,
            timeline=bars,
            timeline_note="the first step of two is drawn",
            text="",
            outside_kernels=3,
            outside_s=12 * US,
        ),
        remedies=None,
    )


def alarmed() -> Run:
    """More than the machine can do."""
    assert PREFILL.verdict
    alarm = Alarm(text="prefill reads 131% MFU: no machine does that.", causes=("a sparse peak", "the wrong --on"))
    verdict = change(PREFILL.verdict, alarm=alarm, utilisations=(used("mfu", 1.31, 15_360),))
    return with_phases(sglang(), prefill=change(PREFILL, verdict=verdict))


def counters() -> Run:
    """Kernels with counters and no timeline: an Nsight Compute report."""
    light = SpeedOfLight(compute=12.035, memory=90.717, dram=None, kernels=2, duration_s=252.4 * US, rule="memory")
    bare = change(ABSENT, kernels=2, gpu_time_s=252.448 * US, speed_of_light=light)
    measured = (
        MeasuredKernel(
            name="daxpy_kernel",
            family="other",
            device="NVIDIA GeForce RTX 3070",
            phase="unknown",
            duration_s=249.216 * US,
            compute=12.035,
            memory=90.717,
            dram=None,
            waves=59.362,
            rule="memory",
        ),
        MeasuredKernel(
            name="VecAdd_kernel",
            family="other",
            device="NVIDIA GeForce RTX 3070",
            phase="unknown",
            duration_s=None,
            compute=None,
            memory=None,
            dram=None,
            waves=None,
            rule="not measured",
            notes=("the grid is small",),
        ),
    )
    return change(
        with_trace(
            with_phases(sglang(), prefill=ABSENT, decode=ABSENT, unknown=bare),
            steps=(),
            timeline=(),
            devices=(),
            measured=measured,
            kernel_union_s=None,
            gpu_union_s=None,
            span_s=None,
            busy_fraction=None,
            resident_fraction=None,
            graph_launches=0,
            text="Two kernels with counters: memory-bound by NVIDIA's rule.",
            missing={"timeline": "Nsight Compute replays each kernel alone", "busy_fraction": "there is no timeline"},
        ),
        remedies=None,
    )


def ranks(count: int = 800) -> Run:
    """Two ranks, many steps, a crowded timeline, mixed steps: as large as a record gets."""
    many = tuple(change(STEPS[1], rank=i % 2, start_s=i * 0.011) for i in range(count))
    bars = tuple(bar for i in range(6) for bar in layers(i * 0.011, 0.0105, f"rank {i % 2} gpu {i % 2}", 0.05))[:3_000]
    files = tuple(
        change(of(sglang()).files[0], name=f"rank{i}.json.gz", rank=i, world=2, devices=("AMD MI300X",)) for i in (0, 1)
    )
    return with_trace(
        with_phases(sglang(), mixed=change(PREFILL, verdict=None, speed_of_light=None)),
        steps=many,
        timeline=bars,
        files=files,
        devices=tuple(change(of(sglang()).devices[0], rank=i, device=i) for i in (0, 1)),
    )


def on_cpu() -> Run:
    """Operators of a CPU stand for kernels."""
    return with_trace(sglang(), on_cpu=True)


def _twisted(value: object, text: str) -> object:
    """As ``twisted``, but a trace's own closed words stay: phases as keys, parts and rules."""
    if isinstance(value, dict):
        return {key: _twisted(one, text) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_twisted(one, text) for one in value)
    if isinstance(value, msgspec.Struct) and not isinstance(value, Quantity):
        closed = {"phase", "phases", "rule", "bound", "status", "buys", "yardstick", "method"}
        closed |= {"name"} if isinstance(value, TracePart) else set()
        fields = {f: getattr(value, f) for f in value.__struct_fields__ if f not in closed}
        kept = {f: _twisted(v, text) for f, v in fields.items()}
        if isinstance(value, Traced):
            kept["phases"] = _twisted(value.phases, text)
        return change(value, **kept)
    return twisted(value, text)


def renamed(text: str) -> Run:
    """Every free text of a trace is ``text``."""
    run = sglang()
    measured = of(counters()).measured
    run = with_trace(run, measured=measured)
    traced = _twisted(of(run), text)
    assert isinstance(traced, Traced)
    return change(run, traced=traced, remedies=twisted(run.remedies, text))


def hostile() -> Run:
    """Every free text is an attack."""
    return renamed(HOSTILE)


def long_winded() -> Run:
    """Every free text is 5,000 characters without a space."""
    return renamed("x" * 5000)


def nothing() -> Run:
    """A trace in which no step and no kernel was found."""
    return change(
        with_trace(
            with_phases(sglang(), prefill=ABSENT, decode=ABSENT),
            steps=(),
            devices=(),
            timeline=(),
            health=(),
            files=(),
            kernels_total=0,
            gpu_sum_s=0.0,
            kernel_union_s=None,
            gpu_union_s=None,
            span_s=None,
            busy_fraction=None,
            resident_fraction=None,
            graph_launches=0,
            text="",
        ),
        remedies=None,
    )


EVERY = (sglang, only_decode, eager, alarmed, counters, ranks, on_cpu, hostile, long_winded, nothing)
"""All of them, for tests that hold for any trace."""
