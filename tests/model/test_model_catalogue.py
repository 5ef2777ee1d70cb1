"""The catalogue: every row counts, has a source, and is found by its names only."""

from __future__ import annotations

import pytest

from phasewise.errors import UsageError
from phasewise.model import catalogue
from phasewise.model.config import architecture

# Exact: transformers 5.24.0 on the meta device from the rows' own keys, as in test_model_config.py. Beside it, in
# billions, the size on the model's public page (from memory): a wrong shape or tie would miss it.
TOTALS: dict[str, tuple[int, float | None]] = {
    "llama-2-7b": (6_738_415_616, 6.74),
    "llama-2-13b": (13_015_864_320, 13.0),
    "llama-2-70b": (68_976_648_192, 69.0),
    "llama-3-8b": (8_030_261_248, 8.03),
    "llama-3-70b": (70_553_706_496, 70.6),
    "llama-3.1-8b": (8_030_261_248, 8.03),
    "llama-3.1-70b": (70_553_706_496, 70.6),
    "llama-3.1-405b": (405_853_388_800, 406),
    "llama-3.2-1b": (1_235_814_400, 1.23),
    "llama-3.2-3b": (3_212_749_824, 3.21),
    "llama-3.3-70b": (70_553_706_496, 70.6),
    "codellama-7b": (6_738_546_688, 6.74),
    "codellama-13b": (13_016_028_160, 13.0),
    "codellama-34b": (33_744_232_448, 33.7),
    "tinyllama-1.1b": (1_100_048_384, 1.10),
    "yi-1.5-34b": (34_388_917_248, 34.4),
    "smollm2-135m": (134_515_008, 0.135),
    "smollm2-360m": (361_821_120, 0.362),
    "mistral-7b-v0.1": (7_241_732_096, 7.24),
    "mistral-7b-v0.2": (7_241_732_096, 7.24),
    "mistral-7b-v0.3": (7_248_023_552, 7.25),
    "mistral-nemo-12b": (12_247_782_400, 12.2),
    "qwen2-0.5b": (494_032_768, 0.494),
    "qwen2-1.5b": (1_543_714_304, 1.54),
    "qwen2-7b": (7_615_616_512, 7.62),
    "qwen2-72b": (72_706_203_648, 72.7),
    "qwen2.5-0.5b": (494_032_768, 0.494),
    "qwen2.5-1.5b": (1_543_714_304, 1.54),
    "qwen2.5-3b": (3_085_938_688, 3.09),
    "qwen2.5-7b": (7_615_616_512, 7.62),
    "qwen2.5-14b": (14_770_033_664, 14.8),
    "qwen2.5-32b": (32_763_876_352, 32.8),
    "qwen2.5-72b": (72_706_203_648, 72.7),
    "qwen3-0.6b": (596_049_920, 0.6),
    "qwen3-1.7b": (1_720_574_976, 1.72),
    "qwen3-4b": (4_022_468_096, 4.02),
    "qwen3-8b": (8_190_735_360, 8.19),
    "qwen3-14b": (14_768_307_200, 14.8),
    "qwen3-32b": (32_762_123_264, 32.8),
    "phi-3-mini-4k": (3_821_079_552, 3.82),
    "phi-3-medium-4k": (13_960_238_080, 14.0),
    "phi-3.5-mini": (3_821_079_552, 3.82),
    "phi-4": (14_659_507_200, 14.7),
    "phi-4-mini": (3_836_021_760, 3.84),
    "gemma-2b": (2_506_172_416, 2.51),
    "gemma-7b": (8_537_680_896, 8.54),
    "gemma-2-2b": (2_614_341_888, 2.61),
    "gemma-2-9b": (9_241_705_984, 9.24),
    "gemma-2-27b": (27_227_128_320, 27.2),
    "gemma-3-1b": (999_885_952, 1.00),
    "olmo-2-7b": (7_298_617_344, 7.30),
    "olmo-2-32b": (32_234_279_936, 32.2),
    "starcoder2-7b": (7_173_923_840, 7.17),
    "mixtral-8x7b": (46_702_792_704, 46.7),
    "qwen3-30b-a3b": (30_532_122_624, 30.5),
    "qwen3-235b-a22b": (235_093_634_560, 235),
    "qwen3-coder-480b-a35b": (480_154_875_392, 480),
    "qwen3-next-80b-a3b": (79_674_391_296, 80),
    "qwen3.5-27b": (26_895_998_464, 27),
    "qwen3.5-35b-a3b": (34_660_610_688, 35),
    "qwen3.5-397b-a17b": (396_346_350_336, 397),
    "qwen2.5-vl-7b": (7_615_616_512, 7.62),
    "deepseek-v3": (671_026_404_352, 671),
    "deepseek-r1": (671_026_404_352, 671),
    "deepseek-v4-flash": (284_332_230_231, None),
    "deepseek-v4-pro": (1_572_997_179_491, None),
    "kimi-k2": (1_026_408_209_408, None),
    "minimax-m3": (426_174_565_632, None),
    "gpt-oss-120b": (116_829_156_672, 117),
    "llama-4-scout": (107_769_861_120, 107.8),
    "nemotron-3-nano-30b-a3b": (31_577_937_344, 31.6),
    "jamba-1.5-mini": (51_570_323_328, 52),
    "falcon-mamba-7b": (7_272_665_088, 7.27),
    "opt-13b": (12_853_473_280, 12.9),
    "gpt-j-6b": (6_050_882_784, 6.05),
    "gpt2": (124_439_808, 0.124),
    "bart-large-cnn": (406_290_432, 0.406),
    "whisper-tiny": (37_760_640, 0.0378),
}


def test_the_table_and_the_catalogue_have_the_same_names() -> None:
    assert [row.name for row in catalogue.rows()] == list(TOTALS)


@pytest.mark.parametrize("name", TOTALS)
def test_each_row_counts_exactly(name: str) -> None:
    row = catalogue.find(name)
    assert row is not None
    total = sum(architecture(row.config, name).parameters().values())
    exact, published = TOTALS[name]
    assert total == exact
    assert published is None or total / 1e9 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    # By hand: 2 (K, V) · layers · KV heads · head_dim · 2 bytes.
    [
        ("llama-3-8b", 2 * 32 * 8 * 128 * 2),
        ("llama-3-70b", 2 * 80 * 8 * 128 * 2),
        ("qwen2.5-7b", 2 * 28 * 4 * 128 * 2),
        ("gemma-2b", 2 * 18 * 1 * 256 * 2),
        ("mistral-nemo-12b", 2 * 40 * 8 * 128 * 2),
        ("smollm2-135m", 2 * 30 * 3 * 64 * 2),
        # Latent: 61 layers of 512 + 64; windows alternate; two layers in eight attend; three linear to one full.
        ("deepseek-v3", 61 * 576 * 2),
        ("gpt-oss-120b", 2 * 36 * 8 * 64 * 2),
        ("jamba-1.5-mini", 2 * 4 * 8 * 128 * 2),
        ("qwen3-next-80b-a3b", 2 * 12 * 2 * 256 * 2),
        ("falcon-mamba-7b", 0),
    ],
)
def test_kv_bytes_per_token(name: str, kv_bytes: int) -> None:
    from phasewise.model.load import load

    assert load(name).kv_bytes_per_token == kv_bytes


def test_every_row_has_a_source_and_no_name_means_two_models() -> None:
    names = [name.casefold() for row in catalogue.rows() for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    for row in catalogue.rows():
        assert any(mark in row.source for mark in (".py", ".json", ".md")), row.name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("META-LLAMA/meta-llama-3-8b-instruct", "llama-3-8b"),
        ("LLaMA-3-8B", "llama-3-8b"),
        ("llama3-8b", "llama-3-8b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
    ],
)
def test_aliases_in_any_case(alias: str, name: str) -> None:
    row = catalogue.find(alias)
    assert row is not None
    assert row.name == name


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("llama-3", "llama-3-8b, llama-3-70b"),
        ("llama-3-8", "llama-3-8b"),
        ("lama-3-8b", "llama-3-8b"),
        ("qwen3", "qwen3-0.6b"),
    ],
)
def test_part_of_a_name_or_a_typo_gets_the_nearest_names_never_a_guess(text: str, near: str) -> None:
    assert catalogue.find(text) is None
    assert near in str(catalogue.unknown(text))


@pytest.mark.parametrize("text", ["", "zzz", "a\x1b[31m\nb", "x" * 10_000])
def test_a_name_nobody_knows(text: str) -> None:
    error = catalogue.unknown(text)
    assert type(error) is UsageError
    assert "phasewise models" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 250
