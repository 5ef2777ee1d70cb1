"""Planted truth: the simulated server in a process of its own, the real client, real sockets and clocks.

Expected values come from the formulas below, which share no code with the product or the server.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from ledger_kept import Kept

from phasewise.engines.openai import connect
from phasewise.engines.simulated import SimulatedServer
from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.errors import EngineError
from phasewise.isolate.run import Isolation
from phasewise.isolate.session import Progress
from phasewise.record.observation import Check, Observation
from phasewise.record.quantity import Quantity

pytestmark = pytest.mark.alone


@dataclass(frozen=True)
class Planted:
    """Seconds; ``step`` and ``slope`` make a decode step of step + slope x context."""

    overhead: float
    per_token: float
    per_token2: float
    step: float
    slope: float

    def plan(self, **more: object) -> Plan:
        return Plan(
            prefill_overhead_s=self.overhead,
            prefill_per_token_s=self.per_token,
            prefill_per_token2_s=self.per_token2,
            decode_overhead_s=self.step,
            decode_per_request_s=0.0,
            decode_per_context_token_s=self.slope,
            **more,  # type: ignore[arg-type]
        )


PLANTINGS = [
    Planted(0.2e-3, 2e-6, 0.0, 1e-3, 20e-9),
    Planted(0.2e-3, 900e-6, 0.0, 40e-3, 1e-6),
    Planted(1e-3, 10e-6, 0.0, 2e-3, 50e-9),
    Planted(2e-3, 20e-6, 4e-10, 5e-3, 45e-9),
    Planted(5e-3, 50e-6, 0.0, 8e-3, 50e-9),
    Planted(8e-3, 20e-6, 3.8e-10, 5.5e-3, 46e-9),
    Planted(10e-3, 200e-6, 1e-8, 20e-3, 0.0),
    Planted(20e-3, 5e-6, 1e-10, 3e-3, 10e-9),
    Planted(30e-3, 2e-6, 1e-10, 12e-3, 100e-9),
    Planted(30e-3, 900e-6, 1e-7, 25e-3, 500e-9),
]


def run(plan: Plan, budget_s: float) -> Observation:
    with SimulatedServer(plan) as server:
        engine = connect(server.url)
        try:
            return Isolation(engine, budget_s=budget_s).run()
        finally:
            engine.close()


def measure(plan: Plan, budget_s: float) -> Observation:
    """One run; up to two more when it says itself that this machine was too busy: wide interval, client held up."""
    for _ in range(3):
        seen = run(plan, budget_s)
        assert seen.prefill is not None
        assert seen.prefill.fit is not None
        slope = seen.prefill.fit.per_token
        tight = slope.low is not None and slope.high is not None and slope.high - slope.low <= 0.04 * slope.value
        if tight and _named(seen, "client", "run").status == "passed":
            break
    return seen


def covers(quantity: Quantity, truth: float) -> bool:
    return quantity.low is not None and quantity.high is not None and quantity.low <= truth <= quantity.high


def judged(seen: Observation, planted: Planted) -> dict[str, bool]:
    """Assert how near the figures are; return which intervals cover the planted value."""
    assert seen.prefill is not None
    assert seen.decode is not None
    fit, tpot = seen.prefill.fit, planted.step + planted.slope * seen.decode.tpot_context
    assert fit is not None
    assert fit.per_token.value == pytest.approx(planted.per_token, rel=0.01)
    assert fit.overhead.value == pytest.approx(planted.overhead, abs=0.5e-3)
    assert seen.decode.tpot.value == pytest.approx(tpot, rel=0.01)
    assert [check for check in seen.checks if check.status == "failed"] == []
    covered = {
        "overhead": covers(fit.overhead, planted.overhead),
        "per_token": covers(fit.per_token, planted.per_token),
        "per_token2": covers(fit.per_token2, planted.per_token2),
        "tpot": covers(seen.decode.tpot, tpot),
    }
    if seen.decode.fit is not None:
        covered["at_zero"] = covers(seen.decode.fit.at_zero, planted.step)
        covered["per_context_token"] = covers(seen.decode.fit.per_context_token, planted.slope)
    return covered


def test_a_planting_is_found() -> None:
    judged(measure(PLANTINGS[4].plan(), 2.5), PLANTINGS[4])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_plantings_are_found_and_covered() -> None:
    """Linear coefficient and TPOT within 1%, overhead within 0.5 ms, intervals right in 18 of 20 runs."""
    hits: dict[str, list[bool]] = {}
    for seed in range(2):
        for planted in PLANTINGS:
            for name, covered in judged(measure(planted.plan(seed=seed), 6.0), planted).items():
                hits.setdefault(name, []).append(covered)
    assert len(hits["overhead"]) == len(hits["tpot"]) == 20
    assert len(hits["per_context_token"]) >= 10
    for name, covered in hits.items():
        assert sum(covered) >= 0.9 * len(covered), (name, covered)


BASE = Planted(3e-3, 10e-6, 0.0, 2e-3, 50e-9)
MODERATE_LOAD = OtherLoad(rate=4, prompt=200, answer=50)
HEAVY_LOAD = OtherLoad(rate=8, prompt=6000, answer=100)

FAULTS = {
    # name: (the plan's flags, check, phase, voids)
    "cache": ({"canned_prefix": 2048}, "uncached", "prefill", True),
    "hidden cache": ({"canned_prefix": 10**6, "cached_count": False}, "uncached", "prefill", True),
    "buffer": ({"buffer": 4096}, "streamed", "decode", True),
    "no stream": ({"stream": False}, "streamed", "decode", False),
    "replayed": ({"replay_s": 1e-3}, "streamed", "decode", False),
    "early end": ({"early_end": 20}, "ended_by_length", "decode", False),
    "several tokens per chunk": ({"tokens_per_chunk": 4}, "chunks_per_token", "decode", False),
    "withheld text": ({"partial_utf8": "withheld"}, "chunks_per_token", "decode", False),
    "missing usage": ({"usage": False}, "tokens_by_usage", "decode", False),
    "wrong usage": ({"wrong_usage": 7}, "tokens_by_usage", "decode", True),
    "other load": ({"other_load": MODERATE_LOAD}, "alone", "run", True),
    "other load, no metrics": ({"other_load": HEAVY_LOAD, "metrics": False}, "alone", "run", False),
    "drifting clock": ({"clock_drift": 6.0}, "clock", "run", False),
}
SLOWER = ("drifting clock", "other load, no metrics")
RARER = ("no stream", "withheld text", "wrong usage", "missing usage", "several tokens per chunk")


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=pytest.mark.slow) if name in RARER else name for name in FAULTS]
)
def test_a_fault_is_reported_by_its_check(fault: str) -> None:
    flags, name, phase, voids = FAULTS[fault]
    seen = run(BASE.plan(**flags), 4.6 if fault in SLOWER else 2.0)
    check = _named(seen, name, phase)
    assert check.status == "failed", check
    assert check.voids is voids


@pytest.mark.parametrize(
    "flags",
    [
        {"endpoints": "chat", "role_chunk": True},
        {"max_context": 128},
        pytest.param({"warmup_cost_s": 0.05}, marks=pytest.mark.slow),
        pytest.param({"partial_utf8": "empty"}, marks=pytest.mark.slow),
        pytest.param({"prefix_cache": True}, marks=pytest.mark.slow),
        pytest.param({"token_ids": False, "jitter": 0.01}, marks=pytest.mark.slow),
    ],
)
def test_an_honest_server_raises_no_check(flags: dict[str, object]) -> None:
    seen = measure(BASE.plan(**flags), 2.5)
    assert [check for check in seen.checks if check.status == "failed"] == []
    assert seen.prefill is not None
    assert seen.prefill.fit is not None
    assert seen.prefill.fit.per_token.value == pytest.approx(BASE.per_token, rel=0.05)


def test_tpot_is_right_with_several_tokens_per_chunk(tmp_path: Path) -> None:
    """Against when the server wrote, request by request: a busy machine moves that as it moves what arrives."""
    book = Kept()
    with SimulatedServer(BASE.plan(tokens_per_chunk=4), log=tmp_path / "log") as server:
        engine = connect(server.url)
        seen = Isolation(engine, budget_s=3.0, book=book).run()
        engine.close()
    assert seen.decode is not None
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    shape = Counter(row.answer_tokens_planned for row in book.requests if row.phase == "decode").most_common(1)[0][0]
    ours = [row.tpot_s for row in book.requests if row.phase == "decode" and row.answer_tokens_planned == shape]
    steps = [one["steps"] for one in log if one["answer_tokens"] == shape]
    written = [(all_of[-1]["written_at"] - all_of[0]["written_at"]) / (shape - all_of[0]["tokens"]) for all_of in steps]
    assert len(ours) >= 3
    assert ours == pytest.approx(written, rel=0.02)
    assert min(written) <= seen.decode.tpot.value / 0.98
    assert max(written) >= seen.decode.tpot.value * 0.98
    assert min(written) < BASE.step / 2


def test_ttft_ends_at_the_first_reasoning_token_and_not_at_the_role() -> None:
    seen = run(BASE.plan(endpoints="chat", reasoning=20, role_chunk=True), 1.8)
    assert seen.prefill is not None
    assert seen.prefill.fit is not None
    assert seen.prefill.fit.overhead.value == pytest.approx(BASE.overhead, abs=0.5e-3)
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(BASE.step + BASE.slope * seen.decode.tpot_context, rel=0.02)


def test_a_stream_that_is_faked_leaves_the_difference_of_two_lengths() -> None:
    seen = run(BASE.plan(stream=False), 1.8)
    assert "the difference of two answer lengths" in _named(seen, "streamed", "decode").detail
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(BASE.step, rel=0.05)


def test_text_that_is_tokenised_slowly_is_a_part_of_ttft() -> None:
    seen = run(BASE.plan(tokenizing_per_token_s=20e-6), 3.0)
    assert seen.probes is not None
    parts = seen.probes.ttft
    assert parts is not None
    assert parts.front_end is not None
    assert parts.front_end.value == pytest.approx(20e-6 * parts.tokens, abs=1e-3)
    assert seen.probes.skipped == () or not seen.probes.skipped[0].startswith("TTFT")


def test_a_server_that_dies_leaves_what_was_measured() -> None:
    with SimulatedServer(BASE.plan()) as server:
        engine = connect(server.url)

        def shoot(progress: Progress) -> None:
            if progress.requests == 20:
                server.close()

        isolation = Isolation(engine, budget_s=10.0, progress=shoot)
        with pytest.raises(EngineError):
            isolation.run()
        engine.close()
    seen = isolation.observation()
    assert seen.requests == 20
    assert seen.prefill is not None
    assert seen.prefill.fit is not None


def _named(seen: Observation, name: str, phase: str) -> Check:
    (found,) = [check for check in seen.checks if (check.name, check.phase) == (name, phase)]
    return found
