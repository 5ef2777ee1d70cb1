"""Results of another tool or a person: the answer, the rows, the tool's own figures in our words, each phase."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.judgement import PhaseVerdict
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity
from phasewise.record.results import Results, Step
from phasewise.record.run import Run
from phasewise.report.view import findings, heading, phases, words
from phasewise.report.view.heading import PHASES, Notice
from phasewise.report.view.table import Cell, Part, Table, columns, give, say

_MOST = 3
"""Fixes that the recap names."""


def subject(run: Run, found: Results) -> str:
    """What was measured by whom, of what, on what."""
    said = found.reported
    whose = "Stated by flags"
    if said.file:
        whose = f"Reported by {words.name(said.tool)} ({words.name(said.form)}), {words.name(said.file)}"
    on = heading.subject(run) if run.model or run.machine else f"unjudged: {words.clean(found.why_null)}"
    basis = f"; {words.clean(found.basis)}" if found.basis else ""
    return f"{whose}; {on}{basis}."


def notices(found: Results) -> Iterator[Notice]:
    """Alarms first, then figures that contradict each other, then doubts."""
    for one in found.alarms:
        causes = tuple(map(words.clean, one.causes))
        yield Notice(kind="alarm", text=words.clean(one.text), items=causes, ordered=True)
    for check in found.reported.checks:
        if check.status == "failed":
            kind = "These figures are not to be believed" if check.voids else "Doubt"
            yield Notice(kind="doubt", text=f"{kind}: {words.clean(check.detail)}.")


def bars(found: Results) -> tuple[Part, ...]:
    """TTFT and decode of the request."""
    split = found.split
    if split is None:
        return ()
    first = "prefill" if found.prefill else "TTFT, with its queue"
    return (
        Part(key="prefill", label=first, seconds=split.ttft, fraction=split.prefill_share),
        Part(key="decode", label="decode", seconds=split.decode, fraction=split.decode_share),
    )


def phase(found: Results, name: Phase) -> PhaseVerdict | None:
    """The verdict on a phase."""
    return found.prefill if name == "prefill" else found.decode


def title(found: Results, name: Phase) -> str:
    """``decode: memory-bound``."""
    verdict = phase(found, name)
    if verdict is None:
        return f"{name}: not told"
    doubt = "" if verdict.believed else " (not to be believed)"
    return f"{name}: {words.bound(verdict.bound, verdict.rival)}{doubt}"


def why_not(found: Results, name: Phase) -> str:
    """Why no row tells a phase."""
    whys = dict.fromkeys(row.missing[name] for row in found.reported.rows if name in row.missing)
    why = words.clean(next(iter(whys), "the file has no such figure")).rstrip(".")
    return f"{why[:1].upper()}{why[1:]}."


def scored(found: Results, name: Phase) -> Iterator[str]:
    """The utilisation and the step that it is of."""
    verdict = phase(found, name)
    if verdict is None:
        return
    at = _at(found, name)
    if verdict.headline is None:
        yield f"{at}: {words.amount(verdict.step)} (reported); {words.clean(verdict.why_null)}."
        return
    against = phases.against(verdict)
    least = "at least " if (step := _step(found, name)) and step.least else ""
    interval = words.interval(verdict.headline)
    wide = f" ({interval})" if interval else ""
    yield f"{at}: {least}{words.amount(verdict.headline)} {verdict.yardstick.upper()} {against}{wide}"
    yield f"It took {words.amount(verdict.step)} (reported); its floor is {words.amount(verdict.floor)} (predicted)."


def _at(found: Results, name: Phase) -> str:
    step, verdict = _step(found, name), phase(found, name)
    assert step is not None
    assert verdict is not None
    many = step.batch.value
    tokens = words.count(verdict.at_tokens)
    if name == "prefill":
        cached = f" after {words.count(step.cached)} cached" if step.cached else ""
        return (
            f"{tokens} new tokens{cached}" if many == 1 else f"{words.count(many)} prompts of {tokens} tokens{cached}"
        )
    return f"A step at {tokens} tokens of context, {'batch 1' if many == 1 else f'a batch of {many:,.3g}'}"


def _step(found: Results, name: Phase) -> Step | None:
    index = found.prefill_row if name == "prefill" else found.decode_row
    if index is None:
        return None
    row = found.reported.rows[index]
    return row.prefill if name == "prefill" else row.decode


def parts(verdict: PhaseVerdict) -> tuple[Part, ...]:
    """The step's floor and what is beyond it."""
    return tuple(
        Part(
            key=share.name,
            label="beyond the floor" if share.name == "unknown" else words.part(share.name),
            seconds=share.seconds,
            fraction=share.fraction.value,
        )
        for share in verdict.shares
    )


def rows(found: Results) -> Table:
    """A line per row: each phase's step and what it reaches."""
    nothing = Cell(words.NOTHING)
    lines = tuple(
        (
            say(words.name(row.label)),
            *(_cells(row.prefill, judged.prefill) or (nothing,) * 2),
            *(_cells(row.decode, judged.decode) or (nothing,) * 3),
        )
        for row, judged in zip(found.reported.rows, found.rows, strict=True)
    )
    heads = columns("measured", ">prefill", ">reaches", ">decode step", ">batch", ">reaches")
    return Table(title="Rows", columns=heads, rows=lines)


def _cells(step: Step | None, verdict: PhaseVerdict | None) -> tuple[Cell, ...]:
    if step is None or verdict is None:
        return ()
    figure = words.NOTHING
    if verdict.headline is not None:
        least = ">= " if step.least else ""
        figure = f"{least}{words.amount(verdict.headline)} {verdict.yardstick.upper()}"
    batch = (Cell(f"{step.batch.value:,.3g}", step.batch),) if verdict.phase == "decode" else ()
    return (give(step.time), *batch, Cell(figure, verdict.headline))


def scaling(found: Results) -> Table:
    """Decode over batch."""
    lines = tuple(
        (
            Cell(f"{one.batch.value:,.3g}", one.batch),
            give(one.step),
            give(one.throughput),
            Cell(words.times(one.gain.value), one.gain),
            Cell(words.times(one.predicted.value if one.predicted else None), one.predicted),
        )
        for one in found.scaling
    )
    return Table(
        title="Decode over batch",
        columns=columns(">batch", ">step", ">tokens a second", ">gain", ">gain predicted"),
        rows=lines,
        note="Predicted is the gain that the floors allow; what the one seen lacks, the step waits for besides them."
        if lines
        else "",
    )


def figures(found: Results) -> Iterator[str]:
    """What the tool calls each number, how it is defined there, and what it is here; one statistic of each."""
    told: set[tuple[str, str]] = set()
    for row in found.reported.rows:
        for one in row.figures:
            if (one.defined, one.how) in told:
                continue
            told.add((one.defined, one.how))
            use = "not used" if one.conversion == "none" else f"{one.means}, {one.conversion}"
            name, value = words.name(one.called), words.amount(one.value)
            yield f"{name} {value}, there: {words.clean(one.defined)}; here {use}: {words.clean(one.how)}"


def checks(found: Results) -> Iterator[str]:
    """Every check, its status first."""
    for check in found.reported.checks:
        status = {"passed": "passed", "failed": "FAILED", "not_checked": "not checked"}[check.status]
        yield f"{status}: {words.name(check.name).replace('_', ' ')} ({check.phase}): {words.clean(check.detail)}"


def notes(found: Results) -> Iterator[str]:
    """What was assumed, and what to know of the rows; each once."""
    said = [*found.notes, *(note for row in found.reported.rows for note in row.notes)]
    yield from dict.fromkeys(map(words.clean, said))


def recap(run: Run, found: Results) -> Table:
    """Prefill beside decode."""
    sides = [_side(run, found, name) for name in PHASES]
    names = ("bound", "yardstick", "value", "floor", "fixes")
    lines = tuple((say(name), *(side[i] for side in sides)) for i, name in enumerate(names))
    return Table(title="Recap", columns=columns("", *PHASES), rows=lines)


def _side(run: Run, found: Results, name: Phase) -> tuple[Cell, ...]:
    verdict = phase(found, name)
    if verdict is None:
        return (Cell("not told"), Cell(words.NOTHING), Cell("not told"), Cell(words.NOTHING), Cell("measure first"))
    value = words.amount(verdict.headline) if verdict.headline else words.NOTHING
    step = _step(found, name)
    at_least = "at least " if verdict.headline and step and step.least else ""
    doubt = "" if verdict.believed else ", not to be believed"
    floor = words.NOTHING
    if verdict.floor is not None:
        floor = f"{words.amount(verdict.floor)} of {words.amount(verdict.step)}"
    fixes = [fix for fix in findings.fixes(run) if fix.phase == name]
    named = "; ".join(f"{words.name(fix.name)} ({_buys(fix.buys, fix.saves)})" for fix in fixes[:_MOST])
    return (
        say(words.bound(verdict.bound, verdict.rival)),
        say(verdict.yardstick.upper()),
        Cell(f"{at_least}{value}{doubt}", verdict.headline),
        Cell(floor, verdict.floor),
        say(named or "none ranked"),
    )


def _buys(kind: str, saves: Quantity) -> str:
    return f"{'frees' if kind == 'throughput' else 'saves'} {words.amount(saves)}"
