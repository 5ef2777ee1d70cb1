"""Llama 3 8B's shape in PyTorch on one GPU: both phases measured, profiled and held against their prediction.

    python benchmarks/gpu/run.py --out DIR [--minutes 9]
    python benchmarks/gpu/run.py --out DIR --device cpu --shape tiny

Ceilings first, then what the seed's table needs, PyTorch's profiler and Nsight Compute on each phase, power, the same
shape in transformers, and at last the sweeps: prefill of 128 to 32k tokens, decode at contexts to 32k and batches of 1
to 64, launched one by one and as CUDA graphs. DIR holds results.json and notes.md, written anew after every point, the
traces, ncu's CSV and nvidia-smi's samples. What there was no time for is named, and the exit code is then 3.

It needs torch, transformers, nvidia-ml-py and phasewise; ncu and nvidia-smi are used where they are. It changes no
setting of the card.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from subprocess import SubprocessError
from types import FrameType

import card
import counters
import msgspec
import passes
import predicted
import torch
import traced
from llama import Llama
from notes import Notes
from plan import MODES, PLANS, Mode, Plan, Point

import phasewise
from phasewise.errors import PhasewiseError
from phasewise.mark.clock import clock

_RESERVE = 15.0
"""Seconds left under which nothing more is begun."""

_POWER = 2.0
"""Seconds of each phase that are watched for power, after one that is not: nvidia-smi's figure lags."""


class Stopped(Exception):
    """The time is up, or somebody asks us to end."""


class Bench:
    """One run."""

    def __init__(self, plan: Plan, options: argparse.Namespace) -> None:
        self.plan, self.device, self.out = plan, options.device, options.out
        self.end = time.monotonic() + 60 * options.minutes
        self.seconds = options.ceilings
        self.notes = Notes(self.out)
        self.samples = self.out / "telemetry.csv"
        self.config = self.out / "config.json"
        self.subject: predicted.Subject
        self.model: Llama

    def run(self) -> None:
        """All parts, the worthiest first; a part that fails is named, and the next begins."""
        found = self.notes.found
        found |= {"began": datetime.now(UTC).isoformat(timespec="seconds"), "plan": self.plan._asdict()}
        found["card"] = card.facts(self.device)
        self.config.write_bytes(msgspec.json.encode(self.plan.config))
        self.notes.save()
        self.subject = predicted.subject(self.plan, self.device, self.seconds)
        found["machine"] = msgspec.to_builtins(self.subject.machine)
        found["prediction"] = msgspec.to_builtins(self.subject.prediction(self.plan))
        self.notes.save()
        self.model = Llama(self.plan.config, self.device)
        with card.sampled(self.samples, self.device):
            self.measure(self.plan.of_the_seed())
            for part in (self.traces, self.counters, self.power, self.transformers):
                self.part(part.__name__, part)
            self.measure(self.plan.sweeps())
        found["status"] = "complete"
        self.notes.save()

    def part(self, name: str, do: Callable[[], None]) -> None:
        """Run ``do`` if there is time; what goes wrong in it is its own."""
        self.look()
        print(f"{name} ...", flush=True)
        try:
            do()
        except (RuntimeError, LookupError, ImportError, OSError, SubprocessError, PhasewiseError) as error:
            self.notes.left_out(name, (str(error).strip() or type(error).__name__).splitlines()[0][:300])
        self.free()
        self.notes.save()

    def measure(self, points: list[Point]) -> None:
        """Time each point, launched one by one and as a graph."""
        for point in points:
            for mode in MODES:
                self.look()
                self.point(point, mode)

    def point(self, point: Point, mode: Mode) -> None:
        what = f"{point.phase} of {point.tokens:,} tokens, batch {point.batch}, {mode}"
        why = passes.too_large(self.model, point)
        if mode == "graphs" and self.device != "cuda":
            why = "CUDA graphs need a GPU"
        if why:
            self.notes.left_out(what, why)
            self.notes.save()
            return

        def do() -> None:
            step = passes.eager(self.model, point)
            step = passes.graphs(step) if mode == "graphs" else step
            row = predicted.row(self.subject, point, mode, passes.timed(step, point, clock(self.model)))
            self.notes.found["points"].append(row)
            print(f"{what}: {1000 * row['seconds']['value']:.3f} ms", flush=True)

        self.part(what, do)

    def traces(self) -> None:
        files = traced.record(self.model, self.plan, self.out)
        self.notes.found["traces"] = traced.read(files, self.config, *self.ceilings())

    def counters(self) -> None:
        files, failed = counters.record(self.plan.shape, self.device, self.out)
        for phase, why in failed.items():
            self.notes.left_out(f"counters of {phase}", why)
        for phase, file in files.items():
            document = traced.phasewise_trace([f"--{phase}", file], self.config, *self.ceilings())
            light = document["phases"][phase]["speed_of_light"]
            if isinstance(light, dict):
                self.notes.found.setdefault("counters", {})[phase] = light
            else:
                self.notes.left_out(f"counters of {phase}", f"none in {file.name}")

    def power(self) -> None:
        """Each phase over and over while nvidia-smi watches."""
        if self.device != "cuda":
            raise RuntimeError("nvidia-smi watches a GPU")
        for phase in ("prefill", "decode"):
            step = passes.graphs(passes.eager(self.model, Point(phase, self.plan.prompt, 1)))
            began = card.now()
            while card.now() < began + 1 + _POWER:
                step()
                torch.cuda.synchronize()
            time.sleep(0.3)  # until the last samples are written
            seen = card.between(self.samples, began + 1, began + 1 + _POWER)
            if seen is None:
                raise RuntimeError("nvidia-smi wrote no samples")
            self.notes.found.setdefault("power", {})[phase] = seen

    def transformers(self) -> None:
        """The same shape as users of ``hf:DIR`` run it: transformers' own code, launched one by one."""
        import transformers

        config = transformers.LlamaConfig(**self.plan.config)
        with torch.device(self.device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        with phasewise.instrument(model) as handle:
            profile = handle.profile(prompt_tokens=self.plan.prompt, answer_tokens=min(64, self.plan.answer))
        self.notes.found["transformers"] = str(phasewise.judged(profile)).splitlines()

    def ceilings(self) -> tuple[float, float]:
        """FLOP/s and bytes/s, as measured."""
        roof = self.subject.roofs[0]
        return roof.compute.value, roof.bandwidth.value

    def free(self) -> None:
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def look(self) -> None:
        """Raise when there is no time for more."""
        if time.monotonic() > self.end - _RESERVE:
            raise Stopped("the time was up")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=sorted(PLANS), default="llama-3-8b")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin nothing more after this long")
    parser.add_argument("--ceilings", type=float, default=8.0, metavar="SECONDS", help="for measuring the ceilings")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; a check of the script alone is --device cpu --shape tiny")
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _stop)
    bench = Bench(PLANS[options.shape](), options)
    try:
        with torch.inference_mode():
            bench.run()
    except (Stopped, KeyboardInterrupt) as stop:
        bench.notes.left_out("the rest", str(stop) or "interrupted")
        bench.notes.save()
    print(f"{bench.notes.found['status']}: {options.out / 'notes.md'}")
    return 0 if bench.notes.found["status"] == "complete" else 3


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped("ended by SIGTERM")


if __name__ == "__main__":
    sys.exit(main())
