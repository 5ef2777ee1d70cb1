"""What fits in memory, against arithmetic done here by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.hardware import catalogue
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.predict import memory
from phasewise.record.machine import Machine
from published_models import MIXTRAL, from_keys

GIB = 2.0**30
NAMES = ("llama-3-8b", "gemma-3-1b", "qwen2.5-0.5b")
MODELS = {name: load(name) for name in NAMES} | {"mixtral": from_keys(MIXTRAL)}


def machine(name: str = "h100-sxm", devices: int = 1) -> Machine:
    return catalogue.machine(catalogue.find(name), devices)


def test_llama_3_8b_on_h100_by_hand() -> None:
    # 90% of 79.65 GiB; 16.06 GB of weights; 32 layers × 8 heads × 128 × 2 × 2 B of KV a token; activations of 2,300
    # tokens: 2 B × (2 × 4,096 + 3 × 14,336), and 6 B × 128,256 of logits a request.
    room = 0.9 * 79.65 * GIB - 8_030_261_248 * 2 - 2300 * 2 * (2 * 4096 + 3 * 14336)
    each = 131_072 * 2300 + 6 * 128_256
    found = memory.fits(load("llama-3-8b"), machine(), 2300)
    assert found is not None
    assert found.largest_batch == int(room // each) == 200
    assert found.weights_bytes == 8_030_261_248 * 2
    assert found.kv_bytes == 200 * 131_072 * 2300
    assert found.kv_bytes_per_request == 131_072 * 2300
    assert found.activation_bytes == 2300 * 2 * (2 * 4096 + 3 * 14336) + 200 * 6 * 128_256
    assert (found.step_tokens, found.least_devices, found.state_bytes) == (2300, 1, 0)
    assert found.memory_bytes.value == pytest.approx(79.65 * GIB)
    assert (found.memory_bytes.provenance, found.usable_share.provenance) == ("datasheet", "assumed")


def test_weights_too_large_say_how_many_devices_they_need() -> None:
    model = load("llama-3-70b")
    found = memory.fits(model, machine(), 2300)
    assert found is not None
    assert (found.largest_batch, found.kv_bytes) == (0, 0)
    # 141.1 GB of weights over 77.0 GB usable of each.
    assert found.least_devices == 2
    enough = memory.fits(model, machine(devices=2), 2300)
    assert enough is not None
    assert enough.largest_batch > 0


def test_a_chunk_bounds_the_activations_of_a_long_prompt() -> None:
    assert memory.step_tokens(100_000.0, 3.0) == 8192
    assert memory.step_tokens(100.0, 3.0) == 100
    assert memory.step_tokens(100.0, 300.0) == 300


def test_layers_with_a_window_hold_no_more_than_it() -> None:
    model = load("gemma-3-1b")
    full, windowed = 4, 22  # of 26 layers every sixth is full; 1 KV head of 256; windows of 512
    each = 2 * 256 * 2
    assert memory.held_kv(model, 400.0) == 26 * each * 400
    assert memory.held_kv(model, 10_000.0) == each * (full * 10_000 + windowed * 512)


def test_experts_make_the_widest_part_of_a_mixture() -> None:
    # Two experts' gate, up and product (3 × 14,336 each) and outputs, the router's 8; the residual and its copy.
    found = memory.activations(MODELS["mixtral"], 1.0, 0.0)
    assert found == 2 * (2 * 4096 + 2 * (3 * 14336 + 4096) + 8)


def test_an_unknown_memory_is_not_guessed() -> None:
    unknown = msgspec.structs.replace(machine(), memory_bytes=None)
    assert memory.fits(load("llama-3-8b"), unknown, 100) is None
    assert memory.usable(unknown) is None


@given(st.sampled_from(sorted(MODELS)), st.integers(1, 500_000), st.floats(1e9, 1e13))
def test_the_largest_batch_fits_and_one_more_does_not(name: str, context: int, room: float) -> None:
    model = MODELS[name]
    batch = float(memory.largest_batch(model, room, float(context)))
    slack = 1e-9 * room
    if batch:
        assert memory.needed(model, float(context), batch) <= room + slack
    assert memory.needed(model, float(context), batch + 1) > room - slack


@given(st.sampled_from(sorted(MODELS)), st.integers(1, 100_000), st.integers(1, 100_000), st.integers(1, 1000))
def test_more_context_or_more_requests_never_need_less(name: str, context: int, more: int, batch: int) -> None:
    model = MODELS[name]
    least = memory.needed(model, float(context), float(batch))
    assert memory.needed(model, float(context + more), float(batch)) >= least
    assert memory.needed(model, float(context), float(batch + 1)) > least


def test_an_array_of_contexts_is_answered_in_one_call() -> None:
    model: Model = load("llama-3-8b")
    contexts = np.array([100.0, 2300.0, 1e9])
    found = memory.largest_batch(model, memory.usable(machine()) or 0.0, contexts)
    alone = [float(memory.largest_batch(model, memory.usable(machine()) or 0.0, float(c))) for c in contexts]
    assert found.tolist() == alone
    assert found[1] == 200
    assert found[2] == 0
