"""`phasewise load` against planted physics: what it measures is what a queue, a batch and a cache of known times do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from load_oracles import cached, lindley, rows, server_log

from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.isolate.workload.plan import Bounds
from phasewise.jobs.load import Finished, Options, Prepared, load
from phasewise.jobs.workload import Sending
from phasewise.record.load import Limits, Load

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SERVICE = 20e-3
QUEUE = Plan(max_batch=1, prefill_overhead_s=SERVICE, prefill_per_token_s=0.0)


def run(server: SimulatedServer, out: Path, sending: Sending, **options: object) -> Finished:
    return load(Prepared(Options(target=server.url, sending=sending, out=out, **options)), lambda doing, done: None)  # type: ignore[arg-type]


def section(done: Finished) -> Load:
    assert done.run.load is not None
    return done.run.load


def test_a_single_server_queues_as_lindley_says(tmp_path: Path) -> None:
    # One request at a time, 20 ms each: M/D/1 at 70%. Lindley's recursion on the times at which requests were sent is
    # exact for this very run; over many runs its mean is S + rho S / 2(1 - rho) = 43.3 ms.
    with SimulatedServer(QUEUE) as server:
        sending = Sending(rate=35, prompt="20", answer="1", bounds=Bounds(seconds=8), seed=3)
        found = section(done := run(server, tmp_path, sending))
    seen = sorted(rows(done.folder, "requests", "sent_s, ttft_s, tpot_s, error"))
    assert len(seen) == found.sent > 200
    assert all(error is None and tpot is None for *_, tpot, error in seen)
    expected = lindley([sent for sent, *_ in seen], SERVICE)
    measured = np.array([ttft for _, ttft, _, _ in seen])
    assert np.median(measured - expected) == pytest.approx(0, abs=2e-3)
    assert measured.mean() == pytest.approx(expected.mean(), rel=0.15)
    assert found.ttft_from_due is not None
    assert found.ttft_from_due.mean.value == pytest.approx(43.3e-3, rel=0.5)
    assert found.tpot is None
    assert found.itl is None


def test_an_overloaded_server_is_not_steady_and_breaks_ttft_first(tmp_path: Path) -> None:
    with SimulatedServer(QUEUE) as server:
        sending = Sending(rate=75, arrivals="constant", prompt="20", answer="1", bounds=Bounds(seconds=4))
        done = run(server, tmp_path, sending, limits=Limits(ttft_s=0.2, tpot_s=0.05, part=0.9))
    found = section(done)
    assert found.steady is False
    assert found.goodput is not None
    assert (found.goodput.holds, found.goodput.first) == ("breaks", "ttft")
    assert found.rates is not None
    assert found.rates.requests.value == pytest.approx(1 / SERVICE, rel=0.1)


def test_the_highest_rate_of_a_single_server(tmp_path: Path) -> None:
    # Constant arrivals at 20 ms of service: no queue below 50 a second, one that grows by 5% of the time at 52.5.
    with SimulatedServer(QUEUE) as server:
        sending = Sending(
            rate=30, arrivals="constant", prompt="20", answer="1", bounds=Bounds(seconds=120, requests=5000)
        )
        done = run(
            server, tmp_path, sending, limits=Limits(ttft_s=0.1, tpot_s=None, part=0.9), find_rate=True, warmup=1
        )
    found = section(done)
    assert found.found is not None
    assert found.found.held is not None
    assert found.found.broke is not None
    assert found.found.held <= 51
    assert found.found.broke >= 49
    assert found.found.broke / found.found.held <= 1.1
    assert {trial.goodput.first for trial in found.trials} == {"ttft"}
    assert len(set(rows(done.folder, "requests", "trial"))) == len(found.trials)


def test_a_closed_loop_decodes_at_its_batch(tmp_path: Path) -> None:
    # Prefill costs nothing; a step of b requests takes 8 ms + 1 ms b. Four users are four in every step.
    plan = Plan(
        prefill_overhead_s=0.0, prefill_per_token_s=0.0, decode_overhead_s=8e-3, decode_per_request_s=1e-3,
        decode_per_context_token_s=0.0,
    )  # fmt: skip
    with SimulatedServer(plan) as server:
        found = section(run(server, tmp_path, Sending(users=4, prompt="50", answer="40", bounds=Bounds(seconds=4))))
    assert found.tpot is not None
    assert found.itl is not None
    assert found.tpot.points["p50"].value == pytest.approx(12e-3, rel=0.03)
    assert found.itl.points["p50"].value == pytest.approx(12e-3, rel=0.03)
    assert found.rates is not None
    assert found.rates.tokens_out is not None
    assert found.rates.tokens_out.value == pytest.approx(4 / 12e-3, rel=0.1)
    assert found.window is not None
    assert found.window.rule.startswith("closed loop")


def test_tokens_that_come_together_share_their_gap(tmp_path: Path) -> None:
    plan = Plan(tokens_per_chunk=4, prefill_overhead_s=1e-3, decode_overhead_s=20e-3, decode_per_request_s=0.0)
    with SimulatedServer(plan) as server:
        done = run(server, tmp_path, Sending(users=1, prompt="50", answer="41", bounds=Bounds(seconds=60, requests=6)))
    found = section(done)
    assert found.itl is not None
    assert found.icl is not None
    assert found.icl.points["p50"].value == pytest.approx(20e-3, rel=0.05)
    assert found.itl.points["p50"].value == pytest.approx(5e-3, rel=0.05)
    assert found.tpot is not None
    assert found.tpot.points["p50"].value == pytest.approx(5e-3, rel=0.05)


def test_equal_hash_ids_are_prefixes_that_the_server_has(tmp_path: Path) -> None:
    asked = [
        (1024, [1, 2]), (1300, [1, 2, 3]), (600, [1, 4]), (1024, [5, 2]), (1300, [1, 2, 3]), (512, [5]), (40, [6]),
        (45, [6]), (1500, [1, 2, 3]),
    ]  # fmt: skip
    log = tmp_path / "mooncake.jsonl"
    log.write_text(
        "".join(
            json.dumps({"timestamp": 1000 * i, "input_length": n, "output_length": 3, "hash_ids": ids}) + "\n"
            for i, (n, ids) in enumerate(asked)
        )
    )
    truth = tmp_path / "server.jsonl"
    with SimulatedServer(Plan(prefix_cache=True), log=truth) as server:
        done = run(server, tmp_path, Sending(replay=log, users=1), warmup=2)
    expected = cached(asked, 512, 16)
    assert sum(expected) > 4000
    seen = rows(done.folder, "requests", "prompt_tokens, cached_tokens")
    assert [tokens for tokens, _ in seen] == [n for n, _ in asked]
    assert [hit for _, hit in seen] == expected
    assert [one["cached_tokens"] for one in server_log(truth)][-len(asked) :] == expected


def test_prompts_share_nothing_by_chance_and_none_with_an_earlier_run(tmp_path: Path) -> None:
    with SimulatedServer(Plan(prefix_cache=True)) as server:
        for _ in range(2):
            sending = Sending(users=4, prompt="64", answer="2", bounds=Bounds(seconds=60, requests=40))
            found = section(run(server, tmp_path, sending))
            assert found.cached is not None
            assert found.cached.value == 0


def test_failures_are_counted_by_reason_and_meet_nothing(tmp_path: Path) -> None:
    with SimulatedServer(Plan(error_rate=0.3, seed=5)) as server:
        sending = Sending(users=4, prompt="32", answer="4", bounds=Bounds(seconds=60, requests=60))
        done = run(server, tmp_path, sending, limits=Limits(ttft_s=10, tpot_s=10, part=0.9), warmup=0)
    found = section(done)
    assert found.sent == 60
    assert 5 < found.failed < 40
    ((why, count),) = found.reasons.items()
    assert count == found.failed
    assert "HTTP 500" in why
    assert found.goodput is not None
    assert found.window is not None
    assert found.goodput.met.value < 0.95
    assert found.ttft is not None
    assert len(rows(done.folder, "requests")) == 60


def test_a_server_that_only_refuses_is_left_alone(tmp_path: Path) -> None:
    with SimulatedServer(Plan(max_context=4096)) as server:
        prepared = Prepared(Options(target=server.url, sending=Sending(users=1, prompt="64", answer="4"), out=tmp_path))
        done = load(prepared, lambda doing, done: server.close() if doing.startswith("sending") else None)
    assert done.exit_code == 3
    assert done.run.envelope.status == "partial"
    assert section(done).failed <= 51
