"""A model directory's tensors: headers read, roles known, the formula reconciled or the difference shown."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from test_model_load import BODY, HEAD, directory

from phasewise.errors import InputError
from phasewise.model import safetensors
from phasewise.model.load import load

D, F, H, K, V = 256, 512, 256, 128, 1000
BYTES = {"BF16": 2, "F32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1, "F8_E8M0": 1}


def layer(number: int) -> dict[str, tuple[int, ...]]:
    shapes = {
        "self_attn.q_proj.weight": (H, D),
        "self_attn.k_proj.weight": (K, D),
        "self_attn.v_proj.weight": (K, D),
        "self_attn.o_proj.weight": (D, H),
        "self_attn.q_norm.weight": (64,),
        "self_attn.k_norm.weight": (64,),
        "mlp.gate_proj.weight": (F, D),
        "mlp.up_proj.weight": (F, D),
        "mlp.down_proj.weight": (D, F),
        "input_layernorm.weight": (D,),
        "post_attention_layernorm.weight": (D,),
    }
    return {f"model.layers.{number}.{name}": shape for name, shape in shapes.items()}


WHOLE = {"model.embed_tokens.weight": (V, D), "lm_head.weight": (V, D), "model.norm.weight": (D,)}
TENSORS = {name: ("BF16", shape) for name, shape in {**WHOLE, **layer(0), **layer(1)}.items()}

Tensors = dict[str, tuple[str, tuple[int, ...]]]


def write(path: Path, tensors: Tensors) -> Path:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header).encode()
    # The weights themselves are never read: a hole in the file stands for them.
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(data)) + data)
        file.truncate(8 + len(data) + at)
    return path


def checkpoint(path: Path, tensors: Tensors, **changes: Any) -> Path:
    folder = directory(path, **changes)
    write(folder / "model.safetensors", tensors)
    return folder


def test_tensors_that_agree_give_exact_bytes(tmp_path: Path) -> None:
    tensors = {name: ("F32" if "down_proj" in name else dtype, shape) for name, (dtype, shape) in TENSORS.items()}
    model = load(str(checkpoint(tmp_path / "m", tensors)))
    assert model.weight_bytes["mlp_out"] == 2 * D * F * 4
    assert model.weight_bytes["qkv"] == 2 * (H + 2 * K) * D * 2
    assert model.weight_bytes["norm"] == (5 * D + 4 * 64) * 2
    assert model.resident_bytes == 2 * (BODY + HEAD) + 2 * D * F * 2
    assert model.provenance == "measured"
    assert model.architecture.notes[-1].endswith(": they agree")
    assert f"{BODY + HEAD:,}" in model.architecture.notes[-1]
    assert model.architecture.not_modelled == ()


def test_shards_are_read_together(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    names = list(TENSORS)
    write(folder / "model-00001-of-00002.safetensors", {name: TENSORS[name] for name in names[:5]})
    write(folder / "model-00002-of-00002.safetensors", {name: TENSORS[name] for name in names[5:]})
    assert load(str(folder)).resident_bytes == 2 * (BODY + HEAD)
    write(folder / "other.safetensors", {names[0]: TENSORS[names[0]]})
    with pytest.raises(InputError, match="two tensors of one name"):
        load(str(folder))


def test_a_difference_is_shown(tmp_path: Path) -> None:
    more = TENSORS | {"model.layers.0.self_attn.extra.weight": ("BF16", (D, D))}
    model = load(str(checkpoint(tmp_path / "m", more)))
    (named,) = model.architecture.not_modelled
    assert f"a difference of {D * D:,} that is not explained" in named
    assert model.resident_bytes == 2 * (BODY + HEAD)
    assert model.provenance == "datasheet"


def test_a_copy_of_a_tied_head_and_prediction_layers(tmp_path: Path) -> None:
    model = load(str(checkpoint(tmp_path / "m", TENSORS, tie_word_embeddings=True)))
    assert model.parameters == BODY + HEAD - V * D
    assert model.architecture.not_modelled == ()
    assert model.resident_bytes == 2 * model.parameters


@pytest.mark.parametrize(
    ("packed", "quantization", "bits"),
    [
        (
            lambda rows, columns: {
                ".qweight": ("I32", (columns // 8, rows)),
                ".qzeros": ("I32", (columns // 128, rows // 8)),
                ".scales": ("BF16", (columns // 128, rows)),
            },
            {"quant_method": "gptq", "bits": 4, "group_size": 128},
            4 + 20 / 128,
        ),
        (
            lambda rows, columns: {
                ".weight": ("F8_E4M3", (rows, columns)),
                ".weight_scale_inv": ("F32", (rows // 128, columns // 128)),
            },
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            8 + 32 / 16384,
        ),
        (
            lambda rows, columns: {
                ".weight": ("U8", (rows, columns // 2)),
                ".weight_scale": ("F8_E4M3", (rows, columns // 16)),
            },
            {"quant_algo": "NVFP4"},
            4.5,
        ),
    ],
)
def test_packed_weights_are_unpacked_and_scales_are_bytes(
    tmp_path: Path, packed: Any, quantization: dict[str, Any], bits: float
) -> None:
    tensors: Tensors = {}
    for name, (dtype, shape) in TENSORS.items():
        if name.endswith("proj.weight"):
            tensors |= {name.removesuffix(".weight") + end: entry for end, entry in packed(*shape).items()}
        else:
            tensors[name] = (dtype, shape)
    model = load(str(checkpoint(tmp_path / "m", tensors, quantization_config=quantization)))
    assert model.architecture.not_modelled == ()
    assert model.provenance == "measured"
    assert model.resident_bytes == pytest.approx(BODY * bits / 8 + 2 * HEAD)
    formula = load(str(directory(tmp_path / "n", quantization_config=quantization)))
    assert model.resident_bytes == pytest.approx(formula.resident_bytes, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "named"), [(2 * (BODY + HEAD), ""), (4 * (BODY + HEAD), "a part is not counted"), ("x", ""), (-1, "")]
)
def test_an_index_alone_is_held_against_the_formula(tmp_path: Path, size: object, named: str) -> None:
    folder = directory(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}}))
    assert named in "".join(load(str(folder)).architecture.not_modelled)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 10**6) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 200_000) + b"[" * 200_000,
        struct.pack("<Q", 40) + b'{"a": {"dtype": "BF16", "shape": "x"}}  ',
        struct.pack("<Q", 40) + b'{"a": {"dtype": "NEW", "shape": [1]}}   ',
        struct.pack("<Q", 40) + b'{"a": {"dtype": "BF16", "shape": [-1]}} ',
        struct.pack("<Q", 40) + b'{"a": {"dtype": "BF16", "shape": [true]}',
        struct.pack("<Q", 40) + b'{"a": 1}                                ',
    ],
)
def test_damaged_headers_are_one_sentence(tmp_path: Path, data: bytes) -> None:
    folder = directory(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"model\.safetensors") as error:
        load(str(folder))
    assert "\n" not in str(error.value)


def test_a_damaged_index_is_one_sentence(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_bytes(b"[" * 200_000)
    with pytest.raises(InputError, match="is not JSON"):
        load(str(folder))


def test_no_weight_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "big.safetensors", {"a.weight": ("F32", (2**20, 2**12))})
    assert safetensors.tensors(tmp_path)[0].bytes == 2**34
    assert file.stat().st_blocks * 512 < 2**20
