"""Small GGUF files, written with the reference package, one per family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType

HIDDEN, FFN, HEADS, KV, HEAD_DIM, VOCAB, LAYERS, WINDOW = 64, 96, 4, 2, 32, 320, 6, 48
"""head_dim is 32, not 64/4: a reader that divides gets it wrong."""

Shapes = dict[str, tuple[int, ...]]


def shapes(arch: str) -> Shapes:
    """Tensor shapes in numpy's order (output first) of a model of the family ``arch``."""
    qkv, kv = HEADS * HEAD_DIM, KV * HEAD_DIM
    layer: Shapes = {
        "attn_norm.weight": (HIDDEN,),
        "ffn_norm.weight": (HIDDEN,),
        "attn_q.weight": (qkv, HIDDEN),
        "attn_k.weight": (kv, HIDDEN),
        "attn_v.weight": (kv, HIDDEN),
        "attn_output.weight": (HIDDEN, qkv),
        "ffn_gate.weight": (FFN, HIDDEN),
        "ffn_up.weight": (FFN, HIDDEN),
        "ffn_down.weight": (HIDDEN, FFN),
    }
    whole: Shapes = {"token_embd.weight": (VOCAB, HIDDEN), "output_norm.weight": (HIDDEN,)}
    if arch in ("llama", "qwen2", "phi3", "olmo2"):
        whole["output.weight"] = (VOCAB, HIDDEN)
    if arch == "llama":
        whole["rope_freqs.weight"] = (HEAD_DIM // 2,)
    if arch == "qwen2":
        layer |= {"attn_q.bias": (qkv,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if arch in ("qwen3", "gemma3"):
        layer |= {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
    if arch in ("gemma2", "gemma3", "olmo2"):
        layer |= {"post_attention_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}
    if arch == "olmo2":
        layer |= {"attn_q_norm.weight": (qkv,), "attn_k_norm.weight": (kv,)}
        del layer["attn_norm.weight"], layer["ffn_norm.weight"]
    if arch == "phi3":
        layer |= {"attn_qkv.weight": (qkv + 2 * kv, HIDDEN), "ffn_up.weight": (2 * FFN, HIDDEN)}
        for part in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
            del layer[f"{part}.weight"]
    if arch == "starcoder2":
        del layer["ffn_gate.weight"]
        layer |= {name.replace("weight", "bias"): shape[:1] for name, shape in layer.items()}
        whole["output_norm.bias"] = (HIDDEN,)
    return whole | {f"blk.{number}.{name}": shape for number in range(LAYERS) for name, shape in layer.items()}


def write(
    path: Path,
    arch: str,
    *,
    tensors: Shapes | None = None,
    kinds: dict[str, Q] | None = None,
    **metadata: int | str | list[int],
) -> Path:
    """Write a file; ``kinds`` gives the storage type by the tensor's last name, F32 otherwise. Metadata overrides."""
    writer = gguf.GGUFWriter(path, arch)
    values: dict[str, Any] = {
        "block_count": LAYERS,
        "context_length": 512,
        "embedding_length": HIDDEN,
        "feed_forward_length": FFN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV,
        "attention.key_length": HEAD_DIM,
    }
    if arch in ("phi3", "gemma2", "gemma3"):
        values["attention.sliding_window"] = WINDOW
    for key, value in (values | metadata).items():
        name = key if key.startswith(("general.", "split.")) else f"{arch}.{key}"
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        else:
            writer.add_uint32(name, value)
    writer.add_token_list([f"t{number}" for number in range(VOCAB)])
    writer.add_token_scores([0.0] * VOCAB)
    for name, shape in (shapes(arch) if tensors is None else tensors).items():
        kind = (kinds or {}).get(name.split(".")[-2], Q.F32) if name.endswith(".weight") else Q.F32
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((*shape[:-1], shape[-1] // block * size), dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
