"""The job behind `phasewise power`: join telemetry to a run or a trace, show files by themselves, or read here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from phasewise.errors import InputError, Terminated, UsageError
from phasewise.hardware.power.sampler import Sampler
from phasewise.jobs import trace as traces
from phasewise.jobs.begun import REQUESTS
from phasewise.jobs.crowd_power import of_load, of_sweep
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.requests import requests
from phasewise.jobs.sampled import of_requests, why_nothing
from phasewise.jobs.saved import why_not
from phasewise.judge.power.figures import metering
from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.recordings import beside, recording
from phasewise.judge.power.windows import Span
from phasewise.observe.telemetry.read import Placing, Recorded, own, placed, recorded
from phasewise.observe.telemetry.series import Series, of_readings
from phasewise.observe.telemetry.times import written
from phasewise.record.power import MeterState, Power, Recordings, Watched
from phasewise.record.run import RUNS, Run, claimed, load, save
from phasewise.record.trace import TraceStep
from phasewise.report.live import Drawn

Progress = Callable[[str, float], None]


_UNIX = 1e8
"""Times from here on are Unix seconds; those of a clock of its own are less."""

_ZONES_S, _STEP_S = 14 * 3600, 900
"""Zones lie up to 14 h from UTC, in quarters of an hour."""

_STEPS = "Prefill, decode, mixed: steps of the trace, from first to last kernel; of several ranks those of the first."


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show; see `phasewise power --help`."""

    inputs: tuple[Path, ...] = ()
    telemetry: tuple[Path, ...] = ()
    placing: Placing = Placing()
    gpus: tuple[int, ...] | None = None
    limit_w: float | None = None
    out: Path = RUNS


class Finished(NamedTuple):
    """A run with its power, the folder it was saved in (None: it lay there already), exit code, and what is unsaved."""

    run: Run
    folder: Path | None
    exit_code: int
    unsaved: dict[str, str]


class _What(NamedTuple):
    """What telemetry is joined to: a name, what ran when on Unix time, and the run whose facts go along."""

    name: str
    joined: Joined
    run: Run | None


def power(options: Options, progress: Progress) -> Finished:
    """Power per phase of the run or the traces of ``options.inputs``.

    Raises:
        UsageError: flags that do not fit, or telemetry that does not overlap with what ran.
        InputError: a file that cannot be read.
    """
    started = time.perf_counter()
    if not options.telemetry:
        return _recorded_before(options.inputs)
    what = _what(options.inputs, progress)
    series, files = _placed(options, what)
    how = "; ".join(dict.fromkeys(f"{one.device.meter} of {file}" for one, file in zip(series, files, strict=True)))
    found = judge(series, what.joined, provenance="reported", how=f"{how}.", files=files)
    with claimed(identity(f"{what.name}-power"), options.out) as folder:
        run = Run(
            envelope=envelope("power", what.name, started, identity=folder.name),
            target=what.run.target if what.run else None,
            model=what.run.model if what.run else None,
            machine=what.run.machine if what.run else None,
            judgement=what.run.judgement if what.run else None,
            power=found,
        )
        unsaved = why_not(lambda: save(run, folder))
    return Finished(run, folder, exit_code(found), {"run.json": unsaved} if unsaved else {})


def recordings(options: Options) -> Recordings:
    """The telemetry files of ``options`` by themselves, side by side.

    Raises:
        InputError: a file that cannot be read.
    """
    found = []
    for path in options.telemetry:
        read = recorded(path)
        series = _limited(_chosen(own(read, options.placing), options.gpus, str(path)), options.limit_w)
        found.append(recording(path.name, read.form, series))
    return beside(found)


def watch(seconds: float, exporter: str, seen: Callable[[Sequence[Drawn]], None]) -> tuple[Watched, int]:
    """Read every meter of this machine (or the exporter) for ``seconds``; ``seen`` is shown what came, as it comes.

    Ctrl-C or SIGTERM ends the reading, not the report: the exit code says which.

    Raises:
        UsageError: no meter can be read here.
    """
    with Sampler(exporter) as sampler:
        if not sampler.devices:
            raise UsageError(
                f"{why_nothing(sampler.stop().why_not)}: name a monitor's file with --telemetry FILE, or an exporter "
                "with --exporter http://HOST:9400/metrics."
            )
        begun, code = time.perf_counter(), 0
        try:
            until = begun + seconds
            while (left := until - time.perf_counter()) > 0:
                time.sleep(min(left, 0.5))
                seen(_last(of_readings(sampler.devices, sampler.so_far())))
        except KeyboardInterrupt as stop:  # what was read until then is shown
            code = 143 if isinstance(stop, Terminated) else 130
        lasted = time.perf_counter() - begun
        read = sampler.stop()
    series = of_readings(read.devices, read.readings)
    names = dict.fromkeys(device.meter for device in read.devices)
    states = [MeterState(name=name, readable=True) for name in names]
    states += [MeterState(name=name, readable=False, why_not=why) for name, why in read.why_not.items()]
    found = recording("this machine" if not exporter else "the exporter", " and ".join(names), series).power
    how = f"{' and '.join(names)} read every {read.every_s * 1e3:.0f} ms."
    power = msgspec.structs.replace(found, how=how)
    return Watched(meters=tuple(states), seconds=lasted if code else seconds, power=power), code


def _last(series: Sequence[Series]) -> list[Drawn]:
    """The last reading of each device; of one that has only a counter, the power of its last step."""
    found = []
    for one in series:
        shown = metering(one, "measured").series
        if not len(shown.time):
            continue
        at = [
            None if np.isnan(value) else float(value)
            for value in (shown.watts[-1], shown.limit_w[-1], shown.sm_hz[-1], shown.utilisation[-1])
        ]
        found.append(Drawn(f"{one.device.index}: {one.device.name}", *at))
    return found


def exit_code(found: Power) -> int:
    """3 where nothing came out, or a check voids what did."""
    void = any(check.voids and check.status == "failed" for check in found.checks)
    return 3 if void or not found.phases else 0


def _recorded_before(inputs: Sequence[Path]) -> Finished:
    """A run that was sampled as it was measured."""
    path = inputs[0]
    if not path.exists():
        raise InputError(f"{path} is not there: name a run, or a trace with --telemetry FILE.")
    if len(inputs) > 1 or not _is_run(path):
        raise UsageError("a trace holds no power: name what a monitor wrote beside it with --telemetry FILE.")
    run = load(path)
    if run.power_sweep is not None:
        raise UsageError(f"{path} is a power sweep: phasewise report {path} shows it.")
    if run.power is None or not run.power.phases:
        why = "; ".join(run.power.missing.values()) if run.power else "none was read when it was made"
        raise UsageError(f"{path} holds no power ({why}): name what a monitor wrote with --telemetry FILE.")
    return Finished(run, None, exit_code(run.power), {})


def _is_run(path: Path) -> bool:
    return path.name == "run.json" or (path / "run.json").exists()


def _what(inputs: Sequence[Path], progress: Progress) -> _What:
    if len(inputs) == 1 and _is_run(inputs[0]):
        return _of_run(inputs[0])
    if any(_is_run(path) for path in inputs):
        raise UsageError("telemetry is joined to one run, or to the traces of one job: name one run, or traces only.")
    return _of_traces(tuple(inputs), progress)


def _of_run(path: Path) -> _What:
    run, folder = load(path), path if path.is_dir() else path.parent
    if run.power_sweep is not None:
        raise UsageError(f"{path} is a power sweep, with its telemetry beside it: phasewise report {path} shows it.")
    if run.capture is not None and run.capture.held is not None and run.capture.held.batch > 1:
        raise UsageError(
            f"{path} held {run.capture.held.batch} requests at once, none of whose phases is alone: join telemetry to "
            "the traces of the capture, or to a run of phasewise sweep."
        )
    if run.observation is None and run.load is None:
        raise UsageError(
            f"{path} is no run of phasewise profile, sweep or load: telemetry is joined to one, or to traces."
        )
    joined = _requests(run, path, folder)
    if not joined.spans:
        raise UsageError(
            f"{path} holds no request of a phase that was measured alone: make a run with phasewise profile."
        )
    return _What(run.target.name if run.target else "run", joined, run)


def _requests(run: Run, path: Path, folder: Path) -> Joined:
    """What ran when.

    Raises:
        UsageError: the run is of a phasewise that did not keep it.
        InputError: the rows are not there, or of another kind of run.
    """
    untold = UsageError(f"{path} does not say when its requests were sent: make it again with this phasewise.")
    if run.load is None and run.envelope.zero is None:
        raise untold
    if run.load is None and run.sweep is None:
        return of_requests(requests(folder / REQUESTS), run.envelope.zero or 0.0)
    if run.load is not None and run.load.trial not in run.load.starts:
        raise untold
    if not (folder / REQUESTS).exists():
        raise InputError(f"{folder / REQUESTS} is not there: name a run with its rows.")
    try:
        if run.sweep is not None:
            return of_sweep(folder, run.envelope.zero or 0.0, run.sweep)
        assert run.load is not None
        return of_load(folder, run.load.trial, run.load.starts)
    except OSError as error:
        raise InputError(f"{folder / REQUESTS} cannot be read ({error.strerror}): make the run again.") from None


def _of_traces(files: tuple[Path, ...], progress: Progress) -> _What:
    read = traces.read_steps(traces.Options(files=files), progress)
    origin = read.trace.origin_ns / 1e9
    steps = [step for step in read.traced.steps if step.rank == min(one.rank for one in read.traced.steps)]
    spans = [
        Span(step.phase, origin + step.start_s, origin + step.start_s + step.span_s, _tokens(step))
        for step in steps
        if step.phase in ("prefill", "decode", "mixed") and step.span_s > 0
    ]
    if not spans:
        raise UsageError(f"{files[0]} holds no step whose phase is told: see phasewise trace {files[0]}.")
    if spans[0].begin < _UNIX:
        raise UsageError(f"{files[0]} counts time from a zero of its own: telemetry cannot be joined to it.")
    busy = tuple((span.begin, span.end) for span in spans)
    return _What(files[0].name, Joined(spans=tuple(spans), busy=busy, boundary=_STEPS), None)


def _tokens(step: TraceStep) -> int | None:
    """New tokens of a step, as its annotation says; of a mixed one those of both halves."""
    half = {"prefill": step.prefill, "decode": step.decode}.get(step.phase)
    return step.tokens if half is None or half.tokens is None else half.tokens


def _placed(options: Options, what: _What) -> tuple[list[Series], list[str]]:
    """Every device of every file on Unix time, and its file; at least one overlaps with what ran."""
    first = min(begin for begin, _ in what.joined.busy)
    last = max(end for _, end in what.joined.busy)
    found, files = [], []
    for path in options.telemetry:
        read = recorded(path)
        series = _chosen(placed(read, options.placing, first), options.gpus, str(path))
        _overlap(read, series, first, last, options.placing)
        found += _limited(series, options.limit_w)
        files += [path.name] * len(series)
    return found, files


def _overlap(read: Recorded, series: Sequence[Series], first: float, last: float, placing: Placing) -> None:
    """Refuse a file that was recorded at another time, with both ranges, and the zone that would make them meet."""
    begin, end = min(float(one.time[0]) for one in series), max(float(one.time[-1]) for one in series)
    if begin < last and end > first:
        return
    hint = "record it while the run is made, or give --offset"
    if read.clock == "local":
        within = "the zone of --zone" if placing.zone else "this machine's zone"
        shifts = [
            shift for shift in range(-_ZONES_S, _ZONES_S + 1, _STEP_S) if begin + shift <= first and end + shift >= last
        ]
        near = min(shifts, key=abs, default=None)
        meet = f"; {near / 3600:+g} h would make them meet" if near is not None else ""
        hint = f"its times were read in {within}{meet}: give --zone, that of the machine that wrote it, or --offset"
    raise UsageError(
        f"{read.path} and the run do not overlap: the file is from {written(begin)} to {written(end)}, the run from "
        f"{written(first)} to {written(last)}; {hint}."
    )


def _chosen(series: Sequence[Series], gpus: tuple[int, ...] | None, name: str) -> list[Series]:
    found = [one for one in series if gpus is None or one.device.index in gpus]
    if not found:
        there = ", ".join(str(one.device.index) for one in series)
        raise UsageError(f"{name} holds none of the devices of --gpus: it holds {there}.")
    return found


def _limited(series: Sequence[Series], limit_w: float | None) -> list[Series]:
    """``series`` with the limit that the user states, where the file holds none."""
    if limit_w is None:
        return list(series)
    return [one if one.says("limit_w") else one._replace(limit_w=np.full(len(one.time), limit_w)) for one in series]
