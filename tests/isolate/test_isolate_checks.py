"""Each fault on an engine in memory: its check fails and says what it saw, and no other check does."""

from __future__ import annotations

import pytest
from isolate_fake import Fake

from phasewise.isolate.run import Isolation
from phasewise.record.observation import Check, Observation


def run(fake: Fake, **options: object) -> Observation:
    options = {"budget_s": 30.0, **options}
    return Isolation(fake, clock=fake.clock, **options).run()  # type: ignore[arg-type]


def named(seen: Observation, name: str, phase: str | None = None) -> Check:
    (found,) = [check for check in seen.checks if check.name == name and phase in (None, check.phase)]
    return found


FAULTS = [
    # (what is wrong, the check that tells, its phase, voids, words it must say)
    ({"cached": lambda tokens: tokens // 2}, "uncached", "prefill", True, "50% of the prompt tokens"),
    ({"cached": lambda tokens: tokens - 1}, "uncached", "prefill", True, "from its cache"),
    ({"burst": 10**6}, "streamed", "decode", True, "in 1 reads of"),
    ({"burst": 16}, "streamed", "decode", True, "collects the stream"),
    ({"whole": True, "burst": 10**6}, "streamed", "decode", True, "as one piece"),
    ({"early": 40}, "ended_by_length", "decode", False, "ended early ('stop'): 40 tokens of"),
    ({"early": 9}, "ended_by_length", "decode", True, "9 tokens of"),
    ({"reason": "stop"}, "ended_by_length", "decode", False, "'stop'"),
    ({"chunk_tokens": 4}, "chunks_per_token", "decode", False, "per chunk"),
    ({"chunk_tokens": 4, "ids": False}, "chunks_per_token", "decode", False, "per chunk"),
    ({"usage": False}, "tokens_by_usage", "decode", False, "token ids in each chunk"),
    ({"usage": False, "ids": False}, "tokens_by_usage", "decode", False, "ended by length"),
    ({"usage": False, "ids": False, "reason": None}, "tokens_by_usage", "decode", True, "chunks are counted"),
    ({"usage": False}, "tokens_by_usage", "prefill", False, "lengths are as sent"),
    ({"extra_usage": 5}, "tokens_by_usage", "decode", True, "were asked for"),
    ({"extra_usage": -5}, "tokens_by_usage", "decode", True, "chunks came"),
    ({"neighbour": 0.3}, "alone", "run", True, "looks at the server"),
    ({"neighbour": 0.3, "counters": False}, "alone", "run", False, "longer than their like"),
    ({"drift": 0.2}, "clock", "run", False, "per minute"),
    ({"drift": -0.2}, "clock", "run", False, "per minute"),
]


@pytest.mark.parametrize(("fault", "name", "phase", "voids", "words"), FAULTS)
def test_a_fault_is_told_by_its_check(fault: dict[str, object], name: str, phase: str, voids: bool, words: str) -> None:
    seen = run(Fake(**fault))  # type: ignore[arg-type]
    check = named(seen, name, phase)
    assert check.status == "failed", check
    assert check.voids is voids
    assert words in check.detail


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_no_clean_run_raises_a_check(noise: float, seed: int) -> None:
    kinds = [
        {"overhead": 0.2e-3, "per_token": 2e-6, "step": 1e-3},
        {"overhead": 30e-3, "per_token": 2e-6, "step": 20e-3, "cold": 0.3},
        {"overhead": 2e-3, "per_token": 900e-6, "step": 40e-3, "per_context": 1e-6},
        {"counters": False, "delay": 1e-3},
    ]
    fake = Fake(**kinds[seed % 4], noise=noise, seed=seed)  # type: ignore[arg-type]
    seen = run(fake, budget_s=60.0)
    assert [check for check in seen.checks if check.status == "failed"] == []
    assert {check.name for check in seen.checks} == {
        "warm",
        "uncached",
        "alone",
        "streamed",
        "tokens_by_usage",
        "ended_by_length",
        "chunks_per_token",
        "client",
        "clock",
    }


def test_a_cache_that_the_server_hides_shows_in_a_flat_ttft() -> None:
    class Hidden(Fake):
        def ttft(self, tokens: int) -> float:
            return self.overhead

    check = named(run(Hidden(cached=lambda tokens: None)), "uncached")
    assert check.status == "failed"
    assert check.voids
    assert "does not grow" in check.detail


def test_nothing_passes_without_evidence() -> None:
    silent = run(Fake(cached=lambda tokens: None, counters=False))
    assert named(silent, "uncached").status == "not_checked"
    assert "does not say" in named(silent, "uncached").detail
    assert named(silent, "alone").status == "not_checked"
    assert "no counters" in named(silent, "alone").detail
    once = run(Fake(per_token=0.1, step=1.0), budget_s=8.0)
    assert named(once, "clock").status == "not_checked"
    unnamed = run(Fake(usage=False, ids=False, reason=None))
    assert named(unnamed, "ended_by_length").status == "not_checked"
    assert named(unnamed, "chunks_per_token").status == "not_checked"
    short = run(Fake(early=9))
    assert named(short, "streamed").status == "not_checked"


def test_usage_keeps_tpot_right_with_several_tokens_per_chunk() -> None:
    fake = Fake(chunk_tokens=4, ids=False)
    seen = run(fake)
    assert seen.decode is not None
    # One engine step makes four tokens.
    assert seen.decode.tpot.value == pytest.approx(fake.tpot(seen.decode.tpot_context) / 4, rel=0.01)
    assert seen.decode.tokens_per_chunk == pytest.approx(4, rel=0.05)


def test_an_engine_that_stays_cold_is_told() -> None:
    class Cooling(Fake):
        def ttft(self, tokens: int) -> float:
            return super().ttft(tokens) * (1 + 8 * 0.93 ** len(self.asked))

    check = named(run(Cooling(), phases=("prefill",)), "warm")
    assert check.status == "failed"
    assert "still over 20% slower" in check.detail


def test_a_drift_of_five_percent_over_the_run_is_told_and_its_size_is_right() -> None:
    fake = Fake(overhead=20e-3, per_token=200e-6, drift=0.06, noise=0.005)
    check = named(run(fake, budget_s=60.0), "clock")
    assert check.status == "failed"
    assert float(check.detail.split("%")[0].split("by ")[1]) == pytest.approx(6, abs=1.5)


def test_other_clients_that_only_the_counters_see() -> None:
    class Quiet(Fake):
        def activity(self) -> object:  # type: ignore[override]
            self.tokens_out += 500
            return super().activity()

    check = named(run(Quiet()), "alone")
    assert check.status == "failed"
    assert "counters rose by" in check.detail
