"""From a Hugging Face config.json to an architecture.

What is not a dense decoder of a family in ``families`` is refused by name, never counted as if it were one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.model.architecture import Architecture
from phasewise.model.families import BY_CLASS, BY_MODEL_TYPE, FAMILIES
from phasewise.model.families.family import Family
from phasewise.model.keys import Keys, shown, written
from phasewise.model.vision import TOWERS
from phasewise.model.vision.image import Image

MOST_BYTES = 16 * 2**20
"""Size up to which a config is read; the largest public ones are under 1 MB."""

_TEXT = ("text_config", "llm_config", "language_config")
_VISION = "vision_config"
_TOWERS = ("vision", "visual", "image", "video", "audio", "speech", "perceiver", "qformer", "projector")

_UNUSUAL: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mixture of experts", ("expert", "moe")),
    ("latent attention", ("kv_lora", "q_lora", "qk_nope", "qk_rope")),
    ("state-space or linear attention layers", ("mamba", "ssm_", "state_size", "linear_num", "linear_key", "rwkv")),
    ("layers of mixed kinds", ("hybrid_", "block_configs", "full_attention_interval", "attn_layer_")),
    ("sparse attention", ("index_topk", "sparse_attention")),
    ("an encoder", ("is_encoder_decoder", "encoder_layers", "use_bidirectional_attention")),
    ("cross-attention layers", ("cross_attention_layers", "add_cross_attention")),
    ("gated attention", ("attn_output_gate", "attention_output_gate")),
    ("layers that share their KV cache", ("num_kv_shared_layers",)),
)
"""What makes a model something else than a dense decoder: words in the names of its keys, when they hold something."""

_NO_SHAPE = ("num_expert_group", "experts_per_token", "mamba_chunk_size", "full_attention_interval", "moe_layer_freq")
"""Keys that match these words and hold numbers, but change neither weights nor work where the family does not ask.

They are another name of a key that was read, how experts are grouped for routing, or how a kernel cuts its work.
"""

_AHEAD = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")


def read(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``.

    Raises:
        InputError: missing, over 16 MB, not JSON, or not an object.
    """
    try:
        if not os.path.isfile(path):
            raise InputError(f"{_name(path)} is not a file: name a config.json.")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{_name(path)} is larger than 16 MB, so it is no model's config: name a config.json.")
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{_name(path)} cannot be read ({error.strerror}): name a readable config.json.") from None
    except RecursionError:
        raise InputError(f"{_name(path)} is nested too deeply to be a model's config: name a config.json.") from None
    except ValueError as error:
        raise InputError(f"{_name(path)} is not JSON ({_short(error)}): name a config.json.") from None
    if not isinstance(config, dict):
        raise InputError(f"{_name(path)} holds {written(config)}, not a JSON object: name a model's config.json.")
    return config


def architecture(config: Mapping[str, Any], where: str, image: tuple[int, int] | None = None) -> Architecture:
    """The architecture that ``config`` describes; ``where`` names it in errors.

    ``image`` is the height and width of an image that each prompt holds, which the vision tower is then costed for.

    Raises:
        UsageError: a model that is not modelled yet; the sentence names its type and the keys that say so.
        InputError: a key that is missing or holds what it cannot hold.
    """
    text, outer = text_part(config, where)
    family = _family(text, where)
    nested = family.nested if outer else None
    keys = Keys(text, where, defaults=nested, fills=family.fill, aliases=family.aliases)
    around = Keys(outer, where)
    shape = family.build(keys)
    shape = msgspec.structs.replace(
        shape, tied=keys.flag("tie_word_embeddings", around.flag("tie_word_embeddings", shape.tied))
    )
    shape = _with_tower(shape, text, outer, where, Image(*image) if image else None)
    seen = keys.read | around.read
    unread = {key: value for key, value in {**text, **outer}.items() if key not in seen and not isinstance(value, dict)}
    unread |= {key: value for key, value in text.items() if key not in seen}
    left_out = [*shape.not_modelled, *_not_understood(unread, family, where), *_left_out({**text, **outer}, shape)]
    return msgspec.structs.replace(
        shape, not_modelled=tuple(left_out), notes=tuple(_notes(keys, around if outer else keys, family, shape))
    )


def _with_tower(
    shape: Architecture, text: Mapping[str, Any], outer: Mapping[str, Any], where: str, image: Image | None
) -> Architecture:
    attach = TOWERS.get(str((outer or text).get("model_type")))
    if attach is None or not (outer or _VISION in text):
        if image:
            raise UsageError(f"{where}: no vision tower of this model is modelled, so an image cannot be costed.")
        return shape
    around = Keys(outer or text, where)
    return attach(shape, around.part(_VISION), around, image)


def _notes(keys: Keys, around: Keys, family: Family, shape: Architecture) -> Iterator[str]:
    missing = {name: written(value) for name, value in keys.assumed.items()}
    if "model_type" not in keys.values:
        missing["model_type"] = "known by architectures"
    if missing:
        named = ", ".join(f"{shown(name)} ({value})" for name, value in missing.items())
        yield f"missing from {keys.where}, counted at the class's defaults: {named}"
    if shape.vision and _VISION not in around.values:
        yield f"{_VISION} is missing from {keys.where}: a tower of its class's defaults is counted"
    if family.convention:
        yield family.convention(shape)


def text_part(config: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The keys of the language model, and those around them (empty where nothing is nested)."""
    for name in _TEXT:
        if name in config:
            if not isinstance(config[name], dict):
                raise InputError(f"{where}: {name} must be an object, not {written(config[name])}.")
            return config[name], {key: value for key, value in config.items() if key != name}
    return config, {}


def _family(text: Mapping[str, Any], where: str) -> Family:
    kind, classes = text.get("model_type"), text.get("architectures")
    if isinstance(kind, str) and kind in BY_MODEL_TYPE:
        return BY_MODEL_TYPE[kind]
    if kind is None and isinstance(classes, list) and len(classes) == 1 and isinstance(classes[0], str):
        if classes[0] in BY_CLASS:
            return BY_CLASS[classes[0]]
    elif kind is None:
        raise InputError(f"{where}: model_type is missing: name a model's config.json.")
    known = f"modelled are llama, qwen3, deepseek-v3 and {len(FAMILIES) - 3} more families: see docs/models.md"
    reason = " and ".join(f"{name} ({keys})" for name, keys in _unusual(text)) or known
    raise UsageError(f"{where}: {_type(text)} is not modelled yet: {reason}.")


def _type(text: Mapping[str, Any]) -> str:
    kind = text.get("model_type")
    return f"model_type {written(kind)}" if kind is not None else f"architectures {written(text['architectures'][0])}"


def _unusual(keys: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kinds of model that the names of ``keys`` speak of, each with the keys."""
    for kind, words in _UNUSUAL:
        found = [key for key, value in keys.items() if value and any(word in key for word in words)]
        if found:
            yield kind, ", ".join(shown(key) for key in found[:4])


def _not_understood(unread: Mapping[str, Any], family: Family, where: str) -> Iterator[str]:
    """Refuse what the family is not meant to be; name what it is meant to be but does not ask for."""
    for kind, named in _unusual(unread):
        if kind not in family.kinds:
            raise UsageError(f"{where}: a {family.name} model with {kind} ({named}) is not modelled yet.")
    sizes = {key: value for key, value in unread.items() if _is_size(value) and key not in _NO_SHAPE}
    for kind, named in _unusual(sizes):
        yield f"{named}: not understood ({kind})"


def _is_size(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, list | dict)


def _left_out(keys: Mapping[str, Any], shape: Architecture) -> Iterator[str]:
    for key, value in keys.items():
        if isinstance(value, dict) and value and any(word in key for word in _TOWERS):
            if key == _VISION and shape.vision:
                continue
            yield f"{shown(key)}: another tower with its projector; only the language model is counted"
    for key in _AHEAD:
        if keys.get(key) and not shape.prediction:
            yield f"{key}: layers for multi-token prediction"


def _name(path: Path) -> str:
    return shown(str(path))


def _short(error: ValueError) -> str:
    return shown(str(error).splitlines()[0])
