"""From a renderable to characters: on a screen, or as plain text of at most 80 columns."""

from __future__ import annotations

import io
import sys

from rich.console import Console, RenderableType

from phasewise.report.stdout import write

COLUMNS, WIDEST = 80, 100
"""Width when piped, and the widest a report gets on a screen."""

_ASCII = str.maketrans({"µ": "u", "×": "x", "·": "*", "²": "2", "≈": "~", "→": ">", "…": "~", "–": "-", "—": "-"})
"""Stand-ins of one column each, so that tables stay aligned where the encoding knows only ASCII."""


def to_text(renderable: RenderableType, width: int = COLUMNS, colour: bool = False) -> str:
    """``renderable`` as text of at most ``width`` columns; without ``colour`` as it goes through a pipe."""
    file = io.StringIO()
    _console(file, width, screen=colour).print(renderable, crop=False)
    return "".join(line.rstrip() + "\n" for line in file.getvalue().rstrip().splitlines())


def print_report(renderable: RenderableType) -> None:
    """Print on stdout: as rich as the screen allows, as plain text of 80 columns when piped.

    NO_COLOR and TERM=dumb are honoured; an encoding that knows only ASCII gets stand-ins.
    """
    screen = Console(highlight=False, markup=False, emoji=False)
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    unicode = encoding.lower().startswith("utf")
    if screen.is_terminal and not screen.is_dumb_terminal and unicode:
        screen.width = min(screen.width, WIDEST)
        with screen.capture() as captured:
            screen.print(renderable, crop=False)
        write(captured.get(), encoding)
        return
    text = to_text(renderable, min(screen.width, COLUMNS) if screen.is_terminal else COLUMNS)
    write(text if unicode else text.translate(_ASCII), encoding)


def _console(file: io.StringIO, width: int, *, screen: bool) -> Console:
    return Console(
        file=file,
        width=width,
        height=25,
        force_terminal=screen,
        color_system="standard" if screen else None,
        no_color=not screen,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
