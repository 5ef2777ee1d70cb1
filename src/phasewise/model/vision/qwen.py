"""Towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5: patches at the image's own size, four to a token of the prompt.

Keys and defaults: the vision configs of qwen2_vl, qwen2_5_vl, qwen3_vl and qwen3_5 in transformers 5.24.
"""

from __future__ import annotations

import msgspec

from phasewise.model.architecture import Architecture, Tower
from phasewise.model.keys import Keys
from phasewise.model.vision.image import Image, layer


def qwen2_vl(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """LayerNorms, plain MLPs, full attention; ``hidden_size`` is the prompt's, ``embed_dim`` the tower's."""
    hidden = keys.optional("embed_dim") or 1280
    intermediate = hidden * (keys.optional("mlp_ratio") or 4)
    depth, merge = keys.optional("depth") or 32, keys.optional("spatial_merge_size") or 2
    out = keys.optional("hidden_size") or shape.hidden
    patch = _patch(keys, hidden)
    merger = 2 * hidden + _merger(hidden, merge, out)
    block = layer(hidden, intermediate)
    return _with(shape, keys, image, depth, block, patch, 0, merger, hidden, merge)


def qwen2_5_vl(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """RMS norms, gated MLPs, windows but for the layers of ``fullatt_block_indexes``."""
    hidden, intermediate = keys.optional("hidden_size") or 1280, keys.optional("intermediate_size") or 3420
    depth, merge = keys.optional("depth") or 32, keys.optional("spatial_merge_size") or 2
    full = keys.numbers("fullatt_block_indexes")
    near = depth - len([n for n in (full if full is not None else (7, 15, 23, 31)) if n < depth])
    merger = hidden + _merger(hidden, merge, keys.optional("out_hidden_size") or shape.hidden)
    block = layer(hidden, intermediate, gated=True, norm_bias=False)
    window = ((keys.optional("window_size") or 112) // (keys.optional("patch_size") or 14)) ** 2
    found = _with(shape, keys, image, depth, block, _patch(keys, hidden), 0, merger, hidden, merge)
    assert found.vision
    tower = msgspec.structs.replace(found.vision, width=(depth - near) * hidden, windowed=near * hidden, window=window)
    return msgspec.structs.replace(found, vision=tower)


def qwen3_vl(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """LayerNorms, plain MLPs, learned positions; mergers at ``deepstack_visual_indexes`` feed the first layers."""
    hidden, intermediate = keys.optional("hidden_size") or 1152, keys.optional("intermediate_size") or 4304
    depth, merge = keys.optional("depth") or 27, keys.optional("spatial_merge_size") or 2
    out = keys.optional("out_hidden_size") or 3584
    stacks = len(keys.numbers("deepstack_visual_indexes") or ())
    merged = hidden * merge * merge
    mergers = 2 * hidden + _merger(hidden, merge, out) + stacks * (2 * merged + _merger(hidden, merge, out))
    positions = (keys.optional("num_position_embeddings") or 2304) * hidden
    patch = _patch(keys, hidden, 16) + hidden
    return _with(
        shape, keys, image, depth, layer(hidden, intermediate), patch, positions, mergers, hidden, merge, size=16
    )


def _patch(keys: Keys, hidden: int, size: int = 14) -> int:
    """A convolution over a patch of pixels in two frames."""
    size = keys.optional("patch_size") or size
    channels = keys.optional("in_channels") or keys.optional("in_chans") or 3
    return hidden * channels * (keys.optional("temporal_patch_size") or 2) * size * size


def _merger(hidden: int, merge: int, out: int) -> int:
    """Two matrices on the patches that become one token."""
    merged = hidden * merge * merge
    return merged * merged + merged + merged * out + out


def _with(
    shape: Architecture,
    keys: Keys,
    image: Image | None,
    depth: int,
    block: int,
    patch: int,
    positions: int,
    merger: int,
    hidden: int,
    merge: int,
    size: int = 14,
) -> Architecture:
    patches = image.patches(keys.optional("patch_size") or size, merge) if image else 0
    tokens = patches // (merge * merge)
    tower = Tower(
        name="vision tower",
        parameters=depth * block + patch + positions + merger,
        matmul=depth * block + patch,
        width=depth * hidden,
        tokens=patches,
        once=2.0 * merger * tokens,
        out=tokens,
    )
    return msgspec.structs.replace(shape, vision=tower)
