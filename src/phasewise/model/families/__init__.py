"""The families of models that can be counted: one file each, listed here."""

from phasewise.model.families.bart import BART, WHISPER
from phasewise.model.families.bloom import BLOOM
from phasewise.model.families.chatglm import CHATGLM
from phasewise.model.families.cohere import COHERE, COHERE2
from phasewise.model.families.deci import DECI
from phasewise.model.families.deepseek import DEEPSEEK, DEEPSEEK_V2, DEEPSEEK_V32, GLM_LITE, KIMI_K2
from phasewise.model.families.deepseek_v4 import DEEPSEEK_V4
from phasewise.model.families.falcon import FALCON
from phasewise.model.families.family import Family
from phasewise.model.families.gemma import GEMMA, GEMMA2, GEMMA3
from phasewise.model.families.gemma4 import GEMMA4
from phasewise.model.families.glm_moe import GLM_MOE
from phasewise.model.families.gpt2 import GPT2, GPT_BIGCODE, GPTJ
from phasewise.model.families.gpt_oss import GPT_OSS
from phasewise.model.families.jamba import JAMBA
from phasewise.model.families.kimi_linear import KIMI_LINEAR
from phasewise.model.families.llama import GRANITE, LLAMA
from phasewise.model.families.llama4 import LLAMA4
from phasewise.model.families.llama_like import (
    ERNIE,
    EXAONE4,
    GLM,
    GLM4,
    HUNYUAN,
    NEMOTRON,
    OLMO,
    SEED_OSS,
    SMOLLM3,
)
from phasewise.model.families.mamba import MAMBA, MAMBA2
from phasewise.model.families.mimo import MIMO
from phasewise.model.families.minimax import MINIMAX_M2, MINIMAX_M3
from phasewise.model.families.mistral import MINISTRAL3, MISTRAL
from phasewise.model.families.mixtral import MIXTRAL
from phasewise.model.families.mixtral_like import ERNIE_MOE, GRANITE_MOE, OLMOE, PHIMOE
from phasewise.model.families.mllama import MLLAMA
from phasewise.model.families.nemotron_h import NEMOTRON_H
from phasewise.model.families.neox import NEOX, PHI, STABLELM
from phasewise.model.families.olmo import OLMO2, OLMO3
from phasewise.model.families.opt import OPT
from phasewise.model.families.phi3 import PHI3
from phasewise.model.families.qwen import QWEN2, QWEN2_VL, QWEN3, QWEN3_VL
from phasewise.model.families.qwen_moe import QWEN2_MOE, QWEN3_MOE, QWEN3_VL_MOE
from phasewise.model.families.qwen_next import QWEN3_5, QWEN3_5_MOE, QWEN3_NEXT
from phasewise.model.families.rwkv import RWKV4, RWKV5
from phasewise.model.families.starcoder2 import STARCODER2
from phasewise.model.families.step import STEP
from phasewise.model.families.t5 import MT5, T5

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    GRANITE,
    MISTRAL,
    MINISTRAL3,
    MIXTRAL,
    QWEN2,
    QWEN2_VL,
    QWEN2_MOE,
    QWEN3,
    QWEN3_VL,
    QWEN3_MOE,
    QWEN3_VL_MOE,
    QWEN3_NEXT,
    QWEN3_5,
    QWEN3_5_MOE,
    PHI3,
    GEMMA,
    GEMMA2,
    GEMMA3,
    OLMO2,
    OLMO3,
    STARCODER2,
    DEEPSEEK_V2,
    DEEPSEEK,
    DEEPSEEK_V32,
    DEEPSEEK_V4,
    KIMI_K2,
    KIMI_LINEAR,
    GLM_MOE,
    GPT_OSS,
    LLAMA4,
    MLLAMA,
    MINIMAX_M2,
    MINIMAX_M3,
    NEMOTRON_H,
    DECI,
    JAMBA,
    MAMBA,
    MAMBA2,
    RWKV4,
    RWKV5,
    COHERE,
    COHERE2,
    CHATGLM,
    FALCON,
    BLOOM,
    OPT,
    NEOX,
    PHI,
    STABLELM,
    GPT2,
    GPT_BIGCODE,
    GPTJ,
    SMOLLM3,
    SEED_OSS,
    ERNIE,
    ERNIE_MOE,
    HUNYUAN,
    EXAONE4,
    GLM,
    GLM4,
    GLM_LITE,
    NEMOTRON,
    OLMO,
    OLMOE,
    PHIMOE,
    GRANITE_MOE,
    GEMMA4,
    MIMO,
    STEP,
    T5,
    MT5,
    BART,
    WHISPER,
)
"""Adding a family: its file, its line here, its test, its line in docs/models.md."""

BY_MODEL_TYPE = {key: family for family in FAMILIES for key in family.model_types}
BY_CLASS = {key: family for family in FAMILIES for key in family.classes}
BY_GGUF = {key: family for family in FAMILIES for key in family.gguf}
