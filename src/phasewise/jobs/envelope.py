"""The envelope of a run: when, where and with which versions."""

from __future__ import annotations

import platform
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from urllib.parse import urlsplit, urlunsplit

from phasewise import __version__
from phasewise.record.envelope import Envelope, Status
from phasewise.record.run import new_id

_TOOK_PART = ("numpy", "scipy", "httptools", "xllamacpp", "torch", "ray")


def envelope(
    command: str,
    target: str,
    started: float,
    *,
    status: Status = "complete",
    reason: str = "",
    identity: str = "",
    zero: float | None = None,
) -> Envelope:
    """Close a run that began at ``started``. ``identity`` keeps an id given earlier.

    ``started`` and ``zero`` (from which the times of its rows count) are readings of ``time.perf_counter()``.
    """
    return Envelope(
        id=identity or new_id(target),
        command=command,
        arguments=tuple(_clean(argument) for argument in sys.argv[1:]),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=time.perf_counter() - started,
        status=status,
        reason=reason,
        versions={"phasewise": __version__, "python": platform.python_version()} | _versions(),
        zero=None if zero is None else time.time() - (time.perf_counter() - zero),
        host=f"{platform.system()} {platform.machine()}",
    )


def identity(target: str) -> str:
    """The id of a run of ``target`` that begins now, nothing secret of a URL in it."""
    return new_id(_clean(target))


def _clean(argument: str) -> str:
    """``argument`` as text without what may be secret in a URL: user, password, query and fragment."""
    argument = argument.encode("utf-8", "replace").decode()  # a file name may be no UTF-8, which JSON must be
    if "://" not in argument:
        return argument
    try:
        parts = urlsplit(argument)
    except ValueError:
        return "(a URL that cannot be read)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _versions() -> dict[str, str]:
    found = {}
    for name in _TOOK_PART:
        if name in sys.modules:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
    return found
