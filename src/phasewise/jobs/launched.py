"""A command of the user's under Nsight Systems or Nsight Compute, by the recipe for one's own code, and its reports."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from phasewise.engines.recipes import recipe
from phasewise.errors import InputError, Interrupted, UsageError
from phasewise.jobs import trace
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.of_run import OfRun
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.record.capture import Capture, Captured, CapturedFile, CapturedName
from phasewise.record.run import RUNS, Run, claimed, save

Progress = Callable[[str, float], None]
Tool = Literal["nsys", "ncu"]

_CALLED: dict[Tool, str] = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}
_SUFFIX: dict[Tool, str] = {"nsys": ".nsys-rep", "ncu": ".ncu-rep"}

_RECORDED: dict[Tool, tuple[CapturedName, ...]] = {"nsys": ("mixed",), "ncu": ("prefill", "decode")}
"""What each of the recipe's commands records: nsys everything in one run, with graphs as a whole, as its first command
does; ncu, which replays kernels, one phase a run."""

_PROGRAM, _OUTPUT = ("python", "your_program.py"), "phasewise-"
"""What the recipe's command runs, and how the names of its reports begin."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to run under what."""

    tool: Tool
    command: tuple[str, ...]
    subject: Subject = Subject()
    out: Path = RUNS


class Finished(NamedTuple):
    """A run, its folder, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


def launched(options: Options, progress: Progress) -> Finished:
    """Run the command to its end under the profiler, once for each report, and read what that wrote.

    What the command prints goes to standard error: standard output is the report's.

    Raises:
        UsageError: no such tool or command, or nothing came that can be read.
        Interrupted: Ctrl-C or SIGTERM; the command is ended.
    """
    started = time.perf_counter()
    subject = OfRun(options.subject.load_model(), options.subject.load_machine(progress))
    if shutil.which(options.tool) is None:
        raise UsageError(
            f"{options.tool} is not on the PATH: install NVIDIA {_CALLED[options.tool]}, or take the command to where "
            f"it is: phasewise capture --print {options.tool} --engine own."
        )
    with claimed(identity(Path(options.command[0]).name), options.out) as folder:
        try:
            reports, code = _reports(options, folder / "traces", progress)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: the command was ended, and no report was read.", stop) from None
        if not reports and (raw := sorted((folder / "traces").glob("*.qdstrm"))):
            raise InputError(
                f"{options.tool} recorded {raw[0]} and found no importer to make a report of it: QdstrmImporter -i "
                f"{shlex.quote(str(raw[0]))}, of Nsight Systems' host folder, then phasewise trace on what that writes."
            )
        if not reports:
            raise InputError(
                f"{options.tool} ended with exit code {code} and wrote no report: see what it said above, and what to "
                f"do about an empty trace in phasewise capture --print {options.tool} --engine own."
            )
        reading = trace.Options(
            files=reports.get("mixed", ()), prefill=reports.get("prefill", ()), decode=reports.get("decode", ())
        )
        seen = trace.read_steps(reading, lambda doing, part: progress(doing, 0.5 + 0.5 * part))
        read = trace.judged(seen, subject, reading, started, folder.name)
        run = _as_capture(read, options, reports, folder, started, code)
        unsaved = {"run.json": why_not(lambda: save(run, folder))}
    return Finished(run, folder, 3 if code else 0, {name: why for name, why in unsaved.items() if why})


def command_line(tool: Tool, name: CapturedName, command: Sequence[str], folder: Path) -> tuple[list[str], Path]:
    """The recipe's command for ``name`` with ``command`` as its program, and the report that it writes."""
    rows = recipe(tool, "own").commands
    words = shlex.split(rows[_RECORDED[tool].index(name)].text.replace("\\\n", " "))
    assert tuple(words[-len(_PROGRAM) :]) == _PROGRAM
    report = folder / f"{name}{_SUFFIX[tool]}"
    made = []
    for word in words[: -len(_PROGRAM)]:
        head, equals, value = word.rpartition("=")
        out = value.startswith(_OUTPUT) and word == f"{head}{equals}{value}"
        made.append(f"{head}{equals}{report.with_suffix('')}" if out else word)
    return [*made, *command], report


def _reports(options: Options, folder: Path, progress: Progress) -> tuple[dict[CapturedName, tuple[Path, ...]], int]:
    """Run everything; the reports by what they hold, and the exit code of the last run that failed."""
    folder.mkdir()
    reports: dict[CapturedName, tuple[Path, ...]] = {}
    code = 0
    names = _RECORDED[options.tool]
    try:
        for number, name in enumerate(names):
            progress(f"running the command under {options.tool}", 0.5 * number / len(names))
            line, report = command_line(options.tool, name, options.command, folder)
            code = _run(line) or code
            if report.exists():
                reports[name] = (report,)
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
    return reports, code


def _run(line: Sequence[str]) -> int:
    """Run ``line`` to its end, or end it when we are ended."""
    try:
        child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except OSError as error:
        raise UsageError(f"{line[0]} cannot be started ({error.strerror or error}): see whether it runs.") from None
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


def _as_capture(
    read: Run,
    options: Options,
    reports: dict[CapturedName, tuple[Path, ...]],
    folder: Path,
    started: float,
    code: int,
) -> Run:
    """``read`` as a run of this command: what it did, told apart by its marks, and timed by nobody."""
    why = "the command was recorded, and no client timed it"
    phases = tuple(
        Captured(
            name=name,
            files=tuple(CapturedFile(path=str(one.relative_to(folder)), bytes=one.stat().st_size) for one in files),
            why_null=why,
        )
        for name, files in reports.items()
    )
    closed = envelope(
        "capture",
        options.command[0],
        started,
        status="partial" if code else read.envelope.status,
        reason=f"the command ended with exit code {code}" if code else read.envelope.reason,
        identity=folder.name,
    )
    about = Capture(profiler=f"{_CALLED[options.tool]} around the command", folder="", phases=phases)
    return msgspec.structs.replace(read, envelope=closed, capture=about)
