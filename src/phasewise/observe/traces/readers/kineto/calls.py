"""What a CUDA or HIP call, or a copy on the device, did, by its name."""

from __future__ import annotations

import re

from phasewise.observe.traces.events import CopyKind, LaunchKind

_CALLS: tuple[tuple[re.Pattern[str], LaunchKind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        # cudaLaunchHostFunc runs a function on the CPU.
        (r"Launch(Host|Callback)", LaunchKind.OTHER),
        (r"^(cuda|cu|hip)GraphLaunch", LaunchKind.GRAPH),
        (r"Stream(Begin|End)Capture", LaunchKind.CAPTURE),
        # cudaLaunchKernel(ExC), cuLaunchKernel(Ex), cuLaunch(Grid), hip(Ext)(Module)Launch..., the cooperative ones.
        (r"^(cuda|cu|hip)(Ext|Module|Drv)*Launch", LaunchKind.KERNEL),
        (r"^(cuda|cu|hip)Mem(cpy|set)", LaunchKind.COPY),
        (r"Synchronize", LaunchKind.SYNC),
    )
)

_COPIES: tuple[tuple[re.Pattern[str], CopyKind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(?i)memset|fill", CopyKind.SET),
        (r"HtoD|HostToDevice", CopyKind.HOST_TO_DEVICE),
        (r"DtoH|DeviceToHost", CopyKind.DEVICE_TO_HOST),
        (r"DtoD|DeviceToDevice", CopyKind.DEVICE_TO_DEVICE),
        (r"PtoP|Peer", CopyKind.PEER),
    )
)


def call_kind(name: str) -> LaunchKind:
    """``cudaLaunchKernelExC`` is KERNEL, ``hipGraphLaunch`` GRAPH, ``cuMemcpyHtoDAsync_v2`` COPY, ..., else OTHER."""
    return next((kind for rule, kind in _CALLS if rule.search(name)), LaunchKind.OTHER)


def copy_kind(name: str) -> CopyKind:
    """``Memcpy HtoD (Pinned -> Device)`` is HOST_TO_DEVICE, ``Memset (Device)`` SET, ..., else OTHER."""
    return next((kind for rule, kind in _COPIES if rule.search(name)), CopyKind.OTHER)
