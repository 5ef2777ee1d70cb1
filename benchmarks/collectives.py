"""Derive the latencies of phasewise.predict.parallel.link from measured tables, and print how.

    python benchmarks/collectives.py [../shared/data/measured/kernels]

A latency is the median over messages of at most 1,024 elements (2 KiB in 16 bit), where the time no longer depends on
the size. Beside it the script prints how the whole tables compare with latency + bytes / rate: a floor may not exceed
what was measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import duckdb

from phasewise.predict.parallel.link import NVLINK3, NVLINK4, Kind, Latencies

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "measured" / "kernels"
SMALL = 1024
"""Elements up to which a message counts as one of no size."""

Table = list[tuple[int, float]]
"""Elements of a message, and seconds."""

MACHINES: tuple[tuple[str, Latencies, float, str, str], ...] = (
    ("a100_sxm", NVLINK3, 300e9, "vllm-0.14.0/custom_allreduce_perf.parquet", "nccl-2.27.3/nccl_perf.parquet"),
    ("h100_sxm", NVLINK4, 450e9, "vllm-0.24.0/custom_allreduce_perf.parquet", "nccl-2.29.2/nccl_perf.parquet"),
)
KINDS: dict[Kind, str] = {
    "all-reduce": "num_gpus = {n} AND backend = 'vllm_graph'",
    "all-gather": "num_gpus = {n} AND op_name = 'all_gather' AND nccl_dtype = 'half'",
    "reduce-scatter": "num_gpus = {n} AND op_name = 'reduce_scatter' AND nccl_dtype = 'half'",
    "all-to-all": "num_gpus = {n} AND op_name = 'alltoall' AND nccl_dtype = 'half'",
}


def measured(folder: Path, machine: int, kind: Kind, devices: int) -> Table:
    """The rows of one collective, smallest message first."""
    name, _, _, custom, nccl = MACHINES[machine]
    file = folder / name / (custom if kind == "all-reduce" else nccl)
    asked = KINDS[kind].format(n=devices)
    with duckdb.connect() as base:
        rows = base.execute(
            f"SELECT message_size, latency / 1e3 FROM '{file}' WHERE {asked} ORDER BY message_size"
        ).fetchall()
    return [(int(size), float(seconds)) for size, seconds in rows]


def latency(table: Table) -> float:
    """Seconds of a message of no size."""
    return median(seconds for size, seconds in table if size <= SMALL)


def main(folder: Path) -> None:
    print(f"Latency: median over messages of at most {SMALL} elements, in µs; then predicted over measured, by size.")
    for machine, (name, constants, rate, *_) in enumerate(MACHINES):
        for kind in KINDS:
            for devices in (2, 4, 8):
                table = measured(folder, machine, kind, devices)
                found, kept = latency(table), constants[kind][devices]
                ways = 2 if kind == "all-reduce" else 1
                ratios = [
                    (size, (kept + ways * (devices - 1) / devices * 2 * size / rate) / seconds)
                    for size, seconds in table
                    if size in (4096, 2**16, 2**20, 2**24, 2**28)
                ]
                by_size = ", ".join(f"{2 * size / 1024:,.0f} KiB {ratio:.2f}" for size, ratio in ratios)
                print(f"{name} {kind} of {devices}: {found * 1e6:.2f} (in use {kept * 1e6:.2f}); {by_size}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
