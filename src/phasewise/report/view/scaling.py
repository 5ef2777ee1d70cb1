"""How decode scales: a table over context, and what fits in memory."""

from __future__ import annotations

from phasewise.record.quantity import predicted
from phasewise.record.scaling import ContextRow, Fits, Scaling
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns
from phasewise.units import Unit

NEVER = "never"


def contexts(found: Scaling) -> Table:
    """Decode at each context: one request, the gain of many, where it turns compute-bound, and the most that fit."""
    return Table(
        title="Decode over context",
        columns=columns(
            ">context",
            ">step",
            f">gain of {found.gain_batch}",
            ">compute-bound",
            ">fit at most",
            ">step then",
            ">tokens/s",
        ),
        rows=tuple(_row(row) for row in found.rows),
        note="compute-bound: the batch from which on a step's math takes longer than its reading.",
    )


def _row(row: ContextRow) -> tuple[Cell, ...]:
    turns = NEVER if row.compute_bound_at is None else words.count(row.compute_bound_at)
    return (
        Cell(words.count(row.context)),
        _number(row.step_s, "s"),
        Cell(words.times(row.throughput_gain)),
        Cell(turns),
        Cell(words.count(row.largest_batch)),
        _number(row.largest_step_s, "s"),
        Cell(words.count(row.largest_tokens_per_s)),
    )


def _number(value: float | None, unit: Unit) -> Cell:
    quantity = None if value is None else predicted(value, unit, "counted work under the ceilings named")
    return Cell(words.number(value, unit), quantity)


def sentences(found: Scaling) -> tuple[str, ...]:
    """Where decode turns compute-bound at the stated context, and how the memory is filled."""
    return (_turns(found), _fits(found.fits) if found.fits else "What fits is not known: the memory is not stated.")


def _turns(found: Scaling) -> str:
    at = f"At {words.number(found.context, 'token')} of context decode"
    if found.compute_bound_at is None:
        return f"{at} never turns compute-bound: reading a request's KV and state takes longer than its math."
    return f"{at} turns compute-bound at batch {words.count(found.compute_bound_at)}."


def _fits(fits: Fits) -> str:
    memory, weights = words.amount(fits.memory_bytes), words.number(fits.weights_bytes, "B", 4)
    share = f"{fits.usable_share.value:.0%} of {memory} ({fits.memory_bytes.provenance}; the share is assumed)"
    request = fits.kv_bytes_per_request
    if not fits.largest_batch:
        each = words.number(fits.weights_bytes + request + fits.activation_bytes, "B")
        return (
            f"Nothing fits: {weights} of weights with one request of {words.number(fits.context, 'token')} take "
            f"{each}, more than {share}. It takes {words.count(fits.least_devices)} devices."
        )
    state = f" + {words.number(fits.state_bytes, 'B')} of state" if fits.state_bytes else ""
    return (
        f"{words.count(fits.largest_batch)} requests of {words.number(fits.context, 'token')} fit in {share}: "
        f"{weights} of weights + {words.number(fits.kv_bytes, 'B')} of KV{state} + "
        f"{words.number(fits.activation_bytes, 'B')} of activations (steps of "
        f"{words.number(fits.step_tokens, 'token')})."
    )
