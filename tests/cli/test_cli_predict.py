"""`phasewise predict` and the command line's manners."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_run import one_sentence, phasewise

REFERENCE = ("predict", "llama-3-8b", "--on", "h100-sxm")


def test_the_reference_table_comes_out_to_the_last_digit(tmp_path: Path) -> None:
    text = " ".join(phasewise(*REFERENCE, cwd=tmp_path).out.split())
    head = text[: text.index("COUNTED")]
    assert "32.5 ms of math against 4.79 ms" in head
    assert "4.87 ms of reading (16.06 GB of weights + 262 MB of KV) against 16.2 µs of math, ×300" in head
    for row in ("64 9.49 ms ×30.7 9.80 ms ×31.8", "math 29.3 ms 16.2 µs", "memory 4.56 ms 4.56 ms", "53,250 tokens"):
        assert row in text
    assert text.index("RECAP") > text.index("WHERE THE TIME GOES")


def test_explain_puts_the_numbers_into_every_formula(tmp_path: Path) -> None:
    text = " ".join(phasewise(*REFERENCE, "--explain", cwd=tmp_path).out.split())
    assert "32 layers × 8 heads × 128 × 2 × 2 B" in text
    assert "4.48 ms (4.56 ms with the KV written)" in text


def test_json_has_the_documented_keys_and_plain_numbers(tmp_path: Path) -> None:
    found = phasewise(*REFERENCE, "--json", cwd=tmp_path).document
    assert found["model"]["parameters"] == 8_030_261_248
    assert found["model"]["kv_bytes_per_token"] == 131_072
    assert found["model"]["not_modelled"] == []
    assert found["accelerator"]["peak_flops"] == 989e12
    assert found["accelerator"]["bandwidth"] == 3.35e12
    assert found["prefill"]["napkin"]["compute_s"] == pytest.approx(0.03248, rel=1e-3)
    assert found["decode"]["bytes"] == found["decode"]["weight_bytes"] + found["decode"]["kv_bytes"]
    assert found["decode"]["bound"] == "memory"
    assert found["prefill"]["bound"] == "compute"
    assert round(found["attention_crossover_tokens"]) == 53_250
    assert {"ttft_s", "tpot_s", "total_s", "decode_share"} <= set(found["request"])
    assert next(row for row in found["batch"] if row["batch"] == 64)["throughput_gain"] == pytest.approx(
        30.75, abs=0.01
    )
    assert found["provenance"]["accelerator.peak_flops"]["provenance"] == "datasheet"


def test_overrides_are_the_lessons_round_numbers(tmp_path: Path) -> None:
    found = phasewise(*REFERENCE, "--peak", "1000TFLOP/s", "--json", cwd=tmp_path).document
    assert found["prefill"]["napkin"]["compute_s"] == pytest.approx(2 * 8_030_261_248 * 2000 / 1e15)
    assert found["accelerator"]["peak_flops"] == 1e15
    assert found["provenance"]["accelerator.peak_flops"]["provenance"] == "assumed"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("predict",), "MODEL"),
        (("predict", "llama-3-8b"), "--on"),
        (("predict", "llama-3-8b", "--on", "h100"), "h100-sxm"),
        (("predict", "lama-3-8b", "--on", "h100-sxm"), "llama-3-8b"),
        (("predict", "llama-3-8b", "--on", "L4O"), "l4"),
        ((*REFERENCE, "--weights", "int3"), "int4"),
        ((*REFERENCE, "--kv", "fp3"), "fp8"),
        ((*REFERENCE, "--peak", "fast"), "989TFLOP/s"),
        (("predict", "llama-3-8b", "--peak", "1000TFLOP/s"), "--bandwidth"),
        ((*REFERENCE, "--batch", "0"), "--batch"),
        (("predict", "missing.json", "--on", "h100-sxm"), "missing.json"),
        (("frobnicate",), "frobnicate"),
        (("profile", "ftp://x"), "URL"),
        (("profile", "hf:some/dir"), "hf:"),
        (("profile", "model.gguf"), "gguf:model.gguf"),
        (("profile", "--mix", "1:2:3:4"), "--mix"),
        (("profile", "--lengths", "a,b"), "--lengths"),
        (("profile", "http://127.0.0.1:1", "--weights", "int4"), "--model"),
        (("report", "nowhere"), "nowhere"),
        (("report",), "phasewise profile"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_next_step(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_sentence(phasewise(*arguments, cwd=tmp_path), 2)


def test_unknown_accelerator_gets_no_percentage_of_another(tmp_path: Path) -> None:
    sentence = one_sentence(phasewise("predict", "llama-3-8b", "--on", "NVIDIA L400", cwd=tmp_path), 2)
    assert "not a known accelerator" in sentence


def test_help_names_every_verb(tmp_path: Path) -> None:
    done = phasewise("--help", cwd=tmp_path)
    assert done.code == 0
    for verb in ("profile", "predict", "report", "ceilings", "simulate"):
        assert f"  {verb} " in done.out
    assert phasewise(cwd=tmp_path).out == done.out


VISION = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 4,
        "hidden_size": 320,
        "intermediate_size": 640,
        "num_heads": 4,
        "out_hidden_size": 1024,
    },
}


def test_an_image_adds_its_tower_and_a_skew_its_fewer_experts(tmp_path: Path) -> None:
    import json

    (tmp_path / "config.json").write_text(json.dumps(VISION))
    asked = ("predict", "./config.json", "--on", "h100-sxm", "--json")
    without = phasewise(*asked, cwd=tmp_path).document
    seen = phasewise(*asked, "--image", "1024x768", cwd=tmp_path).document
    assert seen["prefill"]["flops"] > without["prefill"]["flops"]
    assert seen["decode"]["flops"] == without["decode"]["flops"]
    mixture = ("predict", "mixtral-8x7b", "--on", "h200-sxm", "--batch", "4", "--json")
    even, skewed = (phasewise(*mixture, "--skew", s, cwd=tmp_path).document for s in ("0", "2"))
    assert skewed["decode"]["weight_bytes"] < even["decode"]["weight_bytes"]
    assert "1024x768" in one_sentence(phasewise(*asked[:-1], "--image", "big", cwd=tmp_path), 2)
