"""Dense decoders that differ from Llama in a norm, a bias or the MLP: one line each.

Keys and defaults: SmolLM3Config, SeedOssConfig, Ernie4_5Config, HunYuanDenseV1Config, Exaone4Config, GlmConfig,
Glm4Config, NemotronConfig and OlmoConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import LAYERS, Keys


def _smollm3(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "smollm3", tied=True, qkv_bias=bias, output_bias=bias, mlp_bias=keys.flag("mlp_bias"))


def _seed_oss(keys: Keys) -> Architecture:
    return decoder(
        keys,
        "seed-oss",
        tied=False,
        qkv_bias=keys.flag("attention_bias", True),
        output_bias=keys.flag("attention_out_bias"),
        mlp_bias=keys.flag("mlp_bias"),
        head_dim=128,
    )


def _ernie(keys: Keys) -> Architecture:
    bias = keys.flag("use_bias")
    return decoder(keys, "ernie-4.5", tied=True, qkv_bias=bias, output_bias=bias, mlp_bias=bias, head_dim=128)


def _hunyuan(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "hunyuan", tied=False, qkv_bias=bias, output_bias=bias, qk_norm="per head")


def _exaone4(keys: Keys) -> Architecture:
    return decoder(keys, "exaone-4", tied=False, windows=_pattern, qk_norm="per head")


def _pattern(keys: Keys, layers: int) -> Windows:
    period = keys.get("sliding_window_pattern")
    # "LLLG" is three local layers and a global one.
    every = len(period) if isinstance(period, str) else keys.optional("sliding_window_pattern", LAYERS, least=0)
    every = 4 if every is None else every
    return sliding(keys, layers, lambda layer: every > 0 and (layer + 1) % every != 0, absent=4096)


def _glm(keys: Keys) -> Architecture:
    return decoder(keys, "glm-4", tied=False, qkv_bias=keys.flag("attention_bias", True), head_dim=128)


def _glm4(keys: Keys) -> Architecture:
    return decoder(keys, "glm-4-0414", tied=False, qkv_bias=keys.flag("attention_bias", True), head_dim=128, norms=4)


def _nemotron(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(
        keys,
        "nemotron",
        tied=False,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=keys.flag("mlp_bias"),
        gated=False,
        norm_bias=True,
    )


def _olmo(keys: Keys) -> Architecture:
    # Its norms have no weights.
    bias = keys.flag("attention_bias")
    return decoder(keys, "olmo", tied=False, qkv_bias=bias, output_bias=bias, norms=0, final_norm=0)


SMOLLM3 = Family(name="smollm3", model_types=("smollm3",), classes=("SmolLM3ForCausalLM",), build=_smollm3)
SEED_OSS = Family(name="seed-oss", model_types=("seed_oss",), classes=("SeedOssForCausalLM",), build=_seed_oss)
ERNIE = Family(name="ernie-4.5", model_types=("ernie4_5",), classes=("Ernie4_5ForCausalLM",), build=_ernie)
HUNYUAN = Family(
    name="hunyuan", model_types=("hunyuan_v1_dense",), classes=("HunYuanDenseV1ForCausalLM",), build=_hunyuan
)
EXAONE4 = Family(name="exaone-4", model_types=("exaone4",), classes=("Exaone4ForCausalLM",), build=_exaone4)
GLM = Family(name="glm-4", model_types=("glm",), classes=("GlmForCausalLM",), build=_glm)
GLM4 = Family(name="glm-4-0414", model_types=("glm4",), classes=("Glm4ForCausalLM",), build=_glm4)
NEMOTRON = Family(name="nemotron", model_types=("nemotron",), classes=("NemotronForCausalLM",), build=_nemotron)
OLMO = Family(name="olmo", model_types=("olmo",), classes=("OlmoForCausalLM",), build=_olmo)
