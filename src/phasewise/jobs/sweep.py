"""The job behind `phasewise sweep`: batch, context and the mix on a live engine, beside what was predicted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.engines.base import Crowdable
from phasewise.errors import EngineError, Interrupted, Terminated
from phasewise.isolate.sweep import DEFAULT_BUDGET_S, DEFAULT_MAX_BATCH, DEFAULT_MAX_TOKENS, Sweep
from phasewise.jobs import rows, sampled
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
from phasewise.record.envelope import Status
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
    with (
        claimed(identity(options.target or "embedded"), options.out) as folder,
        Beside(options.target, options.exporter, wanted=options.power) as reading,
    ):
        try:
            seen = _measured(options, reading, progress, announce)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted: nothing was measured.", stop) from None
        run = _judged(options, seen, started, folder.name)
        saved = {
            "run.json": why_not(lambda: save(run, folder)),
            "requests.parquet": why_not(lambda: rows.write(seen.sweep.rows(), folder / "requests.parquet")),
            sampled.ROWS: why_not(lambda: reading.write(folder, seen.sweep.began)),
        }
    unsaved = {name: why for name, why in saved.items() if why}
    return Finished(run=run, folder=folder, exit_code=seen.exit_code or _exit_code(run), unsaved=unsaved)


def _measured(
    options: Options,
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
        reading.before()  # the budget runs from the making of the sweep on
        found = Sweep(
            engine,
            budget_s=options.budget_s,
            max_batch=options.most,
            max_tokens=options.max_tokens,
            max_prompt=options.max_prompt,
            limit=_stated_limit(engine),
            progress=lambda now: progress(now.doing, now.fraction),
        )
        announce(found.plan)
        status, reason, code = _measure(found)
        if status == "complete":
            reading.after()
        power = reading.power(sampled.of_rows_together(found.rows(), found.began), ground[1])
        return _Measured(found, engine.target, ground, status, reason, code, power)
    finally:
        engine.close()


def _measure(found: Sweep) -> tuple[Status, str, int]:
    """Measure, and say how it ended: status, reason and exit code."""
    try:
        found.run()
    except KeyboardInterrupt as stop:
        if not _parts(found.swept()):
            raise
        if isinstance(stop, Terminated):
            return "interrupted", "ended by SIGTERM", 143
        return "interrupted", "interrupted by Ctrl-C", 130
    except EngineError as error:
        if not _parts(found.swept()):
            raise
        return "partial", str(error), 3
    if found.swept().surface is None:
        return "partial", f"no batch was held ({found.observation().stopped})", 3
    return "complete", "", 0


def _parts(found: Swept) -> list[str]:
    """What was measured."""
    return [name for name in ("together", "surface", "mix") if getattr(found, name) is not None]


def _stated_limit(engine: Crowdable) -> int | None:
    """Requests at once by the server's own word; None when it does not say."""
    said = next((fact.value for fact in engine.target.reported if fact.key == "parallel"), "")
    return int(said) if said.isascii() and said.isdigit() and int(said[:9]) > 0 else None


def _judged(options: Options, seen: _Measured, started: float, identity: str) -> Run:
    model, machine, _ = seen.ground
    found = roofs(model, machine) if model and machine else ()
    swept = beside(seen.sweep.swept(), (model, found[0]) if model and found else None)
    over = link.stated(options.link, machine) if options.link else link.of(machine) if machine else None
    question = Question(options.prompt, options.answer, options.itl_s, model, over)
    swept = msgspec.structs.replace(swept, advice=advise(swept, question))
    about = seen.target
    observation = seen.sweep.observation()
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
        observation=msgspec.structs.replace(observation, checks=(*observation.checks, *seen.power.checks)),
        sweep=swept,
        power=seen.power,
    )


def _exit_code(run: Run) -> int:
    """3 for a run that its checks disbelieve."""
    checks = run.observation.checks if run.observation else ()
    return 3 if any(check.voids and check.status == "failed" for check in checks) else 0
