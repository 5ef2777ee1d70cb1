"""Predictions beside a sweep, and what follows for the mix, by hand on the reference case."""

from __future__ import annotations

import pytest

from phasewise.hardware import catalogue
from phasewise.judge.mixed import Question, advise, chunk_tokens
from phasewise.judge.swept import beside
from phasewise.model.load import load
from phasewise.predict.parallel import link
from phasewise.predict.roofline import roofs
from phasewise.record.quantity import measured
from phasewise.record.sweep import (
    AtOnce,
    Cell,
    Chunk,
    Gain,
    Interference,
    Mix,
    Plane,
    Stall,
    Surface,
    Swept,
    Together,
    Traffic,
)

H100 = catalogue.machine(catalogue.find("h100-sxm"), 1)
LLAMA = load("llama-3-8b")
GROUND = LLAMA, roofs(LLAMA, H100)[0]


def q(value: float, unit: str = "s"):  # type: ignore[no-untyped-def]
    return measured(value, unit, "by hand", value * 0.99, value * 1.01)  # type: ignore[arg-type]


def cell(batch: int, context: int, step: float) -> Cell:
    return Cell(
        batch=batch,
        prompt_tokens=context,
        context=float(context),
        step=q(step),
        throughput=q(batch / step, "token/s"),
        samples=3,
        steps=100,
        together=batch,
        proof="passed",
        proved_by="by hand",
    )


def surface(*contexts: int) -> Surface:
    plane = Plane(base=q(5e-3), per_request=q(2e-5), per_context_token=q(4e-8), residual=0.0, largest_batch=64)
    return Surface(
        cells=tuple(
            cell(batch, context, plane.at(batch, batch * context)) for context in contexts for batch in (1, 64)
        ),
        plane=plane,
        gains=tuple(Gain(batch=64, prompt_tokens=context, measured=q(40, "1")) for context in contexts),
        limit=None,
        limit_by="",
        room=None,
        tokens_per_chunk=1.0,
    )


def test_predicted_gains_are_those_of_the_design() -> None:
    # design.md, Llama 3 8B on an H100: batch 64 gains x30.7 at 2,000 tokens each, about x55 at 300; 4 prompts take x4.
    rows = tuple(AtOnce(prompts=n, all_first=q(n), ratio=q(n, "1"), apart=0, samples=3) for n in (1, 4))
    found = beside(
        Swept(plan=(), together=Together(tokens=2000, rows=rows), surface=surface(300, 2000), mix=None), GROUND
    )
    assert found.surface is not None
    gains = {gain.prompt_tokens: gain.predicted.value for gain in found.surface.gains if gain.predicted}
    assert gains[2000] == pytest.approx(30.7, abs=0.05)
    assert gains[300] == pytest.approx(54, abs=1.5)
    floors = {(c.batch, c.prompt_tokens): c.floor.value for c in found.surface.cells if c.floor}
    assert floors[1, 2000] == pytest.approx(4.56e-3, rel=0.002)
    assert floors[64, 2000] == pytest.approx(9.49e-3, rel=0.002)
    assert found.together is not None
    assert found.together.rows[-1].predicted_ratio is not None
    assert found.together.rows[-1].predicted_ratio.value == pytest.approx(
        4.0, abs=0.04
    )  # the head reads its weights once
    assert found.ridge_tokens is not None
    assert found.ridge_tokens.value == pytest.approx(295, abs=1)


def test_without_model_nothing_is_predicted() -> None:
    found = beside(Swept(plan=(), together=None, surface=surface(300), mix=None), None)
    assert found.surface is not None
    assert found.surface.cells[0].floor is None
    assert found.ridge_tokens is None
    assert found.compute_bound_at is None


def mix(chunk: Chunk | None = None) -> Mix:
    stall = Stall(
        batch=32,
        tokens=1024,
        step=q(8e-3),
        stall=q(56e-3),
        slow_steps=1,
        slowest=q(64e-3),
        ttft=q(60e-3),
        alone=q(56e-3),
        samples=4,
    )
    fit = Interference(per_step=q(5e-3), per_token=q(50e-6, "s/token"), per_token2=q(0.0, "s/token^2"), residual=0.0)
    return Mix(stalls=(stall,), fit=fit, chunk=chunk, traffic=None)


def asked(goal: float | None, *, of: Mix | None = None, on: bool = True, slow_link: bool = False) -> tuple:  # type: ignore[type-arg]
    over = link.stated("1MB/s", H100) if slow_link else link.of(H100)
    question = Question(2000, 300, goal, LLAMA if on else None, over if on else None)
    return advise(Swept(plan=(), together=None, surface=surface(300), mix=of or mix()), question)


def test_the_chunk_that_holds_a_gap_by_hand() -> None:
    size, apart = asked(33e-3)
    # 33 ms owed - 8 ms step - 5 ms a chunk = 20 ms = 400 tokens of 50 us; 2,000 tokens then take 5 steps.
    assert size.answer == "yes"
    assert size.value is not None
    assert size.value.value == 400
    assert "takes 5 steps" in size.text
    # 5 x (8 + 5) + 100 = 165 ms.
    assert "165 ms" in size.text
    assert apart.answer == "no"
    assert "400 tokens" in apart.text


def test_disaggregation_by_hand() -> None:
    # No chunk of 64 and more fits 15 ms: 15 - 8 - 5 = 2 ms = 40 tokens. Decode apart: 5 + 0.64 + 4e-5 x 68.8k = 8.4 ms.
    size, apart = asked(15e-3)
    assert (size.answer, apart.answer) == ("no", "yes")
    # KV: 2,000 x 131,072 B over 450 GB/s.
    assert "583 µs" in apart.text
    # Prefill 105 ms; decode 299 x 8.392 ms / 32 = 78.4 ms: 57.2% of the time.
    assert "57.2%" in apart.arithmetic[0]
    assert "1.34 prefill machines" in apart.arithmetic[2]


def test_what_would_not_pay() -> None:
    assert asked(5e-3)[1].answer == "no"  # decode alone is slower than that
    assert asked(15e-3, slow_link=True)[1].answer == "no"
    assert asked(15e-3, on=False)[1].answer == "unknown"
    assert asked(1.0)[0].text.startswith("Nothing to change")
    assert asked(1.0)[1].answer == "no"
    assert [one.answer for one in asked(None)] == ["unknown", "unknown"]
    assert advise(Swept(plan=(), together=None, surface=None, mix=None), Question(2000, 300)) == ()


def test_a_known_chunk_bounds_the_gap_of_today() -> None:
    size, _ = asked(40e-3, of=mix(Chunk(least=500, most=600, shared=True)))
    # Steps of 8 + 5 + 512 x 0.05 = 38.6 ms now.
    assert size.answer == "yes"
    assert size.value is None
    assert "38.6 ms" in size.text
    assert chunk_tokens(Chunk(least=500, most=600, shared=True)) == 512
    assert chunk_tokens(Chunk(least=600, most=700, shared=True)) == 600
    assert chunk_tokens(Chunk(least=600, most=None, shared=None)) is None


def test_the_mix_is_the_difference() -> None:
    traffic = Traffic(
        batch=4,
        tokens=1000,
        rate=q(5.0, "request/s"),
        load=0.5,
        ttft_alone=measured(0.1, "s", "by hand"),
        ttft=measured(0.19, "s", "by hand", 0.17, 0.21),
        step_alone=q(8e-3),
        tpot=q(16e-3),
        itl_p99=q(0.1),
        arrivals=(0.0, 0.05, 0.5, 0.55),
    )
    swept = Swept(plan=(), together=None, surface=None, mix=Mix(stalls=(), fit=None, chunk=None, traffic=traffic))
    found = beside(swept, None).mix
    assert found is not None
    assert found.traffic is not None
    # M/D/1 at 0.5: half a service. These arrivals wait 0, 50, 0, 50 ms.
    assert found.traffic.wait_formula is not None
    assert found.traffic.wait_formula.value == pytest.approx(0.05)
    assert found.traffic.wait_arrivals is not None
    assert found.traffic.wait_arrivals.value == pytest.approx(0.025)
    assert found.traffic.mix is not None
    assert found.traffic.mix.value == pytest.approx(0.065)
    assert found.traffic.mix.low == pytest.approx(0.045)
