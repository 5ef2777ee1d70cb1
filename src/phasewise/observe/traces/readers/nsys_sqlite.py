"""SQLite exports of Nsight Systems, schemas 3.1 to 3.25 and what of later ones is the same.

Tables exist only when they have rows and columns come and go between versions, so each is looked for before it is read
(notes on the schema: NVIDIA's "SQLite Schema Reference", in the Nsight Systems user guide). The file is opened
read-only and immutable: nothing is written to it or beside it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from phasewise.errors import InputError
from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Fault, Source, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress, nsys_device, nsys_ranges, nsys_target
from phasewise.observe.traces.readers.nsys_base import Base
from phasewise.observe.traces.readers.nsys_names import Threads

FORM = "Nsight Systems SQLite (nsys export --type sqlite)"

MAGIC = b"SQLite format 3\0"
_KNOWN = (*nsys_device.CUDA, nsys_ranges.NVTX, nsys_target.METRICS)


def sniff(opened: Opened) -> bool:
    """Any SQLite database but ROCm's (rocpd): one that is something else is told so by `read`."""
    return opened.head.startswith(MAGIC) and b"rocpd" not in opened.head


def read(opened: Opened, progress: Progress) -> Trace:
    """Everything that a step, a phase or a bound can be told from."""
    with _unpacked(opened) as path:
        return read_path(path, opened.name, progress, _beside(opened, path))


def read_path(path: Path, name: str, progress: Progress, faults: tuple[Fault, ...] = ()) -> Trace:
    """The same for a file on disk, that is called ``name`` in messages; ``faults`` are known already."""
    base = Base(path, name)
    try:
        base.faults.extend(faults)
        _check(base)
        return _trace(base, progress)
    finally:
        base.close()


@contextmanager
def _unpacked(opened: Opened) -> Iterator[Path]:
    if not opened.packed:
        yield opened.path
        return
    with tempfile.TemporaryDirectory(prefix="phasewise-") as folder:
        path = Path(folder, "export.sqlite")
        with path.open("wb") as file:
            for block in opened.blocks():
                file.write(block)
        yield path


def _beside(opened: Opened, path: Path) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if opened.truncated:
        faults.append(Fault("truncated", f"{opened.name}: {opened.truncated}; what came before it was read."))
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            faults.append(
                Fault(
                    "damaged",
                    f"{beside.name} lies beside it: a program that wrote to {path.name} was not done, and what is in"
                    " there was not read. Export the report again with nsys export.",
                )
            )
    return tuple(faults)


def _check(base: Base) -> None:
    if any(base.has(table) for table in _KNOWN):
        return
    listed = ", ".join(sorted(base.tables)[:8])
    found = f"{len(base.tables)} tables ({listed}{', ...' if len(base.tables) > 8 else ''})" if listed else "no table"
    if nsys_target.schema(base):
        raise InputError(
            f"{base.name} is an Nsight Systems export without CUDA and NVTX events (it has {found}): record again with"
            " nsys profile --trace=cuda,nvtx."
        )
    raise InputError(
        f"{base.name} is an SQLite database with {found}, but with none of Nsight Systems' CUDA or NVTX tables: name"
        " what nsys export --type sqlite wrote."
    )


def _trace(base: Base, progress: Progress) -> Trace:
    names, threads = tables.Names(), Threads()
    activity = nsys_device.read(base, names, threads, progress)
    last = max((int(one.end.max()) for one in activity if len(one.end)), default=0)
    ranges = nsys_ranges.read(base, names, threads, last, lambda done: progress(nsys_ranges.NVTX, done))
    counters = nsys_target.counters(base, names, lambda done: progress(nsys_target.METRICS, done))
    kernels, copies, replays, launches = activity
    if not sum(len(one[0]) for one in (*activity, ranges.bands, ranges.ops, counters)):
        why = f" ({base.faults[0].detail})" if base.faults else ""
        raise InputError(f"{base.name} holds no event that can be used{why}: export it again with nsys export.")
    version = nsys_target.schema(base)
    seen = np.unique(np.concatenate((kernels.device, copies.device, replays.device)))
    source = Source(
        path=base.name,
        form=f"Nsight Systems SQLite {version}".rstrip(),
        devices=nsys_target.devices(base, seen[seen >= 0]),
        graph_mode=nsys_target.graph_mode(base, len(replays.start), int(np.count_nonzero(kernels.node))),
        faults=(*base.faults, *nsys_target.losses(base)),
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
        bands=ranges.bands,
        ops=ranges.ops,
        counters=counters,
    )
