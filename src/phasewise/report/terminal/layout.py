"""The few shapes that a terminal report is made of. Everything is a Text, so no name is ever read as markup."""

from __future__ import annotations

from collections.abc import Iterable

import rich.table
from rich.box import Box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from phasewise.report.view import words
from phasewise.report.view.table import Part, Table

_RULED = "    \n    \n {} \n    \n    \n    \n    \n    \n"
_LINE, _DASH = Box(_RULED.format("──")), Box(_RULED.format("--"), ascii=True)
_INDENT = (0, 0, 0, 2)
_LONGEST_NUMBER = 24

_PARTS = {
    "prefill": "blue",
    "decode": "yellow",
    "compute": "blue",
    "memory": "yellow",
    "overhead": "bright_black",
    "kernel": "magenta",
}
_STATUS = {"passed": "green", "FAILED": "bold red", "not checked": "cyan"}
"""Colours only repeat what the words say."""


def plain(console: Console, options: ConsoleOptions) -> bool:
    """Whether lines and blocks must be ASCII: piped, dumb, or an encoding without them."""
    return not console.is_terminal or console.is_dumb_terminal or options.ascii_only


def sentence(text: str, style: str = "") -> Text:
    """A paragraph that wraps; a word longer than the line is folded."""
    return Text(text, style=style, overflow="fold")


def indented(*items: RenderableType) -> Padding:
    """Two columns in."""
    return Padding(Group(*items), _INDENT)


def section(title: str, *items: RenderableType) -> Group:
    """A heading and what is under it, after an empty line."""
    return Group(Text(""), Text(title.upper(), style="bold"), indented(*items))


def bullets(items: Iterable[str], numbered: bool = False) -> Group:
    """A list; the second line of an item hangs under its first."""
    rows = rich.table.Table.grid(padding=(0, 1, 0, 0))
    for number, item in enumerate(items, 1):
        rows.add_row(Text(f"{number}." if numbered else "-"), sentence(item))
    return Group(rows) if rows.row_count else Group()


class Grid:
    """A table with a line under its headings."""

    def __init__(self, view: Table) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out for the width at hand."""
        if self.view.rows:
            yield self._table(_DASH if plain(console, options) else _LINE)
        if self.view.note:
            yield sentence(self.view.note)

    def _table(self, box: Box) -> rich.table.Table:
        table = rich.table.Table(box=box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for i, column in enumerate(self.view.columns):
            short = all(len(row[i].text) <= _LONGEST_NUMBER for row in self.view.rows)
            table.add_column(
                Text(column.name),
                justify="right" if column.numeric else "left",
                overflow="fold",
                no_wrap=column.numeric and short,
            )
        for row in self.view.rows:
            table.add_row(*(Text(cell.text, style=_STATUS.get(cell.text, ""), overflow="fold") for cell in row))
        return table


class Bars:
    """One line per part: what, how long, which share, and a bar as long as the share."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As wide as there is room."""
        texts = [(part.label, words.amount(part.seconds), words.share(part.fraction)) for part in self.parts]
        widths = [max((len(text[i]) for text in texts), default=0) for i in range(3)]
        room = max(10, options.max_width - sum(widths) - 6)
        full, rest = ("#", ".") if plain(console, options) else ("█", "·")
        for part, (label, seconds, share) in zip(self.parts, texts, strict=True):
            length = _length(part.fraction, room)
            line = Text(f"{label:<{widths[0]}}  {seconds:>{widths[1]}}  {share:>{widths[2]}}  ", no_wrap=True)
            line.append(full * length, Style.parse(_PARTS.get(part.key, "")))
            line.append(rest * (room - length), Style(dim=True))
            yield line


def _length(fraction: float, room: int) -> int:
    """Columns of a part: at least one when it is anything at all."""
    if not words.finite(fraction) or fraction <= 0:
        return 0
    return min(room, max(1, round(fraction * room)))
