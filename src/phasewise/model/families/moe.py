"""Keys that mixtures of experts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phasewise.model.feedforward.mlp import Mlp
from phasewise.model.feedforward.moe import Moe
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.parts import FeedForward

MOE = "mixture of experts"


def experts(
    keys: Keys,
    *,
    count: str = "num_experts",
    chosen: str = "num_experts_per_tok",
    intermediate: str = "moe_intermediate_size",
    **more: Any,
) -> Moe:
    """The mixture that the keys of these names describe; ``more`` goes to the Moe.

    Raises:
        InputError: more experts are chosen than there are.
    """
    total = keys.count(count, 100_000)
    picked = keys.count(chosen)
    if picked > total:
        raise keys.error(chosen, f"must be at most {count} ({total})")
    return Moe(experts=total, chosen=picked, intermediate=keys.count(intermediate), **more)


def after_dense(keys: Keys, moe: Moe, default: int = 0) -> Callable[[int], FeedForward]:
    """Dense layers first (``first_k_dense_replace``), or where ``mlp_layer_types`` says so, then the mixture."""
    leading = keys.optional("first_k_dense_replace", LAYERS, least=0)
    leading = default if leading is None else leading
    dense = Mlp(intermediate=keys.count("intermediate_size")) if leading or keys.get("mlp_layer_types") else None
    types = keys.words("mlp_layer_types", keys.count("num_hidden_layers", LAYERS), ("dense", "sparse"))
    every = keys.get("moe_layer_freq")
    every = every if isinstance(every, int) and every > 0 else 1

    def layer(number: int) -> FeedForward:
        sparse = types[number] == "sparse" if types else number >= leading and number % every == 0
        if sparse:
            return moe
        return dense or Mlp(intermediate=keys.count("intermediate_size"))

    return layer


def by_step(keys: Keys, moe: Moe) -> Callable[[int], FeedForward]:
    """Qwen's rule: the mixture in every ``decoder_sparse_step``-th layer that ``mlp_only_layers`` does not name."""
    step = keys.optional("decoder_sparse_step", LAYERS) or 1
    only = set(keys.numbers("mlp_only_layers") or ())

    def layer(number: int) -> FeedForward:
        if number not in only and (number + 1) % step == 0:
            return moe
        return Mlp(intermediate=keys.count("intermediate_size"))

    return layer
