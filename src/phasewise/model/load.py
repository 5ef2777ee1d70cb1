"""MODEL on the command line → a Model: a catalogue name, a config.json, a model directory or a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.model import catalogue, checkpoint, config, formats, gguf, tensors
from phasewise.model.keys import shown
from phasewise.model.model import Model, bytes_in, with_skew
from phasewise.model.quantisation import quantisation

_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}
_DEFAULT = "bf16"
"""Also where a checkpoint names float32: vLLM and SGLang (``--dtype auto``) run those in 16 bit."""

_GGUF_COMPUTE: dict[str, tuple[str, ...]] = {
    "f32": ("fp32",),
    "f64": ("fp32",),
    "f16": ("fp16", "fp32"),
    "bf16": ("bf16", "fp32"),
}


def load(
    text: str,
    weights: str | None = None,
    kv: str | None = None,
    *,
    image: tuple[int, int] | None = None,
    skew: float = 0.0,
) -> Model:
    """The model that ``text`` names.

    Args:
        text: a catalogue name or alias, the path of a config.json or .gguf file, a directory that holds a config.json
            or one .gguf file; ``gguf:FILE`` and ``hf:DIR`` say which of them a path is.
        weights: weight format in place of the one that the source gives (``--weights``).
        kv: KV cache format likewise (``--kv``).
        image: height and width in pixels of an image in each prompt, whose tokens the prompt's length includes.
        skew: of a mixture's routing: 0 (the default) for every expert equally likely, positive for the exponent of a
            power law of popularity, -1 for perfectly balanced (see ``Moe.distinct``).

    Raises:
        UsageError: nothing of that name, or a model that is not modelled yet.
        InputError: a file that is not what it should be.
    """
    model = _load(text, weights, kv, image)
    return with_skew(model, skew) if skew else model


def _load(text: str, weights: str | None, kv: str | None, image: tuple[int, int] | None) -> Model:
    for prefix in ("gguf:", "hf:"):
        if text == prefix:
            raise UsageError(f"{prefix} names no file: write {prefix}PATH.")
        if text.startswith(prefix):
            return _from_path(Path(text.removeprefix(prefix)), weights, kv, image)
    row = catalogue.find(text)
    if row is not None:
        facts = _Facts(row.config, row.name, f"catalogue row {row.name}", f"catalogue: {row.source}")
        return _from_config(facts, weights, kv, image)
    if os.path.exists(text) or text.endswith((".json", ".gguf")) or text.startswith((".", "/")):
        return _from_path(Path(text), weights, kv, image)
    raise catalogue.unknown(text)


def of_config(config: Mapping[str, Any], name: str, dtype: str) -> Model:
    """The model that a transformers config (as a mapping) describes, whose parameters are held in ``dtype``.

    A quantised one keeps the formats that its config names.

    Raises:
        UsageError: an architecture that is not modelled yet.
    """
    described = config.get("quantization_config")
    facts = _Facts(config, shown(name) or "model", "the model's config", "the model's config")
    return _from_config(facts, None if described else dtype, dtype, None)


class _Facts(NamedTuple):
    """A config with its name, what errors call it, what reports call it, its quantisation side file, its directory."""

    config: Mapping[str, Any]
    name: str
    where: str
    source: str
    side: Mapping[str, Any] = {}
    directory: Path | None = None


def _from_path(path: Path, weights: str | None, kv: str | None, image: tuple[int, int] | None) -> Model:
    if os.path.isdir(path):
        path = _in_directory(path)
    if not os.path.isfile(path):
        raise InputError(
            f"{shown(str(path))} is no file to read: name a config.json, a .gguf file or a model directory."
        )
    if path.suffix == ".gguf" or _begins_as_gguf(path):
        if image:
            raise UsageError(
                f"{shown(path.name)}: the tower of a GGUF model is another file, so an image is not costed."
            )
        return _from_gguf(path, weights, kv)
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    # Beside config.json as ModelOpt writes it, beside NAME.json as NAME.hf_quant_config.json.
    side = path.with_name(f"{'' if path.name == 'config.json' else f'{path.stem}.'}hf_quant_config.json")
    quant = config.read(side).get("quantization") if os.path.isfile(side) else None
    facts = _Facts(
        config.read(path),
        shown(name) or "model",
        shown(path.name),
        f"{shown(path.name)} of {shown(name)}",
        quant if isinstance(quant, dict) else {},
        path.parent if path.name == "config.json" else None,
    )
    return _from_config(facts, weights, kv, image)


def _in_directory(path: Path) -> Path:
    if os.path.isfile(path / "config.json"):
        return path / "config.json"
    files = sorted(file for file in os.listdir(path) if file.endswith(".gguf") and "mmproj" not in file)
    if len(files) == 1:
        return path / files[0]
    if files:
        some = ", ".join(shown(file) for file in files[:4])
        raise UsageError(f"{shown(str(path))} holds {len(files)} GGUF files ({some}): name one of them.")
    raise InputError(f"{shown(str(path))} holds no config.json and no .gguf file: name a model directory.")


def _begins_as_gguf(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == gguf.MAGIC
    except OSError:
        return False


def _from_config(facts: _Facts, weights: str | None, kv: str | None, image: tuple[int, int] | None) -> Model:
    shape = config.architecture(facts.config, facts.where, image)
    text, outer = config.text_part(facts.config, facts.where)
    stated = _dtype(text) or _dtype(outer)
    quantised = facts.side or text.get("quantization_config") or outer.get("quantization_config")
    described = quantisation(quantised, text.get("expert_dtype") or outer.get("expert_dtype"))
    if weights:
        format_, why = formats.weights(weights), "as --weights says"
    elif described and described.weights:
        format_, why = described.weights, "as its quantisation says"
    else:
        format_, why = formats.weights(stated or _DEFAULT), "as its dtype says" if stated else "assumed"
    if kv:
        kv_name, kv_why = kv, "as --kv says"
    elif described and described.kv:
        kv_name, kv_why = described.kv, "as its quantisation says"
    else:
        kv_name, kv_why = stated or _DEFAULT, "assumed"
    kv_name, kv_bytes = formats.kv_bytes(kv_name)
    name, bytes_ = format_.name, bytes_in(shape, format_)
    if described and not weights:
        shape = msgspec.structs.replace(shape, not_modelled=shape.not_modelled + described.not_modelled)
        if described.weights:
            bytes_ = described.bytes_by_role(shape, format_)
            name = described.name
    model = Model(
        name=facts.name,
        source=f"{facts.source}; weights in {name} ({why}), KV cache in {kv_name} ({kv_why})",
        architecture=shape,
        weight_bytes=bytes_,
        weights_format=name,
        compute=format_.compute,
        kv_format=kv_name,
        kv_element_bytes=kv_bytes,
        provenance="assumed" if weights or why == "assumed" else "datasheet",
    )
    return model if weights or facts.directory is None else checkpoint.reconciled(model, facts.directory)


def _dtype(keys: Mapping[str, Any]) -> str | None:
    name = keys.get("torch_dtype") or keys.get("dtype")
    return _DTYPES.get(name.removeprefix("torch.")) if isinstance(name, str) else None


def _from_gguf(path: Path, weights: str | None, kv: str | None) -> Model:
    where = shown(path.name)
    header = gguf.read_header(path)
    shape = tensors.architecture(header, where)
    types, matmuls = tensors.types_by_bytes(header), tensors.types_by_bytes(header, lookup=False)
    kv_name, kv_bytes = formats.kv_bytes(kv or "fp16")
    held = tensors.bytes_by_role(header, shape.layers)
    source = f"{where}; KV cache in {kv_name} ({'as --kv says' if kv else 'the default of llama.cpp'})"
    format_ = formats.weights(weights) if weights else None
    return Model(
        name=shown(path.stem) or "model",
        source=f"{source}; weights in {format_.name} (as --weights says)" if format_ else source,
        architecture=shape,
        weight_bytes=bytes_in(shape, format_)
        if format_
        else {role: held.get(role, 0.0) for role in shape.all_parameters()},
        weights_format=format_.name if format_ else types[0] + (f" (mixed: {', '.join(types)})" if types[1:] else ""),
        compute=format_.compute if format_ else _GGUF_COMPUTE.get(matmuls[0], formats.GGUF_QUANTISED),
        kv_format=kv_name,
        kv_element_bytes=kv_bytes,
        provenance="assumed" if format_ else "measured",
    )
