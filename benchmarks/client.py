"""What the timing client costs: events per CPU-second, beside a bare epoll loop and the peers in the same run.

    python benchmarks/client.py [--streams 64] [--tokens 600] [--rounds 5]

A sender process writes one SSE event per token: to the streams in turns, an event every 60 µs, so that each wakes the
client; in lock step, as engines do, to all streams every 2 ms; or coalesced, 500 events per write. The bare loop only
receives and stamps: coalesced it shows what the kernel costs, as no client can do with that.

It fails when ours handles in turns or in lock step less than 65% of the bare loop's events, or coalesced under 500,000
a second.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable

import peers

from phasewise.engines import address
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.loop import Loop

EVENT = (
    b'data: {"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"m","choices":[{"index":0,'
    b'"text":" tok","logprobs":null,"finish_reason":null,"token_ids":[1234]}],"usage":null}\n\n'
)
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TURN_S, STEP_S, TOGETHER = 60e-6, 2e-3, 500
LEAST_RATIO, LEAST_COALESCED = 0.65, 500_000


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def serve(port: multiprocessing.Queue[int], mode: str, streams: int, tokens: int) -> None:
    """Answer ``streams`` connections, one request each, over and over."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port.put(listener.getsockname()[1])
    per_write = TOGETHER if mode == "coalesced" else 1
    piece = chunk(EVENT) * per_write
    while True:
        conns = [listener.accept()[0] for _ in range(streams)]
        for conn in conns:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn.recv(65536)
        for conn in conns:
            conn.sendall(HEAD)
        for _ in range(tokens // per_write):
            for conn in conns:
                conn.sendall(piece)
                if mode == "in turns":
                    until = time.perf_counter() + TURN_S
                    while time.perf_counter() < until:
                        pass
            if mode == "in lock step":
                time.sleep(STEP_S)
        for conn in conns:
            conn.sendall(chunk(USAGE % tokens) + b"0\r\n\r\n")
            with contextlib.suppress(OSError):
                conn.recv(65536, socket.MSG_DONTWAIT)  # a body that came after its head: left unread it would reset
            conn.close()


def bare(url: str, streams: int, tokens: int) -> None:
    """Receive and stamp, nothing else."""
    poll = select.epoll()
    socks = {}
    buffer = bytearray(256 * 1024)
    for _ in range(streams):
        sock = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
        sock.setblocking(False)
        socks[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    for sock in socks.values():
        sock.send(b"POST / HTTP/1.1\r\n\r\n")
    stamps = []
    while socks:
        for fileno, _ in poll.poll(1):
            size = socks[fileno].recv_into(buffer)
            stamps.append(time.perf_counter())
            if not size:
                poll.unregister(fileno)
                socks.pop(fileno).close()


def ours(url: str, streams: int, tokens: int) -> None:
    with Loop(address.parse(url), headers={}) as loop:
        for key in range(streams):
            loop.submit(Order(key=key, path=peers.PATH, body=b"{}", max_tokens=tokens))
        done: list[Exchange] = []
        while len(done) < streams:
            done += loop.step(time.perf_counter() + 1)
    for one in done:
        assert not one.error, one.error
        assert one.completion_tokens == tokens == int(one.arrivals.tokens.sum())


def peer(name: str) -> Callable[[str, int, int], None]:
    def run(url: str, streams: int, tokens: int) -> None:
        (seen,) = peers.run(name, url, [[b"{}"] * streams])
        assert all(one.tokens == tokens for one in seen)

    return run


def clients() -> dict[str, Callable[[str, int, int], None]]:
    """The bare loop first."""
    found: dict[str, Callable[[str, int, int], None]] = {"bare epoll loop": bare, "phasewise": ours}
    for name, (package, _) in peers.PEERS.items():
        if peers.installed(package):
            found[name] = peer(name)
        else:
            print(f"{name}: not installed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    found = clients()
    failed = False
    print("| events | client | events/CPU-s, median | of the bare loop |\n|---|---|---|---|")
    for mode, streams, tokens in (
        ("in turns", args.streams, args.tokens),
        ("in lock step", args.streams, args.tokens),
        ("coalesced", 4, 40_000),
    ):
        queue: multiprocessing.Queue[int] = multiprocessing.Queue()
        child = multiprocessing.Process(target=serve, args=(queue, mode, streams, tokens), daemon=True)
        child.start()
        url = f"http://127.0.0.1:{queue.get()}"
        rates: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(args.rounds):
            for name, run in found.items():
                gc.collect()  # no client pays for what the one before it left, nor for the modules of all of them
                before = time.process_time()
                run(url, streams, tokens)
                rates[name].append(streams * tokens / (time.process_time() - before))
        child.kill()
        for name, seen in rates.items():
            rate = statistics.median(seen)
            ratio = statistics.median(one / floor for one, floor in zip(seen, rates["bare epoll loop"], strict=True))
            print(f"| {mode} | {name} | {rate:,.0f} | {ratio:.0%} |", flush=True)
            if name == "phasewise":
                failed = failed or (mode != "coalesced" and ratio < LEAST_RATIO)
                failed = failed or (mode == "coalesced" and rate < LEAST_COALESCED)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
