"""The main job: predict, isolate, judge, fix, report, on a live engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import EngineError, Interrupted, Terminated
from phasewise.fix.fix import fix
from phasewise.isolate.run import Isolation
from phasewise.jobs import sampled
from phasewise.jobs.begun import REQUESTS, UNTOLD, begun
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.ground import what_runs
from phasewise.jobs.sampled import Beside
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection, is_ours, open_engine
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.judge.trust import contradictions
from phasewise.model.model import Model
from phasewise.predict.predict import predict
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.envelope import Status
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.power import Power
from phasewise.record.prediction import Prediction
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.target import Target

Progress = Callable[[str, float], None]
"""Told what is being done and the fraction of it that is done."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to profile and how; see `phasewise profile --help`."""

    target: str | None = None
    subject: Subject = Subject()
    asks: tuple[Ask, ...] = (Ask(),)
    phases: tuple[Phase, ...] = ("prefill", "decode")
    budget_s: float = 90.0
    lengths: tuple[int, ...] | None = None
    max_prompt: int | None = None
    connection: Connection = Connection()
    power: bool = True
    exporter: str = ""
    out: Path = RUNS


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the folder it was saved in, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class Measured(NamedTuple):
    """What the engine told, and how the measuring ended: its exit code is 0 when it was not cut short."""

    isolation: Isolation
    target: Target
    model: Model | None
    machine: Machine | None
    why_null: str
    status: Status
    reason: str
    exit_code: int
    power: Power
    no_rows: str


def profile(options: Options, progress: Progress) -> Finished:
    """Profile ``options.target`` and save the run, as far as it can be saved.

    A failure, Ctrl-C or SIGTERM while measuring ends the measuring, not the run: what was measured is judged, saved and
    marked partial or interrupted.

    Raises:
        PhasewiseError: before anything was measured.
    """
    started = time.perf_counter()
    with (
        claimed(identity(options.target or "embedded"), options.out) as folder,
        Beside(options.target, options.exporter, wanted=options.power) as beside,
    ):
        try:
            seen = _measured(options, folder, started, beside, progress)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: nothing was measured.", stop) from None
        run = _judged(options, seen, started, folder.name)
        saved = {"run.json": why_not(lambda: save(run, folder)), REQUESTS: seen.no_rows}
        saved[sampled.ROWS] = why_not(lambda: beside.write(folder, seen.isolation.began))
    unsaved = {name: why for name, why in saved.items() if why}
    return Finished(run=run, folder=folder, exit_code=seen.exit_code or _exit_code(run), unsaved=unsaved)


def _measured(options: Options, folder: Path, started: float, beside: Beside, progress: Progress) -> Measured:
    stated = options.subject.load_model()
    machine = options.subject.load_machine(lambda doing, done: progress(doing, done))
    progress("starting the engine" if is_ours(options.target) else "probing the server", 0.0)
    engine = open_engine(options.target, options.connection)
    try:
        model, machine, why_null = what_runs(options.target, options.connection, stated, machine, engine, progress)
        with begun(_unfinished(engine.target, started, folder.name), folder) as rows:
            isolation = Isolation(
                engine,
                phases=options.phases,
                budget_s=options.budget_s,
                lengths=options.lengths,
                max_prompt=options.max_prompt,
                progress=lambda p: progress(f"{p.phase}: {p.doing}", p.fraction),
                book=rows.book,
            )
            beside.before()
            status, reason, code = _measure(isolation, options.phases)
            if status == "complete":
                beside.after()
            why = rows.close(isolation.unused())
        power = beside.power(sampled.of_requests(isolation.rows(), isolation.began), machine)
        return Measured(isolation, engine.target, model, machine, why_null, status, reason, code, power, why)
    finally:
        engine.close()


def _unfinished(target: Target, started: float, identity: str) -> Run:
    about = envelope("profile", target.name, started, status="interrupted", reason=UNTOLD, identity=identity)
    return Run(envelope=about, target=target)


def _judged(options: Options, seen: Measured, started: float, identity: str) -> Run:
    model, machine, about = seen.model, seen.machine, seen.target
    found = roofs(model, machine) if model and machine else ()
    observation = seen.isolation.observation()
    case = Case(
        observation=msgspec.structs.replace(observation, checks=(*observation.checks, *seen.power.checks)),
        asks=options.asks,
        model=model,
        roofs=found,
        why_null=seen.why_null,
    )
    judgement = judge(case)
    return Run(
        envelope=envelope(
            "profile",
            about.name,
            started,
            status=seen.status,
            reason=seen.reason,
            identity=identity,
            zero=seen.isolation.began,
        ),
        target=msgspec.structs.replace(about, contradictions=(*about.contradictions, *contradictions(model, about))),
        model=model.facts(_dtype(found)) if model else None,
        machine=machine,
        prediction=_prediction(model, found, options.asks[0]),
        observation=case.observation,
        judgement=judgement,
        remedies=fix(case, judgement, machine),
        power=seen.power,
    )


def _measure(isolation: Isolation, phases: tuple[Phase, ...]) -> tuple[Status, str, int]:
    """Measure, and say how it ended: status, reason and exit code."""
    try:
        isolation.run()
    except KeyboardInterrupt as stop:
        if len(_missing(isolation, ("prefill", "decode"))) == 2:
            raise
        if isinstance(stop, Terminated):
            return "interrupted", "ended by SIGTERM", 143
        return "interrupted", "interrupted by Ctrl-C", 130
    except EngineError as error:
        if not isolation.observation().requests:
            raise
        return "partial", str(error), 3
    if missing := _missing(isolation, phases):
        stopped = isolation.observation().stopped or "there was no time for it"
        return "partial", f"{' and '.join(missing)} not measured ({stopped})", 3
    return "complete", "", 0


def _missing(isolation: Isolation, phases: tuple[Phase, ...]) -> list[Phase]:
    """Those of ``phases`` that nothing was measured of."""
    seen = isolation.observation()
    return [phase for phase in phases if (seen.prefill if phase == "prefill" else seen.decode) is None]


def _prediction(model: Model | None, found: tuple[Roof, ...], ask: Ask) -> Prediction | None:
    if model is None or not found:
        return None
    return predict(model, found[0], prompt=ask.prompt, answer=ask.answer)


def _dtype(found: tuple[Roof, ...]) -> str:
    return ", ".join(f"{roof.dtype} ({roof.basis})" for roof in found)


def _exit_code(run: Run) -> int:
    """3 for a run that was measured as asked and that its checks or the alarm disbelieve."""
    checks = run.observation.checks if run.observation else ()
    doubted = any(check.voids and check.status == "failed" for check in checks)
    rung = run.judgement is not None and bool(run.judgement.alarms)
    return 3 if doubted or rung else 0
