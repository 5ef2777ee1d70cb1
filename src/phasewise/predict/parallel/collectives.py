"""What the devices of one pipeline stage say to each other in a step.

Bytes are those that one device sends, which take bytes / rate of the link, beside the latency of each message. For a
message of M bytes among n devices: all-reduce 2·(n−1)/n·M, all-gather, reduce-scatter and all-to-all (n−1)/n·M (the
bandwidth-optimal algorithms: Patarasuk and Yuan, JPDC 2009; the scaling book's chapter on sharding). They are counted
one after the other and after the math: what an engine hides of them is not.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from phasewise.model.architecture import Architecture
from phasewise.model.feedforward.moe import Moe
from phasewise.model.mixers.cross import Cross
from phasewise.model.parts import NoFeedForward, NoMixer
from phasewise.model.passes import Count
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.link import Kind, Link

ELEMENT = 2.0
"""Bytes of an activation as it is sent: 16 bit, also where weights are in fewer."""


class Collective(NamedTuple):
    """``times`` messages of one kind among ``devices``, each of which sends ``sent`` bytes for each message."""

    kind: Kind
    what: str
    times: float
    devices: int
    sent: Count

    def seconds(self, link: Link) -> Count:
        """Latency and bytes of all of them."""
        return self.times * (link.latency(self.kind, self.devices) + self.sent / link.rate.value)


class Tokens(NamedTuple):
    """What a step handles: new tokens and positions with logits of a group, and new tokens of all groups."""

    own: Count
    logits: Count
    everyone: Count


def collectives(shape: Architecture, layout: Layout, tokens: Tokens) -> tuple[Collective, ...]:
    """All of a step through the layers, in the order in which they come; those that carry nothing are left out."""
    mixers = sum(b.count * _sums(b.mixer) for b in shape.working)
    mixtures = Counter[int]()
    for block in shape.working:
        if isinstance(block.mlp, Moe):
            mixtures[block.mlp.chosen] += block.count
    dense = sum(b.count for b in shape.working if not isinstance(b.mlp, Moe | NoFeedForward))
    hidden = shape.hidden * ELEMENT
    tp, all_own = layout.tp, tokens.own * hidden
    found = [_all_reduce("mixers", mixers, tp, all_own), _all_reduce("MLPs", dense, tp, all_own)]
    for chosen, count in mixtures.items():
        found += _mixture(chosen, count, layout, tokens, hidden)
    if layout.head == "sharded":
        found += [
            _all_reduce("embedding", 1, tp, all_own),
            Collective("all-gather", "logits", 1, tp, _part(tp) * tokens.logits * shape.vocab * ELEMENT),
        ]
    return tuple(one for one in found if one.devices > 1 and one.times)


def _sums(mixer: object) -> int:
    """Outputs of a mixer that its devices have to add up."""
    if isinstance(mixer, NoMixer):
        return 0
    return 2 if isinstance(mixer, Cross) and mixer.own is not None else 1


def _mixture(chosen: int, count: int, layout: Layout, tokens: Tokens, hidden: float) -> list[Collective]:
    """Within a group every device has every token, so that experts only add up. Across groups tokens have to travel."""
    if layout.dp == 1:
        return [_all_reduce("experts", count, layout.tp, tokens.own * hidden)]
    again = Collective("all-gather", "experts", count, layout.tp, _part(layout.tp) * tokens.own * hidden)
    if layout.ep == 1:
        everyone = tokens.everyone * hidden
        return [
            Collective("all-gather", "tokens of all groups", count, layout.dp, _part(layout.dp) * everyone),
            Collective("reduce-scatter", "experts", count, layout.stage, _part(layout.stage) * everyone),
            again,
        ]
    copies = layout.ep * (1 - (1 - 1 / layout.ep) ** chosen)
    sent = _part(layout.ep) * copies * tokens.own / layout.tp * hidden
    return [Collective("all-to-all", "tokens to experts and back", 2 * count, layout.ep, sent), again]


def _all_reduce(what: str, count: float, devices: int, bytes_: Count) -> Collective:
    return Collective("all-reduce", what, count, devices, 2 * _part(devices) * bytes_)


def _part(devices: int) -> float:
    """Of a message, what a device sends to others."""
    return (devices - 1) / devices
