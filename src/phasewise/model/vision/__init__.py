"""Vision towers: one file per kind, listed here by the ``model_type`` of the model around them."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.model.architecture import Architecture
from phasewise.model.keys import Keys
from phasewise.model.vision import llama, qwen, siglip
from phasewise.model.vision.image import Image

Attach = Callable[[Architecture, Keys, Keys, Image | None], Architecture]
"""From the language model, the keys of vision_config, those around it, and the image, to the model with its tower."""

TOWERS: dict[str, Attach] = {
    "qwen2_vl": qwen.qwen2_vl,
    "qwen2_5_vl": qwen.qwen2_5_vl,
    "qwen3_vl": qwen.qwen3_vl,
    "qwen3_vl_moe": qwen.qwen3_vl,
    "qwen3_5": qwen.qwen3_vl,
    "qwen3_5_moe": qwen.qwen3_vl,
    "gemma3": siglip.gemma3,
    "llava": siglip.llava,
    "llama4": llama.llama4,
    "mllama": llama.mllama,
}
