"""The job behind `phasewise sweep`: batch, context and the mix on a live engine, beside what was predicted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.engines.base import Crowdable
from phasewise.errors import EngineError, Interrupted, Terminated
from phasewise.isolate.crew.on_ray import Place, require
from phasewise.isolate.sweep import DEFAULT_BUDGET_S, DEFAULT_MAX_BATCH, DEFAULT_MAX_TOKENS, Sweep
from phasewise.jobs import sampled
from phasewise.jobs.begun import REQUESTS, UNTOLD, begun
from phasewise.jobs.crew import crew
from phasewise.jobs.crowd_power import of_sweep
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.ground import Ground, what_runs
from phasewise.jobs.sampled import Beside
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection, is_ours, open_server
from phasewise.judge.mixed import Question, advise
from phasewise.judge.swept import beside
from phasewise.judge.trust import contradictions
from phasewise.predict.parallel import link
from phasewise.predict.roofline import roofs
from phasewise.record.crew import Crew
from phasewise.record.envelope import Status
from phasewise.record.machine import Machine
from phasewise.record.power import Power
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.sweep import Swept
from phasewise.record.target import Target

OUR_MAX_BATCH = 8
"""Requests at once on the embedded engine, which computes on a CPU, unless more are asked for."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to sweep and how; see `phasewise sweep --help`."""

    target: str | None = None
    subject: Subject = Subject()
    connection: Connection = Connection()
    budget_s: float = DEFAULT_BUDGET_S
    max_batch: int | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    max_prompt: int | None = None
    prompt: int = 2000
    answer: int = 300
    itl_s: float | None = None
    link: str | None = None
    workers: Place | None = None
    power: bool = True
    exporter: str = ""
    out: Path = RUNS

    @property
    def most(self) -> int:
        """Requests at once, at most."""
        return self.max_batch or (OUR_MAX_BATCH if is_ours(self.target) else DEFAULT_MAX_BATCH)


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the folder it was saved in, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class _Measured(NamedTuple):
    sweep: Sweep
    target: Target
    ground: Ground
    status: Status
    reason: str
    exit_code: int
    no_rows: str
    crew: Crew | None
    power: Power


def sweep(
    options: Options, progress: Callable[[str, float], None], announce: Callable[[tuple[str, ...]], None]
) -> Finished:
    """Sweep ``options.target`` and save the run, as far as it can be saved; ``announce`` is told the plan first.

    A failure, Ctrl-C or SIGTERM while measuring ends the measuring, not the run: what was measured is judged, saved and
    marked partial or interrupted.

    Raises:
        PhasewiseError: before anything was measured.
    """
    started = time.perf_counter()
    if options.workers is not None:
        require()
    with (
        claimed(identity(options.target or "embedded"), options.out) as folder,
        Beside(options.target, options.exporter, wanted=options.power) as reading,
    ):
        try:
            seen = _measured(options, folder, started, reading, progress, announce)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: nothing was measured.", stop) from None
        run = _judged(options, seen, started, folder.name)
        saved = {
            "run.json": why_not(lambda: save(run, folder)),
            REQUESTS: seen.no_rows,
            sampled.ROWS: why_not(lambda: reading.write(folder, seen.sweep.began)),
        }
    unsaved = {name: why for name, why in saved.items() if why}
    return Finished(run=run, folder=folder, exit_code=seen.exit_code or _exit_code(run), unsaved=unsaved)


def _measured(
    options: Options,
    folder: Path,
    started: float,
    reading: Beside,
    progress: Callable[[str, float], None],
    announce: Callable[[tuple[str, ...]], None],
) -> _Measured:
    stated = options.subject.load_model()
    machine = options.subject.load_machine(progress)
    if options.link is not None:
        link.stated(options.link, machine)  # a mistake is told before anything is measured
    progress("starting the engine" if is_ours(options.target) else "probing the server", 0.0)
    connection = msgspec.structs.replace(options.connection, parallel=options.most)
    engine = open_server(options.target, connection)
    try:
        ground = what_runs(options.target, connection, stated, machine, engine, progress)
        first = _unfinished(engine.target, started, folder.name)
        with crew(options.workers, engine, progress) as others, begun(first, folder) as rows:
            reading.before()  # the budget runs from the making of the sweep on
            found = Sweep(
                engine,
                budget_s=options.budget_s,
                max_batch=options.most,
                max_tokens=options.max_tokens,
                max_prompt=options.max_prompt,
                limit=_stated_limit(engine),
                progress=lambda now: progress(now.doing, now.fraction),
                book=rows.book,
                sender=others.sender if others else None,
            )
            announce((*found.plan, *_shared(options.workers)))
            status, reason, code = _measure(found)
            if status == "complete":
                reading.after()
            who = others.record() if others else None
            why = rows.close()
        power = _power(reading, folder, found, why, ground.machine)
        if who is not None and who.lost and not code:
            status, reason, code = "partial", ", ".join(f"worker {one.worker} was lost" for one in who.lost), 3
        return _Measured(found, engine.target, ground, status, reason, code, why, who, power)
    finally:
        engine.close()


def _shared(workers: Place | None) -> tuple[str, ...]:
    return (f"Workers ({workers.written}) share every group of requests, and send theirs together.",) if workers else ()


def _unfinished(target: Target, started: float, identity: str) -> Run:
    about = envelope("sweep", target.name, started, status="interrupted", reason=UNTOLD, identity=identity)
    return Run(envelope=about, target=target, sweep=Swept(plan=(), together=None, surface=None, mix=None))


def _measure(found: Sweep) -> tuple[Status, str, int]:
    """Measure, and say how it ended: status, reason and exit code."""
    try:
        found.run()
    except KeyboardInterrupt as stop:
        if not found.swept().measured:
            raise
        if isinstance(stop, Terminated):
            return "interrupted", "ended by SIGTERM", 143
        return "interrupted", "interrupted by Ctrl-C", 130
    except EngineError as error:
        if not found.swept().measured:
            raise
        return "partial", str(error), 3
    if found.swept().surface is None:
        return "partial", f"no batch was held ({found.observation().stopped})", 3
    return "complete", "", 0


def _stated_limit(engine: Crowdable) -> int | None:
    """Requests at once by the server's own word; None when it does not say."""
    said = next((fact.value for fact in engine.target.reported if fact.key == "parallel"), "")
    return int(said) if said.isascii() and said.isdigit() and int(said[:9]) > 0 else None


def _power(reading: Beside, folder: Path, found: Sweep, no_rows: str, machine: Machine | None) -> Power:
    if no_rows:
        return Power(missing={"run": f"what ran when was not kept ({no_rows})"})
    return reading.power(of_sweep(folder, found.began, found.swept()), machine)


def _judged(options: Options, seen: _Measured, started: float, identity: str) -> Run:
    model, machine, _ = seen.ground
    found = roofs(model, machine) if model and machine else ()
    swept = beside(seen.sweep.swept(), (model, found[0]) if model and found else None)
    over = link.stated(options.link, machine) if options.link else link.of(machine) if machine else None
    question = Question(options.prompt, options.answer, options.itl_s, model, over)
    swept = msgspec.structs.replace(swept, plan=(*swept.plan, *_shared(options.workers)), crew=seen.crew)
    observation = seen.sweep.observation()
    observation = msgspec.structs.replace(observation, checks=(*observation.checks, *seen.power.checks))
    if not any(check.voids and check.status == "failed" for check in observation.checks):
        swept = msgspec.structs.replace(swept, advice=advise(swept, question))
    about = seen.target
    return Run(
        envelope=envelope(
            "sweep",
            about.name,
            started,
            status=seen.status,
            reason=seen.reason,
            identity=identity,
            zero=seen.sweep.began,
        ),
        target=msgspec.structs.replace(about, contradictions=(*about.contradictions, *contradictions(model, about))),
        model=model.facts(", ".join(f"{roof.dtype} ({roof.basis})" for roof in found)) if model else None,
        machine=machine,
        observation=observation,
        sweep=swept,
        power=seen.power,
    )


def _exit_code(run: Run) -> int:
    """3 for a run that its checks disbelieve."""
    checks = run.observation.checks if run.observation else ()
    return 3 if any(check.voids and check.status == "failed" for check in checks) else 0
