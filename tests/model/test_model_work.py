"""Work of a step by hand arithmetic: windows, cached prefixes, tied heads."""

from __future__ import annotations

import numpy as np
import pytest

from phasewise.model import work
from phasewise.model.architecture import Architecture, Attention, Block, Mlp, Pass
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.model import Model, bytes_in


def model(window: int | None = None, tied: bool = True) -> Model:
    block = Block(
        mixer=Attention(heads=4, kv_heads=2, head_dim=8, window=window),
        mlp=Mlp(intermediate=64),
        norm_weights=64,
        count=3,
    )
    shape = Architecture(family="x", hidden=32, vocab=100, tied=tied, blocks=(block,), final_norm=32)
    return Model(
        name="x",
        source="by hand",
        architecture=shape,
        weight_bytes=bytes_in(shape, WEIGHTS["bf16"]),
        weights_format="bf16",
        compute=("bf16",),
        kv_format="bf16",
        kv_element_bytes=2.0,
    )


@pytest.mark.parametrize(
    ("tokens", "past", "window"), [(10, 0, None), (10, 0, 4), (10, 3, 4), (10, 7, 4), (3, 0, 4), (5, 9, 100)]
)
def test_pairs_are_what_a_loop_counts(tokens: int, past: int, window: int | None) -> None:
    attention = Attention(heads=1, kv_heads=1, head_dim=1, window=window)
    # The midpoint of each query's token: the product leaves out half the diagonal, as the published counts do.
    steps = 1000
    positions = (np.arange(tokens * steps) + 0.5) / steps + past
    counted = np.minimum(positions, window or np.inf).sum() / steps
    assert float(attention.pairs(Pass(float(tokens), float(past)))) == pytest.approx(counted, rel=1e-9)


@pytest.mark.parametrize("window", [None, 16])
def test_a_cached_prefix_and_the_rest_are_the_whole(window: int | None) -> None:
    whole, rest, first = (work.prefill(model(window), *args) for args in ((50.0,), (50.0, 1.0, 20.0), (20.0,)))
    assert float(whole.attention_flops) == pytest.approx(float(rest.attention_flops) + float(first.attention_flops))
    # Written once per token: 3 layers · 2 (K, V) · 2 heads · 8 · 2 bytes; the cached tokens in reach are read.
    per_token = 3 * 2 * 2 * 8 * 2
    assert float(whole.kv_bytes) == 50 * per_token
    assert float(rest.kv_bytes) == (30 + min(20, window or 20)) * per_token


def test_decode_reads_a_tied_head_once_and_a_window_at_most() -> None:
    parameters = model().architecture.parameters()
    assert model().resident_bytes == 2 * sum(parameters.values())
    assert work.decode(model(), 10.0).weight_bytes == 2 * sum(parameters.values())
    untied = model(tied=False)
    assert work.decode(untied, 10.0).weight_bytes == untied.resident_bytes - 2 * 100 * 32
    assert float(work.decode(model(16), 1000.0).kv_bytes) == float(work.decode(model(), 16.0).kv_bytes)


def test_gemma_2_decode_stops_growing_in_half_of_its_layers() -> None:
    gemma = load("gemma-2-2b")
    # 26 layers · 2 (K, V) · 4 heads · 256 · 2 bytes: all of it up to 4,096 tokens, then half.
    per_token = 26 * 2 * 4 * 256 * 2
    assert float(work.decode(gemma, 4096.0).kv_bytes) == 4096 * per_token
    assert float(work.decode(gemma, 8192.0).kv_bytes) == (4096 + 8192) / 2 * per_token
