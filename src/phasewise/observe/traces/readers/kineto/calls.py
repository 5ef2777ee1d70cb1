"""What a CUDA or HIP call did, by its name."""

from __future__ import annotations

import re

from phasewise.observe.traces.events import LaunchKind

_RULES: tuple[tuple[re.Pattern[str], LaunchKind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        # cudaLaunchHostFunc runs a function on the CPU.
        (r"Launch(Host|Callback)", LaunchKind.OTHER),
        (r"GraphLaunch", LaunchKind.GRAPH),
        (r"Stream(Begin|End)Capture", LaunchKind.CAPTURE),
        # cudaLaunchKernel(ExC), cuLaunchKernel(Ex), cuLaunch(Grid), the cooperative ones, hip(Ext)(Module)Launch...
        (r"^(cuda|cu|hip)(Ext|Module|Drv)*Launch", LaunchKind.KERNEL),
        (r"^(cuda|cu|hip)Mem(cpy|set)", LaunchKind.COPY),
        (r"Synchronize", LaunchKind.SYNC),
    )
)


def call_kind(name: str) -> LaunchKind:
    """``cudaLaunchKernelExC`` is KERNEL, ``hipGraphLaunch`` GRAPH, ``cuMemcpyHtoDAsync_v2`` COPY, ..., else OTHER."""
    return next((kind for rule, kind in _RULES if rule.search(name)), LaunchKind.OTHER)
