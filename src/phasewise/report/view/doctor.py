"""An examination in words: areas with their lines, and which verbs work."""

from __future__ import annotations

from itertools import groupby

import msgspec

from phasewise.record.doctor import Examination, Finding, Status, Verb
from phasewise.report.view import words
from phasewise.report.view.table import Table, columns, say


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, its words cleaned; ``cure`` keeps its line breaks, for it is to be copied."""

    status: Status
    what: str
    detail: str
    cure: tuple[str, ...]


def areas(examination: Examination) -> list[tuple[str, list[Line]]]:
    """Each area with its lines."""
    grouped = groupby(examination.findings, lambda finding: finding.area)
    return [(area, [_line(finding) for finding in findings]) for area, findings in grouped]


def _line(finding: Finding) -> Line:
    return Line(
        status=finding.status,
        what=words.name(finding.what),
        detail=words.clean(finding.detail),
        cure=tuple("".join(c for c in line if c.isprintable()) for line in finding.cure.splitlines()),
    )


def summary(examination: Examination) -> str:
    """``14 ok, 6 missing, 2 blocked.``"""
    statuses: tuple[Status, ...] = ("ok", "missing", "blocked")
    counts = ((sum(f.status == status for f in examination.findings), status) for status in statuses)
    return ", ".join(f"{count} {status}" for count, status in counts) + "."


def verbs(examination: Examination) -> Table:
    """Which ways of using phasewise work here, and what the others lack."""
    return Table(
        title="What works here",
        columns=columns("", "phasewise", "lacks"),
        rows=tuple((say(_works(verb)), say(verb.verb), say(", ".join(verb.lacks))) for verb in examination.verbs),
    )


def _works(verb: Verb) -> str:
    return "yes" if verb.works else "no"
