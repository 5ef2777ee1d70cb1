"""Chunked prefill and launches."""

from __future__ import annotations

import msgspec
import pytest
from parallel_models import spread
from whatif_setups import alone, setup, tried

from phasewise.model import work
from phasewise.model.passes import Pass
from phasewise.predict import launches
from phasewise.predict.chunks import mixed
from phasewise.predict.roofline import floor

BANDWIDTH, PEAK = 3.35e12, 989e12
P, HEAD, KV = 6_979_588_096, 525_336_576, 131_072


def test_chunks_are_mixed_steps_by_hand() -> None:
    """2,000 tokens in 512s: 512, 512, 512, 464, each with 31 decodes at 2,000 tokens."""
    one = spread("llama-3-8b")
    steps = mixed(one, 2000, 0, 512, decodes=31.0, context=2000.0)
    assert list(steps.time_s) == pytest.approx(
        [
            float(floor(work.step(one.model, Pass(n, past), Pass(1.0, 2000.0, 31.0, decode=True)), one.roof))
            for n, past in ((512.0, 0.0), (512.0, 512.0), (512.0, 1024.0), (464.0, 1536.0))
        ]
    )
    layers = 2 * P * (512 + 31) / PEAK
    head = 2 * HEAD / BANDWIDTH
    decodes = 31 * 2000 * KV / BANDWIDTH
    chunk = 4 * 32 * 4096 * (512 * 512 + 512 * 512 / 2) / PEAK
    assert steps.time_s[1] == pytest.approx(layers + head + decodes + chunk, rel=2e-3)


def test_chunks_trade_the_first_token_for_the_gaps_of_the_others() -> None:
    trial = alone("chunk=512", setup(batch=32))
    before = tried(on=setup(batch=32)).before
    found = trial.outcome
    assert found is not None
    assert before.stall_s is not None
    assert found.stall_s is not None
    assert found.stall_s < before.stall_s / 2
    assert found.ttft_s > before.ttft_s
    assert found.step_s == before.step_s
    assert trial.figures["chunks"].value == 4
    assert trial.figures["itl_before_s"].value == before.stall_s
    one = spread("llama-3-8b")
    assert found.stall_s == max(mixed(one, 2000, 0, 512, decodes=31.0, context=2000.0).time_s)
    assert found.ttft_s == pytest.approx(sum(mixed(one, 2000, 0, 512, decodes=31.0, context=2000.0).time_s))


def test_chunks_start_after_what_is_cached() -> None:
    one = spread("llama-3-8b")
    steps = mixed(one, 2000, 1500, 200, decodes=0.0, context=0.0)
    assert len(steps.time_s) == 3
    assert float(sum(steps.work.attention_flops)) == pytest.approx(32 * 2 * 4096 * (2000.0**2 - 1500.0**2))


def test_one_chunk_without_decodes_is_a_prefill() -> None:
    one = spread("llama-3-8b")
    (step,) = mixed(one, 2000, 0, None, decodes=0.0, context=0.0).time_s
    assert step == float(one.prefill(2000.0).time_s)


def test_graphs_gain_what_the_device_does_not_hide() -> None:
    """A step of Llama 3 8B over 8 devices needs less than the 1.6 ms and 65 collectives that the host takes."""
    eight = setup(layout=msgspec.structs.replace(setup().layout, tp=8))
    found = tried("graphs=on", on=eight)
    host = 320 * 5e-6 + 66 * 20e-6
    device = float(spread("llama-3-8b", tp=8).decode(2000.0).time_s)
    assert found.before.step_s == pytest.approx(host)
    (trial,) = found.trials
    assert trial.outcome is not None
    assert trial.outcome.step_s == pytest.approx(device)
    assert trial.decode is not None
    assert trial.decode.owner == "launches"
    assert trial.decode.owner_before_s == pytest.approx(host - device)
    assert trial.figures["host_s"].provenance == "assumed"


def test_graphs_gain_nothing_where_the_device_is_the_slower() -> None:
    trial = alone("graphs=on")
    assert trial.decode is not None
    assert trial.decode.owner == ""
    device = float(spread("llama-3-8b").decode(2000.0).time_s)
    assert trial.figures["launches"].value == 320
    assert trial.figures["host_slow_s"].value == pytest.approx(320 * 20e-6)
    assert any("gain nothing unless a launch takes over 14.2 µs" in note for note in trial.notes)
    assert device / 320 == pytest.approx(14.2e-6, rel=5e-3)


def test_graphs_off_is_the_other_way_round() -> None:
    on, off = tried("graphs=on", on=setup(launches="eager")), tried("graphs=off", on=setup(launches="graph"))
    assert on.trials[0].outcome == off.before
    assert off.trials[0].outcome == on.before


def test_a_cpu_has_no_graphs() -> None:
    cpu = msgspec.structs.replace(setup().machine, kind="cpu")
    assert "no GPU" in alone("graphs=on", setup(machine=cpu)).refused


def test_launch_constants_are_in_one_place() -> None:
    from phasewise.fix import cuda_graphs

    assert cuda_graphs.host_s is launches.host_s
    assert launches.host_s(spread("llama-3-8b").model) == pytest.approx(32 * 10 * 5e-6)
