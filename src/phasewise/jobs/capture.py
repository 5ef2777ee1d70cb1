"""The job behind `phasewise capture`: time each phase, record each phase alone, read what came, lay both side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.engines.openai import OpenAIServer
from phasewise.engines.profilers.endpoint import none
from phasewise.errors import EngineError, InputError, Interrupted, PhasewiseError, Terminated, UsageError
from phasewise.isolate import alone
from phasewise.isolate.run import Isolation
from phasewise.jobs import rows, trace
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.ground import what_runs
from phasewise.jobs.of_run import OfRun
from phasewise.jobs.recorder import MOST_STEPS, ServerProfiler, no_room
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection, is_ours, open_engine
from phasewise.judge.captured import compared
from phasewise.model.model import Model
from phasewise.record.capture import Capture, Captured, CapturedFile, CapturedName
from phasewise.record.envelope import Status
from phasewise.record.machine import Machine
from phasewise.record.observation import Check, Observation, Phase
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.target import Target
from phasewise.record.trace import Traced, TraceStep

Progress = Callable[[str, float], None]

_TIMED, _RECORDED = 0.5, 0.85
"""Part of the bar at which the timed run ends, and the last recording."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to capture and how; see `phasewise capture --help`."""

    target: str | None = None
    subject: Subject = Subject()
    phases: tuple[Phase, ...] = ("prefill", "decode")
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


class Recording(NamedTuple):
    """A phase that was recorded: what was sent, the files, why they could not be kept or read, and others' tokens."""

    name: CapturedName
    sent: alone.Sent
    files: tuple[CapturedFile, ...]
    paths: tuple[Path, ...]
    others: Check | None


class _Work:
    """What a capture has so far; it outlives whatever ends the capture."""

    def __init__(self, options: Options, folder: Path, progress: Progress) -> None:
        self.options, self.folder, self.progress = options, folder, progress
        self.target: Target | None = None
        self.model: Model | None = None
        self.machine: Machine | None = None
        self.isolation: Isolation | None = None
        self.profiler: ServerProfiler | None = None
        self.recordings: list[Recording] = []
        self.notes: list[str] = []
        self.status: Status = "complete"
        self.reason = ""
        self.exit_code = 0

    def tell(self, doing: str) -> None:
        """Say what is being recorded."""
        done = len(self.recordings) / (len(self.options.phases) + self.options.mix)
        self.progress(doing, _TIMED + (_RECORDED - _TIMED) * done)

    def cut_short(self, error: BaseException) -> None:
        """Note what ended it."""
        said = " ".join([str(error), *getattr(error, "__notes__", ())]).strip()
        if isinstance(error, KeyboardInterrupt):
            by = "ended by SIGTERM" if isinstance(error, Terminated) else "interrupted by Ctrl-C"
            self.status, self.exit_code = "interrupted", 143 if isinstance(error, Terminated) else 130
            self.reason = f"{by}; {said}" if said else f"{by}; the profiler is stopped"
        else:
            self.status, self.exit_code, self.reason = "partial", 3, said


def capture(options: Options, progress: Progress) -> Finished:
    """Capture ``options.target`` and save the run.

    Each phase is timed by a client first and recorded afterwards, never both at once. What ends the capture early ends
    the profiler too, and what came until then is read, saved and marked partial or interrupted.

    Raises:
        PhasewiseError: before anything was recorded.
    """
    started = time.perf_counter()
    _check(options)
    with claimed(identity(options.target or "embedded"), options.out) as folder:
        work = _Work(options, folder, progress)
        try:
            _capture(work)
        except (EngineError, KeyboardInterrupt) as error:
            work.cut_short(error)
            if not work.recordings:
                if isinstance(error, KeyboardInterrupt):
                    raise Interrupted(f"Interrupted: nothing was captured. {work.reason}.", error) from None
                raise
        run = _run(work, started)
        unsaved = {"run.json": why_not(lambda: save(run, folder))}
        if work.isolation is not None:
            requests = work.isolation.rows()
            unsaved["requests.parquet"] = why_not(lambda: rows.write(requests, folder / "requests.parquet"))
    return Finished(run, folder, work.exit_code or _exit_code(run), {name: why for name, why in unsaved.items() if why})


def _check(options: Options) -> None:
    """Refuse what cannot be meant before anything is started."""
    if is_ours(options.target) and not (options.target or "").startswith("hf:"):
        raise UsageError(none("llama.cpp"))


def _capture(work: _Work) -> None:
    options = work.options
    stated, machine = options.subject.load_model(), options.subject.load_machine(work.progress)
    work.progress("probing the server", 0.0)
    engine = open_engine(options.target, options.connection)
    try:
        assert isinstance(engine, OpenAIServer)
        work.target = engine.target
        ground = what_runs(options.target, options.connection, stated, machine, engine, work.progress)
        work.model, work.machine = ground.model, ground.machine
        profiler = work.profiler = ServerProfiler(
            engine,
            trace_dir=options.trace_dir,
            run=work.folder,
            wait_s=options.patience_s,
            prefix=f"phasewise-{work.folder.name[:16]}",
        )
        work.notes.extend(profiler.check())
        _quiet(engine)
        _timed(work, engine)
        for phase in options.phases:
            _recorded(work, engine, profiler, phase)
        if options.mix:
            _recorded(work, engine, profiler, "mixed")
    finally:
        if work.profiler is not None:
            work.profiler.close()
        engine.close()


def _timed(work: _Work, engine: OpenAIServer) -> None:
    """Each phase by a client, warm and without a profiler."""
    options = work.options
    work.isolation = Isolation(
        engine,
        phases=options.phases,
        budget_s=options.budget_s,
        lengths=(options.prompt,),
        max_prompt=options.prompt,
        progress=lambda p: work.progress(f"timing {p.phase} without the profiler: {p.doing}", _TIMED * p.fraction),
    )
    work.isolation.run()


def _quiet(engine: OpenAIServer) -> None:
    """See that nobody else uses the server.

    Raises:
        EngineError: somebody does.
    """
    if not alone.settled(engine):
        raise EngineError(
            "Requests of others run on this server, whose steps would be in the trace: wait until they have ended, or "
            "take it out of its load balancer."
        )


def _recorded(work: _Work, engine: OpenAIServer, profiler: ServerProfiler, name: CapturedName) -> None:
    options = work.options
    _quiet(engine)
    before = engine.activity()
    session = profiler.session(name, options.steps if name == "decode" else MOST_STEPS)
    step_s = _step_s(work.isolation)
    shape = alone.Shape(options.prompt, 1, options.steps, step_s)
    if name == "prefill":
        sent = alone.prefill(engine, session, options.prompt, options.requests, work.tell)
    elif name == "decode":
        sent = alone.decode(engine, session, shape, work.tell)
    else:
        sent = alone.mixed(engine, session, shape, options.prompt, options.requests, work.tell)
    found = session.files(options.patience_s, work.tell)
    alone.settled(engine)
    after = engine.activity()
    counted = None
    if before is not None and after is not None and None not in (before.prompt_tokens, after.prompt_tokens):
        counted = (after.prompt_tokens or 0) - (before.prompt_tokens or 0)
    others = _others(name, counted, sent)
    if found is None:
        work.recordings.append(Recording(name, sent, (profiler.pattern(name),), (), others))
        return
    try:
        files = profiler.kept(name, found)
    except OSError as error:
        work.notes.append(f"The files of {name} were left where they are: {no_room(error)} for copies of them.")
        files = tuple(
            CapturedFile(path=str(path.resolve()), bytes=path.stat().st_size, place="engine") for path in found.ranks
        )
    paths = tuple(
        Path(one.path) if one.place == "engine" else work.folder / one.path for one in files if one.role == "rank"
    )
    work.recordings.append(Recording(name, sent, files, paths, others))


def _step_s(isolation: Isolation | None) -> float:
    """Seconds of a decode step as timed, else a guess."""
    seen = isolation.observation() if isolation is not None else None
    return seen.decode.tpot.value if seen is not None and seen.decode is not None else 0.02


def _others(name: CapturedName, counted: float | None, sent: alone.Sent) -> Check:
    """Whether the server counted more prompt tokens than we sent."""
    phase = name if name != "mixed" else "run"
    if counted is None:
        detail = "the server publishes no counter of prompt tokens that would show the requests of others"
        return Check(name="alone", phase=phase, status="not_checked", detail=detail)
    over = counted - sent.all_prompts
    if over > 0:
        detail = f"the server counted {counted:,.0f} prompt tokens while we sent {sent.all_prompts:,}: others used it"
        return Check(name="alone", phase=phase, status="failed", detail=detail, voids=True)
    detail = f"the server counted no more than the {sent.all_prompts:,} prompt tokens that we sent"
    return Check(name="alone", phase=phase, status="passed", detail=detail)


def _run(work: _Work, started: float) -> Run:
    """The record of everything that came."""
    observation = work.isolation.observation() if work.isolation is not None else None
    by_name = {one.name: one for one in work.recordings}
    read: Run | None = None
    steps: dict[str, tuple[TraceStep, ...]] = {}
    on_cpu = False
    alone_files = {name: one.paths for name, one in by_name.items() if name != "mixed" and one.paths}
    if alone_files:
        options = trace.Options(
            prefill=alone_files.get("prefill", ()), decode=alone_files.get("decode", ()), subject=work.options.subject
        )
        try:
            seen = trace.read(options, lambda doing, part: work.progress(doing, _RECORDED + 0.1 * part))
            read = trace.judged(seen, OfRun(work.model, work.machine), options, started, work.folder.name)
            steps.update(_by_recording(seen.traced, list(alone_files)))
            on_cpu = seen.traced.on_cpu
        except InputError as error:
            _unread(work, error)
    if "mixed" in by_name and by_name["mixed"].paths:
        try:
            seen = trace.read(
                trace.Options(files=by_name["mixed"].paths), lambda doing, part: work.progress(doing, 0.95)
            )
            steps["mixed"] = seen.traced.steps
            on_cpu = on_cpu or seen.traced.on_cpu
        except InputError as error:
            _unread(work, error)
    phases = tuple(_phase(one, steps.get(one.name), observation) for one in work.recordings)
    away = [one.name for one in phases if any(file.place == "server" for file in one.files)]
    proceed = _proceed(work, phases) if away else ()
    if away and work.status == "complete":
        work.status, work.exit_code = "partial", 3
        work.reason = "the traces lie on the server's disk"
    profiler = work.profiler
    return Run(
        envelope=envelope(
            "capture",
            work.target.name if work.target else "",
            started,
            status=work.status,
            reason=work.reason,
            identity=work.folder.name,
        ),
        target=work.target,
        model=read.model if read else None,
        machine=read.machine if read else work.machine,
        observation=observation,
        traced=read.traced if read else None,
        remedies=read.remedies if read else None,
        capture=Capture(
            profiler=profiler.name if profiler else "",
            folder=profiler.folder if profiler else "",
            phases=phases,
            on_cpu=on_cpu,
            notes=tuple(work.notes),
            proceed=proceed,
        ),
    )


def _unread(work: _Work, error: PhasewiseError) -> None:
    work.status, work.exit_code, work.reason = "partial", 3, str(error)


def _by_recording(traced: Traced, names: list[str]) -> dict[str, tuple[TraceStep, ...]]:
    """Steps of each recording: its ranks follow one another."""
    counts = traced.recordings or (len(traced.files),)
    found, first = {}, 0
    for name, count in zip(sorted(names, key=("prefill", "decode").index), counts, strict=True):
        found[name] = tuple(step for step in traced.steps if first <= step.rank < first + count)
        first += count
    return found


def _phase(one: Recording, steps: tuple[TraceStep, ...] | None, observation: Observation | None) -> Captured:
    if steps is None:
        why = "the trace was not read"
        found = Captured(
            name=one.name,
            requests=one.sent.requests,
            prompt_tokens=one.sent.prompt_tokens,
            batch=one.sent.batch,
            why_null=why,
        )
    else:
        found = compared(one.name, one.sent, steps, observation)
    extra = (one.others,) if one.others else ()
    return msgspec.structs.replace(found, files=one.files, checks=(*found.checks, *extra))


def _proceed(work: _Work, phases: tuple[Captured, ...]) -> tuple[str, ...]:
    """What to copy from the server, and the command for the copies."""
    host = "SERVER"
    copies = [f"scp '{host}:{file.path}' ." for one in phases for file in one.files if file.place == "server"]
    sides = " ".join(f"--{one.name} FILE" for one in phases if one.name != "mixed")
    return (*copies, f"phasewise trace {sides} --run {work.folder}")


def _exit_code(run: Run) -> int:
    """3 for a capture that its checks disbelieve."""
    assert run.capture is not None
    checks = [check for one in run.capture.phases for check in one.checks]
    checks += run.observation.checks if run.observation else ()
    return 3 if any(check.voids and check.status == "failed" for check in checks) else 0
