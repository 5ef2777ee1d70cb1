"""What a larger batch does to decode, seen and predicted, from several rows of another tool's results."""

from __future__ import annotations

from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor
from phasewise.record.machine import Machine
from phasewise.record.quantity import predicted, reported
from phasewise.record.results import Gain, Reported


def gains(said: Reported, known: tuple[Model, Machine, Roof] | None) -> tuple[Gain, ...]:
    """Decode over batch, the first row of each batch; nothing for one batch alone."""
    found: dict[float, int] = {}
    for i, row in enumerate(said.rows):
        if row.decode:
            found.setdefault(row.decode.batch.value, i)
    if len(found) < 2:
        return ()
    order = sorted(found)
    base = said.rows[found[order[0]]].decode
    assert base is not None
    alone = base.batch.value / base.time.value
    gains = []
    for batch in order:
        step = said.rows[found[batch]].decode
        assert step is not None
        rate = batch / step.time.value
        expected = None
        if known:
            model, _, roof = known
            least = float(decode_floor(model, roof, base.tokens.value, base.batch.value))
            here = float(decode_floor(model, roof, step.tokens.value, batch))
            expected = predicted((batch / here) / (base.batch.value / least), "1", "ratio of the floors' throughputs")
        gains.append(
            Gain(
                row=found[batch],
                batch=step.batch,
                step=step.time,
                throughput=reported(rate, "token/s", "batch over the step"),
                gain=reported(rate / alone, "1", "over the smallest batch"),
                predicted=expected,
            )
        )
    return tuple(gains)
