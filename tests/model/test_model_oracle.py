"""Parameter counts of real configs and of every family against transformers, configs.md and the publishers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from phasewise.model.architecture import Architecture
from phasewise.model.checkpoint import role_of
from phasewise.model.config import architecture, read
from phasewise.model.families import FAMILIES

CONFIGS = Path(__file__).parents[3] / "shared" / "data" / "configs"

# What transformers instantiates on the meta device: see oracle/make_goldens.py.
GOLDENS = json.loads((Path(__file__).parent / "oracle" / "goldens.json").read_text())

# Without an oracle: no class of transformers reads these files. The sizes are the publishers' (names, or ChatGLM3's and
# RWKV's own pages), in billions, where there is one.
NO_ORACLE = {
    "RWKV__rwkv-5-world-3b": (2_895_226_880, None),
    "THUDM__chatglm3": (6_243_584_000, 6.24),
    "moonshotai__Kimi-K3": (2_779_481_712_736, None),
    "nvidia__Llama-3_3-Nemotron-Super-49B-v1": (49_867_145_216, 49.9),
}


def total(model: Architecture) -> int:
    return sum(model.parameters().values())


@pytest.fixture(scope="module")
def published() -> dict[str, tuple[str, float]]:
    """The ``counted`` total in billions, as printed, and KV KiB per token of each file, from configs.md."""
    page = CONFIGS.parent / "configs.md"
    if not page.is_file():
        pytest.skip("skipped: no shared data")
    cells = [[cell.strip() for cell in line.split("|")] for line in page.read_text().splitlines()]
    return {
        row[1].removesuffix(".json"): (row[6].split(" / ")[0], float(row[8]))
        for row in cells
        if len(row) > 8 and re.fullmatch(r"[\d.]+", row[8])
    }


@pytest.fixture(scope="module")
def files() -> list[Path]:
    found = sorted(file for file in CONFIGS.glob("*.json") if "hf_quant_config" not in file.name)
    if not found:
        pytest.skip("skipped: no shared data")
    return found


def test_every_real_config_has_the_parameters_that_transformers_instantiates(files: list[Path]) -> None:
    for file in files:
        model = architecture(read(file), file.name)
        vision = model.vision.parameters if model.vision else 0
        if file.stem in NO_ORACLE:
            exact, published = NO_ORACLE[file.stem]
            assert total(model) == exact
            assert published is None or total(model) / 1e9 == pytest.approx(published, rel=0.005)
        else:
            golden = GOLDENS["configs"][file.stem]
            assert (total(model), vision) == (golden["language"], golden["vision"]), file.name
    assert len(files) == 64
    assert len(GOLDENS["configs"]) == 60


@pytest.mark.parametrize("name", GOLDENS["variants"])
def test_every_family_has_the_parameters_that_transformers_instantiates(name: str) -> None:
    golden = GOLDENS["variants"][name]
    model = architecture(golden["config"], name)
    vision = model.vision.parameters if model.vision else 0
    assert (total(model), vision) == (golden["language"], golden["vision"])
    assert model.not_modelled == ()
    assert set(model.active()) <= set(model.parameters())


@pytest.mark.parametrize("name", [name for name, golden in GOLDENS["variants"].items() if "tensors" in golden])
def test_each_tensor_of_a_checkpoint_is_known_by_its_name(name: str) -> None:
    golden = GOLDENS["variants"][name]
    model = architecture(golden["config"], name)
    held: dict[str | None, int] = {}
    for tensor, elements in golden["tensors"].items():
        role = role_of(tensor, model)
        held[role] = held.get(role, 0) + elements
    expected = {role: count for role, count in model.all_parameters().items() if count and role != "prediction"}
    assert set(held) == set(expected)
    assert sum(held.values()) == sum(expected.values())
    for role, count in expected.items():
        # A few norms and biases count as norms by their names and as a part of their mixer by the formula.
        assert role in ("norm", "recurrence") or held[role] == pytest.approx(count, rel=0.02), role


def test_every_family_with_an_oracle_has_variants_or_a_real_config() -> None:
    kinds = {golden["config"]["model_type"] for golden in GOLDENS["variants"].values()}
    nested = {golden["config"].get("text_config", {}).get("model_type") for golden in GOLDENS["variants"].values()}
    without = {"kimi_k2", "nemotron-nas", "deci", "chatglm", "rwkv5", "minimax_m3", "glm4v_moe_text", "step3p5"}
    renamed = {"RefinedWebModel", "RefinedWeb"}
    missing = {kind for family in FAMILIES for kind in family.model_types} - kinds - nested - without - renamed
    assert missing == set()


def test_real_configs_agree_with_the_counter_of_configs_md(
    files: list[Path], published: dict[str, tuple[str, float]]
) -> None:
    """Matrices only, another code: norms and biases are under 0.2% of any of these."""
    own = {"google__gemma-3-4b-it", "zai-org__GLM-4.5V"}  # heads missing from the file; counted there with an lm_head
    for file in files:
        model = architecture(read(file), file.name)
        if file.stem in own or file.stem not in published or file.stem in COUNTER:
            continue
        counted, kib = published[file.stem]
        assert total(model) / 1e9 == pytest.approx(float(counted), abs=0.0051 + 0.002 * float(counted)), file.name
        kv = sum(b.count * 2 * b.mixer.kv_per_token for b in model.blocks)
        assert kv == pytest.approx(kib * 1024, abs=6), file.name


# configs.md marks these as counted wrongly there.
COUNTER = {
    "MiniMaxAI__MiniMax-M3",
    "RWKV__rwkv-5-world-3b",
    "deepseek-ai__DeepSeek-V4-Flash",
    "deepseek-ai__DeepSeek-V4-Pro",
    "facebook__bart-large-cnn",
    "google__flan-t5-xxl",
    "meta-llama__Llama-3.2-90B-Vision-Instruct",
    "moonshotai__Kimi-K3",
    "nvidia__Llama-3_3-Nemotron-Super-49B-v1",
    "openai__whisper-tiny",
}

# Published total / active in billions as configs.md gives them, with the rounding of the last digit, and which active
# count the publisher means: all weights, without the input embedding, or without both tables.
PUBLISHED = {
    "Qwen__Qwen3-235B-A22B": ("235", "22", "all"),
    "Qwen__Qwen3-30B-A3B": ("30.5", "3.3", "all"),
    "Qwen__Qwen3-Coder-480B-A35B-Instruct": ("480", "35", "all"),
    "Qwen__Qwen3-Next-80B-A3B-Instruct": ("80", "3", "neither table"),
    "ai21labs__AI21-Jamba-1.5-Mini": ("52", "12", "all"),
    "deepseek-ai__DeepSeek-V3": ("671", "37", "no input"),
    "deepseek-ai__DeepSeek-R1": ("671", "37", "no input"),
    "meta-llama__Llama-4-Scout-17B-16E-Instruct": ("109", "17", "all"),
    "mistralai__Mixtral-8x7B-v0.1": ("46.7", "12.9", "all"),
    "moonshotai__Kimi-K2-Instruct": ("1000", "32", "no input"),
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("31.6", "3.6", "all"),
    "openai__gpt-oss-120b": ("117", "5.1", "no input"),
    "zai-org__GLM-4.5V": ("106", "12", "neither table"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts_come_out_in_the_publishers_convention(files: list[Path], name: str) -> None:
    model = architecture(read(CONFIGS / f"{name}.json"), name)
    said, active, convention = PUBLISHED[name]
    all_of_it = sum(model.active().values())
    ours = {
        "all": all_of_it,
        "no input": all_of_it - model.parameters()["embedding"],
        "neither table": model.non_embedding,
    }[convention]
    assert says(active, ours / 1e9)
    if name == "moonshotai__Kimi-K2-Instruct":
        assert 0.95e12 < total(model) < 1.05e12  # "1T"
    elif name == "meta-llama__Llama-4-Scout-17B-16E-Instruct":
        assert 107.5e9 < total(model) < 108e9  # 109 with the tower of the checkpoint, which the file leaves out
    else:
        assert says(said, total(model) / 1e9)
    if convention == "neither table" or name.startswith(("openai", "moonshotai")):
        assert model.notes


def says(text: str, value: float) -> bool:
    """Whether ``value`` is what ``text`` says, rounded or cut (Qwen3-30B-A3B's 3.35 is 3.3 to its publisher)."""
    unit = 10.0 ** -len(text.partition(".")[2])
    return float(text) - 0.501 * unit <= value < float(text) + unit


def test_the_671b_of_deepseek_has_14b_of_prediction_layers_apart(files: list[Path]) -> None:
    model = architecture(read(CONFIGS / "deepseek-ai__DeepSeek-V3.json"), "config.json")
    # The published checkpoint holds 685B: README of DeepSeek-V3, "671B of the main model and 14B of the MTP module".
    assert (total(model) + model.prediction) / 1e9 == pytest.approx(685, abs=1)
    assert model.prediction / 1e9 == pytest.approx(14, abs=0.6)
    # README_WEIGHTS.md: 11.5B without the shared embedding and head.
    assert (model.prediction - 2 * 129280 * 7168) / 1e9 == pytest.approx(11.5, abs=0.15)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("google__flan-t5-xxl", ("d_kv (64)", "feed_forward_proj ('relu')", "model_type")),
        ("openai-community__gpt2-xl", ("n_positions (1024)", "model_type")),
        (
            "tiiuae__falcon-7b",
            ("multi_query (True)", "new_decoder_architecture", "parallel_attn", "model_type"),
        ),
        ("bigscience__bloom-7b1", ("model_type",)),
    ],
)
def test_a_reduced_file_names_its_missing_keys(files: list[Path], name: str, missing: tuple[str, ...]) -> None:
    notes = " ".join(architecture(read(CONFIGS / f"{name}.json"), f"{name}.json").notes)
    assert notes.startswith(f"missing from {name}.json")
    for key in missing:
        assert key in notes
