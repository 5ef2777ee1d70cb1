"""Plans with plausible numbers: the reference case of phasewise at a stated efficiency."""

from __future__ import annotations

import msgspec

from phasewise.engines.simulated.plan import Plan


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, the flags of ``phasewise profile`` that say what it stands for, and where its numbers come from."""

    plan: Plan
    flags: str
    source: str


# Llama 3 8B, BF16, H100 SXM (989 TFLOP/s, 3.35 TB/s): 2 x 6.98e9 FLOP per token and 2·L·d = 262,144 FLOP per squared
# token at 70% MFU; a decode step reads 15.01 GB of weights and 131,072 bytes of KV per token of context at 85% MBU and
# computes 15.0 GFLOP per request at 70% MFU. The overheads (8 ms and 0.3 ms) make 50 ms and 5.7 ms at 2,000 tokens.
_H100 = Plan(
    model="llama-3-8b",
    max_context=8192,
    prefill_overhead_s=8e-3,
    prefill_per_token_s=20.2e-6,
    prefill_per_token2_s=3.79e-10,
    decode_overhead_s=5.57e-3,
    decode_per_request_s=21.7e-6,
    decode_per_context_token_s=46.0e-9,
)

PRESETS: dict[str, Preset] = {
    "h100-llama-3-8b": Preset(
        plan=_H100,
        flags="--model llama-3-8b --on h100-sxm",
        source="Llama 3 8B, BF16, one H100 SXM: prefill at 70% MFU, decode at 85% MBU, with CUDA graphs",
    ),
    # Weights of the matmuls at 4.5 bits, head in BF16: 4.98 GB at 75% MBU; dequantisation makes prefill 5% slower.
    "h100-llama-3-8b-int4": Preset(
        plan=msgspec.structs.replace(_H100, prefill_per_token_s=21.2e-6, decode_overhead_s=2.28e-3),
        flags="--model llama-3-8b --on h100-sxm --weights int4",
        source="the same with 4-bit weights: decode reads 5.0 GB at 75% MBU, prefill computes as before",
    ),
    # About 300 kernels per step at 40 µs of host time each hide the step's own 5.3 ms.
    "h100-llama-3-8b-eager": Preset(
        plan=msgspec.structs.replace(_H100, prefill_overhead_s=15e-3, decode_overhead_s=12.3e-3),
        flags="--model llama-3-8b --on h100-sxm",
        source="the same without CUDA graphs: a decode step waits 12 ms for kernel launches",
    ),
}
"""By the name that ``--like`` takes."""
