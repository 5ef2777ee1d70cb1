"""What `phasewise doctor` found: what can be measured on this machine and by this user."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "missing", "blocked"]
"""``missing``: not here, or switched off; ``blocked``: here, but it cannot be used, or spoils what is measured."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line.

    Attributes:
        key: its name for programs and for `Use.needs`, the same on every machine (``nsys``, ``gpu power limit``).
        area: the heading under which it stands.
        what: what was looked at.
        status: how it stands.
        detail: what was seen, in a phrase.
        cure: a command, or a phrase where no command does it; empty when nothing need be done.
    """

    key: str
    area: str
    what: str
    status: Status
    detail: str
    cure: str = ""


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one way of using phasewise works here; ``lacks`` names what stops it, empty when nothing does."""

    verb: str
    works: bool
    lacks: tuple[str, ...] = ()


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked at, in the order of the areas, and what follows for each verb."""

    findings: tuple[Finding, ...]
    verbs: tuple[Verb, ...]
