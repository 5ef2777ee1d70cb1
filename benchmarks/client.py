"""What the timing client costs: paced and coalesced events per CPU-second, beside a bare epoll loop in the same run.

    python benchmarks/client.py [--streams 64] [--seconds 6] [--peers]

A sender process writes one SSE event per token on every stream in lock step, as engines do, as fast as the receiver
keeps up with a small pause between steps (paced), or hundreds of events per write (coalesced).
"""

from __future__ import annotations

import argparse
import multiprocessing
import select
import socket
import time

EVENT = (
    b'data: {"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"m","choices":[{"index":0,'
    b'"text":" tok","logprobs":null,"finish_reason":null,"token_ids":[1234]}],"usage":null}\n\n'
)
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def serve(port: multiprocessing.Queue, streams: int, tokens: int, per_write: int, pause: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port.put(listener.getsockname()[1])
    while True:
        conns = [listener.accept()[0] for _ in range(streams)]
        for conn in conns:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn.recv(65536)
        for conn in conns:
            conn.sendall(HEAD)
        piece = chunk(EVENT) * per_write
        for _ in range(tokens // per_write):
            for conn in conns:
                conn.sendall(piece)
                if pause < 0:  # the streams take turns: an event every -pause seconds
                    until = time.perf_counter() - pause
                    while time.perf_counter() < until:
                        pass
            time.sleep(max(pause, 0))
        for conn in conns:
            conn.sendall(chunk(USAGE % tokens) + b"0\r\n\r\n")
            conn.close()


def bare(port: int, streams: int) -> None:
    """Receive and stamp, nothing else."""
    poll = select.epoll()
    socks = {}
    buffer = bytearray(256 * 1024)
    for _ in range(streams):
        sock = socket.create_connection(("127.0.0.1", port))
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


def ours(port: int, streams: int, tokens: int) -> None:
    from phasewise.engines import address
    from phasewise.engines.exchange import Order
    from phasewise.engines.loop import Loop

    loop = Loop(address.parse(f"http://127.0.0.1:{port}"), headers={})
    for key in range(streams):
        loop.submit(Order(key=key, path="/v1/completions", body=b"{}", max_tokens=tokens))
    done = []
    while len(done) < streams:
        done += loop.step(time.perf_counter() + 1)
    for one in done:
        assert not one.error, one.error
        assert one.completion_tokens == tokens == int(one.arrivals.tokens.sum())
    loop.close()
    print("   ", loop.watch.lateness())


def cost(run, events: int) -> float:
    before = time.process_time()
    run()
    return events / (time.process_time() - before)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for name, per_write, pause, tokens in (
        ("in turns", 1, -60e-6, args.tokens),
        ("in lock step", 1, 2e-3, args.tokens),
        ("coalesced", 500, 0.0, 40_000),
    ):
        queue: multiprocessing.Queue = multiprocessing.Queue()
        streams = args.streams if per_write == 1 else 4
        child = multiprocessing.Process(target=serve, args=(queue, streams, tokens, per_write, pause), daemon=True)
        child.start()
        port = queue.get()
        events = streams * tokens
        for _ in range(args.rounds):
            floor = cost(lambda p=port, s=streams: bare(p, s), events)
            mine = cost(lambda p=port, s=streams, t=tokens: ours(p, s, t), events)
            print(f"{name}: bare {floor:,.0f} events/CPU-s, ours {mine:,.0f}, ratio {mine / floor:.2f}")
        child.kill()


if __name__ == "__main__":
    main()
