"""Files that a profiler writes into a folder: which are new, and when each is whole."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".json", ".json.gz", ".nsys-rep", ".sqlite", ".ncu-rep", ".rpd")
"""What `phasewise trace` reads and a profiler writes; vLLM's tables (.txt) and memory dumps are neither."""

FRONT_END = ".async_llm."
"""In the name of vLLM's trace of its own front end, which holds no step."""

POLL_S = 0.25
UNNAMED_S = 3.0
"""Seconds for which files without our prefix must stand still, none with it coming, before they count as ours."""

_BLOCK = 1 << 20
_FREE = 256 << 20
"""Bytes that a folder must have left: a few seconds with stacks are 50 MB packed, and ten times that on the way."""

Listing = Mapping[Path, tuple[int, int]]
"""Files with the time of their last change (ns) and their size."""


class Found(NamedTuple):
    """What came: whole files, and those that are not, each with why."""

    whole: tuple[Path, ...]
    cut: tuple[tuple[Path, str], ...]

    @property
    def ranks(self) -> tuple[Path, ...]:
        """The whole ones of workers."""
        return tuple(path for path in self.whole if FRONT_END not in path.name)


def listing(folder: Path) -> Listing:
    """What lies in ``folder`` now; empty when there is no such folder, or none that we may read."""
    found = {}
    try:
        for path in folder.iterdir():
            if path.name.endswith(SUFFIXES) and path.is_file():
                about = path.stat()
                found[path] = about.st_mtime_ns, about.st_size
    except OSError:
        pass
    return found


def full(folder: Path) -> str:
    """Why ``folder`` has no room for a trace; empty when it has, or nobody knows."""
    import shutil

    at = next((one for one in (folder, *folder.parents) if one.exists()), None)
    try:
        free = shutil.disk_usage(at).free if at else _FREE
    except OSError:
        return ""
    return f"{folder} has {free >> 20} MiB left" if free < _FREE else ""


def wait(
    folder: Path,
    before: Listing,
    prefix: str,
    ranks: int | None,
    *,
    wait_s: float,
    tell: Callable[[str], None] = lambda doing: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Found:
    """What is new in ``folder`` since ``before``, once it is whole: one file for each of ``ranks`` workers.

    Files are those that begin with ``prefix`` when any does, for an older engine takes none: others count only once
    they have been there for ``UNNAMED_S`` seconds, since ours may be late and they somebody else's. Without a known
    number of ranks it is done when all that came is whole and nothing more comes. After ``wait_s`` seconds that is what
    there is.
    """
    until, last, still = time.monotonic() + wait_s, None, 0
    while True:
        now = _new(folder, before, prefix)
        still = still + 1 if now == last else 0
        last = now
        if still or time.monotonic() >= until:
            found = _sorted(now)
            named = any(path.name.startswith(prefix) for path in now)
            stands = still >= (1 if named else UNNAMED_S / POLL_S)
            enough = len(found.ranks) >= (ranks or 1) and (ranks is not None or still >= 2)
            if (enough and not found.cut and stands) or time.monotonic() >= until:
                return found
        tell(f"waiting for the trace, {len(now)} {'file' if len(now) == 1 else 'files'} so far")
        sleep(POLL_S)


def cut(path: Path) -> str:
    """Why ``path`` is not whole; empty when it is, as far as its kind shows."""
    try:
        if path.name.endswith(".gz"):
            with gzip.open(path, "rb") as stream:
                end = _end(stream.read)
        elif path.name.endswith(".json"):
            with path.open("rb") as plain:
                end = _end(plain.read)
        else:
            return "" if path.stat().st_size else "it is empty"
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return "its gzip stream has no end"
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    return "" if end.endswith(b"}") else "its JSON has no end"


def _end(read: Callable[[int], bytes]) -> bytes:
    """The last characters of a stream that are no space."""
    end = b""
    while block := read(_BLOCK):
        end = (end + block[-64:]).rstrip()[-64:]
    return end


def _new(folder: Path, before: Listing, prefix: str) -> Listing:
    changed = {path: about for path, about in listing(folder).items() if before.get(path) != about}
    named = {path: about for path, about in changed.items() if path.name.startswith(prefix)}
    return named or changed


def _sorted(now: Listing) -> Found:
    why = {path: cut(path) for path in sorted(now)}
    return Found(
        tuple(path for path, fault in why.items() if not fault),
        tuple((path, fault) for path, fault in why.items() if fault),
    )
