"""Files in which users add their own rows to the catalogues."""

from __future__ import annotations

import os
from pathlib import Path

from phasewise.errors import InputError

MOST_BYTES = 16 * 2**20
"""Size up to which such a file is read."""


def user_file(name: str) -> Path | None:
    """The user's file called ``name``: in ``$XDG_CONFIG_HOME/phasewise``, else ``~/.config/phasewise``; None for none.

    Raises:
        InputError: it is not a regular file, or larger than 16 MB.
    """
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~/.config"))
    path = folder / "phasewise" / name
    if not os.path.lexists(path):
        return None
    if not os.path.isfile(path):
        raise InputError(f"{path} is not a regular file: put your rows there, or take it away.")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path} is larger than 16 MB: it holds rows of your own, a line or an object each.")
    return path
