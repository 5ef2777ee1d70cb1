"""Number formats of weights and KV cache: bytes per element, scales included.

Adding a format is one row. Sources of the byte counts: for integer and micro-scaling formats the element plus its share
of the block's scale (int4 in groups of 128 with a 2-byte scale: 0.5 + 2/128; MXFP4: 0.5 + 1/32; NVFP4: 0.5 + 1/16).
GGUF types are in ``gguf_types``: there the file itself says how many bytes each tensor takes.
"""

from __future__ import annotations

from typing import NamedTuple

from phasewise.errors import UsageError


class Format(NamedTuple):
    """A number format.

    ``compute`` lists the dtypes whose peak its matmuls can run at, best first: a weight-only format computes in 16 bit.
    ``keeps_head`` is True when embedding, lm_head and norms stay in 16 bit, as quantisers leave them.
    """

    name: str
    bytes_per_element: float
    compute: tuple[str, ...]
    keeps_head: bool = False


_SIXTEEN = ("bf16", "fp16", "fp32")

WEIGHTS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("fp32", 4.0, ("fp32",)),
        Format("bf16", 2.0, _SIXTEEN),
        Format("fp16", 2.0, ("fp16", "bf16", "fp32")),
        Format("fp8", 1.0, ("fp8", *_SIXTEEN), keeps_head=True),
        Format("int8", 1.0, ("int8", *_SIXTEEN), keeps_head=True),
        Format("int4", 0.5 + 2 / 128, _SIXTEEN, keeps_head=True),
        Format("mxfp4", 0.5 + 1 / 32, _SIXTEEN, keeps_head=True),
        Format("nvfp4", 0.5 + 1 / 16, ("fp4", *_SIXTEEN), keeps_head=True),
    )
}

KV: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "q8_0": 34 / 32,
    "q4_0": 18 / 32,
}

_ALIASES = {"f32": "fp32", "float32": "fp32", "bfloat16": "bf16", "f16": "fp16", "float16": "fp16", "w4a16": "int4"}


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
