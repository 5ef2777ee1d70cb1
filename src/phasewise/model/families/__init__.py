"""The families of models that can be counted: one file each, listed here."""

from phasewise.model.families.family import Family
from phasewise.model.families.gemma import GEMMA, GEMMA2, GEMMA3
from phasewise.model.families.llama import GRANITE, LLAMA
from phasewise.model.families.mistral import MINISTRAL3, MISTRAL
from phasewise.model.families.olmo import OLMO2, OLMO3
from phasewise.model.families.phi3 import PHI3
from phasewise.model.families.qwen import QWEN2, QWEN2_VL, QWEN3, QWEN3_VL
from phasewise.model.families.starcoder2 import STARCODER2

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    GRANITE,
    MISTRAL,
    MINISTRAL3,
    QWEN2,
    QWEN2_VL,
    QWEN3,
    QWEN3_VL,
    PHI3,
    GEMMA,
    GEMMA2,
    GEMMA3,
    OLMO2,
    OLMO3,
    STARCODER2,
)
"""Adding a family: its file, its line here, its test, its line in docs/models.md."""

BY_MODEL_TYPE = {key: family for family in FAMILIES for key in family.model_types}
BY_CLASS = {key: family for family in FAMILIES for key in family.classes}
BY_GGUF = {key: family for family in FAMILIES for key in family.gguf}
