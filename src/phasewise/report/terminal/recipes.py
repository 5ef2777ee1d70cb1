"""A recipe on the terminal: commands to copy, why each part, what then, and what to do when the trace is empty."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from phasewise.record.recipe import Cause, Recipe
from phasewise.report.terminal.layout import Grid, section, sentence
from phasewise.report.view.table import Table, columns, say

_TITLES = {"nsys": "Nsight Systems", "ncu": "Nsight Compute", "torch": "PyTorch's profiler"}


def recipe(found: Recipe) -> RenderableType:
    """The whole of it; what is to be copied fits into 78 columns and begins at the first.

    Python, alone or in a shell's quotes, does not take lines that are indented for the looks.
    """
    commands = [Group(section(command.title), _copied(command.text)) for command in found.commands]
    steps = [_numbered(number, step.say, step.run) for number, step in enumerate(found.steps, 1)]
    causes = [_caused(number, cause) for number, cause in enumerate(found.causes, 1)]
    return Group(
        Text(f"{found.name} under {_TITLES[found.profiler]}", style="bold"),
        *commands,
        section("Why", Grid(_why(found))),
        section("Then"),
        *steps,
        section("If the trace is empty", *causes),
        section("Sources", sentence("; ".join(_sources(found)) + ".")),
    )


def _why(found: Recipe) -> Table:
    """Every part once."""
    parts = {part.text: part.why for command in found.commands for part in command.parts}
    rows = tuple((say(text), say(why)) for text, why in parts.items())
    return Table(title="Why", columns=columns("part", "why"), rows=rows)


def _numbered(number: int, text: str, run: str) -> RenderableType:
    said = sentence(f"{number}. {text}")
    return Group(Padding(said, (0, 0, 0, 2)), Text(""), _copied(run), Text("")) if run else Padding(said, (0, 0, 1, 2))


def _copied(text: str) -> Text:
    """Lines that nothing breaks; a terminal that is too narrow for them joins them again when they are copied."""
    return Text(text, no_wrap=True, overflow="ignore")


def _caused(number: int, cause: Cause) -> RenderableType:
    return Group(sentence(f"{number}. {cause.cause}"), Padding(sentence(f"> {cause.cure}"), (0, 0, 0, 3)))


def _sources(found: Recipe) -> list[str]:
    parts = [part.source for command in found.commands for part in command.parts]
    return list(dict.fromkeys(one for text in (*parts, *(c.source for c in found.causes)) for one in text.split("; ")))
