"""What launching kernels costs the host: the one place for these constants, all of them assumed."""

from __future__ import annotations

from phasewise.model.model import Model

KERNELS_PER_LAYER = 10
"""Norm, QKV, RoPE, KV write, attention, output, norm, gate and up, activation, down."""

LAUNCH_S, SLOW_LAUNCH_S = 5e-6, 20e-6
"""Seconds of host time a launch: 5 to 20 µs in public reports (paiml/realizar#36, trueno#238)."""

COLLECTIVE_S = 20e-6
"""Seconds of host time of a collective that is launched by itself: 20.6 to 23.2 µs on H100, 44 µs on A100 (the eager
rows of custom_allreduce_perf.parquet, ai-dynamo/aiconfigurator)."""

GRAPH_S = 10e-6
"""Seconds of host time of one graph launch (about 10 µs: paiml/realizar#36)."""


def launches(model: Model) -> int:
    """Kernels of a pass through all layers, launched one by one."""
    return KERNELS_PER_LAYER * model.architecture.layers


def host_s(model: Model, collectives: float = 0.0, *, each: float = LAUNCH_S) -> float:
    """Seconds that the host takes to launch a pass kernel by kernel."""
    return launches(model) * each + collectives * COLLECTIVE_S
