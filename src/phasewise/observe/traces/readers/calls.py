"""What a CUDA or HIP call, or a copy on the device, did, by its name, in Kineto's and in AMD's files.

Nsight Systems' have a table of their own (`nsys_names`): there the making of a graph counts as capturing too.
"""

from __future__ import annotations

import re
from functools import lru_cache

from phasewise.observe.traces.events import CopyKind, LaunchKind

_CALLS: tuple[tuple[re.Pattern[str], LaunchKind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        # cudaLaunchHostFunc runs a function on the CPU.
        (r"Launch(Host|Callback)", LaunchKind.OTHER),
        (r"^(cuda|cu|hip)GraphLaunch", LaunchKind.GRAPH),
        (r"Stream(Begin|End)Capture", LaunchKind.CAPTURE),
        # cudaLaunchKernel(ExC), cuLaunchKernel(Ex), cuLaunch(Grid), hip(Ext)(Module)Launch..., the cooperative ones.
        (r"^(cuda|cu|hip)(Ext|Module|Drv|Hcc)*Launch", LaunchKind.KERNEL),
        (r"^(cuda|cu|hip)(Drv)?Mem(cpy|set)", LaunchKind.COPY),
        (r"Synchronize", LaunchKind.SYNC),
    )
)

_WAYS = (
    (("MEMSET", "FILL"), CopyKind.SET),
    (("HTOD", "HOSTTODEVICE", "HOST_TO_DEVICE"), CopyKind.HOST_TO_DEVICE),
    (("DTOH", "DEVICETOHOST", "DEVICE_TO_HOST"), CopyKind.DEVICE_TO_HOST),
    (("DTOD", "DEVICETODEVICE", "DEVICE_TO_DEVICE"), CopyKind.DEVICE_TO_DEVICE),
    (("PTOP", "PEER"), CopyKind.PEER),
)


@lru_cache(maxsize=4096)
def call_kind(name: str) -> LaunchKind:
    """``cudaLaunchKernelExC`` is KERNEL, ``hipGraphLaunch`` GRAPH, ``cuMemcpyHtoDAsync_v2`` COPY, ..., else OTHER."""
    return next((kind for rule, kind in _CALLS if rule.search(name)), LaunchKind.OTHER)


def copy_kind(name: str) -> CopyKind:
    """``Memcpy HtoD (Pinned -> Device)``, rocprofv3's ``MEMORY_COPY_HOST_TO_DEVICE`` and rpd's ``CopyHostToDevice`` are
    HOST_TO_DEVICE, ``Memset (Device)`` is SET, ..., else OTHER."""
    said = name.upper()
    return next((kind for words, kind in _WAYS if any(word in said for word in words)), CopyKind.OTHER)
