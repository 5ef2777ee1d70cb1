"""Every form of trace, in the order in which a file's content is asked."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, cast

from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Reader

READERS = (
    "nsys_sqlite",
    "nsys_report",
    "nsys_summary",
    "ncu_report",
    "ncu_csv",
    "rocpd",
    "rocprof_json",
    "rocprof_csv",
    "kineto",
)
"""Modules of this folder. Of one tool the fullest form comes first: of two forms of one recording it is the one that
is read. kineto comes last, because any JSON with events may be one. A new reader is a file in this folder, a name here.
"""


@cache
def reader(name: str) -> Reader:
    """The reader of that name, imported when a file is first shown to it."""
    module: Any = import_module(f"{__package__}.{name}")
    return cast(Reader, module)


def choose(opened: Opened) -> str | None:
    """Name of the reader that knows the file, by its content; None when none does."""
    return next((name for name in READERS if reader(name).sniff(opened)), None)


def forms() -> str:
    """Every form, for a refusal."""
    names = list(dict.fromkeys(reader(name).FORM for name in READERS))
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def tool(name: str) -> str:
    """What wrote such files: ``nsys``, ``ncu``, ``rocprof``, ``kineto``."""
    return "rocprof" if name == "rocpd" else name.partition("_")[0]
