"""The grid options of `phasewise predict`: how axes are written, and where the grid is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasewise.errors import UsageError

if TYPE_CHECKING:
    from phasewise.jobs.grid import Axes
    from phasewise.jobs.subject import Subject

Axis = Annotated[
    str | None,
    typer.Option(
        "--grid",
        metavar="AXES",
        help="Predict a grid, e.g. lengths=128..32000,batches=1..64,weights=bf16,int4 (also kv=). A..B doubles, "
        "A..B+S steps by S. --on may then name several, by commas.",
    ),
]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write every point of the grid as CSV; - is stdout.")
]
Chart = Annotated[
    Path | None, typer.Option("--chart", metavar="FILE", help="Draw the grid into one .svg or .html file.")
]

_AXES = ("lengths", "batches", "weights", "kv")
_WRITTEN = "write lengths=128..32000,batches=1..64,weights=bf16,int4."
_MOST_TOKENS, _MOST_BATCH, _MOST_VALUES = 100_000_000, 1_000_000, 1_000_000


def wanted(on: str | None, grid: str | None, csv: Path | None, chart: Path | None) -> bool:
    """Whether the options ask for a grid: one of its own, or several accelerators."""
    return grid is not None or csv is not None or chart is not None or (on is not None and "," in on)


def draw(
    subject: Subject,
    text: str | None,
    *,
    prompt: int,
    batch: int,
    csv: Path | None = None,
    chart: Path | None = None,
    explain: bool = False,
    as_json: bool = False,
) -> int:
    """Predict the grid and draw it; ``prompt`` and ``batch`` are the axes that ``text`` does not name.

    Raises:
        UsageError: ``explain``, which is for one point, a ``csv`` that would replace what is no CSV file, or axes that
            make no sense.
    """
    if explain:
        raise UsageError("--explain puts numbers into the formulas of one point: leave the grid away.")
    if csv is not None and csv.is_file() and csv.resolve().suffix.lower() != ".csv":  # the model's own file, maybe
        raise UsageError(f"--csv {csv} is there already and is no .csv file: name another one.")
    from phasewise.jobs.grid import grid as job
    from phasewise.report import grid as drawn

    found = job(subject, axes(subject, text, prompt=prompt, batch=batch))
    drawn.show(found, csv=csv, chart=chart, as_json=as_json)
    return 0


def axes(subject: Subject, text: str | None, *, prompt: int, batch: int) -> Axes:
    """The axes that ``text`` (``NAME=VALUE,VALUE,NAME=...``) and ``subject`` state.

    Raises:
        UsageError: something else.
    """
    from phasewise.jobs.grid import Axes

    given = _split(text) if text is not None else {}
    names = [name.strip() for name in subject.on.split(",")] if subject.on is not None else [None]
    return Axes(
        accelerators=tuple(dict.fromkeys(names)),
        lengths=_numbers("lengths", given.get("lengths", [str(prompt)]), _MOST_TOKENS),
        batches=_numbers("batches", given.get("batches", [str(batch)]), _MOST_BATCH),
        weights=tuple(dict.fromkeys(given.get("weights", [subject.weights]))),
        kv=tuple(dict.fromkeys(given.get("kv", [subject.kv]))),
    )


def _split(text: str) -> dict[str, list[str]]:
    """Values by axis: a piece with ``=`` starts an axis, any other belongs to the one before it."""
    found: dict[str, list[str]] = {}
    for piece in text.replace(" ", ",").split(","):
        name, equals, value = piece.partition("=")
        if equals and name in _AXES and name not in found:
            found[name] = [value]
        elif not equals and piece and found:
            found[list(found)[-1]].append(piece)
        elif piece:
            raise UsageError(
                f"--grid {piece[:40]!r} is not one of {'=, '.join(_AXES)}= given once, or a value of the axis before "
                f"it: {_WRITTEN}"
            )
    if not found:
        raise UsageError(f"--grid names no axis: {_WRITTEN}")
    return found


def _numbers(axis: str, pieces: list[str], most: int) -> tuple[int, ...]:
    found: set[int] = set()
    for piece in pieces:
        try:
            values = _range(piece, most)
        except ValueError:
            raise UsageError(
                f"--grid {axis}={piece[:40]!r} is not a whole number from 1 to {most:,}, or a range of them: "
                "write 2000, 128..32000 or 1..64+1."
            ) from None
        if len(values) <= _MOST_VALUES:  # a longer one would take seconds and gigabytes to gather
            found.update(values)
        if max(len(values), len(found)) > _MOST_VALUES:
            raise UsageError(f"--grid {axis}={piece[:40]!r} is over {_MOST_VALUES:,} values: take a larger step.")
    return tuple(sorted(found))


def _range(text: str, most: int) -> range | list[int]:
    """``N``, ``A..B`` (doubling, B included) or ``A..B+S``."""
    first, dots, rest = text.partition("..")
    last, plus, step = rest.partition("+")
    start, end = int(first), int(last) if dots else int(first)
    if not 1 <= start <= end <= most or (plus and int(step) < 1):
        raise ValueError
    if plus:
        return range(start, end + 1, int(step))
    doubled = [start << n for n in range((end // start).bit_length())]
    return [*(value for value in doubled if value < end), end]
