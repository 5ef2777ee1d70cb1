"""Small Kineto traces made by hand: one launch per kernel, one band around all launches of a step."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Kernel = tuple[str, int, int]
"""Name, start and length in ns since the base of the file."""

KERNELS: tuple[Kernel, ...] = (
    ("gemm_128x128", 5_000_000, 900_001),
    ("rms_norm", 5_900_010, 3_003),
    ("gemv", 7_000_000, 11),
)


def us(ns: int) -> float:
    """µs as the profiler writes them; exact, because these times are small."""
    return ns / 1000


def events(kernels: Sequence[Kernel] = KERNELS, bands: Sequence[Kernel] = (), first: int = 1) -> list[dict[str, Any]]:
    """What the profiler writes for those kernels; each was launched 2 ms before it ran."""
    made: list[dict[str, Any]] = []
    for at, (name, start, length) in enumerate(kernels, first):
        host = {"ph": "X", "pid": 77, "tid": 78}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": us(start - 2_000_000), "dur": us(1_500)}
        device = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": us(start), "dur": us(length)}
        made.append({**host, **call, "args": {"correlation": at, "External id": at}})
        made.append({**device, "args": {"device": 0, "stream": 7, "correlation": at, "External id": at}})
    for name, start, length in bands:
        place = {"ph": "X", "pid": 77, "tid": 78, "cat": "user_annotation"}
        made.append({**place, "name": name, "ts": us(start), "dur": us(length)})
    return made


def write(
    path: Path,
    made: Sequence[dict[str, Any]] | None = None,
    *,
    rank: int | None = None,
    world: int = 2,
    base: int | None = 1_700_000_000_000_000_000,
    gpu: str = "NVIDIA H100 80GB HBM3",
) -> Path:
    """A whole file, gzipped when its name says so."""
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": gpu, "numSms": 132}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    if base is not None:
        head["baseTimeNanoseconds"] = base
    text = json.dumps({**head, "traceEvents": events() if made is None else list(made)}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
