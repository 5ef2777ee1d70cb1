"""Models and spreads that several test files of parallelism share. MoE and MLA shapes are written by hand."""

from __future__ import annotations

import msgspec

from phasewise.hardware import catalogue
from phasewise.model.architecture import Architecture, Block
from phasewise.model.feedforward.moe import Moe
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.mixers.attention import Attention
from phasewise.model.mixers.latent import Latent
from phasewise.model.model import Model, bytes_in
from phasewise.predict.parallel import link
from phasewise.predict.parallel.layout import layout
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import Roof, roofs


def model(shape: Architecture, weights: str = "bf16") -> Model:
    return Model(
        name=shape.family,
        source="by hand",
        architecture=shape,
        weight_bytes=bytes_in(shape, WEIGHTS[weights]),
        weights_format=weights,
        compute=WEIGHTS[weights].compute,
        kv_format="bf16",
        kv_element_bytes=2.0,
    )


def mixtral() -> Model:
    """Mixtral 8x7B: 8 experts of 14336, 2 chosen; 32 heads over 8 KV heads of 128."""
    block = Block(
        mixer=Attention(heads=32, kv_heads=8, head_dim=128),
        mlp=Moe(experts=8, chosen=2, intermediate=14336),
        norm_weights=2 * 4096,
        count=32,
    )
    return model(Architecture(family="mixtral", hidden=4096, vocab=32000, tied=False, blocks=(block,), final_norm=4096))


def deepseek() -> Model:
    """The MoE layers of DeepSeek-V3: MLA, 256 experts of 2048, 8 chosen, one shared."""
    block = Block(
        mixer=Latent(heads=128, q_rank=1536, kv_rank=512, nope=128, rope=64, value=128),
        mlp=Moe(experts=256, chosen=8, intermediate=2048, shared=2048),
        norm_weights=2 * 7168,
        count=58,
    )
    return model(
        Architecture(family="deepseek", hidden=7168, vocab=129280, tied=False, blocks=(block,), final_norm=7168)
    )


def roof(one: Model, accelerator: str) -> Roof:
    return roofs(one, catalogue.machine(catalogue.find(accelerator)))[0]


def spread(name: str | Model, accelerator: str = "h100-sxm", *, weights: str | None = None, **parts: object) -> Spread:
    """``name`` on as many devices as ``layout(**parts)`` takes, joined by the accelerator's own link."""
    one = load(name, weights) if isinstance(name, str) else name
    joined = link.of(catalogue.machine(catalogue.find(accelerator)))
    return Spread(one, layout(**parts), roof(one, accelerator), joined)  # type: ignore[arg-type]


def without_latency(one: Spread) -> Spread:
    """The same over a link whose messages cost their bytes alone."""
    assert one.link is not None
    return Spread(one.model, one.layout, one.roof, msgspec.structs.replace(one.link, latencies={}))
