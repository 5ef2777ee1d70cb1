"""A made-up SQLite export of Nsight Systems (schema 3.24), of a given size: the same rows for the same arguments.

    python benchmarks/make_nsys.py OUT.sqlite [--megabytes 500]

A vLLM-like server on one H100: of every 16 steps one is a prefill and 15 are decode; every fourth step replays a CUDA
graph (recorded in node mode: its kernels carry one correlation id), all others launch kernel by kernel. Each step lies
in an ``execute_...`` range of NVTX, within a range of its phase, and holds the ranges of PyTorch's emit_nvtx, one per
operator (``aten::view, op_id = 314290``). At 500 MB: 843,000 kernels and 4.0 million ranges, as many as in the file
that notes on other tools' speed are about.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KERNELS_PER_STEP, BYTES_PER_STEP = 425, 252_000
PID = 297345568735232
TID = PID + 945961
NODE = 7 << 32
"""What a graph's node ids start at: its graph id, 7, in the upper half."""

STRINGS = 64

KERNELS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (int)128, (int)4>>(T10)",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(const T1 *)",
    "void vllm::rms_norm_kernel<c10::BFloat16>(T1 *, const T1 *, const T1 *, float, int, int)",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, (bool)1>(const long *, T1 *, T1 *, const T1 *, int, long, int)",
    "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, (bool)1>(T1 *, const T1 *, int)",
    "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, __nv_bfloat16, __nv_bfloat16, float>(T10)",
)
CALLS = ("cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020")
OPERATORS = (
    "aten::view",
    "aten::empty",
    "aten::as_strided",
    "aten::transpose",
    "aten::linear",
    "aten::matmul",
    "aten::mm",
)

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, memoryBandwidth INTEGER,
    clockRate INTEGER, smCount INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
    globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
    launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
    gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
    blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
    sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER, qmdBulkReleaseDone INTEGER,
    qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER, clusterX INTEGER, clusterY INTEGER,
    clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, maxActiveClusters INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
    callchainId INTEGER);
CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER,
    argumentsId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
    globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
    domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER,
    int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
"""


class Step(NamedTuple):
    """One step: when its CPU band and its first kernel start, and what it is."""

    number: int
    cpu: int
    gpu: int
    kernel: int
    prefill: bool
    graph: bool


def steps(count: int) -> Iterator[Step]:
    """Decode kernels of 6 µs, prefill kernels of 70; the host keeps about 3 ms ahead of the device."""
    at = 1_000_000_000
    for index in range(count):
        prefill, graph = index % 16 == 0, index % 16 != 0 and index % 4 == 1
        kernel = 70_000 if prefill else 6_000
        yield Step(index, at - 3_000_000, at, kernel, prefill, graph)
        at += KERNELS_PER_STEP * (kernel + 900) + 50_000


def correlation(step: Step, kernel: int) -> int:
    """Of a kernel's launch: a graph has one for all of its kernels."""
    return step.number * 1000 + 1 + (0 if step.graph else kernel)


def kernels(step: Step) -> Iterator[tuple[int | None, ...]]:
    for k in range(KERNELS_PER_STEP):
        start = step.gpu + k * (step.kernel + 900)
        length = step.kernel - 400 + (k * 37 + step.number * 11) % 800
        name, node = k % len(KERNELS), NODE + k + 1 if step.graph else None
        yield (
            *(start, start + length, 0, 1, 0, 7, correlation(step, k), PID, name, STRINGS // 2 + name, name, 1, 1, 96),
            *(
                132 if step.prefill else 16,
                1,
                1,
                128,
                1,
                1,
                0,
                49_152,
                0,
                250_871_808,
                step.number * 1000 + k,
                65_536,
                node,
            ),
            *(0, None, None, None, 7 if step.graph else 0, 0, 0, 0, 0, 0, 0),
        )


def launches(step: Step) -> Iterator[tuple[int | None, ...]]:
    for k in range(1 if step.graph else KERNELS_PER_STEP):
        start = step.cpu + 40_000 + k * 6_000
        yield start, start + 4_000, 0, TID, correlation(step, k), 16 + step.graph, 0, None
    start = step.cpu + 2_800_000
    yield start, start + 9_000, 0, TID, step.number * 1000 + 990, 18, 0, None
    yield start + 10_000, start + 90_000, 0, TID, step.number * 1000 + 991, 19, 0, None


def system_calls(step: Step) -> Iterator[tuple[int | None, ...]]:
    """Of other threads: rows that a reader has no use for, as in every recording with --trace=osrt, the default."""
    for k in range(920):
        start = step.cpu + k * 3_000
        yield start, start + 2_000, 27, TID + 1 + k % 4, 19, 0, 0, step.number * 1000 + k, None


def copies(step: Step) -> Iterator[tuple[int, ...]]:
    start = step.gpu + KERNELS_PER_STEP * (step.kernel + 900)
    yield start, start + 2_000, 0, 1, 0, 7, step.number * 1000 + 990, PID, 128, 2


def ranges(step: Step) -> Iterator[tuple[int | str | None, ...]]:
    phase, none = "prefill" if step.prefill else "decode", (None,) * 10
    label = "execute_context_1(2048)_generation_0(0)" if step.prefill else "execute_context_0(0)_generation_32(32)"
    end = step.cpu + 2_950_000
    yield step.cpu, end, 59, None, None, None, phase, TID, None, None, 0, *none[1:]
    yield step.cpu + 5_000, end - 5_000, 59, None, None, None, label, TID, None, None, 0, *none[1:]
    for op in range(2018):
        start = step.cpu + 20_000 + op * 1_300
        text = f"{OPERATORS[op % len(OPERATORS)]}, op_id = {step.number * 2018 + op}"
        yield start, start + 1_000, 59, None, None, None, text, TID, None, None, 0, *none[1:]


def write(path: Path, megabytes: float) -> int:
    """Write the file and return how many steps it holds."""
    path.unlink(missing_ok=True)
    count = max(1, round(megabytes * 1e6 / BYTES_PER_STEP))
    base = sqlite3.connect(path, isolation_level=None)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA + "BEGIN;")
    strings = {**dict(enumerate(KERNELS)), **{16 + i: call for i, call in enumerate(CALLS)}}
    strings.update({STRINGS // 2 + i: f"kernel_{i}" for i in range(len(KERNELS))})
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", strings.items())
    base.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.24.0')")
    base.execute("INSERT INTO META_DATA_CAPTURE VALUES ('CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Node')")
    base.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1785620044423518993, NULL, NULL)")
    base.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100 80GB HBM3', 3352320000000, 1980000000, 132)")
    base.execute("INSERT INTO PROCESSES VALUES (?, 945961, 'python3')", (PID,))
    for table, rows in (
        ("CUPTI_ACTIVITY_KIND_KERNEL", kernels),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", launches),
        ("OSRT_API", system_calls),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", copies),
        ("NVTX_EVENTS", ranges),
    ):
        width = len(next(iter(rows(next(steps(1))))))
        into = f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"
        base.executemany(into, (row for step in steps(count) for row in rows(step)))
    base.execute("COMMIT")
    base.close()
    return count


def main() -> None:
    """Write a file and say what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=500.0)
    args = parser.parse_args()
    count = write(args.out, args.megabytes)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:,.0f} MB, {count} steps, {count * KERNELS_PER_STEP:,} kernels")


if __name__ == "__main__":
    main()
