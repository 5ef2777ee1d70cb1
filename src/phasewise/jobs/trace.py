"""The job behind `phasewise trace`: read, split by phase, judge, fix, save."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import Interrupted, UsageError
from phasewise.fix.traced import fix_traced
from phasewise.hardware import catalogue
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.of_run import OfRun, of_run
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.judge.traced import judge
from phasewise.model.model import Model
from phasewise.observe.traces import annotate, capture, cpu, families, section, steps
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.join import beside, timed
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.said import by_word, side_by_side
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.twins import fingerprint
from phasewise.predict.roofline import computes_in, roofs
from phasewise.record.machine import Machine
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.trace import Health, Traced, TracePhase

Progress = Callable[[str, float], None]

_READING = 0.8
"""Part of the time that reading takes."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to read and what it ran on; see `phasewise trace --help`."""

    files: tuple[Path, ...] = ()
    prefill: tuple[Path, ...] = ()
    decode: tuple[Path, ...] = ()
    subject: Subject = Subject()
    run: Path | None = None
    rules: Path | None = None
    annotate: Path | None = None
    force: bool = False
    out: Path = RUNS

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Everything that is read."""
        return (*self.files, *self.prefill, *self.decode)


class Finished(NamedTuple):
    """A run, its folder, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class Seen(NamedTuple):
    """The trace, its steps, and its section of the record."""

    trace: Trace
    split: Split
    traced: Traced


def trace(options: Options, progress: Progress) -> Finished:
    """Read the traces of one job and say, phase by phase, whose time it was and what it was bound on.

    Raises:
        UsageError: a flag or a file that is not what it should be.
        Interrupted: Ctrl-C or SIGTERM.
    """
    started = time.perf_counter()
    _check(options)
    subject = _subject(options, progress)
    name = Path(options.inputs[0].name.removesuffix(".gz")).stem
    with claimed(identity(name or "trace"), options.out) as folder:
        try:
            seen = read_steps(options, progress)
            unsaved = _annotated(options, seen, progress)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: nothing was saved.", stop) from None
        try:
            run = judged(seen, subject, options, started, folder.name)
            unsaved["run.json"] = why_not(lambda: save(run, folder))
        except KeyboardInterrupt as stop:
            written = options.annotate if not any(unsaved.values()) else None
            raise Interrupted(interrupted(folder, written), stop) from None
    return Finished(run, folder, _exit_code(run), {name: why for name, why in unsaved.items() if why})


def _annotated(options: Options, seen: Seen, progress: Progress) -> dict[str, str]:
    """Write the trace with its bands, where that was asked for; why it could not be, by name."""
    out = options.annotate
    if out is None:
        return {}
    write = partial(annotate.annotate, out, options.inputs, seen.trace, seen.split, progress, force=options.force)
    return {f"--annotate {out}": why_not(write)}


def interrupted(folder: Path, annotated: Path | None) -> str:
    """What a command that was stopped after all was read leaves behind, and where."""
    written = f"{annotated} is written" if annotated else ""
    if (folder / "run.json").exists():
        saved = f"the run is saved, and shown by: phasewise report {folder}"
        return f"Interrupted: {' and '.join(filter(None, (written, saved)))}"
    return f"Interrupted: {written}; no run was saved." if written else "Interrupted: nothing was saved."


def _check(options: Options) -> None:
    """Refuse what cannot be meant, before minutes are spent on reading."""
    if not options.inputs:
        raise UsageError("name a trace: phasewise trace FILE, or --prefill A --decode B.")
    if options.files and (options.prefill or options.decode):
        raise UsageError("name the traces as FILE, or by phase with --prefill and --decode, not both ways.")
    if options.force and not options.annotate:
        raise UsageError("--force replaces the file of --annotate: name one with --annotate OUT.")
    if options.annotate:
        annotate.check(options.annotate, options.inputs, force=options.force)


def _subject(options: Options, progress: Progress) -> OfRun:
    """Model and machine: by the flags, else by the run."""
    model, machine = options.subject.load_model(), options.subject.load_machine(progress)
    if options.run is None:
        return OfRun(model, machine)
    run = of_run(options.run)
    return OfRun(model or run.model, machine or run.machine)


def read_steps(options: Options, progress: Progress) -> Seen:
    """Read the files of ``options`` and split them by phase.

    Raises:
        UsageError: a file that is not what it should be.
    """
    rules = families.rules(options.rules)
    raw, word = _read(options, lambda doing, fraction: progress(doing, _READING * fraction))
    if options.annotate and not timed(raw):
        raise UsageError("--annotate draws a timeline, which these files do not hold: leave it out.")
    progress("finding the steps", _READING)
    found, joined = capture.named(cpu.on_cpu(raw))
    split = by_word(found, steps.split(found), word)
    progress("adding up", 0.9)
    traced = side_by_side(section.section(found, split, rules, assume=word), word)
    if joined:
        health = (*traced.health, Health(check="captures joined", status="passed", detail=joined))
        traced = msgspec.structs.replace(traced, health=health)
    return Seen(found, split, traced)


def _read(options: Options, progress: Progress) -> tuple[Trace, dict[int, TracePhase]]:
    """The trace, and the phase of each rank by the user's word."""
    if options.files:
        return read_all(options.files, progress), {}
    sides: list[tuple[TracePhase, tuple[Path, ...]]] = [("prefill", options.prefill), ("decode", options.decode)]
    read = [(phase, read_all(paths, progress)) for phase, paths in sides if paths]
    if len(read) == 2 and fingerprint(read[0][1]) == fingerprint(read[1][1]):
        raise UsageError(
            "--prefill and --decode hold one and the same recording: name the trace of each, or it as FILE."
        )
    phases = [phase for phase, one in read for _ in one.sources]
    return beside([one for _, one in read]), dict(enumerate(phases))


def judged(seen: Seen, subject: OfRun, options: Options, started: float, identity: str) -> Run:
    """The run of what was read, judged on ``subject``."""
    model = subject.model
    machine = subject.machine or _named_by(seen.traced, options.subject.devices)
    traced = judge(_named(seen.traced, subject.machine), model, machine)
    faults = [(one.path, fault) for one in seen.trace.sources for fault in one.faults]
    cut = [f"{path}: {fault.detail.rstrip('.')}" for path, fault in faults if fault.check in ("truncated", "damaged")]
    return Run(
        envelope=envelope(
            "trace",
            identity,
            started,
            status="partial" if cut else "complete",
            reason="; ".join(cut),
            identity=identity,
        ),
        model=model.facts(_dtype(model, machine)) if model else None,
        machine=machine,
        traced=traced,
        remedies=fix_traced(traced, model, machine),
    )


def _named(traced: Traced, stated: Machine | None) -> Traced:
    """``traced``; where a flag or a run states the accelerator, its name is held against what the files say."""
    if stated is None:
        return traced
    health = [_held(one, traced, stated) if one.check == "accelerator's name" else one for one in traced.health]
    order = {"failed": 0, "not_checked": 1, "passed": 2}
    return msgspec.structs.replace(traced, health=tuple(sorted(health, key=lambda one: order[one.status])))


def _held(check: Health, traced: Traced, stated: Machine) -> Health:
    """``check`` of the accelerator's name, which no longer asks for one and fails when the files know another."""
    ran_on = {device.name for device in traced.devices} - {""}
    names = ran_on or {name for file in traced.files for name in file.devices}
    known = {name: row.name for name in sorted(names) if (row := catalogue.named_by((name,)))}
    others = [f"{name} ({row})" for name, row in known.items() if row != stated.name]
    told = f"as stated it ran on {stated.name}"
    if others and stated.kind != "unknown":  # with --peak and --bandwidth alone nobody names it
        detail = f"{told}, and the files name {', '.join(others)}: floors, MFU and MBU are of {stated.name}"
        return msgspec.structs.replace(check, status="failed", detail=detail)
    if check.status == "failed":
        detail = f"{told}; the files do not name all of its devices"
        return msgspec.structs.replace(check, status="not_checked", detail=detail)
    return check


def _named_by(traced: Traced, devices: int) -> Machine | None:
    """The accelerator that the devices of the trace call themselves, when the catalogue has that name."""
    found = catalogue.named_by((device.name for device in traced.devices), devices)
    if found is None:
        return None
    note = f"The trace itself names its accelerator: {traced.devices[0].name}."
    return msgspec.structs.replace(found, notes=(*found.notes, note))


def _dtype(model: Model, machine: Machine | None) -> str:
    found = roofs(model, machine) if machine else ()
    return computes_in(model, machine, found[0]) if machine and found else ""


def _exit_code(run: Run) -> int:
    """3 for a trace that was read in part, or a utilisation that cannot be."""
    verdicts = [phase.verdict for phase in run.traced.phases.values()] if run.traced else []
    rung = any(verdict is not None and verdict.alarm is not None for verdict in verdicts)
    return 3 if rung or run.envelope.status != "complete" else 0
