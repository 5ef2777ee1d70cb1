"""Published figures: each is re-derived by the product from the inputs that its source states, and from the model's
real shape where that is known. What was measured stays a measurement: it may not lie under the floor."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from phasewise.hardware import catalogue
from phasewise.model import work
from phasewise.model.architecture import Architecture, Attention, Block, Mlp
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.model import Model, bytes_in
from phasewise.predict import memory, napkin
from phasewise.predict.roofline import decode_floor, prefill_floor, roofs
from phasewise.record.quantity import reported
from published_models import OPT_66B, all_in, from_keys, roof, stated

SHARED = Path(__file__).parents[3] / "shared" / "data" / "goldens.csv"


class Golden(NamedTuple):
    """A published figure.

    ``rounding`` is half a unit of the last digit published, with what the rounding of the inputs adds. ``stated`` is
    the product on the source's own inputs, ``real`` the product on the model's real shape, and ``within`` how far the
    two may be apart: 1% unless a comment beside the row says what the source left out.
    """

    name: str
    published: float
    rounding: float
    stated: Callable[[], float]
    real: Callable[[], float] | None = None
    within: float = 0.01


def palm() -> Model:
    """PaLM 540B: arXiv 2204.02311, table 1: 118 layers of 18,432, 48 heads of 256 with one KV head, SwiGLU, tied."""
    hidden = 18432
    block = Block(
        mixer=Attention(heads=48, kv_heads=1, head_dim=256),
        mlp=Mlp(intermediate=4 * hidden),
        norm_weights=hidden,
        count=118,
    )
    shape = Architecture(family="palm", hidden=hidden, vocab=256_000, tied=True, blocks=(block,), final_norm=hidden)
    return _model(shape)


def _model(shape: Architecture) -> Model:
    return Model(
        name=shape.family,
        source="by hand",
        architecture=shape,
        weight_bytes=bytes_in(shape, WEIGHTS["bf16"]),
        weights_format="bf16",
        compute=("bf16",),
        kv_format="bf16",
        kv_element_bytes=2.0,
    )


def pope(model: Model, *, batch: int, seconds: float, prompt: int = 0, steps: int = 0) -> float:
    """MFU in percent: 2·N·tokens over 64 TPU v4 (275 TFLOP/s each) and the time."""
    tpus = roofs(model, catalogue.machine(catalogue.find("tpu-v4"), 64))[0]
    done = napkin.prefill(model, tpus, prompt, batch) if prompt else napkin.decode(model, tpus, 0, batch)
    return 100 * done.compute_s * (1 if prompt else steps) / seconds


def thirteen(model: Model, batch: int) -> float:
    """Milliseconds of a decode step at 8,192 tokens of context on eight TPU v5e at 0.82 TB/s."""
    return 1e3 * napkin.decode(model, roof(bandwidth=8 * 0.82e12), 8192, batch).memory_s


def thirteen_stated() -> Model:
    return stated(13e9, kv_bytes_per_token=6.7e9 / 8192)


def mooncake(model: Model, peak: float, tokens: int = 8192, *, halved: bool = True) -> float:
    """GB/s at which fetching a prompt's KV takes as long as prefilling it, one layer as good as all.

    The published formula has no causal half: a prefill of N tokens after N/2 cached ones has its N² pairs.
    """
    step = work.prefill(model, tokens) if halved else work.prefill(model, 1.5 * tokens, cached=0.5 * tokens)
    flops = float(sum(op.flops for op in step.operations if op.name != "lm_head"))
    return float(memory.held_kv(model, float(tokens))) / (flops / peak) / 1e9


def mooncake_stated() -> Model:
    """Its layer: d = 8192, 8 query heads a KV head, weights of 11·d² (22·d² FLOPs a token)."""
    mixer, mlp = Attention(heads=64, kv_heads=8, head_dim=128), Mlp(intermediate=35_840, gated=False)
    block = Block(mixer=mixer, mlp=mlp, norm_weights=0, count=1)
    layer = sum(mixer.parameters(8192).values()) + sum(mlp.parameters(8192).values())
    assert layer == 11 * 8192**2
    return _model(Architecture(family="llama", hidden=8192, vocab=1, tied=True, blocks=(block,), final_norm=0))


def fresh_share() -> float:
    """The part of a prefill's math that a prompt of 608 tokens leaves when 342 of them are cached."""
    model = stated(37e9)
    return float(work.prefill(model, 608.0, cached=342.0).flops) / float(work.prefill(model, 608.0).flops)


def gptfast(model: Model, rate: float) -> float:
    """GB/s at ``rate`` tokens a second: the bytes of a step without the embedding, at the 208 tokens that its KV
    buffers hold (5 of prompt, 200 of answer)."""
    return float(work.decode(model, 208.0).bytes) * rate / 1e9


def int8_step(model: Model) -> float:
    """Milliseconds of a step of 32 requests of 8,192 tokens on eight TPU v5e at 0.81 TB/s, embedding left out."""
    return 1e3 * float(work.decode(model, 8192.0, 32.0).bytes) / (8 * 8.1e11)


GOLDENS = (
    # Inputs of the four are given to two or three digits (t = 0.29 s: ±1.7%).
    Golden(
        "pope-540b-lowlat-prefill-mfu",
        43,
        1.3,
        lambda: pope(stated(540e9), batch=1, prompt=2048, seconds=0.29),
        lambda: pope(palm(), batch=1, prompt=2048, seconds=0.29),
    ),
    Golden(
        "pope-540b-lowlat-decode-mfu",
        14,
        0.6,
        lambda: pope(stated(540e9), batch=64, steps=64, seconds=1.82),
        lambda: pope(palm(), batch=64, steps=64, seconds=1.82),
    ),
    Golden(
        "pope-540b-hithru-prefill-mfu",
        76,
        0.6,
        lambda: pope(stated(540e9), batch=512, prompt=2048, seconds=85.2),
        lambda: pope(palm(), batch=512, prompt=2048, seconds=85.2),
    ),
    Golden(
        "pope-540b-hithru-decode-mfu",
        33,
        0.8,
        lambda: pope(stated(540e9), batch=512, steps=64, seconds=6.0),
        lambda: pope(palm(), batch=512, steps=64, seconds=6.0),
    ),
    # "A 7B model in 16 bit": no model is named.
    Golden(
        "databricks-7b-mbu",
        50,
        0.5,
        lambda: 100 * napkin.decode(stated(7e9), roof(bandwidth=2e12), 0).memory_s / 0.014,
    ),
    Golden(
        "llama2-70b-kv-1024-fp16",
        0.312,
        0.0006,
        lambda: stated(kv_bytes_per_token=2 * 80 * 8 * 128 * 2).kv_bytes_per_token * 1024 / 2**30,
        lambda: float(memory.held_kv(load("llama-2-70b"), 1024.0)) / 2**30,
    ),
    *(
        Golden(
            f"scalingbook-13b-step-b{batch}",
            published,
            0.01,
            lambda batch=batch: thirteen(thirteen_stated(), batch),  # type: ignore[misc]
            lambda batch=batch: thirteen(load("llama-2-13b"), batch),  # type: ignore[misc]
        )
        for batch, published in ((1, 4.98), (8, 12.13), (16, 20.3), (32, 36.65), (64, 69.33), (240, 249.09))
    ),
    # 112e9 bytes: every weight in one byte, lm_head too, without the embedding; KV in one byte.
    Golden(
        "scalingbook-70b-int8-b32-step",
        17,
        0.5,
        lambda: int8_step(stated(70e9, weight_bytes=112e9)),
        lambda: int8_step(all_in(load("llama-3-70b", weights="int8", kv="int8"), "int8")),
    ),
    Golden(
        "scalingbook-70b-prefill-8192",
        0.91,
        0.005,
        lambda: napkin.prefill(stated(70e9), roof(16 * 1.97e14 * 0.4), 8192).compute_s,
        lambda: napkin.prefill(load("llama-3-70b"), roof(16 * 1.97e14 * 0.4), 8192).compute_s,
    ),
    # Published as 1.13 GB; 1.208e9 bytes are 1.125 GiB.
    Golden(
        "opt66b-kv-512",
        1.13,
        0.006,
        lambda: stated(kv_bytes_per_token=2 * 64 * 9216 * 2).kv_bytes_per_token * 512 / 2**30,
        lambda: float(memory.held_kv(from_keys(OPT_66B), 512.0)) / 2**30,
    ),
    # Llama-3-70B's layers cost 25.5·d² FLOPs a token (f = 28,672), the formula has 22·d²; and causal attention
    # 2·p·d, the formula 4·p·d. At p = d = 8,192 that is 27.5·d² against 26·d²: 5.5% less bandwidth breaks even,
    # 5.54 and 17.6 GB/s.
    Golden(
        "mooncake-breakeven-8xA800",
        6,
        0.5,
        lambda: mooncake(mooncake_stated(), 8 * 312e12, halved=False),
        lambda: mooncake(load("llama-3-70b"), 8 * 312e12),
        within=0.06,
    ),
    Golden(
        "mooncake-breakeven-8xH800",
        19,
        0.5,
        lambda: mooncake(mooncake_stated(), 8 * 989e12, halved=False),
        lambda: mooncake(load("llama-3-70b"), 8 * 989e12),
        within=0.06,
    ),
    # The rates were measured; the bytes are what is derived: 13.32 and 69.14 GB a token.
    Golden(
        "gptfast-llama2-7b-bf16-bw",
        1397.31,
        0.7,
        lambda: gptfast(stated(7e9, weight_bytes=13.32e9), 104.9),
        lambda: gptfast(load("llama-2-7b"), 104.9),
    ),
    Golden(
        "gptfast-llama2-70b-int8-bw",
        1322.58,
        0.4,
        lambda: gptfast(stated(70e9, weight_bytes=69.14e9), 19.13),
        lambda: gptfast(load("llama-2-70b", weights="int8"), 19.13),
    ),
    # Published is the measured rate, 132.05 tokens/s; derived are the 505 GB/s that it reads.
    Golden(
        "llamacpp-3090ti-7b-q4_0-tg128",
        132.05,
        0.1,
        lambda: 505e9 / napkin.decode(stated(weight_bytes=3_825_065_984), roof(), 0).bytes,
        lambda: 505e9 / load("llama-2-7b", weights="q4_0").resident_bytes,
    ),
    Golden("deepseek-prefill-uncached", 32.2, 0.1, lambda: 73.7 * fresh_share()),
    Golden(
        "deepseek-decode-per-gpu",
        1850,
        5,
        lambda: (
            reported(14_800, "token/s", "open-infra-index day 6")
            .over(reported(8, "1", "GPUs of a node"), unit="token/s", provenance="reported", source="per GPU")
            .value
        ),
    ),
)

REDERIVED = {
    "pope-540b-lowlat-prefill-mfu": 43.3,
    "pope-540b-lowlat-decode-mfu": 13.8,
    "pope-540b-hithru-prefill-mfu": 75.5,
    "pope-540b-hithru-decode-mfu": 33.5,
    "databricks-7b-mbu": 50.0,
    "llama2-70b-kv-1024-fp16": 0.3125,
    "scalingbook-13b-step-b1": 4.98,
    "scalingbook-13b-step-b8": 12.13,
    "scalingbook-13b-step-b16": 20.30,
    "scalingbook-13b-step-b32": 36.65,
    "scalingbook-13b-step-b64": 69.33,
    "scalingbook-13b-step-b240": 249.09,
    "scalingbook-70b-int8-b32-step": 17.28,
    "scalingbook-70b-prefill-8192": 0.9096,
    "opt66b-kv-512": 1.125,
    "mooncake-breakeven-8xA800": 5.86,
    "mooncake-breakeven-8xH800": 18.6,
    "gptfast-llama2-7b-bf16-bw": 1397.3,
    "gptfast-llama2-70b-int8-bw": 1322.6,
    "llamacpp-3090ti-7b-q4_0-tg128": 132.0,
    "deepseek-prefill-uncached": 32.24,
    "deepseek-decode-per-gpu": 1850,
}
"""What the inputs give to one digit more than was published."""


def floor_ms(what: str) -> float:
    """Milliseconds of Llama-2-70B's floor on eight H100 at the median of Splitwise's code (1,500 tokens in) or
    conversation (1,020 in, 129 out) requests; arXiv 2311.18677, section 3."""
    model = load("llama-2-70b")
    machine = roofs(model, catalogue.machine(catalogue.find("h100-sxm"), 8))[0]
    floor = prefill_floor(model, machine, 1500.0) if what == "prefill" else decode_floor(model, machine, 1020.0)
    return 1e3 * float(floor)


MEASURED: dict[str, tuple[float, Callable[[], float] | None]] = {
    "splitwise-llama70b-code-ttft": (95, lambda: floor_ms("prefill")),
    "splitwise-llama70b-conv-tbt": (28, lambda: floor_ms("decode")),
    "splitwise-bloom-1500-prefill-in-decode-steps": (6, None),
    "splitwise-tbt-ratio-b64-b1": (2, None),
    "distserve-13b-colocated-goodput": (1.6, None),
    "distserve-13b-prefill-only": (5.6, None),
    "distserve-13b-decode-only": (10, None),
}
"""Measurements, with the floor that they may not lie under where their source says enough for one."""


def named(goldens: tuple[Golden, ...]) -> list[object]:
    return [pytest.param(golden, id=golden.name) for golden in goldens]


@pytest.mark.parametrize("golden", named(GOLDENS))
def test_the_stated_inputs_give_the_published_figure(golden: Golden) -> None:
    assert golden.stated() == pytest.approx(golden.published, abs=golden.rounding)
    assert golden.stated() == pytest.approx(REDERIVED[golden.name], rel=2e-3)


@pytest.mark.parametrize("golden", named(tuple(golden for golden in GOLDENS if golden.real)))
def test_the_models_real_shape_gives_it_too(golden: Golden) -> None:
    assert golden.real is not None
    assert golden.real() == pytest.approx(golden.stated(), rel=golden.within)


def test_real_bytes_of_gpt_fast_are_those_it_moved() -> None:
    assert float(work.decode(load("llama-2-7b"), 208.0).bytes) == pytest.approx(1397.31e9 / 104.9, rel=5e-4)
    assert float(work.decode(load("llama-2-70b", weights="int8"), 208.0).bytes) == pytest.approx(
        1322.58e9 / 19.13, rel=3e-3
    )


def test_where_mooncakes_formula_and_the_model_part_by_hand() -> None:
    kv, d = 2 * 8192 / 8 * 2, 8192.0
    assert mooncake(load("llama-3-70b"), 8 * 312e12) == pytest.approx(8 * 312e12 * kv / (27.5 * d * d) / 1e9, rel=1e-3)
    assert mooncake(mooncake_stated(), 8 * 312e12, halved=False) == pytest.approx(
        8 * 312e12 * kv / (26 * d * d) / 1e9, rel=1e-9
    )


def test_palm_has_540_billion_parameters() -> None:
    assert palm().parameters == pytest.approx(540.35e9, rel=1e-3)


@pytest.mark.parametrize("name", [name for name, (_, floor) in MEASURED.items() if floor])
def test_a_measurement_is_not_under_the_floor(name: str) -> None:
    measured, floor = MEASURED[name]
    assert floor is not None
    assert measured / 20 < floor() < measured


def test_every_row_of_the_reference_is_here_once_with_its_figure() -> None:
    if not SHARED.exists():
        pytest.skip("skipped: no shared data")
    with SHARED.open(newline="") as lines:
        rows = {row["name"]: row for row in csv.DictReader(lines)}
    published = {golden.name: golden.published for golden in GOLDENS} | {name: m for name, (m, _) in MEASURED.items()}
    assert {name: float(row["published"]) for name, row in rows.items()} == published
    assert {name for name, row in rows.items() if not row["rederived"]} <= MEASURED.keys()
