"""The weight format that a config's ``quantization_config`` or a ``hf_quant_config.json`` describes.

Sources: the config classes of transformers 5.24 (utils/quantization_config.py), compressed-tensors' scheme keys and
ModelOpt's ``quant_algo`` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from phasewise.model.formats import WEIGHTS, Format
from phasewise.model.keys import shown, written

_SCALE = 2.0
"""Bytes of one group's scale (16 bit)."""

_MODELOPT = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8_SQ": "int8"}
_NAMES = {4: "int4", 8: "int8"}
_HEAD = ("lm_head", "embed", "norm", "gate", "router", "vision", "visual", "mtp")


class Quantisation(NamedTuple):
    """A weight format, and what of it is not counted.

    ``weights`` is None when the file's method cannot be expressed; ``kv`` is the KV cache format it asks for, or "".
    """

    weights: Format | None
    kv: str
    not_modelled: tuple[str, ...] = ()


def quantisation(config: object) -> Quantisation | None:
    """What a ``quantization_config``, or the ``quantization`` of a side file, describes; None when nothing."""
    if not config or not isinstance(config, dict):
        return None
    weights = _weights(config)
    kv = "fp8" if _kv_in_fp8(config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")) else ""
    if weights is None:
        method = config.get("quant_method") or config.get("quant_algo")
        return Quantisation(None, kv, (f"quantisation by {written(method)}: weights are counted unquantised",))
    kept = [name for name in _ignored(config) if not any(word in name for word in _HEAD)]
    note = f"layers that the quantiser left in 16 bit are counted as {weights.name}: {_some(kept)}"
    return Quantisation(weights, kv, (note,) if kept else ())


def _weights(config: Mapping[str, Any]) -> Format | None:
    method = str(config.get("quant_method", "")).lower()
    algorithm = str(config.get("quant_algo"))
    if algorithm in _MODELOPT:
        return WEIGHTS[_MODELOPT[algorithm]]
    if method in ("fp8", "mxfp4"):
        return WEIGHTS[method]
    if method in ("awq", "gptq"):
        return _grouped(config.get("bits", config.get("w_bit")), config.get("group_size"), zeros=True)
    if method == "compressed-tensors":
        return _compressed(config.get("config_groups"))
    return None


def _grouped(bits: object, group: object, *, zeros: bool) -> Format | None:
    """Weight-only integers: the bits, and a scale (and a zero point of as many bits) per group."""
    if bits not in (4, 8) or not isinstance(bits, int) or not isinstance(group, int) or group == 0:
        return None
    per_group = _SCALE + (bits / 8 if zeros else 0.0)
    # A group of -1 is a whole row of thousands of weights, whose one scale does not show.
    share = per_group / group if group > 0 else 0.0
    return Format(_NAMES[bits], bits / 8 + share, WEIGHTS["int4"].compute, keeps_head=True)


def _compressed(groups: object) -> Format | None:
    if not isinstance(groups, dict) or len(groups) != 1:
        return None
    (group,) = groups.values()
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    kind, bits, size = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    if group.get("input_activations"):
        return {("float", 8): WEIGHTS["fp8"], ("int", 8): WEIGHTS["int8"], ("float", 4): WEIGHTS["nvfp4"]}.get(
            (str(kind), bits if isinstance(bits, int) else 0)
        )
    return _grouped(bits, size or -1, zeros=not weights.get("symmetric", True)) if kind == "int" else None


def _kv_in_fp8(scheme: object) -> bool:
    if isinstance(scheme, dict):
        return scheme.get("type") == "float" and scheme.get("num_bits") == 8
    return scheme == "FP8"


def _ignored(config: Mapping[str, Any]) -> list[str]:
    for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"):
        names = config.get(key)
        if isinstance(names, list):
            return [shown(name) for name in names if isinstance(name, str)]
    return []


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
