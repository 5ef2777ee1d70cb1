"""`--annotate`: the trace again, with its phases as bands, for Perfetto; written beside the input, never over it."""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from phasewise.errors import UsageError
from phasewise.observe.traces import chrome
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.files import found, recognised
from phasewise.observe.traces.join import UNIX
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.split import Split

_LEVEL = 3
"""Of gzip: a third of the time of the usual one, a tenth more bytes."""

_BATCH = 1024
"""Events that are written at a time."""

_HEAD = 64 << 20
"""Bytes before the events of a trace; a real one has some thousand."""


def check(out: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Refuse an ``out`` that would destroy something, or that a folder of ranks would later hold as one more rank.

    Raises:
        UsageError: it is an input, by whatever name; lies in a folder that is an input; exists, without ``force``;
            or is no place for a file.
    """
    for file, _ in found(inputs):
        if out.exists() and os.path.samefile(out, file):
            raise UsageError(f"--annotate {out} would overwrite the input {file}: name another file.")
    inside = [folder for folder in inputs if folder.is_dir() and folder.resolve() in out.resolve().parents]
    if inside:
        raise UsageError(f"--annotate {out} lies in {inside[0]}, whose files are the ranks: name one elsewhere.")
    if out.is_dir():
        raise UsageError(f"--annotate {out} is a folder: name a file, for example {out / 'annotated.json.gz'}.")
    if out.exists() and not out.is_file():  # the file would take its place, and nobody gets a device back
        raise UsageError(f"--annotate {out} is a pipe or a device, no file: name a file.")
    if os.path.lexists(out) and not force:
        raise UsageError(f"--annotate {out} exists: name another file, or add --force to replace it.")
    if not out.parent.is_dir():
        raise UsageError(f"--annotate {out}: there is no folder {out.parent}.")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--annotate {out}: {out.parent} cannot be written to: name a file in a folder that can.")


def annotate(
    out: Path, inputs: Sequence[Path], trace: Trace, split: Split, progress: Progress, *, force: bool = False
) -> None:
    """Write ``out``, gzipped when it ends in .gz; it appears whole or not at all.

    One undamaged Kineto file passes through as it is, our events in front of its own. Anything else is written from
    ``trace``: what lies on the clock.

    Raises:
        UsageError: see `check`.
        OSError: it cannot be written.
    """
    check(out, inputs, force=force)
    handle, partial = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    try:
        with os.fdopen(handle, "wb") as raw, _packed(raw, out) as file:
            for block in _content(inputs, trace, split, progress):
                file.write(block)
        check(out, inputs, force=force)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, out)
    finally:
        with suppress(OSError):
            os.unlink(partial)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _packed(raw: BinaryIO, out: Path) -> BinaryIO:
    if not out.name.endswith(".gz"):
        return raw
    return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_LEVEL, mtime=0))


def _content(inputs: Sequence[Path], trace: Trace, split: Split, progress: Progress) -> Iterator[bytes]:
    opened = _undamaged(inputs, trace)
    blocks = opened.blocks() if opened else iter(())
    data, events, base = _opening(blocks)
    if opened and events and (base is not None or trace.origin_ns < UNIX):
        yield data[:events]
        # With no event of its own the list must not end with our comma.
        empty = data[events:].lstrip()[:1] == b"]"
        yield from _listed(chrome.phase_events(trace, split, trace.origin_ns - (base or 0)), last=empty)
        yield data[events:]
        for block in blocks:
            progress(f"writing {opened.name}", opened.done / opened.size)
            yield block
        return
    yield _header(trace)
    yield from _listed(chain(chrome.phase_events(trace, split), chrome.trace_events(trace)), last=True)
    yield b"]}\n"


def _undamaged(inputs: Sequence[Path], trace: Trace) -> Opened | None:
    """The one Kineto file that there is, when all of it could be read."""
    if len(trace.sources) > 1 or any(
        fault.check in ("truncated", "damaged", "encoding") for fault in trace.sources[0].faults
    ):
        return None
    known, _ = recognised(found(inputs))
    return known[0].opened if len(known) == 1 and known[0].reader == "kineto" else None


def _opening(blocks: Iterator[bytes]) -> tuple[bytes, int, int | None]:
    """What was read, where in it the list of events begins (0 unknown), and the ns that the file counts from."""
    data = b""
    for block in blocks:
        data += block
        if (at := _list_at(data)) and data[at:].strip():
            stated = _BASE.search(data, 0, at)
            return data, at, int(stated[1]) if stated else None
        if len(data) > _HEAD:
            break
    return data, 0, None


_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?([0-9]{1,19})\b')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[][{}]', re.DOTALL)
_LIST = re.compile(rb"\s*:\s*\[")


def _list_at(data: bytes) -> int:
    """Where the events begin: behind the bracket of the document, or of its key ``traceEvents``; 0 not found."""
    depth = 0
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text == b"[" and not depth:
            return token.end()
        if text == b'"traceEvents"' and depth == 1 and (bracket := _LIST.match(data, token.end())):
            return bracket.end()
        depth += (text in b"[{") - (text in b"]}")
    return 0


def _listed(events: Iterable[str], *, last: bool) -> Iterator[bytes]:
    """``events`` as elements of a list, a batch at a time; a comma follows the last of them unless ``last``."""
    comma = ""
    for some in _batches(events):
        yield (comma + ",\n".join(some)).encode()
        comma = ",\n"
    if comma and not last:
        yield comma.encode()


def _batches(events: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(events)
    while some := list(islice(iterator, _BATCH)):
        yield some


def _header(trace: Trace) -> bytes:
    devices = trace.sources[0].devices if len(trace.sources) == 1 else ()
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": one.id, "name": one.name, "numSms": one.multiprocessors} for one in devices],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": trace.origin_ns,
    }
    return json.dumps(head).removesuffix("}").encode() + b', "traceEvents": [\n'
