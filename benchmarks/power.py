"""What sampling power beside a measurement costs the client's timing: the same requests with and without it.

The simulated server sends on planted times; its log says when it wrote each first token. The client's error is TTFT as
the client saw it less that. The fake NVML of the tests answers the sampler, so that it has as much to do as with eight
GPUs, except for what a driver takes.

    python benchmarks/power.py [--requests 200] [--rounds 6] [--gpus 8]

It fails when sampling makes the median TTFT more than 1.02 times, or its p95 more than 1.05 times, what it is without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests")]

import nvml_fake  # noqa: E402
from phasewise.engines import openai  # noqa: E402
from phasewise.hardware.power.sampler import Sampler  # noqa: E402

MEDIAN, P95 = 1.02, 1.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--gpus", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        busy = nvml_fake.ROW | {"power_w": 431.0, "gpu_pct": 100}
        gpus = [nvml_fake.gpu(rows=[busy], uuid=f"GPU-{i}") for i in range(asked.gpus)]
        nvml_fake.write(Path(folder) / "state.json", nvml_fake.state(*gpus))
        os.environ.update(nvml_fake.environment(Path(folder) / "state.json"))
        command = [sys.executable, "-c", "from phasewise.cli import main; main()", "simulate", "--for", "600s"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split(" at ")[1].split()[0]
            return compare(url, asked.requests, asked.rounds)
        finally:
            server.kill()
            server.communicate()


def compare(url: str, requests: int, rounds: int) -> int:
    """Rounds with and without sampling in turns, so that a drifting machine favours neither."""
    engine = openai.connect(url)
    times: dict[bool, list[float]] = {False: [], True: []}
    readings = 0
    cpu = 0.0
    for number in range(2 * rounds):
        sampled = number % 2 == 1
        if sampled:
            with Sampler() as sampler:
                assert sampler.devices, "the fake NVML is not found"
                before = time.perf_counter()
                times[True] += ask(engine, requests // rounds)
                took = time.perf_counter() - before
                cpu += used(sampler) / took
                readings += len(sampler.stop().readings)
        else:
            times[False] += ask(engine, requests // rounds)
    engine.close()
    found = {kind: (statistics.median(seen), statistics.quantiles(seen, n=20)[-1]) for kind, seen in times.items()}
    print("| sampling | TTFT, median | p95 |\n|---|---|---|")
    for kind, (middle, high) in found.items():
        print(f"| {'every 50 ms' if kind else 'none'} | {middle * 1e3:.3f} ms | {high * 1e3:.3f} ms |")
    ratios = found[True][0] / found[False][0], found[True][1] / found[False][1]
    print(f"\nratios {ratios[0]:.4f} (median), {ratios[1]:.4f} (p95)")
    print(f"{readings:,} readings; the sampler took {cpu / rounds:.1%} of a core")
    return int(ratios[0] > MEDIAN or ratios[1] > P95)


def ask(engine: openai.OpenAIServer, requests: int) -> list[float]:
    return [engine.ask(engine.prompt(100), 8).ttft for _ in range(requests)]


def used(sampler: Sampler) -> float:
    """CPU seconds of the sampling process so far."""
    import psutil

    (child,) = [one for one in psutil.Process().children() if "sampling" in " ".join(one.cmdline())]
    return sum(child.cpu_times()[:2])


if __name__ == "__main__":
    sys.exit(main())
