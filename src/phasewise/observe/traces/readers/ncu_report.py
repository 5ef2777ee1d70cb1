"""Nsight Compute reports (.ncu-rep), through NVIDIA's own reader, which needs neither GPU nor driver.

That reader takes what it can and says nothing: half a report has fewer kernels, a text file has none. The file's own
structure says whether it is whole: a magic, a header, then blocks, each a header in which field 5 is the length of
what follows (NVIDIA's ProfilerReport.proto).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any, BinaryIO

from phasewise.errors import InputError, MissingExtra
from phasewise.observe.traces.events import Device, Fault, Source, Trace
from phasewise.observe.traces.opened import Opened, scratch
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.ncu_metrics import Dimension, Kernels, Value, scale
from phasewise.observe.traces.tables import empty

FORM = "Nsight Compute report"

_MAGIC = b"NVR\0"
_LENGTH = 4
"""Bytes of a length before a header."""


def sniff(opened: Opened) -> bool:
    """The magic."""
    return opened.head.startswith(_MAGIC)


def read(opened: Opened, progress: Progress) -> Trace:
    """Every kernel with its counters, device and NVTX ranges.

    Raises:
        MissingExtra: NVIDIA's reader is not installed.
        InputError: it holds no kernel.
    """
    try:
        import ncu_report
    except ImportError:
        raise MissingExtra(
            f"{opened.name} is an Nsight Compute report; NVIDIA's reader of it is not installed: "
            "pip install 'phasewise[ncu]', or export it with `ncu --import FILE --csv --page raw`."
        ) from None
    kernels = Kernels()
    devices: dict[str, Device] = {}
    unreadable = 0
    with _whole(opened) as (path, faults):
        actions = _actions(ncu_report, path)
        for number, action in enumerate(actions):
            try:
                device = _text(action, "device__attribute_display_name")
                kernels.add(_name(action), _values(action), device, _group(action))
            except (TypeError, ValueError, RuntimeError):
                unreadable += 1
                continue
            if device and device not in devices:
                count = _value(action, "device__attribute_multiprocessor_count")
                devices[device] = Device(len(devices), device, int(count) if count == count else 0)
            progress("reading", (number + 1) / len(actions))
    if not len(kernels):
        why = f" ({faults[0].detail.rstrip('.')})" if faults else ""
        raise InputError(f"{opened.name} holds no kernel that can be read{why}: record it again with ncu.")
    if unreadable:
        faults.append(Fault("damaged", f"{unreadable} of {len(actions)} kernels cannot be read and are left out."))
    source = Source(opened.name, FORM, devices=tuple(devices.values()), faults=tuple(faults))
    return empty(source)._replace(names=kernels.names.all, measured=kernels.table())


def _actions(ncu_report: Any, path: Path) -> list[Any]:
    with _quiet():
        try:
            report = ncu_report.load_report(str(path))
        except (RuntimeError, ValueError, TypeError, OSError):
            return []
        ranges = (report.range_by_idx(index) for index in range(report.num_ranges()))
        return [one.action_by_idx(index) for one in ranges for index in range(one.num_actions())]


@contextmanager
def _quiet() -> Iterator[None]:
    """NVIDIA's reader writes its parser's complaints on standard error, past Python; what they mean is said here."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _name(action: Any) -> str:
    name = action.name(action.NameBase_DEMANGLED) or action.name()
    if not name:
        raise ValueError("a kernel that was cut off has no name")
    return str(name)


def _text(action: Any, name: str) -> str:
    metric = action.metric_by_name(name)
    return str(metric.value() or "") if metric else ""


def _value(action: Any, name: str) -> float:
    metric = action.metric_by_name(name)
    value = metric.value() if metric else None
    return float(value) if isinstance(value, (int, float)) else nan


def _values(action: Any) -> Value:
    def value(name: str, dimension: Dimension) -> float:
        metric = action.metric_by_name(name)
        factor = scale(dimension, metric.unit() or "") if metric else None
        return _value(action, name) * factor if factor else nan

    return value


def _group(action: Any) -> str:
    """The ranges around a kernel, from the outside in; those that were started and not pushed come first."""
    state = action.nvtx_state()
    if not state:
        return ""
    domains = [state.domain_by_id(key) for key in state.domains()]
    ranges = [name for one in domains for name in one.start_end_ranges()]
    ranges += [name for one in domains for name in one.push_pop_ranges()]
    return "/".join(str(name) for name in ranges if name)


@contextmanager
def _whole(opened: Opened) -> Iterator[tuple[Path, list[Fault]]]:
    """A file of whole blocks: the report itself, or a copy when it is packed or breaks off."""
    if not opened.packed and _end(opened.path) == opened.path.stat().st_size:
        yield opened.path, []
        return
    with scratch(opened.name) as folder:
        path = opened.copied(folder / "report.ncu-rep")
        size, end = path.stat().st_size, _end(path)
        os.truncate(path, end)
        why = opened.truncated or ("its last block is not whole" if end < size else "")
        yield path, [Fault("truncated", f"The report breaks off ({why}): kernels are missing.")] if why else []


def _end(path: Path) -> int:
    """Where the last whole block ends. A cut exactly between two blocks cannot be told from the end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end, after = 0, len(_MAGIC) + _LENGTH + _length(file, len(_MAGIC))
        while after <= size:
            end = after
            header = _length(file, end)
            if not header:
                break
            try:
                after = end + _LENGTH + header + _payload(file.read(min(header, size)))
            except IndexError:
                break
    return end


def _length(file: BinaryIO, at: int) -> int:
    file.seek(at)
    return int.from_bytes(file.read(_LENGTH), "little")


def _payload(header: bytes) -> int:
    """Field 5 of a block's header, 0 when it is not set: the wire format of protocol buffers."""
    at, found = 0, 0
    while at < len(header):
        key, at = _varint(header, at)
        if key & 7 == 0:
            value, at = _varint(header, at)
            found = value if key >> 3 == 5 else found
        elif key & 7 == 2:
            length, at = _varint(header, at)
            at += length
        else:
            at += {1: 8, 5: 4}.get(key & 7, len(header))
    if at > len(header):
        raise IndexError
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return value, at
