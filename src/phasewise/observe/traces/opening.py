"""Files, folders and zips to one trace: the reader by content, the ranks, one clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from phasewise.engines.profilers.files import FRONT_END
from phasewise.errors import InputError
from phasewise.observe.traces import refusal
from phasewise.observe.traces.events import Device, Fault, Source, Trace
from phasewise.observe.traces.files import Part, by_rank, found, natural, recognised
from phasewise.observe.traces.join import joined
from phasewise.observe.traces.opened import Opened, text
from phasewise.observe.traces.readers import Progress, registry
from phasewise.observe.traces.twins import fingerprint


def read_all(paths: Sequence[Path], progress: Progress = lambda doing, fraction: None) -> Trace:
    """Everything in ``paths``: the files of one job, one source and rank for each process.

    A folder stands for the files in it and one level below, a zip for its members; what no reader knows there is
    skipped, and the first source says so; so is the trace of vLLM's front end beside those of workers, and a second
    copy of a recording. Ranks follow what the files say of themselves when each says another, else their names.

    Raises:
        UsageError: a file is named twice.
        InputError: one that is named is no trace or holds nothing that can be used, or none is.
    """
    known, unknown = recognised(found(paths))
    named = {text(path) for path in paths}
    if refused := next((one for one in unknown if not known or one.name in named), None):
        raise InputError(refusal.sentence(refused))
    front = [part for part in known if FRONT_END in part.opened.name]
    known = [part for part in known if part not in front] or known
    groups, left = by_rank(known)
    read, why, twins = _read(groups, progress)
    order = _in_order([source for _, source in read])
    traces = [(trace, rank) for rank, at in enumerate(order) for trace in read[at][0]]
    sources = [read[at][1] for at in order]
    notes = (*sources[0].notes, *_skipped(unknown, left, [part for part in front if part not in known]), *twins)
    sources[0] = sources[0]._replace(faults=(*sources[0].faults, *why), notes=notes)
    read.clear()
    return joined([trace for trace, _ in traces], [rank for _, rank in traces], sources)


def _read(
    groups: list[list[Part]], progress: Progress
) -> tuple[list[tuple[list[Trace], Source]], list[Fault], list[str]]:
    """The parts and the source of each rank, why some have none, and which hold what another holds.

    A file that was found in a folder and cannot be used is passed over, as long as another can.
    """
    seen: dict[object, str] = {}
    twins: list[str] = []
    read: list[tuple[list[Trace], Source]] = []
    why: list[Fault] = []
    failed: InputError | None = None
    whole, before = sum(part.opened.size for group in groups for part in group), 0
    for group in groups:
        traces = []
        for part in group:
            start, size = before / whole, part.opened.size / whole

            def tell(doing: str, fraction: float, start: float = start, size: float = size) -> None:
                progress(doing, start + size * fraction)

            try:
                trace = registry.reader(part.reader).read(part.opened, tell)
                mark, name = fingerprint(trace), part.opened.name
                if mark is None or (twin := seen.setdefault(mark, name)) == name:
                    traces.append(trace)
                else:
                    twins.append(f"{name} was left out: it holds the recording of {twin}, which would count twice.")
            except InputError as error:
                if part.named:
                    raise
                failed = failed or error
                why.append(Fault("damaged", f"skipped, because nothing of it can be used: {error}"))
            before += part.opened.size
        if traces:
            read.append((traces, _source(traces)))
    if not read and failed:
        raise failed
    return read, why, twins


def _source(traces: list[Trace]) -> Source:
    """One source for the files of one rank."""
    first, *others = sources = [trace.sources[0] for trace in traces]
    if not others:
        return first
    devices: dict[int, Device] = {device.id: device for source in sources for device in source.devices}
    return Source(
        path=f"{first.path} and {len(others)} more",
        form=first.form,
        rank=max(source.rank for source in sources),
        world=max(source.world for source in sources),
        devices=tuple(devices.values()),
        engine=next((source.engine for source in sources if source.engine), ""),
        faults=tuple(dict.fromkeys(fault for source in sources for fault in source.faults)),
        notes=tuple(dict.fromkeys(note for source in sources for note in source.notes)),
    )


def _in_order(sources: list[Source]) -> list[int]:
    """The sources as ranks: by their own word when each says another rank, else by name."""
    said = {source.rank for source in sources}
    if min(said) >= 0 and len(said) == len(sources):
        return sorted(range(len(sources)), key=lambda at: sources[at].rank)
    return sorted(range(len(sources)), key=lambda at: natural(sources[at].path))


def _skipped(unknown: Sequence[Opened], left: Sequence[Part], front: Sequence[Part]) -> Iterator[str]:
    if front:
        yield f"{_names([part.opened for part in front])} skipped: of vLLM's front end, which runs no step."
    if unknown:
        yield f"{_names(unknown)} skipped: no trace that is read."
    if left:
        yield f"{_names([part.opened for part in left])} skipped: another form of a recording that was read."


def _names(files: Sequence[Opened]) -> str:
    names = [Path(one.name).name for one in files[:3]]
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return ", ".join(names) + more + (" was" if len(files) == 1 else " were")
