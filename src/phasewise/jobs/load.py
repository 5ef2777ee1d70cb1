"""The job behind `phasewise load`: a plan, a server, rows beside the run, figures and a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import msgspec

from phasewise.engines.embedded import EmbeddedEngine
from phasewise.engines.openai import OpenAIServer
from phasewise.errors import InputError, Interrupted, UsageError
from phasewise.isolate.crew.crew import Crew
from phasewise.isolate.crew.on_ray import Place, require
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.ledger.schema import ENDED_BY_US, TABLES, WARMUP, Frame
from phasewise.isolate.workload import seek
from phasewise.isolate.workload.figures import figures
from phasewise.isolate.workload.plan import Bounds, Plan, warmup, within
from phasewise.isolate.workload.worker import Done, Worker
from phasewise.jobs.begun import REQUESTS, UNTOLD, kept_apart
from phasewise.jobs.crew import crew, served
from phasewise.jobs.crowd_power import of_load
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.load_ending import ending
from phasewise.jobs.sampled import ROWS, Beside
from phasewise.jobs.saved import why_not
from phasewise.jobs.stopping import Stop, stopping
from phasewise.jobs.target import Connection, known, open_server
from phasewise.jobs.workload import Progress, Sending, Workload
from phasewise.record.envelope import Status
from phasewise.record.load import Limits, Load, LoadPlan, Trial
from phasewise.record.power import Power
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.target import Target

LEAD_S = 0.05
"""From all being ready to the start."""

_MEASURED = f"trial <> {WARMUP} AND NOT starts_with(coalesce(error, ''), '{ENDED_BY_US}')"
"""Requests that a figure may be of, in SQL."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and where; see `phasewise load --help`."""

    target: str | None = None
    sending: Sending
    limits: Limits | None = None
    find_rate: bool = False
    warmup: int = 4
    drain_s: float = 60.0
    connections: int = 4096
    connection: Connection = Connection()
    workers: Place | None = None
    power: bool = True
    exporter: str = ""
    out: Path = RUNS


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its folder, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class Prepared:
    """A plan that nothing was sent of.

    Raises:
        UsageError: flags or a log that make no plan.
    """

    def __init__(self, options: Options, progress: Progress = lambda doing, done: None) -> None:
        if options.find_rate and (options.limits is None or options.sending.rate is None):
            raise UsageError("--find-rate looks for the highest rate that holds limits: give --rate to start at, and "
                             "--ttft, --tpot or both.")  # fmt: skip
        if options.find_rate and options.sending.arrivals in ("burst", "ramp"):
            raise UsageError("--find-rate needs a steady rate: --arrivals constant, poisson or gamma.")
        known(options.target)
        self.options = options
        self.workload = Workload(options.sending, progress)
        self.plan = self._first()
        self.words = self._words(self.plan, 0)

    def _first(self) -> Plan:
        options = self.options
        if not options.find_rate or options.limits is None or options.sending.rate is None:
            return self.workload.plan()
        rate = options.sending.rate
        return self.workload.plan(rate=rate, bounds=spent(options.sending.bounds, rate, options.limits, 0, 0, 0.0))

    def fitted(self, target: Target) -> tuple[Plan, LoadPlan]:
        """The plan without what the server's context cannot hold.

        Raises:
            UsageError: nothing is left.
        """
        plan, out = within(self.plan, target.max_context)
        if not len(plan):
            raise UsageError(f"no request fits the context of {target.max_context:,} that the server states.")
        return plan, self._words(plan, out)

    def _words(self, plan: Plan, left_out: int) -> LoadPlan:
        options = self.options
        words = self.workload.words(plan, drain_s=options.drain_s, warmup=options.warmup, left_out=left_out)
        if options.workers is not None:
            shared = f"Workers ({options.workers.written}) share it by request or user, and start together."
            words = msgspec.structs.replace(words, notes=(*words.notes, shared))
        if not options.find_rate:
            return words
        bounds = options.sending.bounds
        note = (
            f"This is the first of up to {seek.MOST_TRIALS} trials; all of them together stay within "
            f"{bounds.requests:,} requests, {bounds.tokens:,} tokens and {bounds.seconds:g} s of sending."
        )
        return msgspec.structs.replace(words, notes=(*words.notes, note))


def spent(bounds: Bounds, rate: float, limits: Limits, requests: int, tokens: int, seconds: float) -> Bounds:
    """The bounds of one trial: what it needs, within what is left of those of the run."""
    return Bounds(
        requests=bounds.requests - requests,
        tokens=bounds.tokens - tokens,
        seconds=min(seek.seconds(rate, limits), bounds.seconds - seconds),
    )


def load(prepared: Prepared, progress: Progress) -> Finished:
    """Send the plan and save the run. Ctrl-C, SIGTERM or a failure ends the sending, not the run.

    Raises:
        PhasewiseError: before anything was sent.
    """
    started, options = time.perf_counter(), prepared.options
    if options.workers is not None:
        require()
    with (
        claimed(identity(options.target or "embedded"), options.out) as folder,
        Beside(options.target, options.exporter, wanted=options.power) as reading,
    ):
        progress("probing the server", 0.0)
        engine = open_server(options.target, options.connection)
        try:
            with crew(options.workers, engine, progress) as others, stopping() as stop:
                run = _Run(prepared, engine, others, folder, stop, progress, started, reading)
                try:
                    return run.finish(*run.measure())
                finally:
                    run.tidy()
        finally:
            engine.close()


class _How(TypedDict):
    """How a plan is sent; see `isolate.workload.worker.Worker`."""

    trial: int
    drain_s: float
    most: int
    stopped: Callable[[], bool]
    tell: Callable[[int, int], None]


class _Run:
    """One load run as it goes.

    Attributes:
        no_rows: why rows could not be written any more, which ends the sending; ``rest`` are those that were not.
        no_files: why the rows did not become one file of each table.
    """

    def __init__(
        self,
        prepared: Prepared,
        engine: OpenAIServer | EmbeddedEngine,
        crew: Crew | None,
        folder: Path,
        stop: Stop,
        progress: Progress,
        started: float,
        reading: Beside,
    ) -> None:
        self.prepared, self.engine, self.crew, self.folder = prepared, engine, crew, folder
        self.stop, self.progress, self.started, self.reading = stop, progress, started, reading
        self.zeros: dict[int, float] = {}
        self.power: Power | None = None
        self.options, self.workload = prepared.options, prepared.workload
        self.gave_out = self.no_rows = self.no_files = ""
        self.rest: list[Frame] = []
        self.plan, self.words = prepared.fitted(engine.target)
        self.server = served(engine)

    def measure(self) -> tuple[Load, Sequence[Done]]:
        """Send, and make figures of the rows.

        Raises:
            InputError: the folder cannot be written to, or what was written cannot be read.
            Interrupted: nothing was measured.
        """
        nothing = Load(plan=self.words, sent=0, failed=0, unsent=0, reasons={}, window=None)
        self.no_rows = why_not(lambda: save(self._record(nothing, "interrupted", UNTOLD), self.folder))
        self.reading.before()
        if self.options.warmup and not self.no_rows:
            first = warmup(self.plan, self.options.warmup)
            self._send(first, WARMUP, self.options.drain_s, "warming up")
        if self.stop():
            raise Interrupted("Interrupted: only the warm-up was sent.", self.stop.error)
        if self.no_rows:
            raise self._unwritable(self.no_rows)
        try:
            found, done = self._measured()
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        if found.sent == found.broken_off and self.stop():
            raise Interrupted("Interrupted: nothing was measured.", self.stop.error)
        if not found.sent and self.no_rows:
            raise self._unwritable(self.no_rows)
        return found, done

    def tidy(self) -> None:
        """Leave no folder of a run that measured nothing."""
        with suppress(OSError):
            if not len(table.read(self.folder, "requests", "request", _MEASURED, self.rest)["request"]):
                for name in ("run.json", *(f"{name}.parquet" for name in TABLES)):
                    (self.folder / name).unlink(missing_ok=True)
                table.discard(self.folder)

    def _unwritable(self, why: str) -> InputError:
        return InputError(f"{self.folder} cannot be written to ({why}): give --out a folder that can.")

    def _measured(self) -> tuple[Load, Sequence[Done]]:
        """Send the plan, or seek the rate, and make figures of the rows.

        Raises:
            OSError: rows cannot be read.
        """
        if self.options.find_rate:
            found, done = self._seek()
        else:
            done = self._send(self.plan, 0, self.options.drain_s, "sending")
            self.progress("adding up", 1.0)
            found = self._figures(done, 0)
        if not self.stop():
            self.reading.after()
        self.power = self.reading.power(of_load(self.folder, found.trial, self.zeros, self.rest), None)
        self.no_files = self.no_rows or why_not(lambda: table.merge(self.folder))
        files = tuple(f"{name}.parquet" for name in TABLES if (self.folder / f"{name}.parquet").exists())
        now = time.time() - time.perf_counter()
        found = msgspec.structs.replace(
            found,
            rows=files,
            starts={trial: now + zero for trial, zero in self.zeros.items()},
            crew=self.crew.record() if self.crew else None,
        )
        return found, done

    def finish(self, found: Load, done: Sequence[Done]) -> Finished:
        """Save the run and say how it ended."""
        status, reason, code = ending(found, done, self.stop.by, self.no_rows, self.gave_out, self.power)
        run = self._record(found, status, reason)
        saved = {
            "run.json": why_not(lambda: save(run, self.folder)),
            REQUESTS: kept_apart(self.no_files, self.folder),
            ROWS: why_not(lambda: self.reading.write(self.folder, self.zeros.get(found.trial, self.started))),
        }
        unsaved = {name: why for name, why in saved.items() if why}
        return Finished(run=run, folder=self.folder, exit_code=code, unsaved=unsaved)

    def _send(self, plan: Plan, trial: int, drain_s: float, doing: str) -> tuple[Done, ...]:
        begun, whole = time.perf_counter(), max(plan.seconds, 1e-9)

        def tell(sent: int, ended: int) -> None:
            share = len(plan) and ended / len(plan)
            self.progress(
                f"{doing}: {sent:,} sent, {ended:,} answered",
                min(1.0, max(share, (time.perf_counter() - begun) / whole)),
            )

        book = Book(self.folder, keeps=True)
        how = _How(
            trial=trial,
            drain_s=drain_s,
            most=self.options.connections,
            stopped=lambda: self.stop() or bool(book.why),
            tell=tell,
        )
        try:
            return self._sent(plan, book, how)
        finally:
            self.no_rows = why_not(book.close)
            if self.no_rows:
                self.rest = book.rest()

    def _sent(self, plan: Plan, book: Book, how: _How) -> tuple[Done, ...]:
        if self.crew is not None and how["trial"] != WARMUP:
            done = self.crew.send(plan, book, **how)
            self.zeros[how["trial"]] = self.crew.start
            return done
        worker = Worker(self.server, plan, book, **how)
        worker.prepare()
        self.zeros[how["trial"]] = time.perf_counter() + LEAD_S
        return (worker.run(self.zeros[how["trial"]]),)

    def _figures(self, done: Sequence[Done], trial: int) -> Load:
        words, limits = self.words, self.options.limits
        return figures(self.folder, words, done, limits, trial=trial, trims=self.workload.steady, rest=self.rest)

    def _seek(self) -> tuple[Load, Sequence[Done]]:
        """Trials until the rate is found; the figures are those of the highest rate that held, else of the last."""
        limits, bounds = self.options.limits, self.options.sending.bounds
        assert limits is not None
        assert self.options.sending.rate is not None
        seen: dict[int, tuple[Load, Sequence[Done]]] = {}
        used = [0, 0, 0.0]

        def attempt(rate: float, _: int) -> Trial | None:
            """A trial; once more when the client was the bottleneck: that says nothing of the server."""
            detail = ""
            for _ in range(2):
                trial = once(rate, len(seen))
                client = seen[trial.number][0].client if trial else None
                if client is None or client.believed:
                    return trial
                detail = client.detail
            self.gave_out = f"at {rate:.3g} requests a second {detail}"
            return None

        def once(rate: float, number: int) -> Trial | None:
            left = spent(bounds, rate, limits, int(used[0]), int(used[1]), used[2])
            short = left.seconds < seek.seconds(rate, limits)
            if self.stop() or left.requests < 1 or left.tokens < 1 or (short and seen):
                return None
            plan, _ = within(self.workload.plan(rate=rate, bounds=left, trial=number), self.engine.target.max_context)
            if not len(plan):
                return None
            drain = seek.drain(limits, int(plan.answer.max()), self.options.drain_s)
            done = self._send(plan, number, drain, f"trial {number + 1}, {rate:.3g} requests a second")
            used[:] = used[0] + len(plan), used[1] + sum(plan.tokens), used[2] + plan.seconds
            found = self._figures(done, number)
            seen[number] = found, done
            if found.goodput is None:
                self.gave_out = f"no request of a trial at {rate:.3g} requests a second was answered"
            elif self.crew is not None and self.crew.lost:
                self.gave_out = f"a worker was lost in the trial at {rate:.3g} requests a second"
            if found.goodput is None or self.gave_out or self.no_rows or self.stop():
                return None
            return Trial(
                number=number,
                rate=rate,
                requests=found.sent,
                failed=found.failed,
                goodput=found.goodput,
                achieved=found.rates.requests.value if found.rates else 0.0,
            )

        trials, outcome = seek.seek(attempt, self.options.sending.rate)
        held = [trial for trial in trials if trial.rate == outcome.held]
        if not seen:
            raise Interrupted("Interrupted: nothing was measured.", self.stop.error)
        best = held[0].number if held else max(seen)
        found, done = seen[best]
        return msgspec.structs.replace(found, trial=best, trials=trials, found=outcome), done

    def _record(self, found: Load, status: Status, reason: str) -> Run:
        name = self.engine.target.name
        return Run(
            envelope=envelope("load", name, self.started, status=status, reason=reason, identity=self.folder.name),
            target=self.engine.target,
            load=found,
            power=self.power,
        )
