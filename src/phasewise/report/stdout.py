"""The only writer on stdout."""

from __future__ import annotations

import os
import sys

import msgspec

from phasewise.errors import UsageError


def document(tree: object) -> None:
    """Print one JSON document."""
    write(msgspec.json.format(msgspec.json.encode(tree), indent=2).decode() + "\n")


def write(text: str, encoding: str = "utf-8") -> None:
    """Write ``text`` on stdout: everything that is shown passes here.

    HTML, Markdown, JSON and CSV are UTF-8 whatever the screen's encoding is. A reader that left (``head``, ``less``) is
    no error: the rest is dropped.

    Raises:
        UsageError: stdout is closed or cannot be written to.
    """
    out = sys.stdout
    if out is None:
        raise UsageError("standard output is closed: nothing can be shown.")
    try:
        out.flush()
        if hasattr(out, "buffer"):
            out.buffer.write(text.encode(encoding, "replace"))
        else:
            out.write(text)
        out.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it takes all that is still to come
    except OSError as error:
        sys.stdout = None  # what is left in it must not be tried again at the end
        raise UsageError(f"standard output cannot be written to ({error.strerror}): send it elsewhere.") from None
