"""SQLite of AMD's profilers: rocpd (rocprofv3, rocprofiler-systems) and the older rpd (rocmProfileData).

Both name their tables ``rocpd_...``. rocpd appends an id per process and knows three layouts (`rocpd_tables`); rpd has
``rocpd_op`` and ``rocpd_api`` (`rpd_tables`). The file is opened read-only and immutable, and none of its views is run.
"""

from __future__ import annotations

from phasewise.observe.traces.events import Fault, Source, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress, rocpd_tables, rpd_tables
from phasewise.observe.traces.readers.rocm import Gathered
from phasewise.observe.traces.readers.rocpd_base import Base
from phasewise.observe.traces.readers.sqlite import MAGIC, unfinished

FORM = "rocpd SQLite"


def sniff(opened: Opened) -> bool:
    """SQLite with a table of theirs; the schema is in the first pages."""
    return opened.head.startswith(MAGIC) and b"rocpd_" in opened.head


def read(opened: Opened, progress: Progress) -> Trace:
    """Kernels, copies, calls, roctx ranges and clocks.

    Raises:
        InputError: it cannot be opened, or none of it can be used.
    """
    with opened.on_disk("rocpd.db") as path:
        base = Base(path, opened.name)
        try:
            return _trace(opened, base, progress)
        finally:
            base.close()


def _trace(opened: Opened, base: Base, progress: Progress) -> Trace:
    got = Gathered()
    layout = rpd_tables if base.has("rocpd_op") or base.has("rocpd_api") else rocpd_tables
    devices = layout.read(base, got, progress)
    faults = [*base.faults]
    if opened.truncated:
        faults.append(Fault("truncated", f"{opened.truncated}; what came before it is used."))
    if unfinished(opened.path):
        faults.append(
            Fault("damaged", "A journal lies beside it: its writer was not done, what is in there is unread.")
        )
    source = Source(opened.name, layout.FORM, devices=devices, faults=tuple(faults))
    return got.trace(source, "record it again with rocprofv3 --kernel-trace")
