"""The form of a step's time: hand arithmetic, limits, and properties."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.model.load import load as load_model
from phasewise.model.passes import Pass
from phasewise.predict import efficiency
from phasewise.predict.efficiency import NAMES, SHARES, Efficiency, Load
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.link import Link
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import Roof
from phasewise.record.quantity import assumed

PERFECT = Efficiency(
    compute=1.0,
    attention=1.0,
    bandwidth=1.0,
    corner=200.0,
    start_s=0.0,
    walk_s=0.0,
    launch_s=0.0,
    link=1.0,
    message_s=0.0,
    step_s=0.0,
    prompt_s=0.0,
    answer_s=0.0,
)
"""Reaches the floor, but for the nearly sharp corner."""


def one_step(**parts: float) -> Load:
    """One step with one operation."""
    values = {name: parts.get(name, 0.0) for name in Load._fields}
    per_operation = ("compute_s", "memory_s", "kernels", "walk", "attention")
    return Load(**{n: np.array([[v]]) if n in per_operation else np.array([v]) for n, v in values.items()})


def but(**changes: float) -> Efficiency:
    return msgspec.structs.replace(PERFECT, **changes)


def seconds(with_: Efficiency, **parts: float) -> float:
    return float(with_.seconds(one_step(**parts))[0])


@pytest.mark.parametrize(
    ("with_", "parts", "expected"),
    [
        (but(compute=0.5), {"compute_s": 3.0, "memory_s": 1.0}, 6.0),
        (but(bandwidth=0.8), {"compute_s": 1.0, "memory_s": 4.0}, 5.0),
        # 3, 4, 5: a corner with p = 2 is Pythagoras'.
        (but(corner=2.0), {"compute_s": 3.0, "memory_s": 4.0}, 5.0),
        # p = 1 adds up.
        (but(corner=1.0), {"compute_s": 3.0, "memory_s": 4.0}, 7.0),
        (but(compute=0.8, attention=0.5), {"compute_s": 2.0, "attention": 1.0}, 5.0),
        (but(compute=0.8, attention=0.5), {"compute_s": 2.0}, 2.5),
        (but(start_s=0.1), {"memory_s": 1.0, "kernels": 4.0}, 1.4),
        # Walking along the sum hides behind bytes that take longer, and shows where they do not.
        (but(walk_s=0.1), {"memory_s": 1.0, "kernels": 4.0, "walk": 1.0}, 1.0),
        (but(walk_s=0.1), {"memory_s": 0.01, "kernels": 4.0, "walk": 0.5}, 0.2),
        (but(link=0.25), {"memory_s": 1.0, "wire_s": 0.5}, 3.0),
        (but(message_s=0.01), {"memory_s": 1.0, "messages": 100.0}, 2.0),
        (but(step_s=0.5, prompt_s=0.2, answer_s=0.1), {"passes": 1.0, "prompts": 2.0, "answers": 3.0}, 1.2),
        # Host and device side by side: (1⁴ + 1⁴)^(1/4).
        (but(launch_s=0.1), {"memory_s": 1.0, "layers": 10.0}, 2**0.25),
        (but(launch_s=0.001), {"memory_s": 1.0, "layers": 10.0}, 1.0),
    ],
)
def test_hand_arithmetic(with_: Efficiency, parts: dict[str, float], expected: float) -> None:
    assert seconds(with_, **parts) == pytest.approx(expected, rel=1e-3)


shares = st.floats(0.05, 0.99)
host = st.floats(1e-9, 1.0)


@st.composite
def efficiencies(draw: st.DrawFn) -> Efficiency:
    return Efficiency(
        **{
            name: draw(shares) if name in SHARES else draw(st.floats(1.01, 20.0)) if name == "corner" else draw(host)
            for name in NAMES
        }
    )


def spread(tp: int = 1) -> Spread:
    roof = Roof(
        basis="datasheet",
        dtype="bf16",
        compute=assumed(989e12, "FLOP/s", "h100"),
        bandwidth=assumed(3.35e12, "B/s", "h100"),
    )
    return Spread(
        load_model("llama-3-8b"), Layout(tp=tp), roof, Link(name="NVLink4", rate=assumed(450e9, "B/s", "h100"))
    )


ALONE = spread()


@given(efficiencies(), st.integers(1, 100_000), st.integers(1, 512))
def test_nothing_is_faster_than_its_floor(found: Efficiency, tokens: int, batch: int) -> None:
    for one in (Pass(float(tokens)), Pass(1.0, float(tokens), float(batch), decode=True)):
        of = efficiency.load(ALONE, one)
        assert found.seconds(of)[0] >= of.floor[0] * (1 - 1e-9)


@given(efficiencies(), st.sampled_from(SHARES), st.integers(1, 20_000))
def test_a_greater_share_never_slows(found: Efficiency, share: str, tokens: int) -> None:
    better = msgspec.structs.replace(found, **{share: (1 + getattr(found, share)) / 2})
    of = efficiency.load(spread(2), Pass(float(tokens)))
    assert better.seconds(of)[0] <= found.seconds(of)[0] * (1 + 1e-9)


@given(efficiencies(), st.integers(1, 20_000), st.integers(1, 20_000))
def test_time_grows_with_context_and_batch(found: Efficiency, context: int, more: int) -> None:
    def at(tokens: float, batch: float) -> float:
        return float(found.seconds(efficiency.load(ALONE, Pass(1.0, tokens, batch, decode=True)))[0])

    assert at(float(context + more), 4.0) >= at(float(context), 4.0) * (1 - 1e-9)
    assert at(float(context), 8.0) >= at(float(context), 4.0) * (1 - 1e-9)


@given(efficiencies())
def test_the_free_scale_goes_both_ways(found: Efficiency) -> None:
    again = efficiency.from_free(found.free())
    assert [getattr(again, name) for name in NAMES] == pytest.approx([getattr(found, name) for name in NAMES], rel=1e-6)


def test_a_perfect_engine_takes_the_floor() -> None:
    of = efficiency.load(ALONE, Pass(2000.0))
    assert PERFECT.seconds(of)[0] == pytest.approx(of.floor[0], rel=0.01)


def test_the_reference_case_by_hand() -> None:
    # 15.0 GB of weights without the embedding, 0.26 GB of KV, all at 80% of 3.35 TB/s, and half a millisecond of host.
    found = but(bandwidth=0.8, answer_s=0.5e-3)
    of = efficiency.load(ALONE, Pass(1.0, 2000.0, decode=True))
    weights = 2 * (8_030_261_248 - 128_256 * 4096)
    assert found.seconds(of)[0] == pytest.approx((weights + 131_072 * 2000) / 0.8 / 3.35e12 + 0.5e-3, rel=1e-3)


def test_what_two_devices_say_to_each_other() -> None:
    of = efficiency.load(spread(2), Pass(1000.0))
    # Two all-reduces in each of 32 layers and one of the embedding, each 2 · (1/2) times 1000 × 4096 × 2 bytes over
    # 450 GB/s, and an all-gather of half of one token's 128,256 logits.
    sent = 65 * 1000 * 4096 * 2 + 0.5 * 128_256 * 2
    assert of.wire_s[0] == pytest.approx(sent / 450e9, rel=1e-6)
    assert of.messages[0] == 66
    assert efficiency.load(ALONE, Pass(1000.0)).messages[0] == 0


def test_arrays_are_many_steps() -> None:
    contexts = np.array([10.0, 1000.0, 100_000.0])
    together = efficiency.load(ALONE, Pass(1.0, contexts, decode=True))
    alone = [efficiency.load(ALONE, Pass(1.0, float(one), decode=True)) for one in contexts]
    found = but(bandwidth=0.7, corner=2.0, launch_s=1e-5, start_s=1e-6)
    assert found.seconds(together) == pytest.approx([found.seconds(one)[0] for one in alone])
    assert found.seconds(efficiency.stack(alone)) == pytest.approx(found.seconds(together))
    assert found.seconds(together.where(contexts > 500.0)) == pytest.approx(found.seconds(together)[1:])


def test_steps_with_fewer_operations_are_filled_up() -> None:
    dense, mixed = efficiency.load(ALONE, Pass(10.0)), one_step(compute_s=1.0, memory_s=2.0, kernels=3.0)
    found = but(bandwidth=0.5, start_s=0.1)
    assert found.seconds(efficiency.stack([dense, mixed])) == pytest.approx(
        [found.seconds(dense)[0], found.seconds(mixed)[0]]
    )
