"""How a model is spread over devices: tensor, pipeline and expert parallelism, and attention by data parallelism."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.errors import UsageError
from phasewise.model.feedforward.moe import Moe
from phasewise.model.model import Model

MOST = 100_000
"""Devices that a layout may have."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What is cut into how many parts. The devices are tp · dp · pp.

    Attributes:
        tp: devices that share every matrix of the attention and of the dense networks (tensor parallel).
        dp: groups of ``tp`` devices that each attend for their own requests (DP attention, as in vLLM: attention and
            dense networks are held by every group, experts are shared by all of them).
        ep: parts that the experts of a layer are dealt out to (expert parallel); the ``tp · dp / ep`` devices of one
            part share each of its experts by tensor parallelism. 1 cuts every expert over all ``tp · dp``.
        pp: stages of consecutive layers (pipeline parallel).
        head: whether each device has its own part of the vocabulary (``sharded``: vLLM, SGLang, TensorRT-LLM) or all
            of both tables (``replicated``: gpt-fast).
    """

    tp: int = 1
    dp: int = 1
    ep: int = 1
    pp: int = 1
    head: Literal["sharded", "replicated"] = "sharded"

    @property
    def stage(self) -> int:
        """Devices that work on one layer together."""
        return self.tp * self.dp

    @property
    def devices(self) -> int:
        """All of them."""
        return self.stage * self.pp

    @property
    def slices(self) -> int:
        """Devices that one expert is cut over."""
        return self.stage // self.ep

    def __str__(self) -> str:
        parts = [f"TP={self.tp}", *(f"{name}={n}" for name, n in self._beside_tp if n > 1)]
        return ", ".join(parts if self.tp > 1 or len(parts) == 1 else parts[1:])

    @property
    def _beside_tp(self) -> tuple[tuple[str, int], ...]:
        return ("DP attention", self.dp), ("EP", self.ep), ("PP", self.pp)


def layout(
    devices: int = 1,
    *,
    tp: int | None = None,
    dp: int = 1,
    ep: int = 1,
    pp: int = 1,
    head: Literal["sharded", "replicated"] = "sharded",
) -> Layout:
    """The layout that the flags say; without ``tp`` the devices that ``dp`` and ``pp`` leave are tensor parallel.

    Raises:
        UsageError: parts that do not multiply to ``devices``, where those are more than one.
    """
    others = dp * pp
    if tp is None:
        if devices > 1 and devices % others:
            raise UsageError(f"{devices} devices cannot be split into {others} equal groups: change --devices.")
        tp = max(1, devices // others)
    found = Layout(tp=tp, dp=dp, ep=ep, pp=pp, head=head)
    if devices not in (1, found.devices):
        raise UsageError(
            f"--devices {devices} contradicts {found}, which takes {found.devices} devices: give one of the two."
        )
    if found.devices > MOST:
        raise UsageError(f"{found.devices:,} devices are more than phasewise counts: give at most {MOST:,}.")
    if found.stage % ep:
        raise UsageError(
            f"--ep {ep} deals the experts out to {ep} devices, but {found.stage} share a layer: add --tp or "
            f"--dp-attention so that their product is a multiple of {ep}."
        )
    return found


def check(model: Model, spread: Layout) -> None:
    """Refuse a layout that ``model`` cannot have.

    Raises:
        UsageError: heads, layers or experts that cannot be dealt out so.
    """
    shape = model.architecture
    if spread.pp > shape.layers:
        raise UsageError(
            f"{model.name} has {shape.layers} layers, too few for {spread.pp} stages: give a smaller --pp."
        )
    experts = {block.mlp.experts for block in shape.working if isinstance(block.mlp, Moe)}
    if spread.ep > 1 and not experts:
        raise UsageError(f"{model.name} has no experts to deal out: leave --ep out.")
    for count in experts:
        if count % spread.ep:
            raise UsageError(f"{count} experts cannot be dealt out to {spread.ep} devices evenly: change --ep.")
