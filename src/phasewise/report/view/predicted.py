"""A prediction: the napkin, the counted model, what batch and length do, and the request."""

from __future__ import annotations

from phasewise.record.prediction import Formula, Napkin, Prediction, StepPrediction
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.sources import parts, remarks
from phasewise.report.view.table import Cell, Part, Table, columns, say
from phasewise.units import Unit


def napkin(run: Run, found: Prediction) -> tuple[str, str]:
    """The back of the envelope in two sentences."""
    pre, dec = found.prefill, found.decode
    read = f"{words.number(dec.napkin.bytes, 'B', 4)} of weights and KV"
    if run.model is not None and dec.batch == 1:
        weights = words.amount(run.model.weight_bytes, 4)
        read = f"{weights} of weights + {words.number(dec.kv_bytes, 'B')} of KV"
    many = f"{dec.batch} requests" if dec.batch > 1 else "a request"
    read_s, math_s = words.number(dec.napkin.memory_s, "s"), words.number(dec.napkin.compute_s, "s")
    return (
        f"Prefill of {words.number(pre.tokens, 'token')}: {words.number(pre.napkin.compute_s, 's')} of math against "
        f"{words.number(pre.napkin.memory_s, 's')} of reading the weights, so {words.BOUNDS[pre.napkin.bound]}.",
        f"Decode step of {many} at {words.number(dec.tokens, 'token')} of context: "
        f"{read_s} of reading ({read}) against {math_s} of math, {_ratio(dec.napkin)}, so "
        f"{words.BOUNDS[dec.napkin.bound]}.",
    )


def _ratio(step: Napkin) -> str:
    large, small = max(step.memory_s, step.compute_s), min(step.memory_s, step.compute_s)
    return words.times(large / small if small > 0 else None)


def counted(found: Prediction) -> Table:
    """Both steps side by side, in both conventions."""
    rows = [
        _both(found, "FLOPs", "flops", "FLOP"),
        _both(found, "weight bytes", "weight_bytes", "B"),
        (say("KV bytes"), _number(found.prefill.kv_bytes, "B"), _number(found.decode.kv_bytes, "B")),
        _both(found, "math", "compute_s", "s"),
        _both(found, "memory", "memory_s", "s"),
        _both(found, "floor", "time_s", "s"),
        (say("bound"), say(words.BOUNDS[found.prefill.bound]), say(words.BOUNDS[found.decode.bound])),
        (say("attention's FLOPs"), *(Cell(words.share(s.attention_share), _share(s)) for s in _steps(found))),
        (say("napkin math"), *(_number(s.napkin.compute_s, "s") for s in _steps(found))),
        (say("napkin memory"), *(_number(s.napkin.memory_s, "s") for s in _steps(found))),
    ]
    pre, dec = (f"{words.number(s.tokens, 'token')}" for s in _steps(found))
    batch = f", batch {found.decode.batch}" if found.decode.batch > 1 else ""
    return Table(
        title="Counted",
        columns=columns("", f">prefill, {pre}", f">decode step at {dec}{batch}"),
        rows=tuple(rows),
        note="The floor adds up the slower of math and memory over the operations of the step.",
    )


def _steps(found: Prediction) -> tuple[StepPrediction, StepPrediction]:
    return found.prefill, found.decode


def _both(found: Prediction, what: str, field: str, unit: Unit) -> tuple[Cell, Cell, Cell]:
    pre, dec = (_number(getattr(step, field), unit) for step in _steps(found))
    return say(what), pre, dec


def _number(value: float, unit: Unit) -> Cell:
    return Cell(words.number(value, unit), predicted(value, unit, "counted work under the ceilings named"))


def _share(step: StepPrediction) -> Quantity:
    return predicted(step.attention_share, "1", "attention's part of the FLOPs")


def ceilings(found: Prediction) -> str:
    """The ceilings it was computed with."""
    peak, bandwidth = words.number(found.peak_flops, "FLOP/s"), words.number(found.bandwidth, "B/s")
    return f"{peak} of {words.name(found.dtype)} matmuls, {bandwidth} of memory ({words.name(found.basis)})"


def landmarks(run: Run, found: Prediction) -> Table:
    """Parameters, KV per token, ridge and the crossover of attention."""
    crossover = found.attention_crossover_tokens
    rows = []
    if run.model is not None:
        model = run.model
        rows = [
            (say("parameters"), Cell(words.count(model.parameters)), say(model.source)),
            *((say(what), Cell(words.count(number)), Cell("")) for what, number in parts(model)),
            (say("weights"), Cell(words.amount(model.weight_bytes, 4)), say(words.name(model.weights_format))),
            (
                say("KV per token"),
                Cell(f"{words.count(model.kv_bytes_per_token.value)} B"),
                say(words.name(model.kv_format)),
            ),
        ]
    rows += [
        (
            say("ridge"),
            Cell(_tokens(found.ridge_tokens)),
            say("per step: the weights' math takes as long as their reading"),
        ),
        (say("crossover"), Cell(_tokens(crossover)), say("of prompt: attention costs as much as everything else")),
    ]
    note = remarks(run.model) if run.model else ""
    return Table(title="Landmarks", columns=columns("", ">value", "what"), rows=tuple(rows), note=note)


def _tokens(value: float | None) -> str:
    return f"{words.count(value)} tokens" if value is not None else "never"


def batches(found: Prediction) -> Table:
    """A decode step over batch."""
    rows = tuple(
        (
            Cell(words.count(row.batch)),
            _number(row.step_s, "s"),
            Cell(words.times(row.throughput_gain)),
            _number(row.napkin_step_s, "s"),
            Cell(words.times(row.napkin_throughput_gain)),
        )
        for row in found.batch
    )
    at = words.number(found.decode.tokens, "token")
    return Table(
        title=f"Decode over batch, {at} of context each",
        columns=columns(">batch", ">step", ">throughput", ">napkin step", ">napkin throughput"),
        rows=rows,
    )


def lengths(found: Prediction) -> Table:
    """Prefill over prompt length, and several prompts at once."""
    rows = tuple(
        (
            Cell(words.count(row.tokens)),
            _number(row.time_s, "s"),
            say(words.BOUNDS[row.bound]),
            Cell(words.share(row.attention_share)),
        )
        for row in found.lengths
    )
    several = [f"{words.name(n)}: {words.times(ratio)}" for n, ratio in found.prefill_batch.items()]
    note = f"Prompts prefilled at once, and the time it takes over one: {', '.join(several)}." if several else ""
    return Table(
        title="Prefill over prompt length",
        columns=columns(">tokens", ">floor", "bound", ">attention's FLOPs"),
        rows=rows,
        note=note,
    )


def request(found: Prediction) -> tuple[str, tuple[Part, ...]]:
    """One request alone: a sentence and its bar."""
    one = found.request
    decode = one.total_s - one.ttft_s
    ttft, tpot, total = (words.number(value, "s") for value in (one.ttft_s, one.tpot_s, one.total_s))
    text = (
        f"{words.count(one.prompt_tokens)} tokens in, {words.count(one.answer_tokens)} out, alone: "
        f"TTFT {ttft}, TPOT {tpot}, total {total}; decode is {words.share(one.decode_share)} of it."
    )
    why = "floor of one request alone"
    parts = (
        Part(key="prefill", label="prefill", seconds=predicted(one.ttft_s, "s", why), fraction=1 - one.decode_share),
        Part(key="decode", label="decode", seconds=predicted(decode, "s", why), fraction=one.decode_share),
    )
    return text, parts


def formulas(found: Prediction) -> tuple[Formula, ...]:
    """Every formula with its numbers put in, clean."""
    return tuple(
        Formula(
            name=words.clean(one.name),
            formula=words.clean(one.formula),
            numbers=words.clean(one.numbers),
            result=words.clean(one.result),
        )
        for one in found.formulas
    )
