"""One device's share of a model, as a model of its own: its work, bytes and KV cache are counted as any other's.

What is cut and what every device holds whole (Megatron-LM's tensor parallelism, arXiv 1909.08053, as vLLM, SGLang and
TensorRT-LLM do it):

- query heads, the units of MLPs, recurrent states and the vocabulary are cut;
- K and V heads are cut until each device has one, then they are replicated;
- the latent that MLA caches, the projections into it, the indexer, norms and the router are on every device;
- experts are cut like MLPs, or dealt out whole (expert parallel).
"""

from __future__ import annotations

from math import ceil
from typing import Any, TypeVar

import msgspec

from phasewise.errors import UsageError
from phasewise.model.architecture import Architecture, Block
from phasewise.model.feedforward.moe import Moe
from phasewise.model.model import Model
from phasewise.model.parts import FeedForward, Mixer, Part, Role, Weights
from phasewise.model.passes import Count
from phasewise.model.tower import Tower
from phasewise.predict.parallel.layout import Layout, check

_CUT = ("intermediate", "shared", "gate", "into", "out", "rest", "state", "conv_state", "out_groups")
"""Fields of a part that count independent units: each device has its share, the largest one rounded up."""

P = TypeVar("P", bound=Part)


class Experts(FeedForward, frozen=True, kw_only=True):
    """What one device holds and does of a mixture of experts.

    Attributes:
        moe: the mixture, with the shared experts' units of this device.
        parts: that the experts are dealt out to.
        slices: that each of them is cut into.
        groups: how many times the device's own tokens all the tokens are that the experts see.
    """

    moe: Moe
    parts: int
    slices: int
    groups: Count = 1.0

    def _own(self, hidden: int) -> float:
        """Weights of one slice of an expert."""
        return self.moe.parameters(hidden)["experts"] / self.moe.experts / self.slices

    def parameters(self, hidden: int) -> Weights:
        """The experts that were dealt to it; the router whole."""
        held = self.moe.experts // self.parts * self._own(hidden)
        return {**self.moe.parameters(hidden), "experts": round(held)}

    def active(self, hidden: int) -> Weights:
        """What a token costs it on average: k/parts of an expert's slice."""
        used = self.moe.chosen / self.parts * self._own(hidden)
        return {**self.moe.parameters(hidden), "experts": round(used)}

    def touched(self, hidden: int, tokens: Count) -> dict[Role, Count]:
        """Of the experts that all tokens are expected to choose, one in ``parts``: all devices are as likely a hit."""
        distinct = self.moe.distinct(tokens * self.groups) / self.parts
        return {**self.moe.parameters(hidden), "experts": distinct * self._own(hidden)}


def share(model: Model, layout: Layout, groups: Count = 1.0) -> Model:
    """What one device of a pipeline stage holds and does of ``model``, all layers (a stage has ``1/pp`` of them).

    ``groups`` says how many times its own tokens the experts see (DP attention).

    Raises:
        UsageError: ``model`` cannot be spread so.
    """
    check(model, layout)
    if layout.stage == 1:
        return model
    whole = model.architecture
    cut = msgspec.structs.replace(
        whole,
        blocks=tuple(_block(block, layout, groups) for block in whole.blocks),
        vocab=whole.vocab if layout.head == "replicated" else ceil(whole.vocab / layout.tp),
        encoder=_tower(whole.encoder, layout.tp),
        vision=_tower(whole.vision, layout.tp),
        prediction=ceil(whole.prediction / layout.tp),
    )
    return msgspec.structs.replace(model, architecture=cut, weight_bytes=_bytes(model, cut))


def kept_whole(model: Model, layout: Layout) -> list[str]:
    """Kinds of layer parts with weights that every device holds whole, because nothing in them is known to be cut."""
    parts = [part for block in model.architecture.working for part in (block.mixer, block.mlp)]
    whole = [
        type(part).__name__
        for part in parts
        if not isinstance(part, Moe) and part.parameters(model.architecture.hidden) and _cut(part, layout.tp) == part
    ]
    return sorted(set(whole)) if layout.tp > 1 else []


def _bytes(model: Model, cut: Architecture) -> dict[Role, float]:
    """Bytes by role, in proportion to the weights of the role."""
    whole, own = model.architecture.all_parameters(), cut.all_parameters()
    return {
        role: held * (own[role] / whole[role]) if whole.get(role) else held for role, held in model.weight_bytes.items()
    }


def _block(block: Block, layout: Layout, groups: Count) -> Block:
    if isinstance(block.mlp, Moe):
        mlp: FeedForward = Experts(
            moe=_cut(block.mlp, layout.tp, keep=("intermediate",)), parts=layout.ep, slices=layout.slices, groups=groups
        )
    else:
        mlp = _cut(block.mlp, layout.tp)
    return msgspec.structs.replace(block, mixer=_cut(block.mixer, layout.tp), mlp=mlp)


def _cut(part: P, tp: int, keep: tuple[str, ...] = ()) -> P:
    """``part`` with the units of one of ``tp`` devices."""
    own: dict[str, Any] = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Mixer):
            own[name] = _cut(value, tp)
        elif name == "heads":
            own[name] = _heads(value, tp)
        elif name == "kv_heads":
            own[name] = _kv_heads(value, tp)
        elif name in _CUT and name not in keep and isinstance(value, int):
            own[name] = ceil(value / tp)
    return msgspec.structs.replace(part, **own)


def _heads(heads: int, tp: int) -> int:
    if heads % tp:
        fits = ", ".join(str(n) for n in range(1, min(heads, 128) + 1) if heads % n == 0)
        raise UsageError(
            f"{heads} attention heads cannot be cut over {tp} devices: give --tp one of {fits}, or --pp for the rest."
        )
    return heads // tp


def _kv_heads(heads: int, tp: int) -> int:
    """K/t heads; one, replicated, where there are more devices than heads."""
    if heads % tp and tp % heads:
        fits = [n for n in range(1, tp) if heads % n == 0 or n % heads == 0]
        raise UsageError(
            f"{heads} key and value heads can be neither cut nor repeated over {tp} devices: give --tp "
            f"{max(fits)} or {tp + heads - tp % heads}."
        )
    return max(1, heads // tp)


def _tower(tower: Tower | None, tp: int) -> Tower | None:
    if tower is None:
        return None
    fields = ("parameters", "matmul", "width", "windowed")
    own = {name: ceil(getattr(tower, name) / tp) for name in fields}
    return msgspec.structs.replace(tower, **own, once=tower.once / tp)
