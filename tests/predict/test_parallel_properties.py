"""What must hold for any layout, batch and link."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_models import deepseek, mixtral, spread

from phasewise.model.model import Model
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.share import share
from phasewise.predict.parallel.spread import Spread
from reference import llama_3_8b

MODELS: dict[str, Model] = {"llama": llama_3_8b(), "mixtral": mixtral(), "deepseek": deepseek()}
names = st.sampled_from(list(MODELS))
powers = st.sampled_from([1, 2, 4, 8])
batches = st.integers(1, 300).map(float)
contexts = st.integers(0, 100_000).map(float)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Model, Layout]:
    model = MODELS[draw(names)]
    tp, dp, pp = draw(powers), draw(powers), draw(st.integers(1, 16))
    ep = draw(powers) if model.architecture.family != "llama" else 1
    ep = ep if (tp * dp) % ep == 0 else 1
    return model, Layout(tp=tp, dp=dp, pp=pp, ep=ep, head=draw(st.sampled_from(["sharded", "replicated"])))


def over(model: Model, layout: Layout) -> Spread:
    one = spread(model)
    return Spread(model, layout, one.roof, one.link)


@given(names, powers, powers, st.sampled_from(["sharded", "replicated"]))
def test_more_devices_never_raise_what_one_holds(name: str, few: int, times: int, head: str) -> None:
    model = MODELS[name]
    small, large = (share(model, Layout(tp=n, head=head)) for n in (few, min(32, few * times)))  # type: ignore[arg-type]
    assert large.resident_bytes <= small.resident_bytes
    assert large.kv_bytes_per_token <= small.kv_bytes_per_token
    assert all(large.weight_bytes[role] <= small.weight_bytes[role] for role in model.weight_bytes)
    assert large.resident_bytes >= model.resident_bytes / min(32, few * times) * (1 - 1e-9)


@given(names, powers, powers, batches, contexts)
def test_more_devices_never_raise_what_one_reads(name: str, few: int, times: int, batch: float, past: float) -> None:
    model = MODELS[name]
    small, large = (over(model, Layout(tp=n)).decode(past, batch) for n in (few, min(32, few * times)))
    assert float(large.work.bytes) <= float(small.work.bytes) * (1 + 1e-12)
    assert float(large.work.flops) <= float(small.work.flops) * (1 + 1e-12)
    assert float(large.floor_s) <= float(small.floor_s) * (1 + 1e-12)


@settings(max_examples=50)
@given(layouts(), batches, contexts, st.floats(1.0, 100.0))
def test_a_faster_link_never_slows(case: tuple[Model, Layout], batch: float, past: float, factor: float) -> None:
    one = over(*case)
    assert one.link is not None
    rate = msgspec.structs.replace(one.link.rate, value=one.link.rate.value * factor)
    fast = Spread(one.model, one.layout, one.roof, msgspec.structs.replace(one.link, rate=rate))
    for step in (lambda s: s.decode(past, batch), lambda s: s.prefill(past + 1, batch)):
        assert float(step(fast).time_s) <= float(step(one).time_s) * (1 + 1e-12)


@settings(max_examples=50)
@given(layouts(), batches, contexts)
def test_all_devices_together_do_at_least_the_whole_work(case: tuple[Model, Layout], batch: float, past: float) -> None:
    model, layout = case
    step = over(model, layout).decode(past, batch)
    whole = over(model, Layout()).decode(past, batch)
    every = layout.stage * float(step.parts)
    assert every * float(step.work.flops) >= float(whole.work.flops) * (1 - 1e-6)
    assert every * float(step.work.kv_bytes) >= float(whole.work.kv_bytes) * (1 - 1e-9)
    assert 0 <= float(step.idle) < 1
    assert float(step.time_s) >= float(step.floor_s)


@settings(max_examples=50)
@given(layouts(), batches, contexts)
def test_a_larger_batch_is_never_faster(case: tuple[Model, Layout], batch: float, past: float) -> None:
    one = over(*case)
    stages = one.layout.pp * one.layout.dp
    assert float(one.decode(past, batch + stages).time_s) >= float(one.decode(past, batch).time_s) * (1 - 1e-9)


@given(layouts(), contexts)
def test_nothing_is_held_twice_within_a_group_but_what_is_named(case: tuple[Model, Layout], past: float) -> None:
    model, layout = case
    own = share(model, Layout(tp=layout.tp))
    for role in ("output", "mlp_in", "mlp_out", "experts"):
        if role in model.weight_bytes:
            assert own.weight_bytes[role] * layout.tp == pytest.approx(model.weight_bytes[role])
    for role in ("norm", "router"):
        if role in model.weight_bytes:
            assert own.weight_bytes[role] == model.weight_bytes[role]
