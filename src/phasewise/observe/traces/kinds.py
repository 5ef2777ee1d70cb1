"""The distinct kernels of a trace, and who of them had the time: rows by family, by role and by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Ints, Trace
from phasewise.observe.traces.families import FAMILIES, Rule, family_of
from phasewise.observe.traces.roles import ROLES, Codes
from phasewise.record.trace import FamilyRow, KernelRow, RoleRow

TOP = 10
"""Kernels that a phase lists."""


class Kinds(NamedTuple):
    """Distinct kernel names: their text and family, and for each kernel the index into both."""

    names: tuple[str, ...]
    family: tuple[str, ...]
    of: Ints


class Rows(TypedDict):
    """The rows of a phase, largest first."""

    families: tuple[FamilyRow, ...]
    roles: tuple[RoleRow, ...]
    top: tuple[KernelRow, ...]


def kinds(trace: Trace, rules: Sequence[Rule]) -> Kinds:
    """The kind of every kernel, each distinct name looked at once."""
    used = np.flatnonzero(np.bincount(trace.kernels.name, minlength=len(trace.names)))
    number = np.zeros(len(trace.names), np.int64)
    number[used] = np.arange(len(used))
    names = tuple(trace.names[place] for place in used.tolist())
    return Kinds(names, family_of(names, rules), number[trace.kernels.name])


def rows(kind: Kinds, duration: Ints, role: Codes) -> Rows:
    """The rows of some kernels: their kinds, durations (ns) and roles (indices into ROLES)."""
    count = len(kind.names)
    times, counts = np.bincount(kind.of, duration, count), np.bincount(kind.of, minlength=count)
    whole = float(times.sum())

    def median(place: int) -> float:
        return float(np.median(duration[kind.of == place])) / 1e9

    return Rows(
        families=families(kind, times, counts),
        roles=_roles(role, duration, whole),
        top=top(kind, times, counts, median),
    )


def families(kind: Kinds, times: NDArray[Any], counts: NDArray[Any]) -> tuple[FamilyRow, ...]:
    """Rows by family, from ns and counts by kind."""
    family = np.array([FAMILIES.index(one) for one in kind.family], np.int64)
    spent = np.bincount(family, times, len(FAMILIES))
    many = np.bincount(family, counts, len(FAMILIES))
    found = []
    for code in _largest_first(spent, many):
        largest = int(np.argmax(np.where(family == code, times, -1)))
        found.append(
            FamilyRow(
                family=FAMILIES[code],
                gpu_time_s=float(spent[code]) / 1e9,
                share=_share(spent[code], times.sum()),
                kernels=int(many[code]),
                largest=kind.names[largest],
            )
        )
    return tuple(found)


def top(kind: Kinds, times: NDArray[Any], counts: NDArray[Any], median: Any) -> tuple[KernelRow, ...]:
    """The kernels with most time; ``median`` gives that of a kind, in seconds."""
    return tuple(
        KernelRow(
            name=kind.names[place],
            family=kind.family[place],
            kernels=int(counts[place]),
            gpu_time_s=float(times[place]) / 1e9,
            share=_share(times[place], times.sum()),
            median_s=median(place),
        )
        for place in _largest_first(times, counts)[:TOP]
    )


def _roles(role: Codes, duration: Ints, whole: float) -> tuple[RoleRow, ...]:
    """Rows in the order of a step; none when no kernel's place could be told."""
    times, counts = np.bincount(role, duration, len(ROLES)), np.bincount(role, minlength=len(ROLES))
    if not counts[1:].any():
        return ()
    return tuple(
        RoleRow(
            role=ROLES[code],
            gpu_time_s=float(times[code]) / 1e9,
            share=_share(times[code], whole),
            kernels=int(counts[code]),
        )
        for code in [*range(1, len(ROLES)), 0]
        if counts[code]
    )


def _largest_first(times: NDArray[Any], counts: NDArray[Any]) -> list[int]:
    return [int(place) for place in np.argsort(-times, kind="stable") if counts[place]]


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0
