"""What requests beside the profile told: TTFT in its parts, bursts, and the options of a request."""

from __future__ import annotations

from phasewise.record.observation import Phase
from phasewise.record.probes import Burst, Probes, TtftParts
from phasewise.record.quantity import Quantity, measured
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say


def tables(run: Run, phase: Phase) -> tuple[Table, ...]:
    """Those of a phase that hold anything."""
    probes = of(run)
    if probes is None:
        return ()
    found = (_ttft(probes.ttft),) if phase == "prefill" else (_bursts(probes.bursts), _options(probes))
    return tuple(table for table in found if table.rows)


def of(run: Run) -> Probes | None:
    """The probes of ``run``; None when none were made."""
    return run.observation.probes if run.observation else None


def parts(seen: TtftParts) -> tuple[tuple[str, Quantity | None], ...]:
    """What was told of TTFT, in the order of a request's way; None where it could not be."""
    return (
        ("the client's queue", seen.client),
        ("opening a connection", seen.connection),
        ("more on a kept connection", seen.kept),
        ("more for text than for token ids", seen.front_end),
        ("the server's queue", seen.queue),
        ("the prefill pass", seen.prefill),
        (f"more after a pause of {words.number(seen.idle_s, 's')}", seen.idle),
        ("the same prompt again", seen.again),
    )


def _ttft(seen: TtftParts | None) -> Table:
    if seen is None:
        return Table(title="TTFT taken apart", columns=(), rows=())
    rows = tuple(_part(what, time) for what, time in (("TTFT on a kept connection", seen.ttft), *parts(seen)))
    title = f"TTFT taken apart at {words.count(seen.tokens)} tokens"
    return Table(title=title, columns=columns("", ">time", ">range", "how"), rows=rows)


def _part(what: str, time: Quantity | None) -> tuple[Cell, ...]:
    return (say(what), give(time), Cell(words.interval(time)), say(time.provenance if time else "not told"))


def _bursts(bursts: tuple[Burst, ...]) -> Table:
    heads = columns(">sent together", ">ran together", ">first TTFT", ">last TTFT", ">step", ">tokens/s")
    rows = tuple(
        (
            Cell(words.count(burst.requests)),
            Cell(words.count(burst.together)),
            give(measured(burst.ttft_first, "s", "first of the burst")),
            give(measured(burst.ttft_last, "s", "last of the burst")),
            give(burst.step),
            give(burst.throughput),
        )
        for burst in bursts
    )
    return Table(title="Short requests sent together", columns=heads, rows=rows)


def _options(probes: Probes) -> Table:
    rows = tuple(
        (
            say(option.name),
            give(option.tpot),
            give(option.plain),
            say(words.short(option.refused) if option.tpot is None else ""),
        )
        for option in probes.options
    )
    heads = columns("option of a request", ">TPOT with it", ">without", "")
    return Table(title="What options cost per token", columns=heads, rows=rows)
