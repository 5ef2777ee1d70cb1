"""A trace's kernels and steps: families and roles phase beside phase, the largest kernels, those with counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phasewise.record.trace import FamilyRow, KernelRow, RoleRow, Traced, TracePhase, TraceStep
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say
from phasewise.report.view.traced import NOT_LISTED, NOT_MEASURED, Pair, absent, evidence, kernels, percent, said, seen

Sides = Sequence[Mapping[str, FamilyRow | RoleRow]]

STEPS, KERNELS, NAME, EVIDENCE = 8, 5, 60, 40
"""Steps and kernels that the short form shows, and characters of a kernel's name and of a step's evidence in it."""

PALETTE = 9
"""Colours that families can be told apart by; every further family looks alike."""


def families(found: Traced, pair: Pair) -> Table:
    """Who had the time, by family; the largest family of both phases together first."""
    sides = [{row.family: row for row in found.phases[phase].families} for phase in pair]
    return _beside(found, pair, "family", sides)


def roles(found: Traced, pair: Pair) -> Table:
    """Where in the layer the time went; no rows where that cannot be told."""
    sides = [{row.role: row for row in found.phases[phase].roles} for phase in pair]
    return _beside(found, pair, "place in the layer", sides)


def _beside(found: Traced, pair: Pair, what: str, sides: Sides) -> Table:
    names = sorted({name for side in sides for name in side}, key=lambda name: -_both(sides, name))
    heads = [head for phase in pair for head in (f">{phase}", ">share", f">{kernels(found)}")]
    unseen = words.listed([phase for phase in pair if not seen(found.phases[phase])])
    return Table(
        title=what.capitalize(),
        columns=columns(what, *heads),
        rows=tuple((_named(name), *(cell for side in sides for cell in _three(side.get(name)))) for name in names),
        note=f"{absent(found).capitalize()}: {unseen}." if unseen else "",
    )


def _named(name: str) -> Cell:
    """A family or a place; kernels whose place cannot be told have none."""
    return say(words.name(name) or "not told")


def _both(sides: Sides, name: str) -> float:
    rows = (side.get(name) for side in sides)
    return sum(row.gpu_time_s for row in rows if row is not None)


def _three(row: FamilyRow | RoleRow | None) -> tuple[Cell, Cell, Cell]:
    if row is None:
        return (Cell(""), Cell(""), Cell(""))
    return (
        give(said(row.gpu_time_s, "s", "sum of its kernels")),
        Cell(words.share(row.share), said(row.share, "1", "of the phase's kernel time")),
        Cell(words.count(row.kernels), said(row.kernels, "1", "counted in the trace")),
    )


def steps(found: Traced, most: int | None) -> Table:
    """The first ``most`` steps with the strongest evidence of their phase; None: all steps, and all evidence."""
    shown = found.steps[:most]
    several = len(found.files) > 1
    heads = columns(
        *(["rank"] if several else []),
        "phase",
        ">start",
        ">time",
        f">{kernels(found)}",
        ">graphs",
        ">requests",
        ">tokens",
        "evidence",
    )
    rows = tuple((*([say(step.rank)] if several else []), *_step(found, step, most is None)) for step in shown)
    left = f"{len(shown):,} of {len(found.steps):,} steps: --full shows all." if len(shown) < len(found.steps) else ""
    return Table(title="Steps", columns=heads, rows=rows, note=left if rows else "No step was found.")


def _step(found: Traced, step: TraceStep, full: bool) -> tuple[Cell, ...]:
    verify = " (verify)" if step.speculative else ""
    told = evidence(found, step)
    shown = told if full else [words.clean(one, EVIDENCE) for one in told[:1]]
    sure = f" ({words.number(step.confidence, '1', 2)} sure)"
    return (
        say(f"{step.phase}{verify}"),
        give(said(step.start_s, "s", "from the trace's first event")),
        give(said(step.gpu_time_s, "s", "sum of its kernels and replays")),
        say(words.count(step.kernels) if step.kernels or not step.gpu_time_s else NOT_LISTED),
        Cell(words.count(step.graph_launches)),
        Cell("" if step.requests is None else words.count(step.requests)),
        Cell("" if step.tokens is None else words.count(step.tokens)),
        say("; ".join(map(words.clean, shown)) + sure),
    )


def top(found: Traced, phase: TracePhase, most: int | None) -> Table:
    """The ``most`` kernels of a phase with the most time; None: all that the record holds, with longer names."""
    rows = found.phases[phase].top[:most]
    return Table(
        title=f"Largest {kernels(found)} of {phase}",
        columns=columns("name", "family", ">time", ">share", ">count", ">median"),
        rows=tuple(_kernel(row, NAME if most else words.NAME) for row in rows),
    )


def _kernel(row: KernelRow, longest: int) -> tuple[Cell, ...]:
    return (
        say(words.clean(row.name, longest)),
        say(words.name(row.family)),
        give(said(row.gpu_time_s, "s", "sum of its runs")),
        Cell(words.share(row.share), said(row.share, "1", "of the phase's kernel time")),
        Cell(words.count(row.kernels)),
        give(said(row.median_s, "s", "median run")),
    )


def measured(found: Traced, most: int | None) -> Table:
    """Kernels with counters: Speed Of Light of each, with NVIDIA's rule."""
    shown = found.measured[:most]
    rows = tuple(
        (
            say(words.clean(one.name, NAME)),
            say(one.phase),
            give(said(one.duration_s, "s", "counters")),
            *(percent(value, words.NOTHING) for value in (one.compute, one.memory, one.dram)),
            Cell(words.NOTHING if one.waves is None else f"{one.waves:.2f}"),
            say("; ".join((one.rule, *one.notes))),
        )
        for one in shown
    )
    heads = columns("kernel", "phase", ">time", ">compute", ">memory", ">DRAM", ">waves", "NVIDIA's rule")
    left = f" {len(shown):,} of {len(found.measured):,}: --full shows all." if len(shown) < len(found.measured) else ""
    note = f"{words.NOTHING}: {NOT_MEASURED}.{left}"
    return Table(title="Kernels with counters", columns=heads, rows=rows, note=note)


def colours(found: Traced) -> Mapping[str, int]:
    """A colour for each family of the trace, the largest first; those beyond the palette share the last."""
    times: dict[str, float] = {}
    for phase in found.phases.values():
        for row in phase.families:
            times[row.family] = times.get(row.family, 0.0) + row.gpu_time_s
    return {name: min(at, PALETTE) for at, name in enumerate(sorted(times, key=lambda name: -times[name]))}
