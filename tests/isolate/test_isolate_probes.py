"""Bursts and parts of TTFT from answers made by hand, and what is skipped when there is no time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from isolate_fake import Fake

from phasewise.engines.base import Prompt
from phasewise.engines.dialect import SHOWN
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.engines.openai import connect
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.errors import Unreachable
from phasewise.isolate import probes
from phasewise.isolate.probes import burst, ttft
from phasewise.isolate.probes.asking import later, typical
from phasewise.isolate.run import Isolation
from phasewise.isolate.session import Session
from phasewise.record.probes import Probes
from phasewise.record.quantity import measured

pytestmark = pytest.mark.alone


def exchange(arrivals: list[float], *, sent: float = 0.0, tokens: int | None = None, **more: object) -> Exchange:
    """An answer whose events arrive at these seconds, a token each unless ``tokens`` says otherwise."""
    at = np.array([round(second * 1e9) for second in arrivals], np.int64)
    events = Arrivals(
        at=at,
        read=np.arange(len(at), dtype=np.int32),
        tokens=np.full(len(at), -1, np.int32),
        kind=np.full(len(at), SHOWN, np.uint8),
    )
    return Exchange(
        key=0,
        due=sent,
        sent_at=sent,
        first_at=arrivals[0],
        last_at=arrivals[-1],
        ended_at=arrivals[-1],
        first_read_tokens=1,
        completion_tokens=len(at) if tokens is None else tokens,
        arrivals=events,
        **more,  # type: ignore[arg-type]
    )


def answers(streams: int, steps: int, *, step: float, apart: float = 0.0, after: float = 0.0) -> list[Exchange]:
    """Streams in lock step, each ``apart`` behind the one before; stream k begins k times ``after`` later."""
    return [exchange([1.0 + after * k + apart * k + step * n for n in range(steps)]) for k in range(streams)]


def test_a_burst_in_lock_step_by_hand() -> None:
    seen = burst.told(answers(4, 11, step=0.010))
    assert (seen.requests, seen.together) == (4, 4)
    assert (seen.ttft_first, seen.ttft_last) == (1.0, 1.0)
    assert seen.step is not None
    assert seen.throughput is not None
    assert seen.step.value == pytest.approx(0.010)
    assert seen.throughput.value == pytest.approx(400.0)
    assert seen.spread == pytest.approx(0.0)


def test_tokens_per_event_count_in_the_throughput() -> None:
    (one,) = answers(1, 11, step=0.010)
    seen = burst.told([exchange([1.0 + 0.010 * n for n in range(11)], tokens=33)])
    assert one.completion_tokens == 11
    assert seen.tokens_per_chunk == pytest.approx(3.0)
    assert seen.throughput is not None
    assert seen.throughput.value == pytest.approx(300.0)


@pytest.mark.parametrize("apart", [0.0002, 0.0005, 0.001])
def test_events_that_are_written_one_after_the_other_are_spread(apart: float) -> None:
    seen = burst.told(answers(8, 21, step=0.010, apart=apart))
    assert seen.spread == pytest.approx(7 * apart, rel=0.01)


def test_answers_one_after_the_other_never_ran_together() -> None:
    seen = burst.told([exchange([k + 0.01 * n for n in range(1, 11)]) for k in range(4)])
    assert seen.together == 1
    assert (seen.step, seen.throughput) == (None, None)
    assert seen.ttft_last == pytest.approx(3.01)


def test_a_queue_of_prefills_shows_in_the_last_ttft() -> None:
    seen = burst.told(answers(4, 101, step=0.010, after=0.1))
    assert seen.together == 4
    assert seen.ttft_last - seen.ttft_first == pytest.approx(0.3)


def test_a_difference_is_as_wide_as_any_two_requests_say() -> None:
    gap = later([0.012, 0.010, 0.011], [0.005, 0.006, 0.004], "x")
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.006, 0.004, 0.008))
    middle = typical([3.0, 1.0, 2.0], "s", "x")
    assert (middle.value, middle.low, middle.high) == (2.0, 1.0, 3.0)


def test_parts_of_ttft_by_hand() -> None:
    said = {"queue_time_ms": 2.0, "time_to_first_token_ms": 7.0}
    kept = [exchange([0.010 + 1e-4 * n], prompt_tokens=100, reported=said) for n in range(3)]
    ways = {
        "kept": kept,
        "again": [exchange([0.002], prompt_tokens=100, cached_tokens=96) for _ in range(3)],
        "fresh": [exchange([0.009], prompt_tokens=100, connect_s=0.0004) for _ in range(3)],
        # As text the prompts came out at half the tokens: put right by length, they take 14 ms.
        "text": [exchange([0.007], prompt_tokens=50) for _ in range(3)],
        "idle": [exchange([0.020], prompt_tokens=100) for _ in range(2)],
    }
    seen = ttft._parts(ways, 1.5)
    assert (seen.tokens, seen.cached_tokens, seen.counted_again, seen.idle_s) == (100, 96, 100, 1.5)
    assert seen.ttft.value == pytest.approx(0.0101)
    assert seen.kept is not None
    assert seen.front_end is not None
    assert seen.idle is not None
    assert seen.kept.value == pytest.approx(0.0011)
    assert seen.front_end.value == pytest.approx(0.0039)
    assert seen.idle.value == pytest.approx(0.0099)
    assert seen.queue is not None
    assert seen.prefill is not None
    assert (seen.queue.value, seen.queue.provenance) == (pytest.approx(0.002), "reported")
    assert seen.prefill.value == pytest.approx(0.007)


def test_an_engine_that_answers_one_at_a_time_is_not_probed_and_keeps_its_whole_budget() -> None:
    fake = Fake()
    assert not probes.possible(fake)
    seen = Isolation(fake, clock=fake.clock, budget_s=20.0).run()
    assert seen.probes is None
    (told,) = [check for check in seen.checks if check.name == "connection"]
    assert told.status == "not_checked"


def test_a_range_of_one_is_a_point() -> None:
    assert typical([0.5], "s", "x") == measured(0.5, "s", "x", 0.5, 0.5)


def test_a_server_that_fails_in_a_probe_leaves_the_run_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = probes.made

    def without_tokenizer(session: Session, *of: Any) -> Probes:
        def prompt(tokens: int) -> Prompt:
            raise Unreachable("The tokenizer is gone.")

        monkeypatch.setattr(session.engine, "prompt", prompt)
        return made(session, *of)

    monkeypatch.setattr(probes, "made", without_tokenizer)
    with SimulatedServer(Plan(prefill_overhead_s=1e-3, prefill_per_token_s=1e-5)) as server:
        engine = connect(server.url)
        seen = Isolation(engine, budget_s=5.0, phases=("prefill",), lengths=(16, 64)).run()
        engine.close()
    assert seen.prefill is not None
    assert seen.probes is not None
    assert seen.probes.skipped == (
        "TTFT was not taken apart: The tokenizer is gone.",
        "requests were not sent together: The tokenizer is gone.",
    )
