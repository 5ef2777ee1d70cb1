"""PyTorch's profiler: Kineto JSON, which is a Chrome trace."""

from __future__ import annotations

from phasewise.errors import InputError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.kineto.columns import Columns
from phasewise.observe.traces.readers.kineto.document import Document
from phasewise.observe.traces.readers.kineto.faults import faults, refusal
from phasewise.observe.traces.readers.kineto.header import FORM, source, whole

__all__ = ["FORM", "read", "sniff"]

_BLOCK = 1 << 20
"""Bytes that are decoded at a time: few enough to stay in the cache of a core."""


def sniff(opened: Opened) -> bool:
    """Whether it is JSON, and not rocprofv3's; `read` says what JSON without events is instead."""
    head = opened.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return head[:1] in (b"{", b"[") and b'"rocprofiler-sdk-tool"' not in head


def read(opened: Opened, progress: Progress) -> Trace:
    """Kernels, copies, runtime calls, user annotations and operators of the file, in one pass and a few megabytes.

    Raises:
        InputError: it is no trace of PyTorch's profiler, or none of its events can be used.
    """
    document, columns, lists = Document(opened.blocks(_BLOCK)), Columns(), 1
    for events in document.events():
        if document.lists > lists:
            # A key that comes twice: the last one counts, as everywhere in JSON.
            columns, lists = Columns(), document.lists
        if not columns.add(events):
            columns.add(document.exactly())
        progress(opened.name, min(1.0, opened.done / opened.size))
    if not columns.kept:
        raise InputError(refusal(opened, document, columns))
    trace = columns.trace(base=whole(document.header.get("baseTimeNanoseconds"), 0))
    return trace._replace(sources=(source(opened.name, document.header, faults(opened, document, columns)),))
