"""Files that appear whole or not at all, and why one did not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from pathlib import Path

_ERRNO = re.compile(r"\berrno\W+(\d+)")
_REASON = re.compile(r'file "[^"]*": ([^:"{}\n]{1,80})$')


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write to; what lies there at the end becomes ``path``, and is gone when that failed.

    Raises:
        OSError: it could not be renamed.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def told() -> Iterator[None]:
    """What duckdb cannot do with a file is an ``OSError``, as of any other.

    Raises:
        OSError: with the system's own words for it, where duckdb's hold them.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise _as_os_error(str(error).partition("\n")[0]) from error


def _as_os_error(said: str) -> OSError:
    if found := _ERRNO.search(said):
        number = int(found[1])
        return OSError(number, os.strerror(number))
    reason = _REASON.search(said)
    return OSError(EIO, reason[1] if reason else said)
