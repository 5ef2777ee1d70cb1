"""PyTorch's profiler on each phase alone, and what `phasewise trace` reads from its files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from llama import Llama, lengths
from passes import eager, graphs
from plan import Plan, Point
from torch.profiler import ProfilerActivity

import phasewise

PASSES = {"prefill": 2, "decode": 4}
"""Traced passes: few, so that the files stay small."""


def record(model: Llama, plan: Plan, folder: Path) -> dict[str, Path]:
    """Record prefill, decode, and decode replayed as a CUDA graph where there is a GPU; the files by name."""
    prefill, decode = Point("prefill", plan.prompt, 1), Point("decode", plan.prompt, 1)
    on_gpu = model.device.type == "cuda"
    found = {"prefill": folder / "prefill.json.gz", "decode": folder / "decode.json.gz"}
    with phasewise.instrument(model, lengths=lengths):
        _recorded(eager(model, prefill), PASSES["prefill"], found["prefill"], on_gpu=on_gpu)
        _recorded(eager(model, decode), PASSES["decode"], found["decode"], on_gpu=on_gpu)
    if on_gpu:
        found["decode_graphs"] = folder / "decode_graphs.json.gz"
        replay = graphs(eager(model, decode))

        context = plan.prompt + 1

        def marked() -> None:  # a replay is no forward, so that instrument does not see it
            with phasewise.phase("decode", requests=1, tokens=1, context=context, squares=1, products=context):
                replay()

        _recorded(marked, PASSES["decode"], found["decode_graphs"], on_gpu=on_gpu)
    return found


def _recorded(step: Callable[[], Any], passes: int, path: Path, *, on_gpu: bool) -> None:
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    step()
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(passes):
            step()
        if on_gpu:
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def read(files: dict[str, Path], config: Path, peak: float, bandwidth: float) -> dict[str, Any]:
    """``phasewise trace --json`` on prefill beside decode, and on decode in graphs: what the table needs of it."""
    found = phasewise_trace(["--prefill", files["prefill"], "--decode", files["decode"]], config, peak, bandwidth)
    told = {name: _told(found, name) for name in ("prefill", "decode")}
    if "decode_graphs" in files:
        found = phasewise_trace(["--decode", files["decode_graphs"]], config, peak, bandwidth)
        told["decode_graphs"] = _told(found, "decode")
    return told


def _told(document: dict[str, Any], phase: str) -> dict[str, Any]:
    one = document["phases"][phase]
    kept = ("steps", "kernels_per_step", "gpu_time_s", "busy_fraction", "bound", "called", "mfu", "mbu", "step_s")
    return {
        **{name: one.get(name) for name in (*kept, "floor_s", "attention_share", "attention_share_predicted")},
        "families": {name: family["share"] for name, family in one["families"].items()},
        "graph_launches": sum(step["graph_launches"] for step in document["steps"] if step["phase"] == phase),
        "labels": sorted({step["label"] for step in document["steps"] if step["phase"] == phase}),
    }


def phasewise_trace(arguments: list[Any], config: Path, peak: float, bandwidth: float) -> dict[str, Any]:
    """What ``phasewise trace ARGUMENTS --json`` says under these ceilings.

    Raises:
        RuntimeError: what it complains of.
    """
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-c", "from phasewise.cli import main; main()", "trace", *map(str, arguments)]
        command += ["--model", str(config), "--peak", f"{peak!r}FLOP/s", "--bandwidth", f"{bandwidth!r}B/s"]
        done = subprocess.run([*command, "--json", "--out", runs], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr.strip() or f"phasewise trace ended with {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
