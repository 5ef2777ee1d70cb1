"""A sweep in tables."""

from __future__ import annotations

from phasewise.record.run import Run
from phasewise.record.sweep import Cell as Held
from phasewise.record.sweep import Stall, Swept
from phasewise.report.view import sweep as said
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say

_PROOF = {"passed": "proved", "failed": "no", "not_checked": "not checked"}


def surface(found: Swept) -> Table:
    """Every batch and context that was tried."""
    cells = found.surface.cells if found.surface else ()
    gains = {(g.batch, g.prompt_tokens): g for g in (found.surface.gains if found.surface else ())}
    floors = any(cell.floor for cell in cells)
    rows = []
    for cell in cells:
        gain = gains.get((cell.batch, cell.prompt_tokens))
        row = [
            Cell(words.count(cell.batch)),
            Cell(words.count(cell.context)),
            give(cell.step),
            Cell(words.count(cell.throughput.value), cell.throughput) if cell.throughput else Cell(words.NOTHING),
            Cell(words.times(gain.measured.value), gain.measured) if gain else Cell(""),
        ]
        if floors:
            row += [
                give(cell.floor),
                Cell(words.times(gain.predicted.value), gain.predicted) if gain and gain.predicted else Cell(""),
            ]
        rows.append((*row, say(_held(cell))))
    heads = [">batch", ">context each", ">step", ">tokens/s", ">gain"]
    heads += [">floor", ">at the floors"] if floors else []
    return Table(title="Decode over batch and context", columns=columns(*heads, "held"), rows=tuple(rows))


def _held(cell: Held) -> str:
    return cell.trouble or _PROOF[cell.proof]


def at_once(found: Swept) -> Table:
    """Prefill of several prompts."""
    together = found.together
    rows = tuple(
        (
            Cell(words.count(row.prompts)),
            give(row.all_first),
            Cell(words.times(row.ratio.value), row.ratio),
            Cell(words.times(row.predicted_ratio.value) if row.predicted_ratio else words.NOTHING, row.predicted_ratio),
            say(_order(row.prompts, row.apart)),
        )
        for row in (together.rows if together else ())
    )
    title = f"Prompts of {together.tokens:,} tokens at once" if together else "Prompts at once"
    heads = columns(">prompts", ">all first tokens after", ">over one", ">at the floors", "first tokens")
    return Table(title=title, columns=heads, rows=rows, note="" if rows else "Prompts at once were not measured.")


def _order(prompts: int, apart: float) -> str:
    if prompts == 1:
        return ""
    return "together, in one pass" if apart < 0.1 else "one after another"


def matrix(found: Swept) -> Table:
    """Stall of running decodes by the prompt's tokens and the decodes that run."""
    stalls = found.mix.stalls if found.mix else ()
    batches = sorted({stall.batch for stall in stalls})
    by = {(stall.batch, stall.tokens): stall for stall in stalls}
    rows = tuple(
        (Cell(words.count(tokens)), *(_stall(by.get((batch, tokens))) for batch in batches))
        for tokens in sorted({stall.tokens for stall in stalls})
    )
    heads = columns(">prompt tokens", *(f">{batch:,} decode{'' if batch == 1 else 's'}" for batch in batches))
    note = (
        "Time that each running decode loses to one prompt, in how many slow steps." if rows else "No prompt was sent."
    )
    return Table(title="What a prompt costs running decodes", columns=heads, rows=rows, note=note)


def _stall(stall: Stall | None) -> Cell:
    if stall is None:
        return Cell("")
    return Cell(f"{words.amount(stall.stall)} in {stall.slow_steps:.0f}", stall.stall)


def stalls(found: Swept) -> Table:
    """The same, every figure."""
    rows = tuple(
        (
            Cell(words.count(stall.batch)),
            Cell(words.count(stall.tokens)),
            give(stall.slowest),
            give(stall.stall),
            Cell(f"{stall.slow_steps:.0f}"),
            give(stall.ttft),
            give(stall.alone),
        )
        for stall in (found.mix.stalls if found.mix else ())
    )
    heads = columns(">decodes", ">prompt", ">longest gap", ">stall", ">slow steps", ">its TTFT", ">alone")
    return Table(title="Each prompt among decodes", columns=heads, rows=rows)


def recap(run: Run) -> Table:
    """The answers once more."""
    found = run.sweep
    gain, stall = (said.top(found), said.heaviest(found.mix)) if found else (None, None)
    plane = found.surface.plane if found and found.surface else None
    seen = found.mix.traffic if found and found.mix else None
    nothing = Cell("not measured")
    together = found.together.rows[-1] if found and found.together else None
    rows = (
        (
            say("batching buys"),
            Cell(f"{words.times(gain.measured.value)} at batch {gain.batch:,}", gain.measured) if gain else nothing,
        ),
        (say("until"), say(said.until(found) or "not measured") if found else nothing),
        (say("decode step"), say(said.plane(plane)) if plane else nothing),
        (
            say("prompts at once"),
            Cell(f"{together.prompts} take {words.times(together.ratio.value)} the time of one", together.ratio)
            if together
            else nothing,
        ),
        (
            say("a prompt costs the others"),
            Cell(f"{words.amount(stall.stall)} ({stall.tokens:,} tokens, {stall.batch:,} decodes)", stall.stall)
            if stall
            else nothing,
        ),
        (
            say("the mix, at random"),
            Cell(f"{words.amount(seen.mix)} of a TTFT of {words.amount(seen.ttft)}", seen.mix) if seen else nothing,
        ),
        *((say(one.name), say(one.text)) for one in (found.advice if found else ())),
    )
    return Table(title="Recap", columns=columns("", "answer"), rows=rows)
