"""What an engine makes of the ceilings: the shares that it reaches, and the seconds that no FLOP or byte explains.

The time of a step, of one device of those that share it:

- an operation takes ((FLOPs / compute)^p + (bytes / bandwidth)^p + walk^p)^(1/p) + start: a smooth corner between its
  math, its bytes and the least time in which a kernel walks along its sum, then the start and end of each kernel;
- what the devices say to each other adds bytes over the link and a latency per message;
- the host launches one layer after the other while the device works, so the step takes about the longer of the two;
- the step itself, each prompt that it admits and each request that it gives a token cost host time that nothing hides.

Nothing here knows a measurement: ``judge.calibrate`` finds the numbers, ``priors`` holds assumed ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from phasewise.model import work
from phasewise.model.passes import Count, Pass
from phasewise.model.work import Operation
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import Roof

Array = npt.NDArray[np.float64]

OVERLAP = 4.0
"""Exponent of the corner between host and device. They work side by side, so it is sharp; infinity would be max()."""

_ONCE = ("lm_head", "encoder", "vision")
"""Operations that are not one kernel in each layer."""


class Load(NamedTuple):
    """What steps ask of one device.

    Attributes:
        compute_s, memory_s: seconds of each operation at the ceilings, (steps, operations).
        kernels: how many each operation takes, (steps, operations).
        walk: part of the longest walk that its kernels make along their sums, 0 to 1, (steps, operations).
        attention: 1 where the math is attention's, else 0, (steps, operations).
        layers: that the host launches, (steps,); 0 for a kernel that is timed alone.
        passes: 1 for a step of an engine, 0 for a kernel that is timed alone, (steps,).
        prompts: requests that a prefill admits, (steps,).
        answers: requests that a decode step gives a token, (steps,).
        wire_s: seconds at the link's rate of what the device sends, (steps,).
        messages: collectives, (steps,).
    """

    compute_s: Array
    memory_s: Array
    kernels: Array
    walk: Array
    attention: Array
    layers: Array
    passes: Array
    prompts: Array
    answers: Array
    wire_s: Array
    messages: Array

    @property
    def floor(self) -> Array:
        """The plain roofline of each step: the slower of math and bytes, operation by operation, (steps,)."""
        return np.asarray(np.maximum(self.compute_s, self.memory_s).sum(axis=1))

    def under(self, efficiency: Efficiency) -> Array:
        """Time of each step, (steps,)."""
        return efficiency.seconds(self)

    def where(self, which: npt.NDArray[np.bool_]) -> Load:
        """The steps where ``which`` (steps,) is true."""
        return Load(*(part[which] for part in self))


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs on a kind of machine. Shares are of the ceilings that the load was counted against.

    Attributes:
        compute: share of the peak that matmuls reach.
        attention: what attention's math reaches of that.
        bandwidth: share of the memory bandwidth.
        corner: exponent p >= 1 between the two: 1 adds them up, infinity takes the larger.
        start_s: start and end of one kernel on the device.
        walk_s: least time of a kernel with a long sum; it hides behind math and bytes that take longer.
        launch_s: host time to launch one layer; it hides behind the device's work.
        link: share of the link's rate that collectives reach.
        message_s: latency of one collective.
        step_s: host time of a step.
        prompt_s: host time for each prompt that is admitted.
        answer_s: host time for each request that gets a token.
    """

    compute: float
    attention: float
    bandwidth: float
    corner: float
    start_s: float
    walk_s: float
    launch_s: float
    link: float
    message_s: float
    step_s: float
    prompt_s: float
    answer_s: float

    def seconds(self, load: Load) -> Array:
        """Time of each step of ``load``, (steps,)."""
        device = self._operations(load).sum(axis=1) + load.wire_s / self.link + load.messages * self.message_s
        host = load.layers * self.launch_s
        outside = load.passes * self.step_s + load.prompts * self.prompt_s + load.answers * self.answer_s
        both: Array = _corner(OVERLAP, device, host) + outside
        return both

    def _operations(self, load: Load) -> Array:
        walk = load.kernels * load.walk * self.walk_s
        compute: Array = self.compute * np.where(load.attention > 0, self.attention, 1.0)
        busy = _corner(self.corner, load.compute_s / compute, load.memory_s / self.bandwidth, walk)
        return np.asarray(busy + load.kernels * self.start_s)

    def free(self) -> Array:
        """Every parameter on the scale on which it is free, in the order of ``NAMES``.

        The log of the odds of a share, which no fit takes beyond 1, of p - 1 for the corner, of seconds otherwise.
        """
        return np.array([to_free(name, getattr(self, name)) for name in NAMES])


NAMES = Efficiency.__struct_fields__
"""Every parameter, in order."""

SHARES = ("compute", "attention", "bandwidth", "link")
"""Those that are parts of a whole; the others are seconds, but for the corner."""


def from_free(free: Array) -> Efficiency:
    """The efficiency whose ``free()`` these are."""
    return Efficiency(**{name: _from_free(name, float(x)) for name, x in zip(NAMES, free, strict=True)})


def to_free(name: str, value: float) -> float:
    """``value`` of parameter ``name`` on its free scale."""
    if name in SHARES:
        return math.log(value / (1 - value))
    return math.log(value - 1 if name == "corner" else value)


def _from_free(name: str, x: float) -> float:
    if name in SHARES:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) + (1 if name == "corner" else 0)


def _corner(sharpness: float, *parts: Array) -> Array:
    """(Σ partᵖ)^(1/p), scaled by the largest part so that nothing over- or underflows."""
    stacked = np.stack(np.broadcast_arrays(*parts))
    most: Array = np.maximum(stacked.max(axis=0), 1e-30)
    return np.asarray(most * ((stacked / most) ** sharpness).sum(axis=0) ** (1 / sharpness))


def load(spread: Spread, *passes: Pass) -> Load:
    """The load of one device of ``spread`` in a step that makes all of ``passes``; arrays in them make one step each.

    Without a link only the latency of messages counts. What stages of a pipeline wait for each other is not in it.
    """
    step = spread.step(*passes)
    rate = spread.link.rate.value if spread.link else math.inf
    return of_operations(
        step.work.operations,
        spread.roof,
        layers=float(spread.model.architecture.layers),
        prompts=sum((one.batch for one in passes if not one.decode), 0.0),
        answers=sum((one.batch for one in passes if one.decode), 0.0),
        wire_s=sum((one.times * one.sent / rate for one in step.collectives), 0.0),
        messages=sum(one.times for one in step.collectives),
    )


def of_operations(
    operations: Sequence[Operation],
    roof: Roof,
    *,
    layers: float,
    prompts: Count = 0.0,
    answers: Count = 0.0,
    wire_s: Count = 0.0,
    messages: Count = 0.0,
) -> Load:
    """The load of steps that do ``operations`` under ``roof``, one kernel of each in every layer; shapes broadcast."""
    counts = (prompts, answers, wire_s, messages)
    of_all = [op.flops + op.weight_bytes + op.kv_bytes for op in operations]
    steps = np.broadcast_shapes((1,), *(np.shape(value) for value in (*of_all, *counts)))

    def each(values: Sequence[Count]) -> Array:
        return np.stack([np.broadcast_to(np.asarray(value, dtype=float), steps) for value in values], axis=-1)

    def whole(value: Count) -> Array:
        return np.array(np.broadcast_to(np.asarray(value, dtype=float), steps))

    blocks = Counter(op.name for op in operations)
    return Load(
        compute_s=each([op.flops / roof.compute.value for op in operations]),
        memory_s=each([(op.weight_bytes + op.kv_bytes) / roof.bandwidth.value for op in operations]),
        kernels=each([1.0 if op.name in _ONCE else layers / blocks[op.name] for op in operations]),
        walk=each([1.0 for _ in operations]),
        attention=each([float(op.name in work.ATTENTION) for op in operations]),
        layers=whole(layers),
        passes=whole(1.0),
        prompts=whole(prompts),
        answers=whole(answers),
        wire_s=whole(wire_s),
        messages=whole(messages),
    )


def stack(loads: Sequence[Load]) -> Load:
    """One load of all the steps of ``loads``; those with fewer operations get empty ones."""
    most = max(one.kernels.shape[1] for one in loads)
    parts = []
    for name in Load._fields:
        values = [getattr(one, name) for one in loads]
        if values[0].ndim == 2:
            values = [np.pad(value, ((0, 0), (0, most - value.shape[1]))) for value in values]
        parts.append(np.concatenate(values))
    return Load(*parts)
