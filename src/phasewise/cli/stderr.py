"""What goes to stderr: one sentence."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(sentence: str, code: int) -> int:
    """Print ``sentence`` on stderr, if there is one to print on, and return ``code``."""
    from phasewise.report.view.words import clean

    if sys.stderr is not None:
        with suppress(OSError):
            print(f"phasewise: {clean(sentence, 2000)}", file=sys.stderr)
    return code
