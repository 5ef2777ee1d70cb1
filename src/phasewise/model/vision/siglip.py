"""SigLIP and CLIP towers at one image size: Gemma 3 (SigLIP, pooled to 256 tokens) and LLaVA 1.5 (CLIP).

Keys and defaults: SiglipVisionConfig, CLIPVisionConfig, Gemma3Config and LlavaConfig of transformers 5.24.
"""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.model.architecture import Architecture, Tower
from phasewise.model.keys import Keys
from phasewise.model.vision.image import Image, layer


def gemma3(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """Every image is scaled to ``image_size``; its patches are pooled to ``mm_tokens_per_image``."""
    hidden, intermediate = keys.optional("hidden_size") or 768, keys.optional("intermediate_size") or 3072
    size, patch = keys.optional("image_size") or 224, keys.optional("patch_size") or 16
    depth, patches = keys.optional("num_hidden_layers") or 12, (size // patch) ** 2
    first = 3 * patch * patch * hidden + hidden
    projector = hidden * shape.hidden + hidden
    out = around.optional("mm_tokens_per_image") or 256
    block = layer(hidden, intermediate)
    tower = Tower(
        name="vision tower",
        parameters=depth * block + first + patches * hidden + 2 * hidden + projector,
        matmul=depth * block + first,
        width=depth * hidden,
        tokens=patches if image else 0,
        once=2.0 * projector * out if image else 0.0,
        out=out if image else 0,
    )
    return msgspec.structs.replace(shape, vision=tower)


def llava(shape: Architecture, keys: Keys, around: Keys, image: Image | None) -> Architecture:
    """CLIP on a square image, one token per patch, a projector of two matrices."""
    if keys.get("model_type") not in (None, "clip_vision_model"):
        raise UsageError(f"{keys.where}: a tower of this model_type is not modelled yet.")
    hidden, intermediate = keys.optional("hidden_size") or 1024, keys.optional("intermediate_size") or 4096
    size, patch = keys.optional("image_size") or 336, keys.optional("patch_size") or 14
    depth, patches = keys.optional("num_hidden_layers") or 24, (size // patch) ** 2
    first = 3 * patch * patch * hidden
    projector = hidden * shape.hidden + shape.hidden + shape.hidden * shape.hidden + shape.hidden
    block = layer(hidden, intermediate)
    tower = Tower(
        name="vision tower",
        parameters=depth * block + first + hidden + (patches + 1) * hidden + 4 * hidden + projector,
        matmul=depth * block + first,
        width=depth * hidden,
        tokens=patches + 1 if image else 0,
        once=2.0 * projector * patches if image else 0.0,
        out=patches if image else 0,
    )
    return msgspec.structs.replace(shape, vision=tower)
