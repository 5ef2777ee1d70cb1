"""A model over its devices: the least time of a step is one device's floor and what the devices say to each other."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.passes import Count, Pass
from phasewise.model.work import Operation, Work
from phasewise.predict.parallel.collectives import ELEMENT, Collective, Tokens, collectives
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.link import Link
from phasewise.predict.parallel.share import share
from phasewise.predict.roofline import Roof, floor


class Step(NamedTuple):
    """One step, arrays where its passes are.

    Attributes:
        work: of one part of the step on one device, as if it ran all layers (with ``pp`` stages it runs ``1/pp``).
        parts: that follow each other through a pipeline; 1 without one.
        floor_s: least time of that work, all stages one after the other.
        collectives: what the devices of a stage say to each other in it, and stages to the next.
        communication_s: how long that takes; 0 where no link is known.
        waiting_s: what stages wait for each other beside that, because their layers or tokens cannot be dealt out
            evenly.
        idle: the part of the step in which a device has nothing to do (the bubble of a pipeline); 0 without one.
        time_s: floor, communication and waiting.
    """

    work: Work
    parts: Count
    floor_s: Count
    collectives: tuple[Collective, ...]
    communication_s: Count
    waiting_s: Count
    idle: Count
    time_s: Count


class Spread:
    """``model`` over the devices of ``layout``, each under ``roof``, joined by ``link``.

    Without a link communication counts as nothing: the report then says so.
    """

    def __init__(self, model: Model, layout: Layout, roof: Roof, link: Link | None = None) -> None:
        self.model, self.layout, self.roof, self.link = model, layout, roof, link

    @cached_property
    def own(self) -> Model:
        """One device's share of the model, all layers."""
        return share(self.model, self.layout)

    @property
    def held_bytes(self) -> float:
        """Weight bytes that the fullest device holds: the largest stage, with the tables of the first or the last."""
        resident = self.own.resident_bytes
        if self.layout.pp == 1:
            return resident
        first, last = self.own.weight_bytes["embedding"], self.own.head_bytes
        tables = first if self.own.architecture.tied else first + last
        return max(first, last) + (resident - tables) * self._largest_stage

    @property
    def held_per_token(self) -> float:
        """Bytes of KV cache that a token of a request takes on each device of the request's group."""
        return self.own.kv_bytes_per_token * self._largest_stage

    def held(self, batch: float, tokens: float) -> float:
        """Bytes on the fullest device with ``batch`` requests of ``tokens`` tokens each, states and windows counted."""
        of_group = ceil(batch / self.layout.dp)
        return self.held_bytes + of_group * float(self.own.request_bytes(tokens)) * self._largest_stage

    @property
    def _largest_stage(self) -> float:
        """The most layers that a stage has, as a part of all."""
        layers = self.model.architecture.layers
        return ceil(layers / self.layout.pp) / layers

    def prefill(self, tokens: Count, batch: Count = 1.0, cached: Count = 0.0) -> Step:
        """A prefill of ``batch`` prompts. In a pipeline each prompt follows the one before through the stages."""
        if self.layout.pp == 1:
            return self.step(Pass(tokens - cached, cached, batch))
        rows = np.ceil(batch / self.layout.dp)
        alone = self.step(Pass(tokens - cached, cached, np.minimum(batch, float(self.layout.dp))))
        return self._piped(alone, rows, rows - 1.0)

    def decode(self, context: Count, batch: Count = 1.0, tokens: Count = 1.0) -> Step:
        """A step that gives every one of ``batch`` requests ``tokens`` tokens.

        In a pipeline up to ``pp`` parts of the batch are on their way at once, each in another stage: a request waits
        for all stages, and at batch 1 all devices but one have nothing to do.
        """
        if self.layout.pp == 1:
            return self.step(Pass(tokens, context, batch, decode=True))
        parts = np.clip(np.ceil(batch / self.layout.dp), 1.0, float(self.layout.pp))
        alone = self.step(Pass(tokens, context, np.ceil(batch / parts), decode=True))
        return self._piped(alone, parts, 0.0, in_flight=parts)

    def step(self, *passes: Pass) -> Step:
        """One step of all ``passes``, through all stages one after the other."""
        layout = self.layout
        own = [one._replace(batch=np.ceil(one.batch / layout.dp) if layout.dp > 1 else one.batch) for one in passes]
        tokens = Tokens(
            own=sum((one.all_tokens for one in own), 0.0),
            logits=sum((one.logits for one in own), 0.0),
            everyone=sum((one.all_tokens for one in passes), 0.0),
        )
        done = self._work(own, tokens)
        said = collectives(self.model.architecture, layout, tokens)
        if layout.pp > 1:
            sent = tokens.own * self.model.architecture.hidden * ELEMENT / layout.tp
            said = (*said, Collective("send", "stage to stage", layout.pp - 1, 2, sent))
        least = floor(done, self.roof)
        talk: Count = sum((one.seconds(self.link) for one in said), 0.0) if self.link else 0.0
        idle = 1.0 - 1.0 / layout.pp
        return Step(done, 1.0, least, said, talk, 0.0, idle, least + talk)

    def _work(self, passes: list[Pass], tokens: Tokens) -> Work:
        if self.layout.dp == 1:
            return work.step(self.own, *passes)
        groups = tokens.everyone / tokens.own
        done = work.step(share(self.model, self.layout, groups), *passes)
        return Work(tuple(_all_groups(op, groups) for op in done.operations))

    def _piped(self, alone: Step, parts: Count, after: Count, in_flight: Count = 1.0) -> Step:
        """``parts`` equal parts through the stages, the last of them ``after`` parts behind the first."""
        stage = alone.time_s * self._largest_stage
        time = np.maximum(alone.time_s, in_flight * stage) + after * stage
        idle = 1.0 - parts * alone.time_s / (self.layout.pp * time)
        waiting = time - alone.time_s
        return alone._replace(parts=parts, waiting_s=waiting, idle=np.maximum(idle, 0.0), time_s=time)


def _all_groups(op: Operation, groups: Count) -> Operation:
    """The experts of a device compute for the tokens of all groups."""
    return op._replace(flops=op.flops * groups) if op.name == "experts" else op
