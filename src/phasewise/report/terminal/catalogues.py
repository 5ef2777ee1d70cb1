"""The catalogues on the terminal: a table, or everything about the one row that was found."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.catalogue import AcceleratorFacts, ModelEntry
from phasewise.report.terminal.layout import Grid, bullets
from phasewise.report.view import catalogues
from phasewise.report.view.table import Table


def models(rows: tuple[ModelEntry, ...]) -> RenderableType:
    """Several models as a table, one with all its facts."""
    return _one(*catalogues.model(rows[0])) if len(rows) == 1 else Grid(catalogues.models(rows))


def accelerators(rows: tuple[AcceleratorFacts, ...]) -> RenderableType:
    """Several accelerators as a table, one with all its facts."""
    return _one(*catalogues.accelerator(rows[0])) if len(rows) == 1 else Grid(catalogues.accelerators(rows))


def _one(table: Table, facts: tuple[str, ...]) -> RenderableType:
    return Group(Text(table.title, style="bold"), Grid(table), Text(""), bullets(facts))
