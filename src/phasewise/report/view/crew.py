"""The workers of a run: who they were, how well their clocks agree, what was lost with whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from phasewise.record.crew import Crew, Lost
from phasewise.record.load import Load
from phasewise.report.view import words
from phasewise.report.view.heading import Notice
from phasewise.report.view.table import Cell, Table, columns

MOST = 16
"""Workers that the table shows: the lost ones first, then those whose clocks are known least well."""


def lighter(found: Load) -> str:
    """What the verdict must not hide: how much of the load was missing; empty when nothing was.

    A search does not count the trial in which a worker was lost.
    """
    missing = [one for one in found.crew.lost if one.share > 0] if found.crew is not None else []
    if not missing or found.found is not None:
        return ""
    since, total = min(one.from_s for one in missing), sum(one.share for one in missing)
    return f" But from {since:,.1f} s on {words.share(min(1.0, total))} of the load was missing."


def notices(crew: Crew | None, loss: Callable[[Lost], str]) -> Iterator[Notice]:
    """Who was lost, and what with them: ``loss`` says it."""
    if crew is not None and crew.lost:
        text = "A worker was lost, the others went on" if len(crew.lost) == 1 else "Workers were lost, others went on"
        yield Notice(kind="partial", text=f"{text}:", items=tuple(_lost(one, loss) for one in crew.lost))


def of_load(one: Lost) -> str:
    """What a load lost with a worker: what it was still to send, too."""
    return (
        f"{one.requests:,} of its requests have no row, {one.in_flight:,} of them in the air; from then on "
        f"{words.share(one.share)} of the load was missing"
    )


def of_sweep(one: Lost) -> str:
    """What a sweep lost: the requests of one group, which the others can send again."""
    many = "1 request was" if one.requests == 1 else f"{one.requests:,} requests were"
    return f"{many} lost with it, and their group is not used; the others held the next ones"


def _lost(one: Lost, loss: Callable[[Lost], str]) -> str:
    trial = f" of trial {one.trial + 1}" if one.trial else ""
    which = f"worker {one.worker} at {words.clean(one.where)} ({words.clean(one.why)})"
    if not one.requests:
        return f"{which}, last heard of {one.from_s:,.1f} s after the start{trial}: nothing was lost with it."
    return f"{which}, last heard of {one.from_s:,.1f} s after the start{trial}: {loss(one)}."


def facts(crew: Crew | None) -> Iterator[str]:
    """How many there were, and how well they kept one time."""
    if crew is None:
        return
    workers, nodes = len(crew.members), crew.nodes
    ours = f"{workers} worker{'s' * (workers > 1)} on {nodes} node{'s' * (nodes > 1)} ({words.clean(crew.hired)})"
    trip = max(one.round_trip_s for one in crew.members)
    drift = max(abs(one.drift) for one in crew.members)
    due = "" if crew.due_error_s is None else f", and requests were due within {words.number(crew.due_error_s, 's')}"
    yield (
        f"{ours}: their times are ours within {words.number(crew.clock_error_s, 's')} (quickest round trips of up to "
        f"{words.number(trip, 's')}, of which half counts, and what a steady drift of up to {drift * 1e6:.3g} ppm "
        f"missed){due}."
    )


def table(crew: Crew | None, most: str = "") -> Table:
    """A row for each worker; ``most`` stands before what may be more than it sent."""
    members = crew.members if crew is not None else ()
    lost = {one.worker for one in crew.lost} if crew is not None else set()
    order = sorted(members, key=lambda one: (one.worker not in lost, -one.clock_error_s))[:MOST]
    rows = tuple(
        (
            Cell(f"{one.worker}{' (lost)' * (one.worker in lost)}"),
            Cell(words.clean(one.where)),
            Cell(f"{most}{one.requests:,}"),
            Cell(f"{one.returned:,}"),
            Cell(words.NOTHING if one.cpu_share is None else words.share(one.cpu_share)),
            Cell(words.number(one.clock_error_s, "s")),
            Cell(words.number(one.due_error_s, "s")),
        )
        for one in sorted(order, key=lambda one: one.worker)
    )
    heads = columns("worker", "node", ">share", ">answered", ">of a core", ">clock within", ">due within")
    note = f"{len(members) - MOST:,} more are in the record." if len(members) > MOST else ""
    return Table(title="Workers", columns=heads, rows=rows, note=note)
