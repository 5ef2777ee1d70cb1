"""`phasewise trace` on made-up traces of any size: seconds, memory, and counts against those that were written.

    python benchmarks/traces.py [--kind kineto nsys] [--mb 50 500 2000] [--peers] [--folder DIR] [--repeat N]

Writes each trace, runs the whole command in a process of its own and prints a line: wall and processor seconds, peak
resident memory of it and its children, and for Kineto how many times the processor time of typed decoding of that JSON.
With --peers, other tools read the same files where they are installed. Exit code 1 when a count is wrong, or when
500 MB take more than 6 s, 1 GB (Kineto) or 500 MB (Nsight Systems).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import make_kineto
import make_nsys
import psutil

SECONDS = 6.0
"""What 500 MB may take."""

PHASEWISE = (sys.executable, "-c", "from phasewise.cli import main; main()", "trace")

DECODE = """
import sys, time, msgspec
class Event(msgspec.Struct, gc=False):
    ph: str = ""; cat: str = ""; name: str = ""; pid: int | str = 0; tid: int | str = 0
    ts: float = 0.0; dur: float = 0.0; args: msgspec.Raw = msgspec.Raw(b"")
class Trace(msgspec.Struct, gc=False):
    traceEvents: list[Event]
decoder = msgspec.json.Decoder(Trace)
data = open(sys.argv[1], "rb").read()
started = time.process_time()
decoder.decode(data)
print(time.process_time() - started)
"""
"""Typed decoding of the whole file into one list of objects: what any reader of this JSON has to do at least."""


class Kind(NamedTuple):
    """A kind of trace: the end of its name, how it is made (which gives its kernels), bytes that 500 MB may take."""

    suffix: str
    make: Callable[[Path, float], int]
    memory: float


class Run(NamedTuple):
    """A command: wall and processor seconds, peak resident bytes with its children, exit code, what it printed."""

    seconds: float
    cpu: float
    memory: float
    code: int
    out: str
    errors: str


def kineto(path: Path, megabytes: float) -> int:
    written = make_kineto.write(path, megabytes)
    return written.decode_kernels + written.mixed_kernels


def nsys(path: Path, megabytes: float) -> int:
    return make_nsys.write(path, megabytes) * make_nsys.KERNELS_PER_STEP


KINDS = {"kineto": Kind(".json", kineto, 1e9), "nsys": Kind(".sqlite", nsys, 500e6)}

HTA = """
import os, shutil, sys, tempfile
from hta.trace_analysis import TraceAnalysis
with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.abspath(sys.argv[1]), os.path.join(folder, "rank0.json"))
    trace = TraceAnalysis(trace_files={0: os.path.join(folder, "rank0.json")}, trace_dir=folder)
    trace.get_temporal_breakdown(visualize=False)
    trace.get_gpu_kernel_breakdown(visualize=False)
    trace.get_idle_time_breakdown(visualize=False)
    trace.get_cuda_kernel_launch_stats(visualize=False)
"""

PEERS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "kineto": (
        ("HTA, 4 analyses", "pip install HolisticTraceAnalysis", (sys.executable, "-c", HTA)),
        (
            "TraceLens split",
            "pip install git+https://github.com/AMD-AGI/TraceLens",
            ("TraceLens_split_inference_trace", "-o", "{folder}"),
        ),
    ),
    "nsys": (("nsys-ai diagnose", "pip install nsys-ai", ("nsys-ai", "diagnose", "--format", "json")),),
}
"""Name, how to install it, the command; the file comes last. Each gets a copy: nsys-ai writes into its input."""


def measured(command: Sequence[str], folder: Path) -> Run:
    """Runs ``command`` in ``folder`` and watches the memory of its process tree."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=folder)
        watched, most = psutil.Process(process.pid), 0
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            most = max(most, _resident(watched))
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        largest = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Run(
            seconds,
            usage.ru_utime + usage.ru_stime,
            max(most, largest),
            process.returncode,
            out.read().decode(),
            errors.read().decode(),
        )


def _resident(process: psutil.Process) -> int:
    try:
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def phasewise(path: Path, folder: Path, kernels: int, kind: Kind) -> bool:
    """One line on our own command; whether it held."""
    flags = ["--model", "gpt-oss-120b", "--on", "mi300x", "--json", "--out", str(folder / "runs")]
    run = measured([*PHASEWISE, str(path), *flags], folder)
    if run.code not in (0, 3):
        print(f"phasewise failed on {path.name}: exit code {run.code}, {run.errors.strip()[-200:]}")
        return False
    document: dict[str, Any] = json.loads(run.out)
    exact = document["kernels_total"] == kernels
    small = run.seconds < SECONDS and run.memory < kind.memory
    against = f"{run.cpu / _decoding(path, folder):.1f}" if kind is KINDS["kineto"] else ""
    phases = ", ".join(f"{name} {phase['steps']:,}" for name, phase in document["phases"].items() if phase["steps"])
    _line(
        "phasewise trace", path, run, against, f"{kernels:,} kernels {'exact' if exact else 'WRONG'}; steps: {phases}"
    )
    return exact and (small or path.stat().st_size > 550e6)


def _decoding(path: Path, folder: Path) -> float:
    return float(measured([sys.executable, "-c", DECODE, str(path)], folder).out)


def peers(name: str, path: Path, folder: Path) -> None:
    """One line for each other tool."""
    for title, install, command in PEERS[name]:
        if not _installed(command):
            print(f"{title:<18}not installed: {install}")
            continue
        copy = folder / f"copy{path.suffix}"
        shutil.copyfile(path, copy)
        run = measured([*(part.replace("{folder}", str(folder)) for part in command), str(copy)], folder)
        _line(title, path, run, "", "" if run.code == 0 else f"exit code {run.code}")
        copy.unlink()


def _installed(command: tuple[str, ...]) -> bool:
    if command[0] == sys.executable:
        return subprocess.run([sys.executable, "-c", "import hta"], stderr=subprocess.DEVNULL).returncode == 0
    return shutil.which(command[0]) is not None


def _line(title: str, path: Path, run: Run, against: str, more: str) -> None:
    size = path.stat().st_size / 1e6
    figures = f"{size:>8,.0f}{run.seconds:>9.1f}{run.cpu:>7.1f}{run.memory / 1e6:>9,.0f}{against:>9}"
    print(f"{title:<18}{path.name:<14}{figures}  {more}", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    options.add_argument("--mb", nargs="+", type=float, default=[50, 500])
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--peers", action="store_true", help="Run other tools too.")
    options.add_argument("--repeat", type=int, default=1, help="Runs of each.")
    given = options.parse_args()
    held = True
    print(f"{'tool':<18}{'trace':<14}{'MB':>8}{'seconds':>9}{'cpu s':>7}{'peak MB':>9}{'×decode':>9}")
    for name in given.kind:
        for megabytes in given.mb:
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                path = Path(folder) / f"{name}{megabytes:.0f}{KINDS[name].suffix}"
                kernels = KINDS[name].make(path, megabytes)
                for _ in range(given.repeat):
                    held &= phasewise(path, Path(folder), kernels, KINDS[name])
                if given.peers:
                    peers(name, path, Path(folder))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
