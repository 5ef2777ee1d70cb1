"""A command of the user's under Nsight Systems or Nsight Compute, and the report that comes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from phasewise.errors import InputError, Interrupted, UsageError
from phasewise.jobs import trace
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.of_run import OfRun
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.record.capture import Capture, Captured, CapturedFile
from phasewise.record.run import RUNS, Run, claimed, save

Progress = Callable[[str, float], None]
Tool = Literal["nsys", "ncu"]

_CALLED: dict[Tool, str] = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}
_FLAGS: dict[Tool, tuple[str, ...]] = {
    # No sampling, which slows the host; graphs as a whole, whose nodes one by one distort their time; forks followed.
    "nsys": (
        *("profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=graph"),
        *("--trace-fork-before-exec=true", "--force-overwrite=true", "--output"),
    ),
    # A few hundred kernels: each is replayed, and takes a thousand times as long.
    "ncu": (
        *("--target-processes", "all", "--nvtx", "--section", "SpeedOfLight", "--section", "LaunchStats"),
        *("--launch-count", "400", "--force-overwrite", "--export"),
    ),
}
_SUFFIX: dict[Tool, str] = {"nsys": ".nsys-rep", "ncu": ".ncu-rep"}


class Finished(NamedTuple):
    """A run, its folder, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to run under what."""

    tool: Tool
    command: tuple[str, ...]
    subject: Subject = Subject()
    out: Path = RUNS


def launched(options: Options, progress: Progress) -> Finished:
    """Run the command to its end under the profiler and read what that wrote.

    What the command prints goes to standard error: standard output is the report's.

    Raises:
        UsageError: no such tool or command, or nothing came that can be read.
        Interrupted: Ctrl-C or SIGTERM; the command got it too.
    """
    started = time.perf_counter()
    model, machine = options.subject.load_model(), options.subject.load_machine(progress)
    tool = _found(options.tool)
    with claimed(identity(Path(options.command[0]).name), options.out) as folder:
        report = folder / "traces" / f"command{_SUFFIX[options.tool]}"
        report.parent.mkdir()
        progress(f"running the command under {options.tool}", 0.1)
        try:
            code = _run([tool, *_FLAGS[options.tool], str(report.with_suffix("")), *options.command])
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: the command was ended, and no report was read.", stop) from None
        finally:
            if not report.exists():
                report.parent.rmdir()
        if not report.exists():
            raise InputError(
                f"{options.tool} ended with exit code {code} and wrote no report: see what it says above, and "
                f"phasewise capture --print {options.tool}."
            )
        reading = trace.Options(files=(report,), subject=options.subject)
        seen = trace.read(reading, lambda doing, part: progress(doing, 0.5 + 0.5 * part))
        read = trace.judged(seen, OfRun(model, machine), reading, started, folder.name)
        run = _as_capture(read, options, report, folder, started, code)
        unsaved = {"run.json": why_not(lambda: save(run, folder))}
    return Finished(run, folder, 3 if code else 0, {name: why for name, why in unsaved.items() if why})


def _found(tool: Tool) -> str:
    path = shutil.which(tool)
    if path is None:
        raise UsageError(
            f"{tool} is not on the PATH: install NVIDIA {_CALLED[tool]}, or see phasewise capture --print {tool} for "
            "the command to run where it is."
        )
    return path


def _run(command: Sequence[str]) -> int:
    """Run ``command`` to its end; Ctrl-C reaches it as well, and it may end in its own time."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started ({error.strerror or error}): see whether it runs.") from None
    try:
        return child.wait()
    except BaseException:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise


def _as_capture(read: Run, options: Options, report: Path, folder: Path, started: float, code: int) -> Run:
    """``read`` as a run of this command: one trace of everything that it did, told apart by its marks alone."""
    file = CapturedFile(path=str(report.relative_to(folder)), bytes=report.stat().st_size)
    why = "the command was recorded as a whole, and no client timed it"
    return msgspec.structs.replace(
        read,
        envelope=envelope(
            "capture",
            options.command[0],
            started,
            status="partial" if code else read.envelope.status,
            reason=f"the command ended with exit code {code}" if code else read.envelope.reason,
            identity=folder.name,
        ),
        capture=Capture(
            profiler=f"{_CALLED[options.tool]} around the command",
            folder=str(report.parent),
            phases=(Captured(name="mixed", files=(file,), why_null=why),),
        ),
    )
