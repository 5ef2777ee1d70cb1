"""Everything that a prediction depends on and a change may change."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec

from phasewise.errors import UsageError
from phasewise.model.model import Model
from phasewise.predict.launches import LAUNCH_S
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.link import Link
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import Roof, roofs
from phasewise.predict.speculation import Draft
from phasewise.record.machine import Machine


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """A model, where it runs, and a request.

    Attributes:
        variant: gives the model in a weight format and a KV cache format, None for its own.
        weights, kv: the formats.
        machine: one device's ceilings count, however many there are.
        layout, link: how the devices share the model, and what joins them.
        prompt, answer, batch: the request, and how many decode at once.
        cached: tokens of the prompt whose K and V are there already.
        chunk: tokens of a prompt that are taken in by one step, None for all.
        draft: speculative decoding, None without.
        launches: whether launching costs nothing (a floor), each kernel is launched, or a graph is.
        launch_s: seconds that the host takes to launch a kernel.
    """

    variant: Callable[[str | None, str | None], Model]
    machine: Machine
    prompt: int
    answer: int
    batch: int
    weights: str | None = None
    kv: str | None = None
    layout: Layout = Layout()
    link: Link | None = None
    cached: int = 0
    chunk: int | None = None
    draft: Draft | None = None
    launches: Literal["free", "eager", "graph"] = "free"
    launch_s: float = LAUNCH_S

    @property
    def model(self) -> Model:
        """In its formats."""
        return _variant(self.variant, self.weights, self.kv)

    @property
    def roof(self) -> Roof:
        """Of one device.

        Raises:
            UsageError: none is known for what the model computes in.
        """
        found = roofs(self.model, msgspec.structs.replace(self.machine, devices=1))
        if not found:
            names = " or ".join(self.model.compute)
            raise UsageError(f"{self.machine.name} has no known rate for {names}: give --peak and --bandwidth.")
        return found[0]

    @property
    def spread(self) -> Spread:
        """The model over its devices."""
        return Spread(self.model, self.layout, self.roof, self.link)

    @property
    def decodes(self) -> int:
        """Requests that go on decoding while one of the batch is taken in."""
        return self.batch - 1

    @property
    def fits(self) -> bool | None:
        """Whether weights and the batch's KV cache fit on each device; None when its memory is not known."""
        memory = self.machine.memory_bytes
        return None if memory is None else self.spread.held(self.batch, self.prompt + self.answer) <= memory.value


@lru_cache(maxsize=64)
def _variant(variant: Callable[[str | None, str | None], Model], weights: str | None, kv: str | None) -> Model:
    return variant(weights, kv)
