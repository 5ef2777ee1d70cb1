"""Towers of Llama 4 and of Llama 3.2 Vision: tiles of one size.

Keys and defaults: Llama4VisionConfig and MllamaVisionConfig of transformers 5.24.
"""

from __future__ import annotations

import msgspec

from phasewise.model.architecture import Architecture, Tower
from phasewise.model.keys import Keys
from phasewise.model.vision.image import Image, layer

_MOST_TILES = 16
"""Tiles that Llama 4's image processor cuts an image into, at most (its max_patches)."""


def llama4(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """Each tile alone, and the whole image once more where there are several; patches shuffled into fewer tokens."""
    hidden, intermediate = keys.optional("hidden_size") or 768, keys.optional("intermediate_size") or 5632
    size, patch = keys.optional("image_size") or 448, keys.optional("patch_size") or 14
    depth, patches = keys.optional("num_hidden_layers") or 34, (size // patch) ** 2 + 1
    inner, outer = keys.optional("projector_input_dim") or 4096, keys.optional("projector_output_dim") or 4096
    ratio = keys.get("pixel_shuffle_ratio")
    ratio = ratio if isinstance(ratio, float) and 0 < ratio <= 1 else 0.5
    first = 3 * patch * patch * hidden
    adapter = intermediate * inner + inner * outer
    projector = (keys.optional("vision_output_dim") or 7680) * shape.hidden
    block = layer(hidden, intermediate)
    tiles = 0 if image is None else _with_whole(image.tiles(size, _MOST_TILES))
    out = tiles * round((patches - 1) * ratio * ratio)
    tower = Tower(
        name="vision tower",
        parameters=depth * block + first + hidden + patches * hidden + 4 * hidden + adapter + projector,
        matmul=depth * block + first,
        width=0,
        windowed=depth * hidden,
        window=patches,
        tokens=tiles * patches,
        once=2.0 * (adapter + projector) * out,
        out=out,
    )
    return msgspec.structs.replace(shape, vision=tower)


def _with_whole(tiles: int) -> int:
    return tiles + 1 if tiles > 1 else tiles


def mllama(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """All tiles together; with an image the language model's cross-attention layers work, and see them."""
    hidden, intermediate = keys.optional("hidden_size") or 1280, keys.optional("intermediate_size") or 5120
    size, patch = keys.optional("image_size") or 448, keys.optional("patch_size") or 14
    near, far = keys.optional("num_hidden_layers") or 32, keys.optional("num_global_layers") or 8
    most, patches = keys.optional("max_num_tiles", most=100) or 4, (size // patch) ** 2 + 1
    ratios = _aspect_ratios(most) + 1
    block = layer(hidden, intermediate) - 4 * hidden
    first = 3 * patch * patch * hidden
    projector = (keys.optional("vision_output_dim") or 7680) * shape.hidden
    tables = patches * hidden + ratios * most * patches * hidden + 2 * ratios * most * hidden
    tiles = image.tiles(size, most) if image else 0
    tower = Tower(
        name="vision tower",
        parameters=(near + far) * block + 2 * far + first + hidden + tables + 3 + 4 * hidden + projector + shape.hidden,
        matmul=(near + far) * block + first + projector,
        width=(near + far) * hidden,
        tokens=tiles * patches,
        out=tiles * patches,
    )
    blocks = shape.blocks
    if image:
        blocks = tuple(msgspec.structs.replace(block, dormant=False) for block in blocks)
    return msgspec.structs.replace(shape, vision=tower, blocks=blocks)


def _aspect_ratios(most: int) -> int:
    """Arrangements of up to ``most`` tiles in rows and columns."""
    return sum(1 for rows in range(1, most + 1) for columns in range(1, most + 1) if rows * columns <= most)
