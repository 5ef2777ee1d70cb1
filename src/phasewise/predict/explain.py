"""Every formula of a prediction with its numbers put in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from phasewise.model import work
from phasewise.model.architecture import Architecture, Attention, Pass
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof
from phasewise.record.prediction import Formula, Prediction
from phasewise.units import show


def explain(model: Model, roof: Roof, found: Prediction) -> tuple[Formula, ...]:
    """The formulas, in the order in which a person would work them out."""
    return (*_model(model), *_napkin(model, roof, found), *_counted(model, roof, found), *_curves(model, roof, found))


def _model(model: Model) -> Iterator[Formula]:
    shape = model.architecture
    parameters = shape.parameters()
    yield Formula(
        name="parameters",
        formula="P = sum over roles",
        numbers=" + ".join(f"{count:,} {role}" for role, count in parameters.items()),
        result=f"{model.parameters:,}",
    )
    yield Formula(
        name="weights",
        formula="bytes of all weights, scales included",
        numbers=f"{model.parameters:,} parameters in {model.weights_format}",
        result=show(model.resident_bytes, "B", 4),
    )
    if model.active_parameters != model.parameters:
        yield Formula(
            name="active parameters",
            formula="P of one token: all but the experts that it does not choose",
            numbers=" + ".join(f"{count:,} {role}" for role, count in shape.active().items()),
            result=f"{model.active_parameters:,} ({model.active_parameters - parameters['embedding']:,} without the "
            "input embedding)",
        )
    kinds: Counter[str] = Counter()
    for block in shape.working:
        if block.mixer.kv_per_token:
            kinds[block.mixer.kv_words] += block.count
    terms = [f"{count} layers × {words} × {model.kv_element_bytes:g} B" for words, count in kinds.items()]
    yield Formula(
        name="KV bytes per token",
        formula="layers × KV heads × head_dim × 2 (K and V) × bytes per element",
        numbers=" + ".join(terms) or "no layer has a KV cache",
        result=f"{model.kv_bytes_per_token:,.0f} B",
    )
    if model.state_bytes_per_request:
        yield Formula(
            name="state per request",
            formula="recurrent states and encoded tokens, whatever the context",
            numbers=" + ".join(
                f"{b.count} layers × {model.state_bytes_of(b):,.0f} B" for b in shape.working if model.state_bytes_of(b)
            ),
            result=show(model.state_bytes_per_request, "B", 4),
        )


def _napkin(model: Model, roof: Roof, found: Prediction) -> Iterator[Formula]:
    peak, bandwidth = show(roof.compute.value, "FLOP/s", 4), show(roof.bandwidth.value, "B/s", 4)
    n = found.prefill.tokens
    p = f"{model.active_parameters / 1e9:.4g}e9"
    pre, dec = found.prefill.napkin, found.decode.napkin
    batch = found.decode.batch
    weights = show(float(model.touched_bytes(float(batch))), "B", 4)
    yield Formula(
        name="napkin prefill, math",
        formula="2 · P · N / peak",
        numbers=f"2 × {p} × {n:,} / {peak}",
        result=show(pre.compute_s, "s"),
    )
    yield Formula(
        name="napkin prefill, reading the weights",
        formula="weights / bandwidth",
        numbers=f"{show(pre.bytes, 'B', 4)} / {bandwidth}",
        result=show(pre.memory_s, "s"),
    )
    yield Formula(
        name="napkin decode, reading",
        formula="(weights + batch · context · KV bytes per token) / bandwidth",
        numbers=f"({weights} + {batch} × {n:,} × {model.kv_bytes_per_token:,.0f} B) / {bandwidth}",
        result=show(dec.memory_s, "s"),
    )
    yield Formula(
        name="napkin decode, math",
        formula="2 · P · batch / peak",
        numbers=f"2 × {p} × {batch} / {peak}",
        result=f"{show(dec.compute_s, 's')} (reading takes {dec.memory_s / dec.compute_s:,.0f}× as long)",
    )


def _counted(model: Model, roof: Roof, found: Prediction) -> Iterator[Formula]:
    shape, pre, dec = model.architecture, found.prefill, found.decode
    peak, bandwidth = show(roof.compute.value, "FLOP/s", 4), show(roof.bandwidth.value, "B/s", 4)
    n, layers = pre.tokens, f"{shape.non_embedding / 1e9:.4g}e9"
    head = f"2 × {shape.vocab:,} × {shape.hidden:,}"
    attention = pre.attention_share * pre.flops
    terms = f"2 × {layers} × {n:,} + {head} + {show(attention, 'FLOP', 4)}"
    if shape.encoder or any(b.mixer.state_bytes for b in shape.working):
        terms = " + ".join(_operations(work.prefill(model, float(n), float(pre.batch))))
    yield Formula(
        name="attention in prefill",
        formula="sum over layers of 2 · heads · (head_dim of K + of V) · pairs; pairs = N²/2, fewer in a window",
        numbers=" + ".join(_attention(shape, float(n))) or "no layer has attention",
        result=f"{show(attention, 'FLOP')}, {100 * pre.attention_share:.1f}% of prefill",
    )
    yield Formula(
        name="counted prefill, math",
        formula="(2 · P_layers · N + 2 · vocab · hidden + attention) / peak",
        numbers=f"({terms}) / {peak}",
        result=show(pre.compute_s, "s"),
    )
    yield Formula(
        name="counted prefill, reading the weights",
        formula="weights without the embedding lookup / bandwidth",
        numbers=f"{show(pre.weight_bytes, 'B', 4)} / {bandwidth}",
        result=f"{show(pre.weight_bytes / roof.bandwidth.value, 's')} ({show(pre.memory_s, 's')} with the KV written)",
    )
    yield Formula(
        name="counted decode, reading",
        formula="(weights without the embedding lookup + KV cache) / bandwidth",
        numbers=f"({show(dec.weight_bytes, 'B', 4)} + {show(dec.kv_bytes, 'B', 4)}) / {bandwidth}",
        result=show(dec.memory_s, "s"),
    )
    yield Formula(
        name="counted decode, math",
        formula="(2 · P_layers + 2 · vocab · hidden) · batch + attention over the cache, / peak",
        numbers=f"{show(dec.flops, 'FLOP', 4)} / {peak}",
        result=show(dec.compute_s, "s"),
    )
    yield Formula(
        name="floor",
        formula="sum over operations of max(FLOPs / peak, bytes / bandwidth)",
        numbers=f"prefill {show(pre.time_s, 's')}, decode {show(dec.time_s, 's')}",
        result=f"prefill is {pre.bound}-bound, decode is {dec.bound}-bound",
    )


def _operations(step: work.Work) -> Iterator[str]:
    """FLOPs of each kind of operation, where they are not all 2 · weights · tokens."""
    total: dict[str, float] = {}
    for op in step.operations:
        total[op.name] = total.get(op.name, 0.0) + float(op.flops)
    for name, flops in total.items():
        yield f"{show(flops, 'FLOP', 4)} {name}"


def _attention(shape: Architecture, tokens: float) -> Iterator[str]:
    """Attention's FLOPs in each kind of layer at ``tokens`` tokens."""
    seen = shape.seen_by_decoder(Pass(tokens))
    for tower in (shape.encoder, shape.vision):
        if tower:
            yield show(
                float(tower.attention_flops(float(tower.tokens) if tower.tokens is not None else tokens)), "FLOP", 4
            )
    for block in shape.working:
        mixer = block.mixer
        if isinstance(mixer, Attention):
            dims = mixer.head_dim + mixer.values
            yield f"{block.count} × 2 × {mixer.heads} × {dims} × {float(mixer.pairs(seen)):.4g}"
        else:
            found = [op for op in mixer.operations(seen, 0.0) if op.name in work.ATTENTION]
            if found:
                yield f"{block.count} × {show(float(sum((op.flops for op in found), 0.0)), 'FLOP', 4)}"


def _curves(model: Model, roof: Roof, found: Prediction) -> Iterator[Formula]:
    shape = model.architecture
    bytes_per_weight = found.ridge_tokens * 2 / roof.ridge
    yield Formula(
        name="ridge",
        formula="bytes per weight / 2 · peak / bandwidth",
        numbers=f"{bytes_per_weight:.4g} / 2 × {show(roof.compute.value, 'FLOP/s', 4)} / "
        f"{show(roof.bandwidth.value, 'B/s', 4)}",
        result=show(round(found.ridge_tokens), "token"),
    )
    crossover = found.attention_crossover_tokens
    yield Formula(
        name="attention crossover",
        formula="N at which attention costs 2 · P_layers · N FLOPs; P_layers / (L · heads · head_dim) when all is full",
        numbers=f"2 × {shape.non_embedding:,} × N against attention's FLOPs at N",
        result="never: attention grows no faster than the prompt"
        if crossover is None
        else show(round(crossover), "token"),
    )
    last = next((row for row in found.batch if row.batch == 64), found.batch[-1])
    yield Formula(
        name=f"batch {last.batch}",
        formula="gain = batch · step(1) / step(batch)",
        numbers=f"{last.batch} × {show(found.batch[0].step_s, 's')} / {show(last.step_s, 's')}",
        result=f"×{last.throughput_gain:.1f} (napkin {show(last.napkin_step_s, 's')}, "
        f"×{last.napkin_throughput_gain:.1f})",
    )
    request = found.request
    yield Formula(
        name="request",
        formula="TTFT + (answer - 1) decode steps at growing context",
        numbers=f"{show(request.ttft_s, 's')} + {request.answer_tokens - 1} × {show(request.tpot_s, 's')}",
        result=f"{show(request.total_s, 's')}, decode {100 * request.decode_share:.1f}%",
    )
