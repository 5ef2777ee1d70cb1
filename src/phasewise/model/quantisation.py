"""The weight formats that a config's ``quantization_config`` or a ``hf_quant_config.json`` describes, role by role.

Sources: the config classes of transformers 5.24 (utils/quantization_config.py), compressed-tensors' scheme keys and
ModelOpt's ``quant_algo`` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from phasewise.model.architecture import Architecture
from phasewise.model.formats import FP8_BLOCK, WEIGHTS, Format, grouped
from phasewise.model.keys import shown, written
from phasewise.model.modules import Modules
from phasewise.model.parts import Role

_SIXTEEN_BIT = 2.0

HIGH: tuple[Role, ...] = ("embedding", "position", "lm_head", "norm", "router", "recurrence", "vision")
"""Roles that quantisers leave in 16 bit without being told."""

_MODELOPT = {
    "FP8": WEIGHTS["fp8"],
    "FP8_PB_WO": FP8_BLOCK,
    "NVFP4": WEIGHTS["nvfp4"],
    "INT8_SQ": WEIGHTS["int8"],
    "W4A16_AWQ": WEIGHTS["int4"],
    "W4A16": WEIGHTS["int4"],
    "W4A8_AWQ": WEIGHTS["int4"]._replace(compute=("fp8", *WEIGHTS["int4"].compute)),
}
_SIZES = (0, 16, 32, 64, 128, 256, 512, 1024)


class Quantisation(NamedTuple):
    """Weight formats, and what of them is not counted.

    Attributes:
        weights: the format of what is quantised; None when the file's method cannot be expressed.
        kv: the KV cache format that it asks for, or "".
        kept: modules that stay in 16 bit.
        others: modules in a format of their own.
        roles: roles in a format of their own.
        head: whether lm_head is quantised too.
        not_modelled: what could not be expressed.
    """

    weights: Format | None
    kv: str
    kept: tuple[str, ...] = ()
    others: tuple[tuple[Format, tuple[str, ...]], ...] = ()
    roles: tuple[tuple[Role, Format], ...] = ()
    head: bool = False
    not_modelled: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The format's name, with those of roles and modules that have their own."""
        names = [form.name for form, _ in self.others] + [f"{role} {form.name}" for role, form in self.roles]
        return (self.weights.name if self.weights else "") + (f" ({', '.join(names)})" if names else "")

    def bytes_by_role(self, shape: Architecture, weights: Format) -> dict[Role, float]:
        """Bytes of each role: its share in each format, and in 16 bit."""
        kept = Modules(self.kept).shares(shape)
        others = [(form, Modules(names).shares(shape)) for form, names in self.others]
        own = dict(self.roles)
        found: dict[Role, float] = {}
        for role, count in shape.all_parameters().items():
            if role in HIGH and not (role == "lm_head" and self.head):
                found[role] = _SIXTEEN_BIT * count
                continue
            high = kept.get(role, 0.0)
            rest, each = 1.0 - high, _SIXTEEN_BIT * high
            for form, shares in others:
                part = min(rest, shares.get(role, 0.0))
                each, rest = each + part * form.bytes_per_element, rest - part
            found[role] = count * (each + rest * own.get(role, weights).bytes_per_element)
        return found

    def strange(self) -> tuple[str, ...]:
        """Entries of the lists that are not understood."""
        names = [*self.kept, *(name for _, names in self.others for name in names)]
        return tuple(shown(name) for name in Modules(names).strange)


def quantisation(config: object, expert_dtype: object = None) -> Quantisation | None:
    """What a ``quantization_config``, or the ``quantization`` of a side file, describes; None when nothing.

    ``expert_dtype`` is the key of that name beside it (DeepSeek-V4): ``fp4`` puts the routed experts in MXFP4.
    """
    if not config or not isinstance(config, dict):
        return None
    weights, others = _weights(config)
    kv = "fp8" if _kv_in_fp8(config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")) else ""
    if weights is None:
        method = config.get("quant_method") or config.get("quant_algo")
        return Quantisation(
            None, kv, not_modelled=(f"quantisation by {written(method)}: weights are counted unquantised",)
        )
    roles: tuple[tuple[Role, Format], ...] = (("experts", WEIGHTS["mxfp4"]),) if expert_dtype == "fp4" else ()
    found = Quantisation(weights, kv, tuple(_ignored(config)), others, roles, head=config.get("lm_head") is True)
    strange = found.strange()
    if strange:
        found = found._replace(
            not_modelled=(f"modules of the quantiser's lists that are not understood: {_some(strange)}",)
        )
    return found


def _weights(config: Mapping[str, Any]) -> tuple[Format | None, tuple[tuple[Format, tuple[str, ...]], ...]]:
    """The format of most weights, and formats of listed modules."""
    method = str(config.get("quant_method", "")).lower()
    algorithm = str(config.get("quant_algo"))
    if algorithm == "MIXED_PRECISION":
        return _mixed(config.get("quantized_layers"))
    if algorithm in _MODELOPT:
        return _MODELOPT[algorithm], ()
    if method == "fp8":
        block = config.get("weight_block_size")
        return (FP8_BLOCK if block == [128, 128] else WEIGHTS["fp8"]) if block in (None, [128, 128]) else None, ()
    if method == "fbgemm_fp8":
        return WEIGHTS["fp8"], ()
    if method == "mxfp4":
        return WEIGHTS["mxfp4"], ()
    if method in ("awq", "gptq"):
        zeros = config.get("zero_point") is not False if method == "awq" else True
        return _grouped(config.get("bits", config.get("w_bit")), config.get("group_size"), zeros=zeros), ()
    if method == "bitsandbytes":
        return _bitsandbytes(config), ()
    if method == "compressed-tensors":
        return _compressed(config.get("config_groups"))
    return None, ()


def _grouped(bits: object, group: object, *, zeros: bool) -> Format | None:
    """Weight-only integers; a group of -1 is a whole row."""
    if bits not in (4, 8) or not isinstance(bits, int) or isinstance(bits, bool) or not isinstance(group, int):
        return None
    group = 0 if group == -1 else group or -1
    return grouped(bits, group, zeros=zeros) if group in _SIZES else None


def _bitsandbytes(config: Mapping[str, Any]) -> Format | None:
    """NF4 or FP4 in blocks of 64 with a 32-bit scale, which double quantisation packs into 8 bit; LLM.int8 by row."""
    if config.get("load_in_8bit") is True:
        return WEIGHTS["int8"]._replace(compute=WEIGHTS["nf4"].compute)
    if config.get("load_in_4bit") is not True:
        return None
    double = config.get("bnb_4bit_use_double_quant") is True
    return WEIGHTS["nf4"]._replace(bytes_per_element=0.5 + 1 / 64 + 4 / (64 * 256)) if double else WEIGHTS["nf4"]


def _compressed(groups: object) -> tuple[Format | None, tuple[tuple[Format, tuple[str, ...]], ...]]:
    """Each group's scheme; the one for all Linear layers comes first, the others are lists of modules."""
    if not isinstance(groups, dict) or not groups:
        return None, ()
    listed: list[tuple[Format, tuple[str, ...]]] = []
    main: Format | None = None
    for group in groups.values():
        form = _scheme(group)
        targets = group.get("targets", ["Linear"]) if isinstance(group, dict) else None
        if form is None or not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
            return None, ()
        if main is None and (targets == ["Linear"] or len(groups) == 1):
            main = form
        else:
            listed.append((form, tuple(targets)))
    return (main, tuple(listed)) if main else (None, ())


def _scheme(group: object) -> Format | None:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict) or not isinstance(group, dict):
        return None
    kind, bits, size = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    activations = group.get("input_activations")
    form: Format | None = None
    if kind == "float" and bits == 8 and weights.get("strategy") == "block":
        form = FP8_BLOCK if weights.get("block_structure") == [128, 128] else None
    elif kind == "float" and bits == 8:
        form = WEIGHTS["mxfp8"] if size == 32 else WEIGHTS["fp8"]
    elif kind == "float" and bits == 4:
        form = WEIGHTS["mxfp4"] if size == 32 else WEIGHTS["nvfp4"]
    elif kind == "int" and activations:
        form = WEIGHTS["int8"] if bits == 8 else None
    elif kind == "int":
        form = _grouped(bits, size or -1, zeros=not weights.get("symmetric", True))
    # Weights alone are unpacked to 16 bit before the matmul.
    return form if activations or form is None else form._replace(compute=WEIGHTS["bf16"].compute)


def _mixed(layers: object) -> tuple[Format | None, tuple[tuple[Format, tuple[str, ...]], ...]]:
    """ModelOpt's list of modules, each with its own algorithm; what it does not list stays in 16 bit."""
    if not isinstance(layers, dict) or not layers:
        return None, ()
    by_format: dict[Format, list[str]] = {}
    for name, entry in layers.items():
        form = _MODELOPT.get(str(entry.get("quant_algo"))) if isinstance(entry, dict) else None
        if form is None:
            return None, ()
        by_format.setdefault(form, []).append(name)
    most = max(by_format, key=lambda form: len(by_format[form]))
    rest = WEIGHTS["bf16"]._replace(compute=most.compute, name=f"{most.name} and others", keeps_head=True)
    return rest, tuple((form, tuple(names)) for form, names in by_format.items())


def _kv_in_fp8(scheme: object) -> bool:
    if isinstance(scheme, dict):
        return scheme.get("type") == "float" and scheme.get("num_bits") == 8
    return scheme == "FP8"


def _ignored(config: Mapping[str, Any]) -> list[str]:
    for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules"):
        names = config.get(key)
        if isinstance(names, list):
            return [name for name in names if isinstance(name, str)]
    return []


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
