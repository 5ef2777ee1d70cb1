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
from phasewise.judge.captured import compared, every_rank, untraced
from phasewise.record.capture import Captured
from phasewise.record.observation import Observation
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
    observation: Observation | None,
    started: float,
    progress: Progress,
) -> Read:
    """Read the files of ``recordings``, which lie in ``folder`` or where they say."""
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
    phases = tuple(_phase(one, steps.get(one.name), ranks.get(one.name, ()), observation) for one in recordings)
    return Read(run, phases, on_cpu, tuple(faults))


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
    observation: Observation | None,
) -> Captured:
    if steps is not None:
        found = compared(one.name, one.sent, steps, observation)
        checks = (*found.checks, every_rank(one.name, ranks, one.ranks))
        return msgspec.structs.replace(found, files=one.files, checks=checks)
    unread = untraced(one.name, one.sent, observation, "the trace was not read")
    return msgspec.structs.replace(unread, files=one.files)
