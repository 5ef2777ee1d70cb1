"""Nsight Compute on both phases: Speed Of Light of the kernels of one layer, read by `phasewise trace`.

``python counters.py PHASE SHAPE DEVICE`` is the program that ncu runs: one pass of a model of one layer, whose kernels
are those of every layer, between cudaProfilerStart and cudaProfilerStop.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import torch
from llama import Llama
from passes import eager
from plan import PLANS, Point

_SECONDS = 150.0
"""For one phase, the start of PyTorch under ncu included."""


def command(ncu: str, phase: str, shape: str, device: str, out: Path) -> list[str]:
    """How ncu is called: clocks left alone, only the marked pass replayed, a CSV with a row per kernel."""
    options = ["--profile-from-start", "off", "--clock-control", "none", "--section", "SpeedOfLight"]
    shown = ["--section", "LaunchStats", "--csv", "--page", "raw", "--log-file", str(out)]
    return [ncu, *options, *shown, sys.executable, str(Path(__file__).resolve()), phase, shape, device]


def record(shape: str, device: str, folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The CSV of each phase that ncu could count, and why not for the others."""
    ncu = shutil.which("ncu")
    if device != "cuda" or ncu is None:
        why = "ncu is not installed" if device == "cuda" else "ncu counts on a GPU"
        return {}, dict.fromkeys(("prefill", "decode"), why)
    found: dict[str, Path] = {}
    failed: dict[str, str] = {}
    for phase in ("prefill", "decode"):
        out = folder / f"ncu_{phase}.csv"
        try:
            done = subprocess.run(
                command(ncu, phase, shape, device, out), capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            failed[phase] = f"ncu took over {_SECONDS:.0f} s"
            continue
        if done.returncode == 0 and out.exists():
            found[phase] = out
        else:
            said = [*(out.read_text(errors="replace").splitlines() if out.exists() else []), *done.stderr.splitlines()]
            failed[phase] = " ".join(line for line in said if "==ERROR==" in line)[:300] or "ncu failed"
    return found, failed


def main() -> None:
    phase, shape, device = sys.argv[1:]
    plan = PLANS[shape]()
    with torch.inference_mode():
        step = eager(Llama(plan.config, device, layers=1), Point(phase, plan.prompt, 1))  # type: ignore[arg-type]
        for _ in range(2):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
