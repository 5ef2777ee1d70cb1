"""MODEL on the command line → a Model: a catalogue name, a config.json, a model directory or a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.model import catalogue, config, formats, gguf, tensors
from phasewise.model.formats import Format
from phasewise.model.keys import shown
from phasewise.model.model import Model, bytes_in
from phasewise.model.quantisation import Quantisation, quantisation

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_DEFAULT = "bf16"

_GGUF_COMPUTE: dict[str, tuple[str, ...]] = {
    "f32": ("fp32",),
    "f64": ("fp32",),
    "f16": ("fp16", "fp32"),
    "bf16": ("bf16", "fp32"),
}
_GGUF_QUANTISED = ("int8", "fp16", "bf16", "fp32")
"""llama.cpp turns activations into 8-bit blocks and takes integer dot products with quantised weights (CPUs, and GPUs
with integer tensor cores or dp4a); for large batches some GPU back ends dequantise to fp16 instead."""


def load(text: str, weights: str | None = None, kv: str | None = None) -> Model:
    """The model that ``text`` names.

    Args:
        text: a catalogue name or alias, the path of a config.json or .gguf file, a directory that holds a config.json or
            one .gguf file; ``gguf:FILE`` and ``hf:DIR`` say which of them a path is.
        weights: weight format in place of the one that the source gives (``--weights``).
        kv: KV cache format likewise (``--kv``).

    Raises:
        UsageError: nothing of that name, or a model that is not modelled yet.
        InputError: a file that is not what it should be.
    """
    kind, _, rest = text.partition(":")
    if kind == "gguf":
        return _from_gguf(Path(rest), weights, kv)
    if kind == "hf":
        return _from_directory(Path(rest), weights, kv)
    row = catalogue.find(text)
    if row is not None:
        source = f"catalogue ({row.source})"
        return _from_config(row.config, row.name, f"catalogue row {row.name}", source, {}, weights, kv)
    path = Path(text)
    if os.path.isdir(path):
        return _from_directory(path, weights, kv)
    if os.path.isfile(path):
        return _from_gguf(path, weights, kv) if _is_gguf(path) else _from_file(path, weights, kv)
    if path.suffix in (".json", ".gguf") or text.startswith((".", "/", "~")):
        raise InputError(f"{shown(text)} does not exist: name a config.json, a .gguf file or a model directory.")
    raise catalogue.unknown(text)
