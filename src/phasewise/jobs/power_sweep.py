"""The job behind `phasewise power sweep`: what a power cap, or the clock, does to each phase of a live engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phasewise.engines.base import Engine
from phasewise.errors import EngineError, Interrupted, Terminated, UsageError
from phasewise.hardware.power.guard import Guard, GuardLost
from phasewise.hardware.power.limits import Card
from phasewise.hardware.power.sampler import Sampler, Telemetry
from phasewise.isolate.ledger.sheet import FIRST
from phasewise.jobs import power_caps, power_point, power_runs, rows
from phasewise.jobs.begun import REQUESTS, UNTOLD, Rows, begun
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.power_point import Point
from phasewise.jobs.saved import why_not
from phasewise.jobs.target import Connection, open_engine
from phasewise.judge import clock_slope
from phasewise.judge import power_sweep as judge
from phasewise.judge.drawn import Beside
from phasewise.observe.telemetry.series import of_readings
from phasewise.record.envelope import Status
from phasewise.record.power_sweep import Held, PowerSweep
from phasewise.record.run import RUNS, Run, claimed, save
from phasewise.record.target import Target

LEAST_S = 3.0
"""Seconds that one cap gets at least: under that neither phase repeats."""

Progress = Callable[[str, float], None]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure and how; see `phasewise power sweep --help`.

    ``set_limits``: change limits; without it none is ever changed. ``caps`` are mW, highest first or in any order.
    """

    target: str | None = None
    set_limits: bool = False
    gpus: str | None = None
    caps: tuple[int, ...] | None = None
    steps: int = 5
    budget_s: float = 120.0
    settle_s: float = 1.0
    prompt: int = 2048
    connection: Connection = Connection()
    out: Path = RUNS


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the folder it was saved in, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


class _Sweep:
    """What was measured so far, whatever ends it; its rows are written into ``folder`` as they come."""

    def __init__(self, options: Options, folder: Path, progress: Progress) -> None:
        self.options, self.folder, self.progress = options, folder, progress
        self.points: list[Point] = []
        self.cards: tuple[Held, ...] = ()
        self.notes: list[str] = []
        self.telemetry: Telemetry | None = None
        self.target: Target | None = None
        self.status: Status = "complete"
        self.reason, self.exit_code = "", 0
        self.no_rows = ""
        self._rows: Rows | None = None
        self._start, self._unused = FIRST, set[int]()

    @property
    def zero(self) -> float:
        """``perf_counter()`` second from which the times of all rows count."""
        assert self._start.zero is not None
        return self._start.zero

    def run(self, cards: Sequence[Card], caps: Sequence[int]) -> None:
        """Measure under each of ``caps``, or, without any, as the machine is."""
        options = self.options
        started = time.perf_counter()
        self.progress("connecting", 0.0)
        engine = open_engine(options.target, options.connection)
        self.target = engine.target
        try:
            with Sampler() as sampler:
                self._see_clocks(sampler)
                with begun(_unfinished(self.target, started, self.folder.name), self.folder) as self._rows:
                    try:
                        if caps:
                            self._under_guard(engine, cards, caps)
                        else:
                            self._measure(self._begun(engine, options.budget_s, self.progress))
                    except KeyboardInterrupt as stop:
                        self._interrupted(stop)
                    except (EngineError, GuardLost, UsageError) as error:
                        if not self.points:
                            raise
                        self.status, self.reason, self.exit_code = "partial", str(error), 3
                    self.telemetry = sampler.stop()
                    self.no_rows = self._rows.close(self._unused)
        finally:
            engine.close()

    def left_behind(self) -> str:
        """What is not as it was found, to go on a sentence; empty when nothing is."""
        return "".join(f"; {card.trouble.rstrip('.')}" for card in self.cards if card.trouble)

    def _see_clocks(self, sampler: Sampler) -> None:
        """Raises UsageError when no GPU's clock can be read."""
        if not any(device.kind == "gpu" for device in sampler.devices):
            why = "; ".join(f"{name}: {why}" for name, why in sampler.stop().why_not.items())
            raise UsageError(f"no GPU whose clock and power can be read is here ({why}).")

    def _under_guard(self, engine: Engine, cards: Sequence[Card], caps: Sequence[int]) -> None:
        guard = Guard([card.uuid for card in cards])
        try:
            with guard:
                self.notes += [
                    f"A sweep that was killed had left {back.card} capped: put back." for back in guard.recovered
                ]
                self._caps(engine, guard, caps)
                self.progress("putting the limits back", 1.0)
        finally:
            self.cards = power_caps.held(guard.cards, guard.restored)

    def _caps(self, engine: Engine, guard: Guard, caps: Sequence[int]) -> None:
        order = (*caps, caps[0])  # the first once more at the end: does the machine drift?
        each = self.options.budget_s / len(order)
        for number, cap in enumerate(order):
            again = number == len(caps)

            def tell(doing: str, done: float, number: int = number, cap: int = cap) -> None:
                self.progress(f"{cap / 1000:g} W, {number + 1} of {len(order)}: {doing}", (number + done) / len(order))

            tell("setting the limit", 0.0)
            now = guard.set(cap)
            if why := power_caps.ignored(cap, now):
                raise UsageError(why)
            if not again and any(min(n.limit for n in now) == min(n.limit for n in p.set) for p in self.points):
                self.notes.append(
                    f"{cap / 1000:g} W was taken as {now[0].limit / 1000:g} W, which was measured already."
                )
                continue
            tell("settling", 0.0)
            time.sleep(self.options.settle_s)
            budget_s = max(LEAST_S, each - self.options.settle_s)
            point = self._begun(engine, budget_s, tell)._replace(asked=cap, set=now, again=again)
            self._measure(point)
            if why := power_caps.disturbed(guard.look()):
                self.points[-1] = point._replace(disturbed=why)

    def _begun(self, engine: Engine, budget_s: float, tell: Progress) -> Point:
        book = self._rows.book if self._rows else None
        return power_point.begin(engine, budget_s, self.options.prompt, tell, book, self._start)

    def _measure(self, point: Point) -> None:
        """Measure, and keep what could be measured of it however it ends."""
        try:
            point.isolation.run()
        finally:
            self._start = point.isolation.after()
            self._unused |= point.isolation.unused()
            if power_point.counts(point):
                self.points.append(point)

    def _interrupted(self, stop: KeyboardInterrupt) -> None:
        if not self.points:
            raise stop
        by_term = isinstance(stop, Terminated)
        self.status, self.reason = "interrupted", "ended by SIGTERM" if by_term else "interrupted by Ctrl-C"
        self.exit_code = 143 if by_term else 130


def power_sweep(options: Options, progress: Progress) -> Finished:
    """Measure ``options.target`` under caps, or as it is clocked by itself, and save the run.

    A failure, Ctrl-C or SIGTERM ends the measuring, not the run: what was measured is judged, saved and marked partial
    or interrupted; the limits are back before anything else is done.

    Raises:
        PhasewiseError: before anything was measured.
    """
    started = time.perf_counter()
    cards, caps = _planned(options)
    with claimed(identity(options.target or "embedded"), options.out) as folder:
        sweep = _Sweep(options, folder, progress)
        try:
            sweep.run(cards, caps)
        except KeyboardInterrupt as stop:
            raise Interrupted(f"Interrupted: nothing was kept{sweep.left_behind()}.", stop) from None
        except (EngineError, GuardLost, UsageError) as error:
            if behind := sweep.left_behind():
                raise GuardLost(f"{str(error).rstrip('.')}{behind}.") from None
            raise
        run = _judged(sweep, started, folder.name)
        saved = {"run.json": why_not(lambda: save(run, folder)), REQUESTS: sweep.no_rows}
        saved[power_runs.TELEMETRY] = why_not(lambda: _write_readings(sweep, folder))
    unsaved = {name: why for name, why in saved.items() if why}
    return Finished(run=run, folder=folder, exit_code=sweep.exit_code or _exit_code(run), unsaved=unsaved)


def of_runs(paths: Sequence[Path], out: Path = RUNS) -> Finished:
    """How the phases of saved runs follow the clock, by the telemetry beside them.

    Raises:
        UsageError: a run has no telemetry beside it, or is none.
    """
    started = time.perf_counter()
    runs, requests = power_runs.clocked(paths)
    names = ", ".join(str(path) for path in paths)
    with claimed(identity("power-sweep-of-runs"), out) as folder:
        run = Run(
            envelope=envelope("power sweep", names, started, identity=folder.name),
            target=runs[0].target,
            power_sweep=PowerSweep(slopes=clock_slope.slopes(requests)),
        )
        why = why_not(lambda: save(run, folder))
    return Finished(run=run, folder=folder, exit_code=0, unsaved={"run.json": why} if why else {})


def _unfinished(target: Target, started: float, identity: str) -> Run:
    about = envelope("power sweep", target.name, started, status="interrupted", reason=UNTOLD, identity=identity)
    return Run(envelope=about, target=target)


def _write_readings(sweep: _Sweep, folder: Path) -> None:
    """Every reading of the telemetry, on the clock of the requests."""
    assert sweep.telemetry is not None
    readings = [msgspec.structs.replace(one, at=one.at - sweep.zero) for one in sweep.telemetry.readings]
    rows.write(readings, folder / power_runs.TELEMETRY)


def _planned(options: Options) -> tuple[tuple[Card, ...], tuple[int, ...]]:
    """The cards and the caps, after everything that can be refused before anything is started."""
    power_caps.here(options.target)
    if not options.set_limits:
        if options.caps is not None or options.gpus is not None:
            raise UsageError("--caps and --gpus say which limits to change: add --set-limits, which alone allows it.")
        return (), ()
    cards = power_caps.cards(options.gpus)
    caps = power_caps.chosen(cards, options.caps, options.steps)
    least = (len(caps) + 1) * (LEAST_S + options.settle_s)
    if options.budget_s < least:
        raise UsageError(
            f"--budget {options.budget_s:g}s is too little for {len(caps)} caps and the first once more: give "
            f"{least:g}s or more, or fewer --steps."
        )
    return cards, caps


def _judged(sweep: _Sweep, started: float, folder: str) -> Run:
    telemetry, target = sweep.telemetry, sweep.target
    assert telemetry is not None
    assert target is not None
    uuids = {now.card.uuid for point in sweep.points for now in point.set}
    devices = [i for i, one in enumerate(telemetry.devices) if (one.uuid in uuids if uuids else one.kind == "gpu")]
    beside = Beside(telemetry.readings, devices)
    series = [one for one in of_readings(telemetry.devices, telemetry.readings) if one.device.uuid in uuids]
    caps = judge.compared([power_point.cap(point, beside, series) for point in sweep.points if point.set])
    requests = [one for p in sweep.points for one in power_point.clocked(p.isolation.rows(), p.isolation.began, beside)]
    found = PowerSweep(
        cards=sweep.cards,
        caps=caps,
        verdicts=judge.verdicts(caps) if caps else (),
        knee=judge.knee(caps) if caps else None,
        slopes=clock_slope.slopes(requests),
        notes=(*sweep.notes, *judge.drift(caps), *([telemetry.ended] if telemetry.ended else [])),
        stopped=sweep.reason,
    )
    return Run(
        envelope=envelope(
            "power sweep", target.name, started, status=sweep.status, reason=sweep.reason, identity=folder
        ),
        target=target,
        power_sweep=found,
    )


def _exit_code(run: Run) -> int:
    """3 when a limit is not what it was, or a check disbelieves every cap."""
    found = run.power_sweep
    assert found is not None
    lost = any(card.trouble for card in found.cards)
    return 3 if lost or (found.caps and all(cap.doubts for cap in found.caps)) else 0
