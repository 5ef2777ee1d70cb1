"""``parallel`` of ``predict --json``."""

from __future__ import annotations

from phasewise.record.parallel import AdviceRow, DeviceStep, Parallel
from phasewise.record.quantity import predicted
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing

_UNKNOWN = "no link is known: give --link"


def sections(run: Run) -> dict[str, object]:
    """One device's side of the prediction; nothing where one device is all there is."""
    found = run.parallel
    if found is None:
        return {}
    shown = {
        "layout": found.words,
        "devices": found.devices,
        "tp": found.tp,
        "dp_attention": found.dp_attention,
        "ep": found.ep,
        "pp": found.pp,
        "lm_head": found.lm_head,
        "link": {"name": found.link, "bandwidth": found.link_rate} if found.link_rate else Missing(_UNKNOWN),
        "per_device": {
            "weight_bytes": predicted(found.weight_bytes, "B", "held by the fullest device"),
            "kv_bytes_per_token": predicted(found.kv_bytes_per_token, "B", "held by each device of the group"),
            "prefill": _step(found, found.prefill),
            "decode": _step(found, found.decode),
        },
        "advice": {
            "devices": Missing("it fits on none")
            if found.advice.devices is None
            else predicted(found.advice.devices, "device", "the most that pay"),
            "text": found.advice.text,
            "fixed_s": found.advice.fixed,
            "rows": [_row(row) for row in found.advice.rows],
        },
        "notes": list(found.notes),
    }
    return {"parallel": shown}


def _step(found: Parallel, step: DeviceStep) -> dict[str, object]:
    talk = predicted(step.communication_s, "s", "latency and bytes of every message")
    return {
        "flops": predicted(step.flops, "FLOP", "counted, of one device"),
        "weight_bytes": predicted(step.weight_bytes, "B", "counted, of one device"),
        "kv_bytes": predicted(step.kv_bytes, "B", "counted, of one device"),
        "floor_s": predicted(step.floor_s, "s", "floor of one device, all stages"),
        "communication_s": Missing(_UNKNOWN) if found.devices > 1 and found.link_rate is None else talk,
        "waiting_s": predicted(step.waiting_s, "s", "for other stages"),
        "idle": predicted(step.idle, "1", "of the step"),
        "time_s": predicted(step.time_s, "s", "floor, communication and waiting"),
        "bound": step.bound,
        "efficiency": predicted(step.efficiency, "1", "over one device"),
        "messages": step.messages,
    }


def _row(row: AdviceRow) -> dict[str, object]:
    limit = row.pays_below_s
    return {
        "devices": row.devices,
        "held_bytes": predicted(row.held_bytes, "B", "weights and KV cache of each"),
        "fits": row.fits,
        "prefill_s": predicted(row.prefill_s, "s", "floor and communication"),
        "decode_s": predicted(row.decode_s, "s", "floor and communication"),
        "efficiency": predicted(row.efficiency, "1", "of the decode step, over one device"),
        "pays_below_s": Missing("the first")
        if limit is None
        else predicted(limit, "s", "of a step that does not shrink"),
    }
