"""One model over several devices: what each holds and does, what they say, and how many pay."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.parallel import AdviceRow, DeviceStep, Parallel
from phasewise.record.quantity import Quantity, predicted
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, say
from phasewise.units import Unit


def headline(found: Parallel) -> str:
    """The layout and the link in a sentence."""
    joined = "joined by no link that is known"
    if found.link_rate is not None:
        joined = f"joined by {words.name(found.link)}, {words.amount(found.link_rate)} each way"
    tables = f"; lm_head and embedding {found.lm_head}" if found.tp > 1 else ""
    return f"{found.devices} devices as {words.name(found.words)}, {joined}{tables}."


def device(found: Parallel) -> Table:
    """What one device does in each step."""
    steps = (found.prefill, found.decode)
    rows = [
        (say("FLOPs"), *(_cell(step.flops, "FLOP") for step in steps)),
        (say("weight bytes read"), *(_cell(step.weight_bytes, "B") for step in steps)),
        (say("KV bytes"), *(_cell(step.kv_bytes, "B") for step in steps)),
        (say("floor"), *(_cell(step.floor_s, "s") for step in steps)),
        (say("communication"), *(_talk(found, step) for step in steps)),
        *([(say("waits for other stages"), *(_cell(step.waiting_s, "s") for step in steps))] if found.pp > 1 else []),
        (say("step"), *(_cell(step.time_s, "s") for step in steps)),
        *([(say("idle (bubble)"), *(Cell(words.share(step.idle)) for step in steps))] if found.pp > 1 else []),
        (say("bound"), *(say(f"{step.bound}-bound") for step in steps)),
        (say("efficiency over one"), *(Cell(words.share(step.efficiency)) for step in steps)),
    ]
    holds = f"It holds {words.number(found.weight_bytes, 'B', 4)} of weights"
    note = f"{holds} and {words.count(found.kv_bytes_per_token)} B of KV cache for each token."
    return Table(
        title="One device", columns=columns("one device", ">prefill", ">decode step"), rows=tuple(rows), note=note
    )


def _cell(value: float, unit: Unit) -> Cell:
    return Cell(words.number(value, unit), predicted(value, unit, "counted work of one device"))


def _talk(found: Parallel, step: DeviceStep) -> Cell:
    if found.link_rate is None and found.devices > 1:
        return Cell("not counted")
    return _cell(step.communication_s, "s")


def messages(found: Parallel) -> Table:
    """What the devices say to each other in a decode step and in a prefill."""
    rows = tuple(
        (
            say(f"{phase}: {one.kind}"),
            say(one.what),
            Cell(words.count(one.count)),
            Cell(words.amount(one.sent), one.sent),
            Cell(words.amount(one.latency), one.latency),
            Cell(words.amount(one.seconds), one.seconds),
        )
        for phase, step in (("prefill", found.prefill), ("decode", found.decode))
        for one in step.messages
    )
    source = next((one.latency.source for one in found.decode.messages if one.latency is not None), "")
    return Table(
        title="Messages",
        columns=columns("message", "of", ">count", ">each sends", ">latency", ">time"),
        rows=rows,
        note=f"Latencies: {words.clean(source)}." if source else "",
    )


def advice(found: Parallel) -> Table:
    """Tensor parallelism over more and more devices."""
    rows = tuple(tuple(_advice(row)) for row in found.advice.rows)
    rule = "" if found.advice.devices is None else f" {_rule(found.advice.fixed)}"
    note = f"{words.clean(found.advice.text)}{rule}"
    return Table(
        title="How many devices pay",
        columns=columns(">devices", ">each holds", ">prefill", ">decode step", ">efficiency", ">pays below"),
        rows=rows,
        note=note,
    )


def _rule(fixed: Quantity) -> str:
    return (
        "Twice the devices pay when a step gets at least 1.41 times as fast. The last column says how long that part "
        f"of a step may be which no number of devices makes shorter; it is taken to be {words.amount(fixed)} "
        f"({fixed.provenance}: {words.clean(fixed.source)})."
    )


def _advice(row: AdviceRow) -> Iterator[Cell]:
    yield Cell(words.count(row.devices))
    yield Cell(f"{words.number(row.held_bytes, 'B')}{' (too much)' if row.fits is False else ''}")
    yield Cell(words.number(row.prefill_s, "s"))
    yield Cell(words.number(row.decode_s, "s"))
    yield Cell(words.share(row.efficiency))
    yield Cell(words.number(row.pays_below_s, "s") if row.pays_below_s else "" if row.pays_below_s is None else "never")


def notes(found: Parallel) -> tuple[str, ...]:
    """What a reader must know."""
    return tuple(map(words.clean, found.notes))
