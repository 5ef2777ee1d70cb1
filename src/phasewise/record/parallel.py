"""Section of predict/: one model over several devices, and how many of them pay."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.quantity import Quantity

StageBound = Literal["compute", "memory", "communication", "pipeline"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The collectives of one kind in a step.

    Attributes:
        kind: ``all-reduce``, ``all-to-all``, ...
        what: what is added up or sent.
        count: how many in the step.
        devices: among how many devices.
        sent: bytes that a device sends for each of them.
        latency: seconds that each takes however small it is; None without a link.
        seconds: of all of them, None without a link.
    """

    kind: str
    what: str
    count: float
    devices: int
    sent: Quantity
    latency: Quantity | None
    seconds: Quantity | None


class DeviceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step on one device.

    Attributes:
        flops, weight_bytes, kv_bytes: of that device.
        floor_s: least time of them, all stages of a pipeline one after the other.
        communication_s: of all messages, 0 where no link is known.
        waiting_s: for other stages beside that.
        idle: part of the step in which the device has nothing to do (the bubble of a pipeline).
        time_s: floor, communication and waiting.
        bound: the largest part.
        efficiency: time on one device over devices · time; 1 is ideal.
        messages: in the order in which they come.
    """

    flops: float
    weight_bytes: float
    kv_bytes: float
    floor_s: float
    communication_s: float
    waiting_s: float
    idle: float
    time_s: float
    bound: StageBound
    efficiency: float
    messages: tuple[Message, ...]


class AdviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tensor parallelism over a number of devices.

    Attributes:
        devices: how many.
        held_bytes: weights and KV cache that each holds.
        fits: whether they fit in its memory, None when that is not known.
        prefill_s, decode_s: least time of the steps, communication included.
        efficiency: of the decode step, over one device.
        pays_below_s: how much time of a step may not shrink with devices (launches, host) for this row to pay over the
            row before; None for the first, 0 when it never pays.
    """

    devices: int
    held_bytes: float
    fits: bool | None
    prefill_s: float
    decode_s: float
    efficiency: float
    pays_below_s: float | None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices pay.

    ``devices`` is the recommendation, None when no row fits; ``fixed`` what it assumes that does not shrink with them.
    """

    rows: tuple[AdviceRow, ...]
    devices: int | None
    fixed: Quantity
    text: str


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """The model over the devices.

    Attributes:
        words: the layout in words, ``TP=4, PP=2``.
        devices, tp, dp_attention, ep, pp, lm_head: the layout.
        link: name of what joins them, empty when none is known.
        link_rate: bytes/s of a device in one direction.
        weight_bytes: that the fullest device holds.
        kv_bytes_per_token: that a token of a request takes on each device of its group.
        prefill, decode: the steps of the prediction.
        advice: how many devices pay.
        notes: sentences that a reader must know.
    """

    words: str
    devices: int
    tp: int
    dp_attention: int
    ep: int
    pp: int
    lm_head: str
    link: str
    link_rate: Quantity | None
    weight_bytes: float
    kv_bytes_per_token: float
    prefill: DeviceStep
    decode: DeviceStep
    advice: Advice
    notes: tuple[str, ...] = ()
