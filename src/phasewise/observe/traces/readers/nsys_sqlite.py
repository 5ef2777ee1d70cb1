"""SQLite exports of Nsight Systems, schemas 3.1 to 3.25 and what of later ones is the same.

Tables exist only when they have rows and columns come and go between versions, so each is looked for before it is read
(notes on the schema: NVIDIA's "SQLite Schema Reference", in the Nsight Systems user guide). The file is opened
read-only and immutable: nothing is written to it or beside it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from phasewise.engines.text import clean
from phasewise.errors import InputError
from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Fault, Source, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress, nsys_device, nsys_ranges, nsys_target
from phasewise.observe.traces.readers.nsys_base import Base
from phasewise.observe.traces.readers.nsys_names import Threads
from phasewise.observe.traces.readers.nsys_ranges import Ranges
from phasewise.observe.traces.readers.sqlite import MAGIC, unfinished

FORM = "Nsight Systems SQLite (nsys export --type sqlite)"

_KNOWN = (*nsys_device.CUDA, nsys_ranges.NVTX, nsys_target.METRICS)


def sniff(opened: Opened) -> bool:
    """Any SQLite database but ROCm's (rocpd): one that is something else is told so by `read`."""
    return opened.head.startswith(MAGIC) and b"rocpd" not in opened.head


def read(opened: Opened, progress: Progress) -> Trace:
    """Everything that a step, a phase or a bound can be told from."""
    with opened.on_disk("export.sqlite") as path:
        return read_path(path, opened.name, progress, _beside(opened, path))


def read_path(path: Path, name: str, progress: Progress, faults: tuple[Fault, ...] = ()) -> Trace:
    """The same for a file on disk, that is called ``name`` in messages; ``faults`` are known already.

    The NVTX table, the largest, is read beside the others, on a thread and with a connection of its own.
    """
    with Base(path, name) as base, Base(path, name) as other, ThreadPoolExecutor(1) as pool:
        base.faults.extend(faults)
        _check(base)
        try:
            return _trace(base, pool.submit(nsys_ranges.read, other, lambda done: None), other, progress)
        finally:
            other.stop()


def _beside(opened: Opened, path: Path) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if opened.truncated:
        faults.append(Fault("truncated", f"{opened.name}: {opened.truncated}; what came before it was read."))
    faults += [
        Fault(
            "damaged",
            f"{beside.name} lies beside it: a program that wrote to {path.name} was not done, and what is in there was"
            " not read. Export the report again with nsys export.",
        )
        for beside in unfinished(path)
    ]
    return tuple(faults)


def _check(base: Base) -> None:
    if any(base.has(table) for table in _KNOWN):
        return
    if nsys_target.schema(base):
        raise InputError(
            f"{base.name} is an Nsight Systems export without any CUDA or NVTX event: record again with nsys profile "
            "--trace=cuda,nvtx."
        )
    listed = clean(", ".join(sorted(base.tables)[:8]) + (", ..." if len(base.tables) > 8 else ""))
    raise InputError(
        f"{base.name} is an SQLite database with {f'the tables {listed}' if listed else 'no table'}, none of them of "
        "Nsight Systems: name what nsys export --type sqlite wrote."
    )


def _trace(base: Base, reading: Future[Ranges], other: Base, progress: Progress) -> Trace:
    names, threads = tables.Names(), Threads()
    activity = nsys_device.read(base, names, threads, progress)
    counters = nsys_target.counters(base, names, lambda done: progress(nsys_target.METRICS, done))
    progress(nsys_ranges.NVTX, 0.0)
    ranges = reading.result()
    last = max((int(one.end.max()) for one in activity if len(one.end)), default=0)
    bands, ops, still_open = nsys_ranges.placed(ranges, names, threads, last)
    kernels, copies, replays, launches = activity
    faults = tuple(
        dict.fromkeys((*base.faults, *other.faults, *still_open, *nsys_target.losses(base, len(kernels.start) > 0)))
    )
    if not sum(len(one[0]) for one in (*activity, bands, ops, counters)):
        why = f" ({faults[0].detail})" if faults else ""
        raise InputError(f"{base.name} holds no event that can be used{why}: export it again with nsys export.")
    seen = np.unique(np.concatenate((kernels.device, copies.device, replays.device)))
    source = Source(
        path=base.name,
        form=f"Nsight Systems SQLite {nsys_target.schema(base)}".rstrip(),
        devices=nsys_target.devices(base, seen[seen >= 0]),
        graph_mode=nsys_target.graph_mode(base, len(replays.start), int(np.count_nonzero(kernels.node))),
        faults=faults,
        notes=(ranges.note,) if ranges.note else (),
    )
    return tables.empty(source)._replace(
        names=names.all,
        threads=threads.all,
        shapes=ranges.shapes,
        origin_ns=nsys_target.origin(base),
        kernels=kernels,
        copies=copies,
        replays=replays,
        launches=launches,
        bands=bands,
        ops=ops,
        counters=counters,
    )
