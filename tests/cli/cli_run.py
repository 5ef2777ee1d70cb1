"""Run the command as a user does: another process, its own folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-c", "from phasewise.cli import main; main()")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def environment(home: Path) -> dict[str, str]:
    """No keys, no colours, and caches and settings of the test's own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PHASEWISE_", "OPENAI_", "XDG_"))}
    return kept | {"XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config"), "NO_COLOR": "1"}


def phasewise(*arguments: str, cwd: Path, timeout: float = 90, **variables: str) -> Done:
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(cwd) | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def one_sentence(done: Done, code: int) -> str:
    """The error of a user's mistake: one line, no traceback, nothing on stdout."""
    assert done.code == code, (done.code, done.err, done.out[:300])
    assert done.out == ""
    assert "Traceback" not in done.err
    lines = done.err.strip().splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("phasewise: ")
    return lines[0]
