"""Ids of an export as the event model's: strings by id, runtime calls by what they do, processes in correlation ids."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Fault, Ints, LaunchKind, Small, Thread
from phasewise.observe.traces.readers.nsys_base import Base
from phasewise.observe.traces.tables import Names

PROCESS = ~0xFFFFFF
"""What of a serialised globalTid is its process (its globalPid): all but the lowest 24 bits, the thread id."""

_BATCH = 10_000
_VERSION = re.compile(r"(?:_ptsz|_ptds)?(?:_v\d+)?$")
_KINDS = (
    (re.compile(r"GraphLaunch"), LaunchKind.GRAPH),
    (re.compile(r"LaunchHostFunc|IsCapturing|CaptureInfo|ThreadExchange"), LaunchKind.OTHER),
    (re.compile(r"Launch"), LaunchKind.KERNEL),
    (re.compile(r"Memcpy|Memset|MemPrefetch"), LaunchKind.COPY),
    (re.compile(r"Synchronize"), LaunchKind.SYNC),
    (re.compile(r"Capture|GraphInstantiate|GraphAdd"), LaunchKind.CAPTURE),
)


def strings(base: Base, ids: Iterable[int]) -> dict[int, str]:
    """The strings of ``ids`` that the file holds; one that is no valid UTF-8 is a fault."""
    wanted = [int(one) for one in ids]
    found: dict[int, str] = {}
    if base.has("StringIds", "id", "value"):
        for first in range(0, len(wanted), _BATCH):
            some = ", ".join(map(str, wanted[first : first + _BATCH]))
            found.update(
                (one, str(value)) for one, value in base.rows(f"SELECT id, value FROM StringIds WHERE id IN ({some})")
            )
    broken = sum("\ufffd" in value for value in found.values())
    if broken:
        base.faults.append(Fault("encoding", f"{broken} names are no valid UTF-8; the broken letters read \ufffd."))
    return found


def interned(base: Base, names: Names, ids: Ints, what: str) -> Small:
    """The index of each id's string in ``names``; an id that the file does not explain reads ``(unnamed)``."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    known = strings(base, distinct)
    unnamed = np.array([int(one) not in known for one in distinct], bool)
    if unnamed.any():
        lost = int(np.count_nonzero(unnamed[inverse]))
        base.faults.append(Fault("missing", f"{lost} {what} have no name in StringIds: they are called (unnamed)."))
    index = [names(known.get(int(one), "(unnamed)")) for one in distinct]
    return np.array(index, np.int32)[inverse] if len(index) else np.zeros(0, np.int32)


def call(name: str) -> tuple[str, LaunchKind]:
    """A runtime call without its version (``cudaLaunchKernel_v7000`` is cudaLaunchKernel), and what it does."""
    plain = _VERSION.sub("", name)
    return plain, next((kind for pattern, kind in _KINDS if pattern.search(plain)), LaunchKind.OTHER)


class Processes:
    """Correlation ids that mean something in the whole file.

    CUPTI counts them per process, and one report may hold several. The index of the process, in the order of their ids,
    goes into the upper half, so that a launch and its kernels still share an id and those of two processes never do.
    With one process the ids stay as the file has them. ``columns`` are the processes of all rows that will be folded.
    """

    def __init__(self, columns: Iterable[Ints]) -> None:
        found = np.unique(np.concatenate([np.zeros(0, np.int64), *(np.unique(column) for column in columns)]))
        self.known = found[found != NOT_SAID]

    def fold(self, correlation: Ints, process: Ints) -> Ints:
        """Ids of the file; -1 for one that is none, or whose process is not said while there are several."""
        sound = (correlation >= 0) & (correlation < 2**32)
        if len(self.known) <= 1:
            return np.where(sound, correlation, NOT_SAID)
        sound &= process != NOT_SAID
        return np.where(sound, correlation | np.searchsorted(self.known, process) << 32, NOT_SAID)


class Threads:
    """CPU threads in order of first sight."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}

    def __call__(self, ids: Ints) -> Small:
        """Index of each serialised globalTid, -1 where there is none."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        index = [
            NOT_SAID if one == NOT_SAID else self._index.setdefault(int(one), len(self._index)) for one in distinct
        ]
        return np.array(index, np.int32)[inverse] if len(index) else np.zeros(0, np.int32)

    @property
    def all(self) -> tuple[Thread, ...]:
        """Every thread, by index."""
        return tuple(Thread(0, str(one >> 24 & 0xFFFFFF), str(one & 0xFFFFFF)) for one in self._index)
