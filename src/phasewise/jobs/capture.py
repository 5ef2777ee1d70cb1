"""The job behind `phasewise capture`: time each phase, record each alone, read what came, lay both side by side."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.engines.base import Engine
from phasewise.engines.profilers.endpoint import none
from phasewise.errors import EngineError, Interrupted, Terminated, UsageError
from phasewise.isolate import alone
from phasewise.isolate.holding import least_answer
from phasewise.isolate.recorded import Sent, Shape
from phasewise.jobs import captured
from phasewise.jobs.begun import REQUESTS, UNTOLD, Rows, begun
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.ground import what_runs
from phasewise.jobs.of_run import OfRun
from phasewise.jobs.recorder import Profiler, Recording, profiler
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection, is_ours, model_file, open_engine
from phasewise.jobs.timed import Client
from phasewise.judge.captured import Timed
from phasewise.record.capture import Capture, Captured, CapturedName
from phasewise.record.envelope import Envelope, Status
from phasewise.record.observation import Check, CheckStatus, Phase
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.target import Target

Progress = Callable[[str, float], None]

_TIMED, _RECORDED = 0.5, 0.85
"""Parts of the bar at which the timed run ends, and the last recording."""

_STEP_S = 0.02
"""A decode step, where none was timed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to capture and how; see `phasewise capture --help`."""

    target: str | None = None
    subject: Subject = Subject()
    phases: tuple[Phase, ...] = ("prefill", "decode")
    batch: int = 1
    prompt: int = 512
    requests: int = 3
    steps: int = 8
    mix: bool = False
    trace_dir: Path | None = None
    patience_s: float = 120.0
    budget_s: float = 20.0
    connection: Connection = Connection()
    out: Path = RUNS


class Finished(NamedTuple):
    """A run, its folder, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class _Work:
    """What a capture has so far; it outlives whatever ends the capture."""

    def __init__(self, options: Options, folder: Path, started: float, progress: Progress) -> None:
        self.options, self.folder, self.started, self.progress = options, folder, started, progress
        self.target: Target | None = None
        self.subject = OfRun(None, None)
        self.profiler: Profiler | None = None
        self.client: Client | None = None
        self.recordings: list[Recording] = []
        self.alone: list[Check] = []
        self.notes: list[str] = []
        self.status: Status = "complete"
        self.reason = ""
        self.exit_code = 0
        self.no_rows = ""

    def tell(self, doing: str) -> None:
        """Say what is being recorded."""
        done = len(self.recordings) / (len(self.options.phases) + self.options.mix)
        self.progress(doing, _TIMED + (_RECORDED - _TIMED) * done)

    def cut_short(self, error: BaseException) -> None:
        """Note what ended it."""
        said = " ".join(filter(None, (str(error), *getattr(error, "__notes__", ()))))
        if not isinstance(error, KeyboardInterrupt):
            self.partial(said)
            return
        said = said or (self.profiler.left if self.profiler else "") or "no profiler was left running"
        by, code = ("ended by SIGTERM", 143) if isinstance(error, Terminated) else ("interrupted by Ctrl-C", 130)
        self.status, self.exit_code, self.reason = (
            "interrupted",
            code,
            f"{by}; {said}",
        )

    def partial(self, reason: str) -> None:
        """Note what is missing, after what was noted before."""
        self.status, self.exit_code = "partial", 3
        self.reason = " ".join(filter(None, (self.reason, reason)))


def capture(options: Options, progress: Progress) -> Finished:
    """Capture ``options.target`` and save the run.

    Each phase is timed by a client first and recorded afterwards, never both at once. What ends the capture early ends
    the profiler too; what came until then is read, saved and marked partial or interrupted.

    Raises:
        PhasewiseError: before anything was recorded.
    """
    started = time.perf_counter()
    _check(options)
    with claimed(identity(options.target or "embedded"), options.out) as folder:
        work = _Work(options, folder, started, progress)
        try:
            _capture(work)
        except KeyboardInterrupt as error:
            work.cut_short(error)
            if not work.recordings:
                raise Interrupted(f"Interrupted: nothing was captured ({work.reason}).", error) from None
        try:
            run = _run(work)
        except KeyboardInterrupt as error:
            where = f"the traces that came are in {folder}/traces, for phasewise trace"
            raise Interrupted(f"Interrupted while reading: {where}.", error) from None
        unsaved = {"run.json": why_not(lambda: save(run, folder)), REQUESTS: work.no_rows}
    return Finished(run, folder, work.exit_code or _exit_code(run), {name: why for name, why in unsaved.items() if why})


def _check(options: Options) -> None:
    """Refuse what cannot be meant before anything is started."""
    in_process = (options.target or "").startswith("hf:")
    if options.target is None:
        raise UsageError(
            "Name a TARGET: the URL of a vLLM or SGLang, or hf:DIR; a command of your own goes after --under, and "
            "phasewise capture --print nsys --engine NAME prints how to start the rest."
        )
    if model_file(options.target) is None and is_ours(options.target):
        raise UsageError(f"{options.target!r} is no target: give the URL of a vLLM or SGLang, or hf:DIR.")
    if is_ours(options.target) and not in_process:
        raise UsageError(none("llama.cpp"))
    if options.batch > 1 and "decode" not in options.phases and not options.mix:
        raise UsageError(
            f"--batch {options.batch} is of decode, which --phase prefill leaves out: leave out one of them."
        )
    if in_process and options.mix:
        raise UsageError("--mix needs a server, which runs several requests at once: serve the model and give its URL.")


def _capture(work: _Work) -> None:
    options = work.options
    stated, machine = options.subject.load_model(), options.subject.load_machine(work.progress)
    work.progress("starting the engine" if is_ours(options.target) else "probing the server", 0.0)
    engine = open_engine(options.target, options.connection)
    try:
        work.target = engine.target
        ground = what_runs(options.target, options.connection, stated, machine, engine, work.progress)
        work.subject = OfRun(ground.model, ground.machine)
        _fits(options, engine)
        work.profiler = profiler(
            engine,
            trace_dir=options.trace_dir,
            run=work.folder,
            wait_s=options.patience_s,
            prefix=f"phasewise-{work.folder.name[:16]}",
        )
        work.notes.extend(work.profiler.check())
        _quiet(engine)
        with begun(_unfinished(work, engine.target), work.folder) as rows:
            try:
                _each(work, engine, work.profiler, rows)
            except (EngineError, KeyboardInterrupt) as error:
                if not work.recordings:
                    raise
                work.cut_short(error)
            work.no_rows = rows.close(work.client.unused() if work.client else ())
    finally:
        if work.profiler is not None:
            work.profiler.close()
        engine.close()


def _unfinished(work: _Work, target: Target) -> Run:
    return Run(envelope=_envelope(work, "interrupted", UNTOLD), target=target)


def _envelope(work: _Work, status: Status, reason: str) -> Envelope:
    name = work.target.name if work.target else ""
    zero = work.client.zero if work.client else None
    return envelope("capture", name, work.started, status=status, reason=reason, identity=work.folder.name, zero=zero)


def _each(work: _Work, engine: Engine, by: Profiler, rows: Rows) -> None:
    """Time what is to be recorded, then record it."""
    shape = _timed(work, engine, rows)
    names: tuple[CapturedName, ...] = (*work.options.phases, *(("mixed",) if work.options.mix else ()))
    for name in names:
        _recorded(work, engine, by, name, shape)


def _fits(options: Options, engine: Engine) -> None:
    """See that the server's context holds what is to be recorded.

    Raises:
        UsageError: it does not.
    """
    context = engine.target.max_context
    alone_ = options.phases == ("prefill",) and not options.mix
    after = 1 if alone_ else least_answer(options.steps, options.batch, options.prompt)
    if context is not None and options.prompt + after > context:
        fewer = "" if alone_ else ", or fewer --steps" if options.batch == 1 else ", or a smaller --batch"
        raise UsageError(
            f"The engine takes {context:,} tokens of prompt and answer, too few for --prompt {options.prompt} and the "
            f"{after:,} after it: give --prompt {max(1, context - after)} or less{fewer}."
        )


def _timed(work: _Work, engine: Engine, rows: Rows) -> Shape:
    """Each phase by a client, warm and without a profiler; what is to be recorded."""
    options = work.options
    work.client = Client(
        engine,
        options.phases,
        Shape(options.prompt, options.batch, options.steps, _STEP_S),
        budget_s=options.budget_s,
        progress=lambda doing, part: work.progress(doing, _TIMED * part),
        book=rows.book,
    )
    return work.client.run()


def _quiet(engine: Engine) -> None:
    """See that nobody else uses the server.

    Raises:
        EngineError: somebody does.
    """
    if not alone.settled(engine):
        raise EngineError(
            "Requests of others run on this server, and their steps would be in the trace: wait until they have ended, "
            "or take it out of its load balancer."
        )


def _recorded(work: _Work, engine: Engine, by: Profiler, name: CapturedName, shape: Shape) -> None:
    _quiet(engine)
    before = _prompt_tokens(engine)
    recording = by.record(name, shape, work.options.requests, work.tell)
    work.recordings.append(recording)
    work.notes.extend(recording.notes)
    alone.settled(engine)
    after = _prompt_tokens(engine)
    counted = None if before is None or after is None else after - before
    if is_ours(work.options.target):
        detail = "the model runs in a process of ours, which nobody else can ask"
        work.alone.append(_check_alone(name, "passed", detail))
    else:
        work.alone.append(_others(name, counted, recording.sent))


def _prompt_tokens(engine: Engine) -> float | None:
    activity = engine.activity()
    return None if activity is None else activity.prompt_tokens


def _others(name: CapturedName, counted: float | None, sent: Sent) -> Check:
    """Whether the server counted more prompt tokens than we sent."""
    if counted is None or sent.all_prompts is None:
        detail = "no counter of prompt tokens, or no exact count of ours, would show the requests of others"
        return _check_alone(name, "not_checked", detail)
    if counted > sent.all_prompts:
        detail = f"the server counted {counted:,.0f} prompt tokens where {sent.all_prompts:,} were sent: others used it"
        return _check_alone(name, "failed", detail)
    return _check_alone(
        name, "passed", f"the server counted no more than the {sent.all_prompts:,} prompt tokens that were sent"
    )


def _check_alone(name: CapturedName, status: CheckStatus, detail: str) -> Check:
    return Check(name="alone", phase=name if name != "mixed" else "run", status=status, detail=detail, voids=True)


def _run(work: _Work) -> Run:
    """The record of everything that came."""
    timed = work.client.timed() if work.client else Timed()
    left = 1 - _RECORDED
    found = captured.read(
        work.recordings,
        work.folder,
        work.subject,
        timed,
        work.started,
        lambda doing, part: work.progress(doing, _RECORDED + left * part),
    )
    for fault in found.faults:
        work.partial(fault)
    phases = _with_alone(found.phases, work.alone)
    proceed = _proceed(phases, work.folder)
    if proceed and work.status == "complete":
        work.partial("the traces lie on the server's disk")
    read = found.run
    return Run(
        envelope=_envelope(work, work.status, work.reason),
        target=work.target,
        model=read.model if read else None,
        machine=read.machine if read else work.subject.machine,
        observation=work.client.observation() if work.client else None,
        traced=read.traced if read else None,
        remedies=read.remedies if read else None,
        capture=Capture(
            profiler=work.profiler.name if work.profiler else "",
            folder=work.profiler.folder if work.profiler else "",
            phases=phases,
            held=timed.held,
            on_cpu=found.on_cpu,
            notes=tuple(work.notes),
            proceed=proceed,
        ),
    )


def _with_alone(phases: tuple[Captured, ...], checks: list[Check]) -> tuple[Captured, ...]:
    by_phase = {check.phase: check for check in checks}
    found = []
    for one in phases:
        check = by_phase.get(one.name if one.name != "mixed" else "run")
        found.append(msgspec.structs.replace(one, checks=(*one.checks, *((check,) if check else ()))))
    return tuple(found)


def _proceed(phases: tuple[Captured, ...], folder: Path) -> tuple[str, ...]:
    """What to copy from the server's disk, and the command for the copies; empty when everything is here."""
    away = [(one.name, file.path) for one in phases for file in one.files if file.place == "server"]
    if not away:
        return ()
    copies = [f"scp {shlex.quote(f'SERVER:{path}')} {name}/" for name, path in away]
    sides = " ".join(f"--{name} {name}" for name, _ in away if name != "mixed")
    mix = ["phasewise trace mixed"] if any(name == "mixed" for name, _ in away) else []
    folders = " ".join(name for name, _ in away)
    return (
        f"mkdir {folders}",
        *copies,
        *([f"phasewise trace {sides} --run {shlex.quote(str(folder))}"] if sides else []),
        *mix,
    )


def _exit_code(run: Run) -> int:
    """3 for a capture that its checks disbelieve."""
    assert run.capture is not None
    checks = [check for one in run.capture.phases for check in one.checks]
    checks += run.observation.checks if run.observation else ()
    return 3 if any(check.voids and check.status == "failed" for check in checks) else 0
