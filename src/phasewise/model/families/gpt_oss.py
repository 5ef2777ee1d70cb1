"""gpt-oss: alternating windows, sinks, biases, and experts in MXFP4.

Keys and defaults: GptOssConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, architecture, attention, layers, sliding
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import Keys


def _gpt_oss(keys: Keys) -> Architecture:
    moe = experts(
        keys,
        count="num_local_experts",
        intermediate="intermediate_size",
        bias=True,
        router_extra=keys.count("num_local_experts", 100_000),
    )
    bias, hidden = keys.flag("attention_bias", True), keys.count("hidden_size")
    windows = sliding(keys, layers(keys), lambda layer: layer % 2 == 0, absent=128)
    stacked = [
        (attention(keys, qkv_bias=bias, output_bias=bias, head_dim=64, window=window, sinks=True), moe, 2 * hidden)
        for window in windows
    ]
    return architecture(keys, "gpt-oss", list(stacked), tied=False)


def _convention(shape: Architecture) -> str:
    active = sum(shape.active().values()) - shape.parameters()["embedding"]
    return f"the publisher's active count leaves out the input embedding: {active / 1e9:.2f}e9"


GPT_OSS = Family(
    name="gpt-oss",
    model_types=("gpt_oss",),
    classes=("GptOssForCausalLM",),
    build=_gpt_oss,
    kinds=(MOE,),
    convention=_convention,
    gguf=("gpt-oss",),
    full_every=2,
)
