"""What a capture recorded, read: the run of its traces, and each phase beside the client's times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import InputError
from phasewise.jobs import trace
from phasewise.jobs.of_run import OfRun
from phasewise.jobs.recorder import Recording
from phasewise.judge.captured import Ground, Timed, compared, untraced
from phasewise.judge.captured_checks import every_rank
from phasewise.judge.traced import devices
from phasewise.predict.roofline import roofs
from phasewise.record.capture import Captured
from phasewise.record.run import Run
from phasewise.record.trace import Traced, TraceFile, TraceStep

Progress = Callable[[str, float], None]


class Read(NamedTuple):
    """What the traces hold.

    Attributes:
        run: of prefill and decode side by side, as `phasewise trace` makes it; None when neither could be read.
        phases: each recording beside the client's times.
        on_cpu: operators of a CPU stand for kernels.
        faults: why files could not be read.
    """

    run: Run | None
    phases: tuple[Captured, ...]
    on_cpu: bool
    faults: tuple[str, ...]


def read(
    recordings: Sequence[Recording],
    folder: Path,
    subject: OfRun,
    timed: Timed,
    started: float,
    progress: Progress,
) -> Read:
    """Read the files of ``recordings``, which lie in ``folder`` or where they say, beside what a client ``timed``."""
    files = {one.name: _paths(one, folder) for one in recordings}
    run, faults, on_cpu = None, [], False
    steps: dict[str, tuple[TraceStep, ...]] = {}
    ranks: dict[str, tuple[TraceFile, ...]] = {}
    sides = [name for name in ("prefill", "decode") if files.get(name)]
    if sides:
        options = trace.Options(prefill=files.get("prefill", ()), decode=files.get("decode", ()))
        try:
            seen = trace.read_steps(options, lambda doing, part: progress(doing, 0.8 * part))
            run = trace.judged(seen, subject, options, started, folder.name)
            for name, own, marked in _by_recording(seen.traced, sides):
                ranks[name], steps[name] = own, marked
            on_cpu = seen.traced.on_cpu
        except InputError as error:
            faults.append(str(error))
    if files.get("mixed"):
        try:
            seen = trace.read_steps(
                trace.Options(files=files["mixed"]), lambda doing, part: progress(doing, 0.8 + 0.2 * part)
            )
            ranks["mixed"], steps["mixed"] = seen.traced.files, seen.traced.steps
            on_cpu = on_cpu or seen.traced.on_cpu
        except InputError as error:
            faults.append(str(error))
    ground = _ground(subject, run.traced if run else None)
    phases = tuple(_phase(one, steps.get(one.name), ranks.get(one.name, ()), timed, ground) for one in recordings)
    return Read(run, phases, on_cpu, tuple(faults))


def _ground(subject: OfRun, traced: Traced | None) -> Ground | None:
    """What ran where, on as many devices as share a step; None when one of both is unknown."""
    model, machine = subject
    if model is None or machine is None:
        return None
    many = devices(traced, machine)[0] if traced else machine.devices
    found = roofs(model, msgspec.structs.replace(machine, devices=many))
    return Ground(model, found[0]) if found else None


def _paths(one: Recording, folder: Path) -> tuple[Path, ...]:
    """Files of workers that are on this machine."""
    return tuple(
        folder / file.path if file.place == "run" else Path(file.path)
        for file in one.files
        if file.role == "rank" and file.place != "server"
    )


def _by_recording(
    traced: Traced, names: Sequence[str]
) -> Iterator[tuple[str, tuple[TraceFile, ...], tuple[TraceStep, ...]]]:
    """Files and steps of each recording, whose ranks follow one another."""
    first = 0
    for name, count in zip(names, traced.recordings or (len(traced.files),), strict=True):
        marked = tuple(step for step in traced.steps if first <= step.rank < first + count)
        yield name, traced.files[first : first + count], marked
        first += count


def _phase(
    one: Recording,
    steps: tuple[TraceStep, ...] | None,
    ranks: Sequence[TraceFile],
    timed: Timed,
    ground: Ground | None,
) -> Captured:
    if steps is not None:
        found = compared(one.name, one.sent, steps, timed, ground)
        checks = (*found.checks, every_rank(one.name, ranks, one.ranks))
        return msgspec.structs.replace(found, files=one.files, checks=checks)
    unread = untraced(one.name, one.sent, timed, "the trace was not read", ground)
    return msgspec.structs.replace(unread, files=one.files)
