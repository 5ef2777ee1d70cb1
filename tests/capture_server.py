"""A server in the manner of vLLM whose profiler writes a trace of what it really did, with faults to plant.

One step at a time runs, as in an engine: a prompt takes a step, in which every running request gets a token too, and
without one every running request gets a token. While a profile runs every step is kept; ``stop_profile`` writes them as
Kineto JSON. No code of phasewise.
"""

from __future__ import annotations

import gzip
import json
import queue
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Planted:
    """Times in seconds, and faults, all off.

    ``ranks`` files are written of ``world`` that the server says it has. ``cut`` cuts each file short for so many
    seconds, for ever when negative. ``ghost`` is a prompt of somebody else, in each profile. ``dies`` closes the
    server at the first request under a profile. ``most`` requests run at once, the others wait. ``cache`` tokens fit
    at once, if any number is given: the youngest request is preempted for the others, and goes on when it fits. With
    ``contexts`` steps are labelled as by vLLM's detailed annotation, ``lies`` tokens too many in each sum of
    contexts.
    """

    folder: Path
    per_token: float = 20e-6
    step: float = 3e-3
    slower: float = 1.0
    endpoints: bool = True
    says: bool = True
    prefixes: bool = True
    busy: bool = False
    writes: bool = True
    stop_s: float = 0.0
    cut: float = 0.0
    cached: int = 0
    running: int = 0
    ghost: int = 0
    ranks: int = 1
    world: int = 1
    stacks: bool = False
    dies: bool = False
    most: int = 256
    cache: int = 0
    contexts: bool = False
    lies: int = 0
    front_end: bool = True
    counts: bool = True
    profiler: str = "torch"


@dataclass
class Request:
    """One request; ``tokens`` takes how many it has so far, once for each."""

    prompt: int
    answer: int
    made: int = 0
    gone: bool = False
    tokens: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)


@dataclass
class Server:
    """The server while its context is open; ``calls`` has the profiler's calls in order."""

    planted: Planted
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    active: bool = False
    prefix: str = ""
    most: int = 0

    def __enter__(self) -> Server:
        self.steps: list[tuple[str, float, float]] = []
        self.work = threading.Condition()
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.prompt_tokens = self.output_tokens = 0
        self.open = True
        server = self

        class Handler(_Handler):
            owner = server

        self.http = _Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        threading.Thread(target=self._engine, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.work:
            self.open = False
            self.work.notify()
        self.http.shutdown()
        self.http.server_close()

    def named(self, name: str) -> list[dict[str, Any]]:
        return [body for called, body in self.calls if called == name]

    def ask(self, request: Request) -> None:
        """Let ``request`` wait for its turn."""
        with self.work:
            self.waiting.append(request)
            self.work.notify()

    def _engine(self) -> None:
        while self.open:
            with self.work:
                if not self.waiting and not self.running:
                    self.work.wait(timeout=1.0)
                    continue
                self.running = [one for one in self.running if not one.gone]
                self.waiting = [one for one in self.waiting if not one.gone]
                if self._over():
                    self.waiting.insert(0, self.running.pop())
                room = len(self.running) < self.planted.most and not (self.waiting and self._over(self.waiting[0]))
                fresh = [self.waiting.pop(0)] if self.waiting and room else []
            if fresh or self.running:
                self._step(fresh, list(self.running))

    def _over(self, *more: Request) -> bool:
        """Whether those that run, and ``more``, do not fit the cache, a token more each."""
        every = [*self.running, *more]
        return 0 < self.planted.cache < sum(one.prompt + one.made + 1 for one in every) and len(every) > 1

    def _step(self, fresh: list[Request], old: list[Request]) -> None:
        """A step of a prompt, if one is there, and a token for each that runs."""
        planted = self.planted
        self.run(self._label(fresh, old), planted.step + planted.per_token * sum(one.prompt for one in fresh))
        self.prompt_tokens += sum(one.prompt for one in fresh)
        self.output_tokens += len(fresh) + len(old)
        with self.work:
            for one in (*fresh, *old):
                one.made += 1
                one.tokens.put(one.made)
            self.running = [one for one in (*self.running, *fresh) if one.made < one.answer]

    def _label(self, fresh: list[Request], old: list[Request]) -> str:
        prompts = sum(one.prompt - self.planted.cached for one in fresh)
        if not self.planted.contexts:
            return f"execute_context_{len(fresh)}({prompts})_generation_{len(old)}({len(old)})"
        # The new token of a request that has made n attends to its prompt and to all n, the last of which it is.
        seen = [one.prompt + one.made for one in old]
        context = f"sq{prompts}sk{prompts}sqsq{prompts**2}sqsk{prompts**2}"
        sums = sum(seen) + self.planted.lies
        generation = f"sq{len(old)}sk{sums}sqsq{len(old)}sqsk{sums}"
        return f"execute_{prompts + len(old)}_context_{len(fresh)}({context})_generation_{len(old)}({generation})"

    def run(self, label: str, seconds: float) -> None:
        """One step."""
        seconds *= self.planted.slower if self.active else 1.0
        began = time.perf_counter()
        time.sleep(seconds)
        if self.active and not 0 < self.most <= len(self.steps):
            self.steps.append((label, began, time.perf_counter() - began))

    def start(self, body: dict[str, Any]) -> int:
        if self.planted.busy or self.active:
            return 409
        self.active, self.steps = True, []
        self.prefix = body.get("profile_prefix", "") if self.planted.prefixes else ""
        self.most = body.get("max_iterations", 0) if self.planted.prefixes else 0
        if self.planted.ghost:
            self.run(f"execute_context_1({self.planted.ghost})_generation_0(0)", self.planted.step)
            self.prompt_tokens += self.planted.ghost
        return 200

    def stop(self) -> None:
        time.sleep(self.planted.stop_s)
        was, self.active = self.active, False
        if was and self.planted.writes:
            self._write()

    def _write(self) -> None:
        self.planted.folder.mkdir(parents=True, exist_ok=True)
        head = f"{self.prefix}_" if self.prefix else ""
        stamp = time.time_ns()
        if self.planted.front_end:
            name = f"{head}host_1.async_llm.{stamp}.pt.trace.json.gz"
            (self.planted.folder / name).write_bytes(gzip.compress(b'{"traceEvents": []}'))
        for rank in range(self.planted.ranks):
            data = gzip.compress(self._trace(rank))
            path = self.planted.folder / f"{head}rank{rank}.{stamp}.pt.trace.json.gz"
            if not self.planted.cut:
                path.write_bytes(data)
                continue
            path.write_bytes(data[: len(data) // 2])
            if self.planted.cut > 0:
                threading.Timer(self.planted.cut, path.write_bytes, (data,)).start()

    def _trace(self, rank: int) -> bytes:
        place = {"ph": "X", "pid": 7 + rank, "tid": 8}
        events: list[dict[str, Any]] = []
        for number, (label, began, seconds) in enumerate(self.steps):
            at, long = began * 1e6, seconds * 1e6
            events.append({**place, "cat": "user_annotation", "name": label, "ts": at, "dur": long})
            # Two operators with a gap of a fifth of the step between them.
            for part, (start, share) in enumerate(((0.01, 0.4), (0.61, 0.38))):
                op = {"cat": "cpu_op", "name": "aten::mm", "ts": at + start * long, "dur": share * long}
                events.append({**place, **op, "args": {"External id": 2 * number + part + 1}})
        head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 0}
        head["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": self.planted.world}
        return json.dumps({**head, "traceEvents": events}).encode()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Server

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_OPTIONS(self) -> None:
        there = self.path in ("/start_profile", "/stop_profile") and self.owner.planted.endpoints
        self._page({"detail": "Method Not Allowed" if there else "Not Found"}, 405 if there else 404)

    def do_GET(self) -> None:
        planted, path = self.owner.planted, self.path.partition("?")[0]
        if path == "/v1/models":
            self._page({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})
        elif path == "/version":
            self._page({"version": "0.32.0"})
        elif path == "/metrics" and planted.counts:
            counts = {
                "num_requests_running": planted.running + len(self.owner.running),
                "num_requests_waiting": len(self.owner.waiting),
                "prompt_tokens_total": self.owner.prompt_tokens,
                "generation_tokens_total": self.owner.output_tokens,
            }
            lines = [f'vllm:{name}{{model_name="m"}} {value}.0\n' for name, value in counts.items()]
            self._page("".join(lines).encode(), kind="text/plain")
        elif path == "/server_info" and planted.says:
            own = {"profiler": planted.profiler, "torch_profiler_dir": str(planted.folder)}
            config = {"profiler_config": {**own, "torch_profiler_with_stack": planted.stacks}}
            config["parallel_config"] = {"tensor_parallel_size": planted.world, "pipeline_parallel_size": 1}
            self._page({"vllm_config": config})
        else:
            self._page({"detail": "Not Found"}, 404)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(data) if data else {}
        if self.path in ("/start_profile", "/stop_profile") and self.owner.planted.endpoints:
            self.owner.calls.append((self.path[1:], body))
            if self.path == "/stop_profile":
                self.owner.stop()
                self._page({})
                return
            status = self.owner.start(body)
            told = {"error": {"message": "A profiling session is already active."}} if status == 409 else {}
            self._page(told, status)
        elif self.path == "/v1/completions":
            self._generate(body)
        else:
            self._page({"detail": "Not Found"}, 404)

    def _generate(self, body: dict[str, Any]) -> None:
        owner, planted = self.owner, self.owner.planted
        if planted.dies and owner.active:
            owner.http.socket.close()
            self.close_connection = True
            return
        prompt = body["prompt"]
        tokens = len(prompt) if isinstance(prompt, list) else len(prompt.split())
        request = Request(tokens, body["max_tokens"])
        owner.ask(request)
        first = request.tokens.get()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._tokens(request, first)
        except OSError:
            request.gone = self.close_connection = True  # the client broke it off

    def _tokens(self, request: Request, number: int) -> None:
        cached = {"prompt_tokens_details": {"cached_tokens": self.owner.planted.cached}}
        while True:
            reason = "length" if number == request.answer else None
            usage = {"prompt_tokens": request.prompt, "completion_tokens": number, **cached}
            self._event({"choices": [{"text": f" w{number}", "finish_reason": reason}], "usage": usage})
            if number == request.answer:
                break
            number = request.tokens.get()
        usage = {"prompt_tokens": request.prompt, "completion_tokens": request.answer, **cached}
        self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: object) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _page(self, body: object, status: int = 200, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
