"""Find and load a saved run; say why one could not be saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from phasewise.errors import UsageError
from phasewise.record.run import RUNS, Run, load


def find(path: Path | None) -> tuple[Run, Path]:
    """The run at ``path``, or the latest under ``phasewise-runs`` here, with its folder.

    Raises:
        UsageError: there is none.
        InputError: it cannot be read.
    """
    if path is None:
        runs = sorted((file.parent for file in RUNS.glob("*/run.json")), key=_made)
        if not runs:
            raise UsageError(f"there is no run under ./{RUNS}: make one with `phasewise profile`, or name its folder.")
        path = runs[-1]
    return load(path), path if path.is_dir() else path.parent


def _made(folder: Path) -> tuple[str, float]:
    """The second in its name; among runs of one second, when it was written."""
    return folder.name.partition("-")[0], folder.stat().st_mtime


def why_not(write: Callable[[], None]) -> str:
    """Why ``write`` failed; empty when it did not."""
    try:
        write()
    except OSError as error:
        return error.strerror or str(error)
    return ""
