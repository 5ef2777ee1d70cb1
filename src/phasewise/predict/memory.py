"""What memory holds: weights, each request's KV cache and state, and the activations of a step.

All bytes are of the devices together, as if they shared one memory: what parallelism keeps on each of them is not
counted here. A byte that the engine itself needs (CUDA context, graphs, fragments) is in the share that stays free.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from phasewise.model.feedforward.moe import Moe
from phasewise.model.mixers.attention import Attention
from phasewise.model.mixers.cross import Cross
from phasewise.model.model import Model
from phasewise.model.parts import Block, Mixer, Part
from phasewise.model.passes import Count, Pass
from phasewise.record.machine import Machine
from phasewise.record.quantity import Quantity, assumed
from phasewise.record.scaling import Fits

USABLE = 0.9
"""Part of the memory that an engine fills: the default of vLLM's ``gpu_memory_utilization``."""

STEP_TOKENS = 8192
"""Most prompt tokens in one step: vLLM's default for a server on a large GPU. Longer prompts come in chunks."""

_ELEMENT, _LOGIT = 2.0, 2.0 + 4.0
"""Bytes of an activation (16 bit), and of a logit: as computed and in FP32 for the sampler."""


def held_kv(model: Model, context: Count) -> Count:
    """Bytes of KV cache that a request of ``context`` tokens holds; a layer with a window holds no more than that."""
    held: Count = sum((block.count * _held_by(block, model, context) for block in model.architecture.working), 0.0)
    return held


def _held_by(block: Block, model: Model, context: Count) -> Count:
    """Of one layer: what its tokens add, and not less than what a decode step reads."""
    mixer = block.mixer.own if isinstance(block.mixer, Cross) else block.mixer
    if mixer is None or not block.mixer.kv_per_token:
        return 0.0 * context
    grown = mixer.kv_per_token * model.kv_element_bytes * np.minimum(context, _span(mixer))
    # Compressed attention also holds a window of its newest tokens, which kv_per_token leaves out.
    step = mixer.operations(Pass(1.0, context, decode=True), model.kv_element_bytes)
    return np.maximum(grown, sum((op.kv_bytes for op in step), 0.0))


def _span(mixer: Mixer) -> float:
    """Tokens of context that a layer keeps."""
    limits = [mixer.window, mixer.chunk] if isinstance(mixer, Attention) else []
    return float(min((limit for limit in limits if limit is not None), default=math.inf))


def activations(model: Model, tokens: Count, requests: Count) -> Count:
    """Bytes of activations at the peak of a step of ``tokens`` tokens that gives ``requests`` requests their logits.

    2 B · tokens · (2·d + widest) + 6 B · requests · vocab. The 2·d are the residual stream and its normed copy. widest
    is the largest over the layers' parts of the elements that a token has in it, its weights over d: Q, K, V and
    attention's output, or gate, up and their product (3·f), or those of its k experts with their k outputs of d.
    """
    shape = model.architecture
    parts: list[Part] = [part for block in shape.working for part in (block.mixer, block.mlp)]
    widest = max((_width(part, shape.hidden) for part in parts), default=0.0)
    return _ELEMENT * tokens * (2.0 * shape.hidden + widest) + _LOGIT * requests * shape.vocab


def _width(part: Part, hidden: int) -> float:
    """Elements that one token has within a part."""
    outputs = part.chosen * (hidden if part.width is None else part.width) if isinstance(part, Moe) else 0
    return sum(part.active(hidden).values()) / hidden + outputs


def needed(model: Model, context: Count, batch: Count) -> Count:
    """Bytes that ``batch`` requests of ``context`` tokens take with the weights and one step's activations."""
    request = held_kv(model, context) + model.state_bytes_per_request
    working = activations(model, step_tokens(context, batch), batch)
    return model.resident_bytes + batch * request + working


def step_tokens(context: Count, batch: Count) -> Count:
    """Tokens of the largest step: a prompt's, or a chunk of it, or one of each request."""
    return np.maximum(batch, np.minimum(context, float(STEP_TOKENS)))


def largest_batch(model: Model, memory: float, context: Count) -> npt.NDArray[np.float64]:
    """The most requests of ``context`` tokens that ``memory`` bytes hold, 0 when not one; an array as ``context`` is.

    ``memory`` is what an engine may fill: the usable share of all devices. ``needed`` is linear in the batch, once up
    to the tokens of a prompt's step and once beyond, where the batch itself makes the largest step.
    """
    room = memory - model.resident_bytes
    prompt = step_tokens(context, 1.0)
    token, logits = float(activations(model, 1.0, 0.0)), float(activations(model, 0.0, 1.0))
    request = held_kv(model, context) + model.state_bytes_per_request + logits
    below = (room - token * prompt) / request
    beyond = np.maximum(room / (request + token), prompt)
    return np.maximum(np.floor(np.where(below <= prompt, below, beyond)), 0.0)


def usable(machine: Machine) -> float | None:
    """Bytes that an engine may fill on all devices of ``machine``; None when its memory is not known."""
    return None if machine.memory_bytes is None else USABLE * machine.memory_bytes.value * machine.devices


def fits(model: Model, machine: Machine, context: int) -> Fits | None:
    """The largest batch of requests of ``context`` tokens on ``machine``; None when its memory is not known."""
    memory = usable(machine)
    if memory is None or machine.memory_bytes is None:
        return None
    batch = float(largest_batch(model, memory, float(context)))
    request = float(held_kv(model, float(context)))
    step = step_tokens(float(context), batch)
    return Fits(
        context=context,
        largest_batch=int(batch),
        memory_bytes=_of_all(machine.memory_bytes, machine.devices),
        usable_share=assumed(USABLE, "1", "as vLLM's gpu_memory_utilization"),
        weights_bytes=model.resident_bytes,
        kv_bytes=batch * request,
        kv_bytes_per_request=request,
        state_bytes=batch * model.state_bytes_per_request,
        activation_bytes=float(activations(model, step, batch)),
        step_tokens=int(step),
        least_devices=math.ceil(float(needed(model, float(context), 1.0)) / (memory / machine.devices)),
    )


def _of_all(one: Quantity, devices: int) -> Quantity:
    source = one.source if devices == 1 else f"{devices} × {one.source}"
    return Quantity(value=one.value * devices, unit="B", provenance=one.provenance, source=source)
