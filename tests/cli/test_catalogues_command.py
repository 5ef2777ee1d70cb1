"""`phasewise models` and `phasewise accelerators`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_run import one_sentence, phasewise

MODEL = """{"my-model": {"source": "our run", "config": {"model_type": "llama", "hidden_size": 2048,
"intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
"vocab_size": 128256, "tie_word_embeddings": true}}}"""
CARD = "name,kind,memory_GB,bandwidth_GB/s,bf16_TFLOP/s,source\nmy-card,gpu,48,1000,200,our bench\n"


def own(home: Path, name: str, text: str) -> Path:
    file = home / "config" / "phasewise" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def narrow(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 80


def test_models_are_listed_searched_and_shown_whole(tmp_path: Path) -> None:
    listed = phasewise("models", cwd=tmp_path).out
    assert narrow(listed)
    row = next(line for line in listed.splitlines() if line.startswith("llama-3-8b "))
    assert row.split()[1:5] == ["8.03", "131,072", "8,192", "bf16"]
    assert "litgpt" in row
    some = phasewise("models", "qwen", "7b", cwd=tmp_path).out
    assert "qwen2.5-7b" in some
    assert "llama" not in some
    one = phasewise("models", "meta-llama/Meta-Llama-3-8B", cwd=tmp_path).out
    assert narrow(one)
    for fact in ("8,030,261,248", "525,336,576", "config: num_key_value_heads", "source: Lightning-AI/litgpt@2685705"):
        assert fact in one


def test_accelerators_are_listed_searched_and_shown_whole(tmp_path: Path) -> None:
    listed = phasewise("accelerators", cwd=tmp_path).out
    assert narrow(listed)
    assert "65 accelerators" in listed
    row = next(line for line in listed.splitlines() if line.startswith("h100-sxm "))
    assert row.split()[1:5] == ["80", "3350", "989", "1978"]
    # An assumed figure is marked as one.
    assert "3938~" in next(line for line in listed.splitlines() if line.startswith("h100-nvl "))
    versions = phasewise("accelerators", "h100", cwd=tmp_path).out
    assert all(f"h100-{version} " in versions for version in ("sxm", "pcie", "nvl"))
    one = phasewise("accelerators", "NVIDIA H100 80GB HBM3", cwd=tmp_path).out
    assert narrow(one)
    for fact in ("3.350 TB/s", "989.0 TFLOP/s", "datasheet", "2:4-sparse", "source: ai-dynamo/aiconfigurator@095f58a"):
        assert fact in one


def test_json_holds_every_fact_with_its_provenance(tmp_path: Path) -> None:
    found = phasewise("accelerators", "h100-nvl", "--json", cwd=tmp_path).document
    (row,) = found["accelerators"]
    assert row["bandwidth"] == 3.938e12
    assert row["peaks"] == {"bf16": 835e12, "fp8": 1671e12, "int8": 1671e12}
    assert found["provenance"]["accelerators.0.peaks.bf16"]["provenance"] == "assumed"
    assert len(phasewise("accelerators", "--json", cwd=tmp_path).document["accelerators"]) == 65
    found = phasewise("models", "llama-3-8b", "--json", cwd=tmp_path).document
    (model,) = found["models"]
    assert model["facts"]["parameters"] == 8_030_261_248
    assert model["config"]["num_key_value_heads"] == 8
    assert model["source"].startswith("Lightning-AI/litgpt")
    assert found["provenance"]["models.0.facts.kv_bytes_per_token"]["unit"] == "B"


@pytest.mark.parametrize("verb", ["models", "accelerators"])
def test_nothing_found_is_one_sentence(tmp_path: Path, verb: str) -> None:
    assert f"`phasewise {verb}` lists them" in one_sentence(phasewise(verb, "zzzzzz", cwd=tmp_path), 2)


def test_rows_of_ones_own_are_browsed_and_predicted_with(tmp_path: Path) -> None:
    model, card = own(tmp_path, "models.json", MODEL), own(tmp_path, "accelerators.csv", CARD)
    assert "your own" in phasewise("models", cwd=tmp_path).out
    for verb, name, where in (("accelerators", "my-card", f"{card} line 2"), ("models", "my-model", f"{model} line 1")):
        out = phasewise(verb, name, cwd=tmp_path).out
        assert f"yourownrow:{where}".replace(" ", "") in "".join(out.split())
    found = phasewise("predict", "my-model", "--on", "my-card", "--json", cwd=tmp_path).document
    assert found["accelerator"]["bandwidth"] == 1e12
    assert found["model"]["parameters"] == 1_235_814_400
    # No confidence is stated, so the figures are assumed.
    assert found["provenance"]["accelerator.bandwidth"]["provenance"] == "assumed"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("accelerators.csv", CARD + "h100-sxm,gpu,48,1000,200,x\n", 3),
        ("accelerators.csv", CARD + "other,gpu,48,-1000,200,x\n", 3),
        ("models.json", MODEL.replace("2048", '"2048"'), 1),
        ("models.json", MODEL.replace("my-model", "llama-3-8b"), 1),
        ("models.json", MODEL.replace('"model_type"', "model_type"), 1),
    ],
)
def test_a_wrong_row_stops_every_command_that_would_use_it(tmp_path: Path, name: str, text: str, line: int) -> None:
    file = own(tmp_path, name, text)
    verbs = (("models",) if name == "models.json" else ("accelerators",), ("predict", "llama-3-8b", "--on", "h100-sxm"))
    for verb in verbs:
        sentence = one_sentence(phasewise(*verb, cwd=tmp_path), 2)
        assert f"{file} line {line}" in sentence


def test_a_name_that_would_steer_the_terminal_is_shown_harmless(tmp_path: Path) -> None:
    own(tmp_path, "models.json", MODEL.replace("our run", "our \\u001b[31mrun\\u0007"))
    found = phasewise("models", "my-model", cwd=tmp_path)
    assert "our run" in found.out
    assert "\x1b" not in found.out
    assert "\x07" not in found.out
