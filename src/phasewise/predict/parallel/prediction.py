"""The prediction of a model over its devices: that of one, with the steps taken apart and put together again."""

from __future__ import annotations

import msgspec

from phasewise.predict import predict as alone
from phasewise.predict.explain import explain
from phasewise.predict.parallel.advice import advise
from phasewise.predict.parallel.said import formulas, notes
from phasewise.predict.parallel.spread import Spread, Step
from phasewise.predict.request import decode_time
from phasewise.predict.roofline import Roof
from phasewise.record.parallel import DeviceStep, Message, Parallel, StageBound
from phasewise.record.prediction import BatchRow, LengthRow, Prediction, RequestPrediction, StepPrediction
from phasewise.record.quantity import Quantity, assumed, predicted


def predict(
    spread: Spread, whole: Roof, *, prompt: int, answer: int, batch: int, memory: float | None
) -> tuple[Prediction, Parallel]:
    """What ``predict.predict`` says, with the steps of ``spread``, and the same seen from one device.

    Args:
        spread: the model over its devices.
        whole: the ceilings of all devices together.
        prompt, answer, batch: as there.
        memory: bytes of one device.

    FLOPs and bytes of a step are of all devices together, what is replicated counted on each of them, so that they over
    the sum of the ceilings are the time on one device. Step times hold communication and waiting too.
    """
    model = spread.model
    found = alone.predict(model, whole, prompt=prompt, answer=answer, batch=batch)
    prefill, decode = spread.prefill(float(prompt)), spread.decode(float(prompt), float(batch))
    found = msgspec.structs.replace(
        found,
        prefill=_step(found.prefill, prefill, whole, spread.layout.stage),
        decode=_step(found.decode, decode, whole, spread.layout.stage),
        request=_request(spread, prompt, answer),
        batch=_batches(spread, found.batch, prompt),
        lengths=tuple(_length(spread, row) for row in found.lengths),
        prefill_batch={
            n: float(spread.prefill(float(prompt), float(n)).time_s / prefill.time_s) for n in found.prefill_batch
        },
    )
    one = Spread(model, msgspec.structs.replace(spread.layout, tp=1, dp=1, ep=1, pp=1), spread.roof, spread.link)
    times = (one.prefill(float(prompt)).time_s, one.decode(float(prompt), float(batch)).time_s)
    parallel = Parallel(
        words=str(spread.layout),
        devices=spread.layout.devices,
        tp=spread.layout.tp,
        dp_attention=spread.layout.dp,
        ep=spread.layout.ep,
        pp=spread.layout.pp,
        lm_head=spread.layout.head,
        link=spread.link.name if spread.link else "",
        link_rate=spread.link.rate if spread.link else None,
        weight_bytes=spread.held_bytes,
        kv_bytes_per_token=spread.held_per_token,
        prefill=_device(spread, prefill, float(times[0])),
        decode=_device(spread, decode, float(times[1])),
        advice=advise(spread, prompt=prompt, answer=answer, batch=batch, memory=memory),
        notes=tuple(notes(spread, prompt + answer, batch, memory)),
    )
    every = (*explain(model, whole, found), *formulas(spread, {"prefill": prefill, "decode": decode}))
    return msgspec.structs.replace(found, formulas=every), parallel


def _step(step: StepPrediction, own: Step, whole: Roof, stage: int) -> StepPrediction:
    """``step`` with the work of all devices: ``own`` is one device's through all stages."""
    done, times = own.work, stage * own.parts
    flops, weights, kv = (float(times * x) for x in (done.flops, done.weight_bytes, done.kv_bytes))
    compute, memory = flops / whole.compute.value, (weights + kv) / whole.bandwidth.value
    return msgspec.structs.replace(
        step,
        flops=flops,
        weight_bytes=weights,
        kv_bytes=kv,
        bytes=weights + kv,
        compute_s=compute,
        memory_s=memory,
        time_s=float(own.time_s),
        bound="compute" if compute >= memory else "memory",
        attention_share=float(times * done.attention_flops) / flops,
    )


def _request(spread: Spread, prompt: int, answer: int) -> RequestPrediction:
    ttft = float(spread.prefill(float(prompt)).time_s)
    rest = decode_time(lambda context: spread.decode(context).time_s, prompt, answer)
    return RequestPrediction(
        prompt_tokens=prompt,
        answer_tokens=answer,
        ttft_s=ttft,
        tpot_s=rest / (answer - 1) if answer > 1 else 0.0,
        total_s=ttft + rest,
        decode_share=rest / (ttft + rest),
    )


def _batches(spread: Spread, rows: tuple[BatchRow, ...], context: int) -> tuple[BatchRow, ...]:
    alone_s = float(spread.decode(float(context)).time_s)
    steps = [float(spread.decode(float(context), float(row.batch)).time_s) for row in rows]
    return tuple(
        msgspec.structs.replace(row, step_s=step, throughput_gain=row.batch * alone_s / step)
        for row, step in zip(rows, steps, strict=True)
    )


def _length(spread: Spread, row: LengthRow) -> LengthRow:
    return msgspec.structs.replace(row, time_s=float(spread.prefill(float(row.tokens)).time_s))


def _device(spread: Spread, step: Step, one_s: float) -> DeviceStep:
    layout = spread.layout
    part = float(step.parts) / layout.pp
    floor_s, talk, waiting = (float(x) for x in (step.floor_s, step.communication_s, step.waiting_s))
    idle, time = float(step.idle), float(step.time_s)
    return DeviceStep(
        flops=float(step.work.flops) * part,
        weight_bytes=float(step.work.weight_bytes) * part,
        kv_bytes=float(step.work.kv_bytes) * part,
        floor_s=floor_s,
        communication_s=talk,
        waiting_s=waiting,
        idle=idle,
        time_s=time,
        bound=_bound(spread.roof, step, layout.pp),
        efficiency=one_s / (layout.devices * time),
        messages=tuple(_messages(spread, step)),
    )


def _bound(roof: Roof, step: Step, stages: int) -> StageBound:
    """The largest of a device's math, its reading, its talking and its waiting, over the whole step."""
    part = float(step.parts) / stages
    parts: dict[StageBound, float] = {
        "compute": float(step.work.flops) / roof.compute.value * part,
        "memory": float(step.work.bytes) / roof.bandwidth.value * part,
        "communication": float(step.communication_s) * part,
        "pipeline": float(step.idle) * float(step.time_s),
    }
    return max(parts, key=lambda name: parts[name])


def _messages(spread: Spread, step: Step) -> list[Message]:
    link = spread.link
    return [
        Message(
            kind=one.kind,
            what=one.what,
            count=one.times,
            devices=one.devices,
            sent=predicted(float(one.sent), "B", "of one device, for each message"),
            latency=assumed(link.latency(one.kind, one.devices), "s", link.latency_source) if link else None,
            seconds=_seconds(float(one.seconds(link))) if link else None,
        )
        for one in step.collectives
    ]


def _seconds(value: float) -> Quantity:
    return predicted(value, "s", "count · (latency + bytes / rate of the link)")
