"""Models of published figures: those that a source states by a few numbers, and configs that are in no catalogue."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from phasewise.hardware import catalogue
from phasewise.model.architecture import Architecture
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.model import Model, bytes_in
from phasewise.model.parts import Block, Mixer, NoFeedForward, Operation, Weights
from phasewise.model.passes import Pass
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.quantity import assumed


class Cache(Mixer, frozen=True, kw_only=True):
    """A KV cache of so many elements a token, and nothing else."""

    elements: float = 0.0

    def parameters(self, hidden: int) -> Weights:
        return {}

    @property
    def kv_per_token(self) -> float:
        return self.elements

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        return (Operation("attention", 0.0, 0.0, self.elements * kv_element_bytes * step.past * step.batch),)


def stated(parameters: float = 1e9, *, weight_bytes: float | None = None, kv_bytes_per_token: float = 0.0) -> Model:
    """A model of which a source says only how many parameters, weight bytes and KV bytes it has."""
    block = Block(mixer=Cache(elements=kv_bytes_per_token), mlp=NoFeedForward(), norm_weights=0, count=1)
    shape = Architecture(
        family="stated", hidden=1, vocab=1, tied=True, blocks=(block,), final_norm=round(parameters) - 1
    )
    return Model(
        name="stated",
        source="stated",
        architecture=shape,
        weight_bytes={"embedding": 0.0, "norm": 2.0 * parameters if weight_bytes is None else weight_bytes},
        weights_format="stated",
        compute=("bf16", "fp16"),
        kv_format="stated",
        kv_element_bytes=1.0,
    )


def roof(flops: float = 1e12, bandwidth: float = 1e12) -> Roof:
    """Stated ceilings of all devices together."""
    compute, memory = assumed(flops, "FLOP/s", "stated"), assumed(bandwidth, "B/s", "stated")
    return Roof(basis="stated", dtype="bf16", compute=compute, bandwidth=memory)


def on(model: Model, accelerator: str, devices: int = 1) -> Roof:
    """The datasheet's roof for ``model``."""
    return roofs(model, catalogue.machine(catalogue.find(accelerator), devices))[0]


def from_keys(keys: dict[str, Any], weights: str | None = None, kv: str | None = None) -> Model:
    """A model from the keys of its config.json, as the command reads a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(keys))
        return load(str(path), weights, kv)


def all_in(model: Model, weights: str) -> Model:
    """``model`` with every weight in ``weights``, the head too, which quantisers leave in 16 bit."""
    shape, format_ = model.architecture, WEIGHTS[weights]._replace(keeps_head=False)
    return msgspec.structs.replace(model, weight_bytes=bytes_in(shape, format_))


# EleutherAI/gpt-j-6b as in mlc-ai/mlc-llm@79d603f python/mlc_llm/model/model_preset.py.
GPT_J: dict[str, Any] = {
    "model_type": "gptj",
    "n_embd": 4096,
    "n_head": 16,
    "n_inner": None,
    "n_layer": 28,
    "n_positions": 2048,
    "vocab_size": 50400,
    "tie_word_embeddings": False,
}

# mistralai/Mixtral-8x7B-v0.1 as in ai-dynamo/aiconfigurator@095f58a.
MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}

# facebook/opt-66b: the OPT paper (arXiv 2205.01068), table 1; vocabulary and positions as in every OPT config.
OPT_66B: dict[str, Any] = {
    "model_type": "opt",
    "hidden_size": 9216,
    "word_embed_proj_dim": 9216,
    "ffn_dim": 36864,
    "num_attention_heads": 72,
    "num_hidden_layers": 64,
    "max_position_embeddings": 2048,
    "vocab_size": 50272,
}
