"""The reference case of the design, built by hand: Llama 3 8B, BF16, H100 SXM. Shared by several test files."""

from __future__ import annotations

from phasewise.model.architecture import Architecture, Attention, Block, Mlp
from phasewise.model.formats import WEIGHTS
from phasewise.model.model import Model, bytes_in
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity


def llama_3_8b() -> Model:
    hidden = 4096
    block = Block(
        mixer=Attention(heads=32, kv_heads=8, head_dim=128),
        mlp=Mlp(intermediate=14336),
        norm_weights=2 * hidden,
        count=32,
    )
    shape = Architecture(
        family="llama", hidden=hidden, vocab=128256, tied=False, blocks=(block,), final_norm=hidden, max_context=8192
    )
    return Model(
        name="llama-3-8b",
        source="by hand",
        architecture=shape,
        weight_bytes=bytes_in(shape, WEIGHTS["bf16"]),
        weights_format="bf16",
        compute=("bf16",),
        kv_format="bf16",
        kv_element_bytes=2.0,
    )


def h100() -> Machine:
    def rate(value: float, unit: str) -> Quantity:
        return Quantity(value=value, unit=unit, provenance="datasheet", source="datasheet")  # type: ignore[arg-type]

    ceilings = Ceilings(
        basis="datasheet",
        compute={"bf16": rate(989e12, "FLOP/s"), "fp8": rate(1978e12, "FLOP/s")},
        bandwidth=rate(3.35e12, "B/s"),
    )
    return Machine(name="h100-sxm", kind="gpu", ceilings=(ceilings,))


def reference_roof() -> Roof:
    return roofs(llama_3_8b(), h100())[0]
