"""A sweep against simulated servers in other processes: what was planted must come back."""

from __future__ import annotations

import itertools
import time

import pytest

from phasewise.engines import openai
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.errors import EngineError, UsageError
from phasewise.isolate.sweep import Sweep
from phasewise.record.observation import Observation
from phasewise.record.sweep import Mix, Surface, Swept

pytestmark = [pytest.mark.slow, pytest.mark.alone]

PLANTED = {
    "prefill_overhead_s": 4e-3,
    "prefill_per_token_s": 30e-6,
    "decode_overhead_s": 6e-3,
    "decode_per_request_s": 1e-4,
    "decode_per_context_token_s": 1e-7,
}


def swept(budget: float, *, batch: int = 16, prompt: int = 1024, **plan: object) -> tuple[Swept, Observation]:
    with SimulatedServer(Plan(**(PLANTED | plan))) as server:  # type: ignore[arg-type]
        engine = openai.connect(server.url)
        try:
            run = Sweep(engine, budget_s=budget, max_batch=batch, max_prompt=prompt)
            run.run()
        finally:
            engine.close()
    return run.swept(), run.observation()


def status(seen: Observation) -> dict[str, str]:
    return {check.name: check.status for check in seen.checks}


def surface(found: Swept) -> Surface:
    assert found.surface is not None
    return found.surface


def mix(found: Swept) -> Mix:
    assert found.mix is not None
    return found.mix


@pytest.fixture(scope="module")
def chunked() -> tuple[Swept, Observation]:
    return swept(20, chunk_tokens=512)


def test_the_plane_comes_back_and_its_intervals_cover_it(chunked: tuple[Swept, Observation]) -> None:
    plane = surface(chunked[0]).plane
    assert plane is not None
    assert plane.broken is None
    assert plane.largest_batch == 16
    for quantity, planted, rel in (
        (plane.base, 6e-3, 0.01),
        (plane.per_request, 1e-4, 0.04),
        (plane.per_context_token, 1e-7, 0.06),
    ):
        assert quantity.value == pytest.approx(planted, rel=rel)
        assert quantity.low is not None
        assert quantity.high is not None
        # A run is one draw of an interval of 95%: its ends may miss by a little.
        assert quantity.low * 0.98 <= planted <= quantity.high * 1.02


def test_batches_are_proved_and_gains_are_planted(chunked: tuple[Swept, Observation]) -> None:
    found, seen = chunked
    assert {cell.proof for cell in surface(found).cells} == {"passed"}
    gain = next(gain for gain in surface(found).gains if gain.batch == 16 and gain.prompt_tokens == 32)
    cell = {cell.batch: cell.context for cell in surface(found).cells if cell.prompt_tokens == 32}
    alone, most = (6e-3 + n * (1e-4 + 1e-7 * cell[n]) for n in (1, 16))
    assert gain.measured.value == pytest.approx(16 * alone / most, rel=0.01)
    assert set(status(seen).values()) <= {"passed", "not_checked"}
    assert status(seen)["held"] == "passed"
    assert status(seen)["uncached"] == "passed"
    assert status(seen)["alone"] == "passed"


def test_prompts_at_once_take_as_long_as_their_tokens(chunked: tuple[Swept, Observation]) -> None:
    together = chunked[0].together
    assert together is not None
    four = next(row for row in together.rows if row.prompts == 4)
    # Chunks of 512 from one prompt after the other: four prompts take four times the tokens.
    assert four.ratio.value == pytest.approx(4.0, rel=0.05)
    assert four.apart > 0.5


def test_the_interference_matrix_is_the_planted_cost(chunked: tuple[Swept, Observation]) -> None:
    found = mix(chunked[0])
    assert found.stalls
    for stall in found.stalls:
        chunks = -(-stall.tokens // 512)
        assert stall.stall.value == pytest.approx(4e-3 * chunks + 30e-6 * stall.tokens, rel=0.05, abs=3e-4)
        assert stall.slow_steps == chunks
    assert found.chunk is not None
    assert found.chunk.least <= 512
    assert found.chunk.most is not None
    assert found.chunk.most >= 512
    assert found.chunk.shared is True
    assert found.fit is not None
    assert found.fit.per_step.value == pytest.approx(4e-3, rel=0.1)
    assert found.fit.per_token.value == pytest.approx(30e-6, rel=0.1)


def test_prompts_at_random_wait_and_the_mix_is_what_is_left(chunked: tuple[Swept, Observation]) -> None:
    traffic = mix(chunked[0]).traffic
    assert traffic is not None
    assert 0.2 < traffic.load < 1.0
    assert traffic.ttft.value > traffic.ttft_alone.value
    assert traffic.tpot.value > traffic.step_alone.value
    assert traffic.step_alone.value == pytest.approx(6e-3 + traffic.batch * 1e-4 + 1e-7 * traffic.batch * 50, rel=0.03)


@pytest.mark.slow
def test_without_chunks_prefill_has_steps_of_its_own() -> None:
    found = mix(swept(9, batch=4)[0])
    assert found.chunk is not None
    assert found.chunk.most is None
    assert found.chunk.shared is False
    for stall in found.stalls:
        assert stall.stall.value == pytest.approx(4e-3 + 30e-6 * stall.tokens, rel=0.05, abs=3e-4)


@pytest.mark.slow
def test_leaving_the_largest_graph_is_a_jump_near_its_batch() -> None:
    found, _ = swept(16, batch=16, prompt=256, graph_batch=5, eager_step_s=5e-3)
    plane = surface(found).plane
    assert plane is not None
    assert plane.broken is not None
    assert plane.broken.kind == "jump"
    assert (plane.broken.after, plane.broken.before) in ((4, 6), (5, 6))
    assert plane.broken.extra.value == pytest.approx(5e-3, rel=0.05)


@pytest.mark.slow
def test_a_full_cache_preempts_and_is_not_fitted() -> None:
    found, _ = swept(10, batch=16, prompt=64, kv_tokens=700)
    cells = {cell.batch: cell for cell in surface(found).cells if cell.prompt_tokens == 32}
    assert cells[16].trouble == "preempted"
    assert cells[4].trouble == ""
    room = surface(found).room
    assert room is not None
    assert room.held <= 700
    assert room.full == pytest.approx(700, rel=0.03)
    assert surface(found).plane is not None
    assert surface(found).plane.largest_batch <= 8  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [True, False])
def test_the_limit_of_the_server_is_met_and_named(metrics: bool) -> None:
    found, seen = swept(8, batch=16, prompt=64, max_batch=6, metrics=metrics)
    assert surface(found).limit == 6
    assert max(cell.batch for cell in surface(found).cells if not cell.trouble) == 6
    assert {stall.batch for stall in mix(found).stalls} <= {1, 2, 3, 4, 5}
    assert status(seen)["alone"] == ("passed" if metrics else "not_checked")
    assert status(seen)["held"] == "passed"


def test_a_server_of_one_slot_has_no_mix() -> None:
    found, seen = swept(3, batch=4, prompt=64, max_batch=1)
    assert found.mix is None
    assert surface(found).limit == 1
    assert "one request at a time" in seen.stopped


def test_another_client_is_noticed() -> None:
    from phasewise.engines.simulated.plan import OtherLoad

    _, seen = swept(4, batch=2, prompt=64, other_load=OtherLoad(20.0, 50, 50))
    assert status(seen)["alone"] == "failed"
    assert any(check.voids for check in seen.checks if check.name == "alone")


def test_a_cache_is_noticed() -> None:
    _, seen = swept(4, batch=2, prompt=256, canned_prefix=30)
    assert status(seen)["uncached"] == "failed"


def test_answers_that_end_early_are_told() -> None:
    _, seen = swept(4, batch=2, prompt=64, early_end=20)
    assert status(seen)["ended_by_length"] == "failed"


def test_answers_that_are_not_streamed_have_no_steps() -> None:
    found, seen = swept(4, batch=4, prompt=64, stream=False)
    assert found.surface is None
    assert found.mix is None
    assert status(seen)["streamed"] == "failed"
    assert "not streamed" in seen.stopped


def test_some_failures_are_borne_and_told() -> None:
    found, seen = swept(6, batch=2, prompt=64, error_rate=0.1)
    assert surface(found).limit is None
    assert surface(found).plane is not None
    assert status(seen)["errors"] == "failed"


def test_a_server_that_refuses_too_many_has_that_limit() -> None:
    found, _ = swept(5, batch=8, prompt=64, max_batch=3, max_queue=0)
    assert surface(found).limit == 3
    assert "refused" in surface(found).limit_by


def test_prompts_of_text_that_differ_by_a_token_are_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedServer(Plan(**PLANTED)) as server:  # type: ignore[arg-type]
        engine = openai.connect(server.url)
        drawn, about = engine.prompt, itertools.cycle((-1, 0, 0, 1, 2))
        monkeypatch.setattr(engine, "prompt", lambda tokens: drawn(tokens + next(about)))
        run = Sweep(engine, budget_s=6, max_batch=8, max_prompt=300)
        run.run()
        engine.close()
    found = surface(run.swept())
    assert len({cell.prompt_tokens for cell in found.cells}) == len(
        {round(cell.prompt_tokens, -1) for cell in found.cells}
    )
    assert {gain.batch for gain in found.gains} >= {2, 4, 8}


def test_the_budget_holds() -> None:
    began = time.perf_counter()
    swept(5)
    assert time.perf_counter() - began < 5 * 1.25 + 10


def test_tokens_are_bounded() -> None:
    with SimulatedServer(Plan()) as server:
        engine = openai.connect(server.url)
        run = Sweep(engine, budget_s=10, max_batch=4, max_tokens=3000, max_prompt=256)
        run.run()
        engine.close()
    assert sum(run._crowd.tokens()) <= 3000


def test_a_server_that_fails_every_request_is_an_error() -> None:
    with SimulatedServer(Plan()) as server:
        engine = openai.connect(server.url)
    run = Sweep(engine, budget_s=5, max_batch=2)
    with pytest.raises(EngineError, match="refused"):
        run.run()
    engine.close()
    assert run.swept().surface is None
    assert run.observation().checks == ()


@pytest.mark.parametrize("wrong", [{"budget_s": 0.0}, {"max_batch": 0}, {"max_tokens": 0}, {"max_prompt": 0}])
def test_what_measures_nothing_is_refused(wrong: dict[str, float]) -> None:
    with SimulatedServer(Plan()) as server:
        engine = openai.connect(server.url)
        with pytest.raises(UsageError):
            Sweep(engine, **({"budget_s": 5.0} | wrong))  # type: ignore[arg-type]
        engine.close()
