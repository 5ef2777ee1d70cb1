"""Traces planted call by call, together with the step that every kernel was planted in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import (
    Bands,
    Copies,
    CopyKind,
    Kernels,
    Launches,
    LaunchKind,
    Ops,
    Replays,
    Source,
    Thread,
    Trace,
)

US = 1000
ATTENTION = {
    "prefill": "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>, false, true>(Params)",
    "decode": "void paged_attention_v1_kernel<bf16, 128>(float*)",
    "either": "kernel_unified_attention_2d",
}
GEMM = {"prefill": "ampere_bf16_s16816gemm_bf16_256x128_ldg8_stages_32x3_tn", "decode": "void gemvx::kernel<int>(bf16)"}
KV = "void vllm::reshape_and_cache_flash_kernel<bf16>(bf16*)"
EMBED, SAMPLE = (
    "void vectorized_gather_kernel<16, long>(char*)",
    "reduce_kernel<512, 1, ReduceOp<float, ArgMaxOps<float>>>",
)


@dataclass
class Planted:
    """One rank of a trace; times in µs. ``truth`` is the step planted for each kernel, in the order of planting."""

    rank: int = 0
    names: tables.Names = field(default_factory=tables.Names)
    shapes: tables.Names = field(default_factory=tables.Names)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    truth: list[int] = field(default_factory=list)
    gpu: float = 0.0
    correlation: int = 100

    def call(
        self,
        at: float,
        kernels: list[tuple[str, float]],
        step: int,
        *,
        thread: int = 0,
        stream: int = 7,
        lag: float = 5.0,
        graph: bool = False,
        recorded: bool = True,
    ) -> None:
        """A launch at ``at`` and its kernels, which start ``lag`` later or when the stream is free."""
        self.correlation += 1
        if recorded:
            kind = LaunchKind.GRAPH if graph else LaunchKind.KERNEL
            name = self.names("cudaGraphLaunch" if graph else "cudaLaunchKernel")
            self._row("launches", at, at + 2, name=name, thread=thread, correlation=self.correlation, kind=kind)
        begin = max(self.gpu, at + lag)
        for kernel, length in kernels:
            self._row(
                "kernels",
                begin,
                begin + length,
                name=self.names(kernel),
                device=0,
                stream=stream,
                correlation=self.correlation,
                node=int(graph),
            )
            self.truth.append(step)
            begin += length
        if stream == 7:
            self.gpu = begin

    def replay(self, at: float, length: float, graph: int) -> None:
        self.correlation += 1
        self._row(
            "launches", at, at + 2, name=self.names("cudaGraphLaunch"), thread=0, correlation=self.correlation, kind=1
        )
        self._row("replays", at + 5, at + 5 + length, device=0, stream=7, correlation=self.correlation, graph=graph)

    def copy(self, at: float, length: float = 1.0) -> None:
        self.correlation += 1
        self._row(
            "launches",
            at,
            at + length,
            name=self.names("cudaMemcpyAsync"),
            thread=0,
            correlation=self.correlation,
            kind=2,
        )
        begin = max(self.gpu, at)
        kind = CopyKind.DEVICE_TO_HOST
        self._row("copies", begin, begin + length, device=0, stream=7, correlation=self.correlation, kind=kind, bytes=4)

    def band(self, name: str, start: float, end: float, thread: int = 0) -> None:
        self._row("bands", start, end, name=self.names(name), thread=thread)

    def op(self, name: str, start: float, end: float, shape: str = "", thread: int = 0) -> None:
        index = self.shapes(shape) if shape else -1
        self._row(
            "ops", start, end, name=self.names(name), thread=thread, shape=index, external=len(self.rows["ops"]) + 1
        )

    def _row(self, table: str, start: float, end: float, **columns: Any) -> None:
        times = {"start": round(start * US), "end": round(end * US), "rank": self.rank}
        self.rows[table].append(times | columns)

    def trace(self) -> Trace:
        return together(self)


_KINDS: dict[str, Any] = {
    "kernels": Kernels,
    "copies": Copies,
    "replays": Replays,
    "launches": Launches,
    "bands": Bands,
    "ops": Ops,
}


def together(*ranks: Planted, processes: int = 1) -> Trace:
    """The trace of several ranks that share their names; ten threads a rank, in ``processes`` processes."""
    made = {}
    shapes = tables.Names()
    for one in ranks:
        for row in one.rows["ops"]:
            if row.get("shape", -1) >= 0:
                row["shape"] = shapes(one.shapes.all[row["shape"]])
    for kind, table in _KINDS.items():
        rows = [row for one in ranks for row in one.rows[kind]]
        said = {name for row in rows for name in row}
        columns = {name: np.array([row.get(name, -1) for row in rows]) for name in said} if rows else None
        made[kind] = tables.table(table, columns)
        if "thread" in table._fields:
            shifted = made[kind].thread + 10 * made[kind].rank
            made[kind] = made[kind]._replace(thread=shifted.astype(np.int32))
    threads = tuple(Thread(r, f"{r}.{t % processes}", f"{r}.{t}") for r in range(len(ranks)) for t in range(10))
    sources = (Source(f"rank{rank}", "planted") for rank in range(len(ranks)))
    return tables.empty(*sources)._replace(names=ranks[0].names.all, shapes=shapes.all, threads=threads, **made)


def model_pass(
    planted: Planted,
    at: float,
    phase: str,
    step: int,
    *,
    layers: int = 6,
    graph: bool = False,
    attention: str = "",
    pause: float = 40.0,
) -> float:
    """One pass of a model from ``at``: input copy, embedding, layers, logits, sampling. Returns the next pass's time.

    Kernels of a prefill take 100 µs, those of a decode step 4: the device falls behind the host, as it does.
    """
    length = 100.0 if phase == "prefill" else 4.0
    gemm = GEMM[phase]
    layer = ["rms_norm_kernel", gemm, KV, attention or ATTENTION[phase], gemm, "act_and_mul_kernel", gemm]
    planted.copy(at)
    now = at + 3
    body = [EMBED, *(layer * layers)]
    if graph:
        planted.call(now, [(name, length) for name in body], step, graph=True)
        now += 10
    else:
        for name in body:
            planted.call(now, [(name, length)], step)
            now += 6
    for name in (gemm, SAMPLE):
        planted.call(now, [(name, length)], step)
        now += 6
    return now + pause


def engine(phases: list[str], *, bands: bool = True, graph: bool = False, rank: int = 0, **options: Any) -> Planted:
    """An engine that runs ``phases`` in turn, each in a vLLM-like band if ``bands``, decode as a graph if ``graph``."""
    planted = Planted(rank=rank, **{key: options.pop(key) for key in ("names",) if key in options})
    now = 10.0
    for step, phase in enumerate(phases):
        done = model_pass(planted, now, phase, step, graph=graph and phase == "decode", **options)
        if bands:
            counts = (
                "execute_context_1(512)_generation_0(0)"
                if phase == "prefill"
                else "execute_context_0(0)_generation_3(3)"
            )
            planted.band(counts, now - 1, done - options.get("pause", 40.0))
        now = done
    return planted
