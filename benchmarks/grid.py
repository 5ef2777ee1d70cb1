"""How many points of a grid phasewise predicts per second: prefill, decode, bounds, gain and what fits, at each.

python benchmarks/grid.py [POINTS]
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from phasewise.hardware import catalogue
from phasewise.model.load import load
from phasewise.predict.grid import grid

SHAPES = {
    "1 format × 1 accelerator": (("bf16",), ("h100-sxm",)),
    "3 formats × 4 accelerators": (("bf16", "fp8", "int4"), ("h100-sxm", "h200-sxm", "a100-sxm-80gb", "mi300x")),
    "6 formats × every accelerator": (("fp32", "bf16", "fp8", "int8", "int4", "nvfp4"), None),
}


LIMIT = 2.0
"""Seconds that a million points may take."""


def main() -> int:
    points = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    print("| model | grid | points | seconds | points/s |\n|---|---|---|---|---|")
    slow = False
    for name in ("llama-3-8b", "gemma-3-1b"):
        for shape, (formats, accelerators) in SHAPES.items():
            models = [load(name, weights=format_) for format_ in formats]
            rows = catalogue.accelerators() if accelerators is None else [catalogue.find(a) for a in accelerators]
            machines = [catalogue.machine(row) for row in rows]
            side = max(1, math.ceil((points / len(models) / len(machines)) ** 0.5))
            lengths, batches = np.geomspace(128, 128_000, side), np.geomspace(1, 1024, side)
            started = time.perf_counter()
            found = grid(models, machines, lengths, batches)
            seconds = time.perf_counter() - started
            print(f"| {name} | {shape} | {found.points:,} | {seconds:.3f} | {found.points / seconds:,.0f} |")
            slow |= seconds > LIMIT * max(1.0, points / 1e6)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
