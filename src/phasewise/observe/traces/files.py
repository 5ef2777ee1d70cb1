"""Which files a trace is made of, and which of them belong to one rank."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from phasewise.errors import InputError, UsageError
from phasewise.observe.traces import refusal
from phasewise.observe.traces.opened import Opened, members, no_file, text
from phasewise.observe.traces.readers import registry
from phasewise.observe.traces.untimed import phase_of_words

_MOST = 4096
"""Files that a folder may hold; no job has as many ranks."""


class Part(NamedTuple):
    """A file that a reader knows. ``named`` is False when it was found in a folder or a zip."""

    opened: Opened
    reader: str
    named: bool

    @property
    def recording(self) -> tuple[str, str, str]:
        """The tool, the folder and the bare name: alike for two forms, or two pages, of one recording."""
        inner = Path(self.opened.name.removeprefix(text(self.opened.path)).lstrip(":"))
        path = self.opened.path / inner if inner.name else self.opened.path
        tool = registry.tool(self.reader)
        return tool, str(path.parent), bare(path.name, tool)


def found(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file of ``paths`` and of the folders among them and one level below, and whether it was named itself.

    Raises:
        UsageError: one is named twice.
        InputError: there is nothing at a path.
    """
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        for file in _folder(path) if path.is_dir() else (path,):
            named = file is path
            try:
                status = file.stat()
            except OSError as error:
                if not named:
                    continue
                if str(path) == "-":
                    raise InputError(no_file(path, stat.S_IFIFO)) from None
                raise InputError(f"{path} cannot be read ({error.strerror}): name a trace file.") from None
            if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
                raise InputError(no_file(path, status.st_mode))
            before = seen.setdefault((status.st_dev, status.st_ino), file)
            if before is file:
                yield file, named
            elif named:
                raise UsageError(f"{path} and {before} are one file: name each trace once.")


def _folder(folder: Path) -> list[Path]:
    files: list[Path] = []
    try:
        for one in sorted(folder.iterdir(), key=natural):
            if one.name.startswith("."):
                continue
            inside = sorted(one.iterdir(), key=natural) if one.is_dir() else [one]
            files += [file for file in inside if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}): name a folder that can.") from None
    if not files:
        raise InputError(f"{folder} holds no file: name a folder of traces.")
    if len(files) > _MOST:
        raise InputError(f"{folder} holds {len(files):,} files, which no job's traces are: name the traces.")
    return files


def natural(path: object) -> list[tuple[bool, int, str]]:
    """Order of names in which rank10 comes after rank2."""
    parts = re.split(r"([0-9]{1,18})", str(path))
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts]


def recognised(files: Iterable[tuple[Path, bool]]) -> tuple[list[Part], list[Opened]]:
    """What a reader knows, and what none does."""
    known, unknown = [], []
    for file, named in files:
        inside = members(file)
        for opened in inside:
            if not refusal.for_another_verb(opened) and (name := registry.choose(opened)):
                known.append(Part(opened, name, named and len(inside) == 1))
            else:
                unknown.append(opened)
    return known, unknown


_TABLES = (
    "kernel|hip_api|hip_runtime_api|hip_compiler_api|hsa_api|marker_api|memory_copy|memory_allocation|scratch_memory"
    "|rccl_api|counter|agent|domain"
)
_FORMS = {
    "kineto": r"\.gz$",
    "nsys": r"(\.nsys-rep|\.qdrep|\.sqlite|\.csv|_cuda_gpu_kern_sum|_gpukernsum)$",
    "ncu": r"(\.ncu-rep|\.csv|[._-](details|raw))$",
    "rocprof": rf"(\.gz|\.db|\.rpd|\.json|\.csv|_results|(^|_)({_TABLES})_(trace|stats|collection|info))$",
}
"""What the end of a name says of form and page, by tool."""


def bare(name: str, tool: str) -> str:
    """A file's name without what says its form or page: ``9_kernel_trace.csv`` is 9, ``run.nsys-rep`` is run."""
    while (shorter := re.sub(_FORMS[tool], "", name)) != name:
        name = shorter
    return name


def by_rank(parts: Sequence[Part]) -> tuple[list[list[Part]], list[Part]]:
    """The parts of each rank, by name, and those left out because a fuller form of the same recording is there.

    rocprofv3 writes a CSV per table of one process (and one that only sums the kernels), Nsight Compute a report per
    kernel: those of one folder are one rank, unless their names say another phase. Anything else is a rank of its own.
    """
    recordings: dict[tuple[str, str, str], list[Part]] = {}
    for part in sorted(parts, key=lambda part: natural(part.opened.name)):
        recordings.setdefault(part.recording, []).append(part)
    ranks: dict[tuple[str, str, str], list[Part]] = {}
    left: list[Part] = []
    for key, forms in recordings.items():
        best = min(forms, key=lambda part: registry.READERS.index(part.reader)).reader
        kept = [part for part in forms if part.reader == best]
        if best == "rocprof_csv":
            kept = [part for part in kept if "_stats" not in part.opened.name] or kept
        else:
            kept = [min(kept, key=lambda part: "raw" not in part.opened.path.name)]
        left += [part for part in forms if part not in kept]
        tool, folder, name = key
        ranks.setdefault((tool, folder, phase_of_words(name)) if tool == "ncu" else key, []).extend(kept)
    return list(ranks.values()), left
