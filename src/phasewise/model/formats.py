"""Number formats of weights and KV cache: bytes per element, scales included.

Adding a format is one row. Sources of the byte counts: the element plus its share of the block's scale. Integers in
groups carry a 16-bit scale, and a zero point of as many bits as an element where they are asymmetric (AWQ, GPTQ): int4
in groups of 128 is 0.5 + 2/128. FP8 in blocks of 128 × 128 has a 32-bit scale (DeepSeek-V3); MXFP4 an 8-bit exponent
for 32 elements (OCP MX 1.0); NVFP4 an 8-bit scale for 16. GGUF types are in ``gguf_types``: a file says how many bytes
each tensor takes.
"""

from __future__ import annotations

from typing import NamedTuple

from phasewise.errors import UsageError
from phasewise.model.gguf_types import TYPES


class Format(NamedTuple):
    """A number format.

    ``compute`` lists the dtypes whose peak its matmuls can run at, best first: a weight-only format computes in 16 bit.
    ``keeps_head`` is True when embedding, lm_head, norms and routers stay in 16 bit, as quantisers leave them.
    """

    name: str
    bytes_per_element: float
    compute: tuple[str, ...]
    keeps_head: bool = False


SIXTEEN = ("bf16", "fp16", "fp32")

GGUF_QUANTISED = ("int8", "fp16", "bf16", "fp32")
"""llama.cpp turns activations into 8-bit blocks and takes integer dot products with quantised weights (CPUs, and GPUs
with integer tensor cores or dp4a); for large batches some GPU back ends dequantise to fp16 instead."""


def grouped(bits: int, group: int, *, zeros: bool, scale: float = 2.0) -> Format:
    """Weight-only integers of ``bits`` bits, with a scale (and a zero point of as many bits) for each group.

    A ``group`` of 0 is a whole row of thousands of weights, whose one scale does not show.
    """
    share = (scale + (bits / 8 if zeros else 0.0)) / group if group > 0 else 0.0
    name = f"int{bits}" if group in (0, 128) and not zeros else f"int{bits}-g{group}" + ("-zeros" if zeros else "")
    return Format(name, bits / 8 + share, SIXTEEN, keeps_head=True)


FP8_BLOCK = Format("fp8-block", 1.0 + 4 / (128 * 128), ("fp8", *SIXTEEN), keeps_head=True)
"""A 32-bit scale for each block of 128 × 128."""

WEIGHTS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("fp32", 4.0, ("fp32",)),
        Format("bf16", 2.0, SIXTEEN),
        Format("fp16", 2.0, ("fp16", "bf16", "fp32")),
        Format("fp8", 1.0, ("fp8", *SIXTEEN), keeps_head=True),
        FP8_BLOCK,
        Format("mxfp8", 1.0 + 1 / 32, ("fp8", *SIXTEEN), keeps_head=True),
        Format("int8", 1.0, ("int8", *SIXTEEN), keeps_head=True),
        grouped(4, 128, zeros=False),
        grouped(4, 64, zeros=False),
        grouped(4, 32, zeros=False),
        grouped(4, 128, zeros=True)._replace(name="awq"),
        grouped(4, 128, zeros=True)._replace(name="gptq"),
        Format("mxfp4", 0.5 + 1 / 32, SIXTEEN, keeps_head=True),
        Format("nvfp4", 0.5 + 1 / 16, ("fp4", *SIXTEEN), keeps_head=True),
        Format("nf4", 0.5 + 4 / 64, SIXTEEN, keeps_head=True),
    )
} | {
    kind.name: Format(kind.name, kind.bytes / kind.block, GGUF_QUANTISED)
    for kind in TYPES.values()
    if kind.quantised and kind.name not in ("mxfp4", "nvfp4")
}

KV: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 / 64,
    "nvfp4": 0.5 + 1 / 16,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}

_ALIASES = {
    "f32": "fp32",
    "float32": "fp32",
    "bfloat16": "bf16",
    "f16": "fp16",
    "float16": "fp16",
    "w4a16": "int4",
    "int4-g128": "int4",
    "w8a8": "int8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}


def weights(name: str) -> Format:
    """The weight format called ``name``.

    Raises:
        UsageError: no such format; the known ones are listed.
    """
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in WEIGHTS:
        raise UsageError(f"--weights {name!r} is not a known format: use one of {', '.join(WEIGHTS)}.")
    return WEIGHTS[key]


def kv_bytes(name: str) -> tuple[str, float]:
    """The KV cache format called ``name`` and its bytes per element.

    Raises:
        UsageError: no such format; the known ones are listed.
    """
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in KV:
        raise UsageError(f"--kv {name!r} is not a known format: use one of {', '.join(KV)}.")
    return key, KV[key]
