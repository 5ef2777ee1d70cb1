"""PyTorch's profiler: Kineto JSON, as a Chrome trace."""

from __future__ import annotations

from phasewise.errors import InputError
from phasewise.observe.traces.events import Fault, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.kineto.columns import Columns
from phasewise.observe.traces.readers.kineto.document import Document
from phasewise.observe.traces.readers.kineto.header import FORM, source, whole

__all__ = ["FORM", "read", "sniff"]


def sniff(opened: Opened) -> bool:
    """Whether it is JSON, and not rocprofv3's."""
    head = opened.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return head[:1] in (b"{", b"[") and b'"rocprofiler-sdk-tool"' not in head


def read(opened: Opened, progress: Progress) -> Trace:
    """Kernels, copies, runtime calls, user annotations and operators of the file.

    Raises:
        InputError: no events in it.
    """
    document, columns = Document(opened.blocks()), Columns()
    for events in document.events():
        columns.add(events)
        progress(opened.name, min(1.0, opened.done / opened.size))
    if not columns.events:
        raise InputError(f"{opened.name} holds no trace events: name a trace of PyTorch's profiler.")
    faults: list[Fault] = []
    if opened.truncated or not document.complete:
        faults.append(Fault("truncated", opened.truncated or "the file breaks off before its end"))
    trace = columns.trace(whole(document.header.get("baseTimeNanoseconds"), 0))
    return trace._replace(sources=(source(opened.name, document.header, tuple(faults)),))
