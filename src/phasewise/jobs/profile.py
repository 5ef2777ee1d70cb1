"""The main job: predict, isolate, judge, fix, report, on a live engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from phasewise.engines.base import Engine
from phasewise.errors import EngineError
from phasewise.fix.fix import fix
from phasewise.hardware import ceilings, detect
from phasewise.isolate.run import Isolation
from phasewise.jobs import rows
from phasewise.jobs.envelope import envelope
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection, is_ours, model_file, open_engine
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.judge.trust import contradictions
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.predict.predict import predict
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.envelope import Status
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.prediction import Prediction
from phasewise.record.run import RUNS, Run, save

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
    out: Path = RUNS


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the folder it was saved in and the exit code that it deserves."""

    run: Run
    folder: Path
    exit_code: int


def profile(options: Options, progress: Progress) -> Finished:
    """Profile ``options.target`` and save the run.

    A failure or Ctrl-C while measuring ends the measuring, not the run: what was measured is judged, saved and marked
    partial.

    Raises:
        PhasewiseError: before anything was measured.
    """
    started = time.perf_counter()
    stated = options.subject.load_model()
    machine = options.subject.load_machine(lambda doing, done: progress(doing, done))
    progress("starting the engine" if is_ours(options.target) else "probing the server", 0.0)
    engine = open_engine(options.target, options.connection)
    try:
        model, machine, why_null = _what_runs(options, stated, machine, engine, progress)
        isolation = Isolation(
            engine,
            phases=options.phases,
            budget_s=options.budget_s,
            lengths=options.lengths,
            max_prompt=options.max_prompt,
            progress=lambda p: progress(f"{p.phase}: {p.doing}", p.fraction),
        )
        status, reason = _measure(isolation)
        about = engine.target
    finally:
        engine.close()
    found = roofs(model, machine) if model and machine else ()
    case = Case(
        observation=isolation.observation(),
        asks=options.asks,
        model=model,
        roofs=found,
        why_null=why_null,
    )
    judgement = judge(case)
    run = Run(
        envelope=envelope("profile", about.name, started, status=status, reason=reason),
        target=msgspec.structs.replace(about, contradictions=(*about.contradictions, *contradictions(model, about))),
        model=model.facts(_dtype(found)) if model else None,
        machine=machine,
        prediction=_prediction(model, found, options.asks[0]),
        observation=case.observation,
        judgement=judgement,
        remedies=fix(case, judgement, machine),
    )
    folder = save(run, options.out)
    rows.write(isolation.rows(), folder / "requests.parquet")
    return Finished(run=run, folder=folder, exit_code=_exit_code(run))


def _what_runs(
    options: Options, stated: Model | None, machine: Machine | None, engine: Engine, progress: Progress
) -> tuple[Model | None, Machine | None, str]:
    """Model and machine, and why a utilisation cannot be given when one of them is unknown."""
    file = model_file(options.target)
    model = stated or (load(str(file)) if file else None)
    if file and machine is None:
        # Our own engine computes on the CPU of this machine, whatever else is in it.
        machine = ceilings.with_measured(detect.this_cpu(), lambda doing, done: progress(doing, done))
    missing = []
    if model is None:
        missing.append(f"--model (the server calls it {engine.target.served_model!r})")
    if machine is None:
        missing.append("--on (an accelerator's name, or `this` for this machine)")
    if missing:
        return model, machine, f"unknown without {' and '.join(missing)}"
    if model and machine and not roofs(model, machine):
        dtypes = " or ".join(model.compute)
        return model, machine, f"no rate is known for {dtypes} on {machine.name}: give --peak and --bandwidth"
    return model, machine, ""


def _measure(isolation: Isolation) -> tuple[Status, str]:
    try:
        isolation.run()
    except KeyboardInterrupt:
        return "interrupted", "interrupted by Ctrl-C"
    except EngineError as error:
        if not isolation.rows():
            raise
        return "partial", str(error)
    return "complete", ""


def _prediction(model: Model | None, found: tuple[Roof, ...], ask: Ask) -> Prediction | None:
    if model is None or not found:
        return None
    return predict(model, found[0], prompt=ask.prompt, answer=ask.answer)


def _dtype(found: tuple[Roof, ...]) -> str:
    return ", ".join(f"{roof.dtype} ({roof.basis})" for roof in found)


def _exit_code(run: Run) -> int:
    if run.envelope.status == "interrupted":
        return 130
    checks = run.observation.checks if run.observation else ()
    doubted = any(check.voids and check.status == "failed" for check in checks)
    rung = run.judgement is not None and bool(run.judgement.alarms)
    return 3 if run.envelope.status == "partial" or doubted or rung else 0
