"""How true the client's times are: TTFT and TPOT beside what the server itself wrote down, and peers in the same run.

    python benchmarks/client_truth.py [--streams 1 64 256] [--tokens 60]

The simulated server runs in a process of its own and writes the tokens of all streams in lock step, 20 a second each,
as engines do. It notes the kernel's time of each request and its own time right before each write, by the clock that
the client uses too. Every client sends one round of one-token requests first, so that its connections are open.

It fails when ours misses 0.2 ms (median) or 1 ms (p99) of TTFT, or 0.2% of TPOT.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import peers

from phasewise.engines import address
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.loop import Loop
from phasewise.engines.simulated import Plan, SimulatedServer

STEP_S = 0.05
MEDIAN_S, P99_S, TPOT = 0.2e-3, 1e-3, 0.002
OURS = "phasewise"


def bodies(streams: int, tokens: int) -> list[bytes]:
    """A prompt of another length for each, by which the server's notes are found."""
    return [
        json.dumps(
            {
                "prompt": [7] * (10 + key),
                "max_tokens": tokens,
                "stream": True,
                "ignore_eos": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        for key in range(streams)
    ]


def ours(url: str, rounds: peers.Rounds) -> list[list[peers.Seen]]:
    found = []
    with Loop(address.parse(url), headers={}) as loop:
        for sent in rounds:
            for key, body in enumerate(sent):
                loop.submit(Order(key=key, path=peers.PATH, body=body, max_tokens=10_000))
            done: list[Exchange] = []
            while len(done) < len(sent):
                done += loop.step(time.perf_counter() + 1.0)
            assert not any(one.error for one in done), done[0].error
            found.append(
                [
                    peers.Seen(
                        one.sent_at, one.first_at, one.last_at, one.completion_tokens or 0, one.prompt_tokens or 0
                    )
                    for one in done
                ]
            )
    return found


def errors(client: str, streams: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each stream: TTFT seen less TTFT as it was, seconds; TPOT seen over TPOT as it was, less one."""
    plan = Plan(
        max_batch=streams,
        prefill_overhead_s=0.0,
        prefill_per_token_s=1e-6,
        decode_overhead_s=STEP_S,
        decode_per_request_s=0.0,
        decode_per_context_token_s=0.0,
    )
    rounds = [bodies(streams, 1), bodies(streams, tokens)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        with SimulatedServer(plan, log=log) as server:
            seen = (ours(server.url, rounds) if client == OURS else peers.run(client, server.url, rounds))[-1]
        notes = [json.loads(line) for line in log.read_text().splitlines()]
    truth = {note["prompt_tokens"]: note for note in notes if note["answer_tokens"] == tokens}
    ttft, tpot = [], []
    for one in seen:
        note = truth.pop(one.prompt_tokens)
        written = [step["written_at"] for step in note["steps"]]
        assert one.tokens == len(written) == tokens
        ttft.append(one.first_at - one.sent_at - (written[0] - note["received_at"]))
        tpot.append((one.last_at - one.first_at) / (written[-1] - written[0]) - 1)
    assert not truth
    return np.array(ttft), np.array(tpot)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--tokens", type=int, default=60)
    args = parser.parse_args()
    failed = False
    print("| streams | client | TTFT error, median | p99 | TPOT error, median | largest |\n|---|---|---|---|---|---|")
    for streams in args.streams:
        for client in (OURS, *peers.PEERS):
            if client != OURS and not peers.installed(peers.PEERS[client][0]):
                print(f"| {streams} | {client} | not installed | | | |")
                continue
            ttft, tpot = (np.abs(found) for found in errors(client, streams, args.tokens))
            median, p99 = np.median(ttft), np.quantile(ttft, 0.99)
            print(
                f"| {streams} | {client} | {median * 1e3:.3f} ms | {p99 * 1e3:.3f} ms "
                f"| {np.median(tpot):.4%} | {tpot.max():.4%} |",
                flush=True,
            )
            if client == OURS:
                failed = failed or median > MEDIAN_S or p99 > P99_S or tpot.max() > TPOT
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
