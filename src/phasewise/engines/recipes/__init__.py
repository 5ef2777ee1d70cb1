"""How to start each engine under each profiler: assembled from the rows of nsys.toml, ncu.toml, torch.toml.

A row is for every engine and every command unless it names some. A flag that a profiler or an engine gains is a row in
the file of that profiler; an engine is a row in engines.toml. Only what a documentation, a program's own --help or its
source says has a row, and the row says where that is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from phasewise.errors import UsageError
from phasewise.record.recipe import Cause, Command, EngineName, Part, Profiler, Recipe, Step

_FOLDER = Path(__file__).parent


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine: what people call it, where it listens, and how its profiler is started and stopped over HTTP."""

    name: str
    url: str = ""
    start: str = ""
    stop: str = ""


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    engines: tuple[EngineName, ...] = ()
    commands: tuple[str, ...] = ()


class CommandRow(_Row, frozen=True, kw_only=True):
    """A command: ``program`` stands before its flags; ``code`` stands in place of all of it."""

    name: str
    title: str
    program: str = ""
    code: str = ""


class PartRow(_Row, frozen=True, kw_only=True):
    """A flag or variable, and where in the command it stands: before the program, after it, or with the engine."""

    place: Literal["env", "profiler", "engine", "code"]
    text: str
    why: str
    source: str


class StepRow(_Row, frozen=True, kw_only=True):
    """See `Step`."""

    say: str
    run: str = ""


class CauseRow(_Row, frozen=True, kw_only=True):
    """See `Cause`."""

    cause: str
    cure: str
    source: str


class Refusal(_Row, frozen=True, kw_only=True):
    """Why there is no recipe for some engines, with what to take instead."""

    reason: str


class Rows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one profiler."""

    command: tuple[CommandRow, ...]
    part: tuple[PartRow, ...]
    step: tuple[StepRow, ...]
    cause: tuple[CauseRow, ...]
    refused: tuple[Refusal, ...] = ()


_AnyRow = TypeVar("_AnyRow", bound=_Row)


def rows(profiler: Profiler) -> Rows:
    """The rows of one profiler."""
    return msgspec.toml.decode((_FOLDER / f"{profiler}.toml").read_bytes(), type=Rows)


def engines() -> dict[EngineName, Engine]:
    """Every engine by the name that ``--engine`` takes."""
    return msgspec.toml.decode((_FOLDER / "engines.toml").read_bytes(), type=dict[EngineName, Engine])


def recipe(profiler: Profiler, engine: EngineName) -> Recipe:
    """The recipe of ``profiler`` for ``engine``.

    Raises:
        UsageError: there is none; the sentence says what to take instead.
    """
    table, who = rows(profiler), engines()[engine]
    refused = [row for row in table.refused if engine in row.engines]
    if refused:
        raise UsageError(refused[0].reason)

    fields = {"start": who.start, "stop": who.stop, "url": who.url, "send": (_FOLDER / "send.sh").read_text("utf-8")}

    def filled(text: str) -> str:
        for field, value in fields.items():
            text = text.replace(f"@{field}@", value)
        return text.strip()

    commands = tuple(_command(row, _of(table.part, engine, row.name)) for row in _of(table.command, engine))
    return Recipe(
        profiler=profiler,
        engine=engine,
        name=who.name,
        commands=commands,
        steps=tuple(Step(say=filled(row.say), run=filled(row.run)) for row in _of(table.step, engine)),
        causes=tuple(Cause(cause=row.cause, cure=row.cure, source=row.source) for row in _of(table.cause, engine)),
    )


def _of(found: tuple[_AnyRow, ...], engine: EngineName, command: str | None = None) -> list[_AnyRow]:
    """The rows that hold for ``engine``, and for ``command`` where one is meant."""
    return [
        row
        for row in found
        if (not row.engines or engine in row.engines)
        and (command is None or not row.commands or command in row.commands)
    ]


def _command(row: CommandRow, parts: list[PartRow]) -> Command:
    shown = tuple(Part(text=part.text, why=part.why, source=part.source) for part in parts)
    if row.code:
        return Command(title=row.title, text=row.code.strip(), parts=shown)
    before, flags, engine = (
        [part.text for part in parts if part.place == place] for place in ("env", "profiler", "engine")
    )
    first = [*before, row.program] if row.program else before
    lines = [*first, *(f"  {flag}" for flag in flags), *(f"  {part}" if row.program else part for part in engine[:1])]
    lines += [f"    {flag}" if row.program else f"  {flag}" for flag in engine[1:]]
    return Command(title=row.title, text=" \\\n".join(lines), parts=shown)
