"""Each fault on an engine in memory: its check fails and says what it saw, and no other check does."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolate_fake import Fake

from phasewise.engines.base import Chunk
from phasewise.errors import BrokenStream
from phasewise.isolate import session
from phasewise.isolate.checks.evidence import many
from phasewise.isolate.checks.prompts import _level
from phasewise.isolate.machine import Load, load
from phasewise.isolate.run import Isolation
from phasewise.record.observation import Check, Observation

pytestmark = pytest.mark.alone


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
    ({"burst": 10**6}, "streamed", "decode", False, "difference of two answer lengths"),
    ({"burst": 16}, "streamed", "decode", True, "collects the stream"),
    ({"whole": True, "burst": 10**6}, "streamed", "decode", False, "buffering off"),
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
    ({"neighbour": 0.3, "counters": False}, "alone", "run", False, "longer than the fastest of their like"),
    ({"drift": 0.2}, "clock", "run", False, "per minute"),
    ({"drift": -0.2}, "clock", "run", False, "per minute"),
]

ODD = re.compile(r"-0\.0%|\b(?<![.,])1 [a-z]+s\b(?<!was)|\d\.\d+ (reads|chunks|tokens|requests|answers)\b|1\d\d\.\d%")


class HeldBack(Fake):
    """A parser that sends nothing before it has seen so many tokens, and then all of them as one event."""

    held = 40

    def _chunks(self, arrivals: list[tuple[float, int]]) -> tuple[Chunk, ...]:
        return super()._chunks(arrivals[min(len(arrivals), self.held) - 1 :])


def test_a_beginning_that_is_held_back_is_no_answer_that_comes_whole() -> None:
    """The first token is as late for a long answer as for half of it: no difference of two lengths tells the step."""
    seen = run(HeldBack(ids=False, step=20e-3))
    check = named(seen, "streamed")
    assert (check.status, check.voids) == ("failed", True)
    assert "the beginning of an answer is held back" in check.detail
    assert seen.decode is not None
    assert "difference" not in (seen.decode.tpot.source or "")


@pytest.mark.parametrize(("fault", "name", "phase", "voids", "words"), FAULTS)
def test_a_fault_is_told_by_its_check(fault: dict[str, object], name: str, phase: str, voids: bool, words: str) -> None:
    seen = run(Fake(**fault))  # type: ignore[arg-type]
    check = named(seen, name, phase)
    assert check.status == "failed", check
    assert check.voids is voids
    assert words in check.detail
    for other in seen.checks:
        assert not ODD.search(other.detail), other.detail


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
        "connection",
        "idle",
        "queue",
        "prefix_cache",
        "alone",
        "quiet",
        "streamed",
        "tokens_by_usage",
        "ended_by_length",
        "chunks_per_token",
        "held_back",
        "timings_agree",
        "padding",
        "steady",
        "errors",
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


def test_a_drift_that_scatter_hides_is_not_told() -> None:
    noise = random.Random(4)
    fake = Fake(held_up=lambda number: noise.choice([1.0, 1.5, 4.0]))
    check = named(run(fake), "clock")
    assert check.status == "not_checked"
    assert "could not be told" in check.detail
    assert "%" not in check.detail


def test_things_are_counted_in_words() -> None:
    assert many(1, "read") == "1 read"
    assert many(108.5, "read") == "108 reads"
    assert many(0, "token") == "0 tokens"
    assert many(12345, "token") == "12,345 tokens"


def test_answers_that_do_not_stream_are_told_and_the_cure_is_named() -> None:
    check = named(run(Fake(whole=True, burst=10**6)), "streamed")
    assert (check.status, check.phase, check.voids) == ("failed", "decode", False)
    assert "buffering off in every proxy" in check.detail


def test_tokens_of_requests_that_failed_are_nobody_elses() -> None:
    seen = run(Fake(failures={13: BrokenStream("Cut."), 22: BrokenStream("Cut.")}))
    assert named(seen, "alone").status == "passed"
    assert named(seen, "errors").status == "failed"


# Other programs on the machine

OURS = {"threads": "2"}


def loaded(monkeypatch: pytest.MonkeyPatch, others: float, *, span: float = 20.0, counted: float = 1.0) -> Check:
    """The check on an engine of ours that used 15 s of 2 cores over ``span``, while others used ``others``."""
    loads = iter([Load(100.0, 1000.0, 50.0, 2), Load(100.0 + span, 1000.0 + counted * (15.0 + others), 65.0, 2)])
    monkeypatch.setattr(session, "load", lambda: next(loads))
    return named(run(Fake(settings=OURS)), "quiet")


@pytest.mark.parametrize(
    ("others", "status", "voids", "words"),
    [
        (0.0, "passed", False, "took 0% of the time of 2 cores over 20.0 s"),
        (-1.0, "passed", False, "took 0%"),
        (3.9, "passed", False, "took 10%"),
        (
            4.4,
            "failed",
            False,
            "11% of what the engine's 2 threads could have had: stop other programs, or give the engine",
        ),
        (11.6, "failed", False, "took 29%"),
        (12.4, "failed", True, "took 31%"),
    ],
)
def test_other_programs_are_told_by_the_cpu_time_they_took(
    monkeypatch: pytest.MonkeyPatch, others: float, status: str, voids: bool, words: str
) -> None:
    check = loaded(monkeypatch, others)
    assert (check.status, check.voids, check.phase) == (status, voids, "run")
    assert words in check.detail


def test_what_no_counter_shows_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch, 0.0, counted=0.0).status == "not_checked"
    assert loaded(monkeypatch, 0.0, span=0.5).status == "not_checked"
    theirs = named(run(Fake()), "quiet")
    assert theirs.status == "not_checked"
    assert "did not start this engine" in theirs.detail


def test_one_thread_is_not_advised_to_an_engine_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OURS, "threads", "1")
    assert loaded(monkeypatch, 16.0).status == "passed"  # 0.8 of the core that it leaves free
    assert loaded(monkeypatch, 28.0).detail.endswith(
        "40% of what the engine's 1 thread could have had: stop other programs"
    )


SPIN = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"


def test_cpu_time_of_a_child_is_ours_and_that_of_an_orphan_is_not() -> None:
    first = load()
    with subprocess.Popen([sys.executable, "-c", SPIN]):
        pass
    second = load()
    assert second.own - first.own > 0.3
    assert second.busy - first.busy > 0.3
    # The shell ends at once and leaves its child to init.
    subprocess.run(["sh", "-c", '"$0" -c "$1" &', sys.executable, SPIN], check=True)
    time.sleep(2.0)
    third = load()
    assert third.own - second.own < 0.3
    assert third.busy - second.busy > 0.3
    assert third.cores >= 1


@pytest.mark.parametrize("counted", [lambda tokens: 0, lambda tokens: 7])
def test_a_prompt_count_that_knows_no_length_voids_prefill(counted: Callable[[int], int]) -> None:
    check = named(run(Fake(counted=counted), phases=("prefill",)), "tokens_by_usage")
    assert (check.status, check.voids, check.phase) == ("failed", True, "prefill")


def test_counters_that_do_not_move_prove_nothing() -> None:
    check = named(run(Fake(frozen=True)), "alone")
    assert check.status == "not_checked"
    assert "not those of the server" in check.detail


@given(
    overhead=st.floats(1e-4, 0.05),
    per_token=st.floats(0.0, 1e-4),
    per_token2=st.floats(0.0, 1e-8),
    ridge=st.integers(0, 2000),
)
def test_a_prefill_that_waits_for_weights_first_never_stands_still(
    overhead: float, per_token: float, per_token2: float, ridge: int
) -> None:
    lengths = (16, 32, 64, 256, 512, 1024, 2048, 4096, 8192)
    times = {float(n): overhead + per_token * max(n, ridge) + per_token2 * n * n for n in lengths}
    assert _level(times) is None


def test_a_step_at_short_prompts_is_no_standstill_and_a_chunk_is_one() -> None:
    lengths = (16, 32, 64, 256, 512, 1024, 2048, 4096)
    # Up to 32 tokens by a captured graph, beyond it not, and so small a model that 4,096 tokens hardly show.
    assert _level({float(n): 0.010 + 0.004 * (n > 32) + 1e-7 * n for n in lengths}) is None
    assert _level({float(n): 0.003 + 1e-5 * min(n, 512) for n in lengths}) == 512
