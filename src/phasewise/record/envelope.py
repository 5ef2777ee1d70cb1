"""What, where, when and with which versions a Run was made."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["complete", "partial", "interrupted"]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The outside of a Run.

    Attributes:
        id: folder name, ``<UTC time>-<target>``.
        command: the verb, e.g. ``"profile"``.
        arguments: the command line, with secrets removed.
        created: ISO 8601, UTC.
        duration_s: wall time of the run.
        status: ``partial`` when an error or a limit cut it short, ``interrupted`` after Ctrl-C.
        reason: why it is not complete, in one sentence; empty when it is.
        versions: of phasewise, Python and what else took part.
        zero: Unix time, seconds, from which the times of the rows beside the run count; None where it is not known.
        host: a description of the machine that ran the client (never a user or host name).
    """

    id: str
    command: str
    arguments: tuple[str, ...]
    created: str
    duration_s: float
    status: Status
    reason: str = ""
    versions: dict[str, str] = {}
    host: str = ""
    zero: float | None = None
