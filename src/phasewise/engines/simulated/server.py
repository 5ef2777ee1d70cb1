"""The HTTP server: routes, and the life of a request from its bytes to its answer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import random
import signal
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO

import msgspec

from phasewise import __version__
from phasewise.engines.simulated import api
from phasewise.engines.simulated.answer import Answer
from phasewise.engines.simulated.connection import Connection, HttpRequest
from phasewise.engines.simulated.metrics import exposition
from phasewise.engines.simulated.outbox import Writer
from phasewise.engines.simulated.pacer import Pacer, PreciseSelector, go_first
from phasewise.engines.simulated.plan import Plan
from phasewise.engines.simulated.scheduler import Scheduler
from phasewise.errors import UsageError

_PAGE = b"<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n"


class Server:
    """Answers requests as ``plan`` says."""

    def __init__(self, plan: Plan, api_key: str | None, log: IO[bytes] | None) -> None:
        self._plan = plan
        self._api_key = api_key
        self._log = log
        self._random = random.Random(plan.seed + 2)
        self._scheduler = Scheduler(plan)
        self._pacer = Pacer(asyncio.get_running_loop(), self._scheduler)
        self._writer = Writer(plan.write_s)
        self._count = 0
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._routes = self._make_routes()
        self._pacer.wake()

    def accept(self, listener: socket.socket) -> None:
        """Take the next client of ``listener``."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._connections.add(Connection(listener.accept()[0], self._handle))

    def close(self) -> None:
        """Break off every connection."""
        for connection in tuple(self._connections):
            connection.close()

    def _make_routes(self) -> dict[str, tuple[str, Callable[[Connection, HttpRequest], None]]]:
        plan = self._plan
        routes = {
            "/health": ("GET", self._health),
            "/version": ("GET", self._version),
            "/v1/models": ("GET", self._models),
        }
        if plan.metrics:
            routes["/metrics"] = ("GET", self._metrics)
        if plan.tokenize:
            routes["/tokenize"] = ("POST", self._tokenize)
        if plan.endpoints != "chat":
            routes["/v1/completions"] = ("POST", self._complete)
        if plan.endpoints != "completions":
            routes["/v1/chat/completions"] = ("POST", self._chat)
        return {plan.prefix + path: route for path, route in routes.items()}

    def _handle(self, connection: Connection, request: HttpRequest) -> None:
        try:
            if self._plan.html:
                connection.respond(200, _PAGE, "text/html; charset=utf-8")
                return
            method, route = self._routes.get(request.path, ("", None))
            if route is None:
                raise api.ApiError(404, "Not Found")
            if request.method != method:
                raise api.ApiError(405, "Method Not Allowed")
            self._authorise(request)
            route(connection, request)
        except api.ApiError as error:
            connection.respond(error.status, error.body())

    def _authorise(self, request: HttpRequest) -> None:
        if self._api_key is None or "/v1/" not in request.path:
            return
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, b"Bearer " + self._api_key.encode()):
            raise api.ApiError(401, "Unauthorized")

    def _health(self, connection: Connection, request: HttpRequest) -> None:
        connection.respond(200, b"")

    def _version(self, connection: Connection, request: HttpRequest) -> None:
        connection.respond(200, msgspec.json.encode({"version": __version__, "server": "phasewise-simulate"}))

    def _models(self, connection: Connection, request: HttpRequest) -> None:
        model = {
            "id": self._plan.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "phasewise-simulate",
            "max_model_len": self._plan.max_context,
        }
        connection.respond(200, msgspec.json.encode({"object": "list", "data": [model]}))

    def _metrics(self, connection: Connection, request: HttpRequest) -> None:
        connection.respond(200, exposition(self._plan, self._scheduler), "text/plain; version=0.0.4; charset=utf-8")

    def _tokenize(self, connection: Connection, request: HttpRequest) -> None:
        body = api.decode(request.body, api.TokenizeBody)
        if body.messages is not None:
            tokens = [0] * self._plan.template_tokens + api.ids_of(api.words_of(body.messages))
        elif body.prompt is not None:
            tokens = api.ids_of(body.prompt.split())
        else:
            raise api.ApiError(400, "prompt or messages is required.", "prompt")
        answer = {"count": len(tokens), "max_model_len": self._plan.max_context, "tokens": tokens}
        connection.respond(200, msgspec.json.encode(answer))

    def _complete(self, connection: Connection, request: HttpRequest) -> None:
        self._faults()
        self._generate(connection, request, api.ask(self._plan, api.decode(request.body, api.CompletionBody)))

    def _chat(self, connection: Connection, request: HttpRequest) -> None:
        self._faults()
        self._generate(connection, request, api.ask(self._plan, api.decode(request.body, api.ChatBody)))

    def _faults(self) -> None:
        if self._plan.status is not None:
            raise api.ApiError(self._plan.status, "planted by --status")
        if self._plan.error_rate and self._random.random() < self._plan.error_rate:
            raise api.ApiError(500, "planted by --error-rate")

    def _generate(self, connection: Connection, http: HttpRequest, asked: api.Ask) -> None:
        if self._scheduler.full:
            raise api.ApiError(429, "The queue is full: try again later.")
        self._count += 1
        name = f"{'chatcmpl' if asked.chat else 'cmpl'}-{self._count}"
        answer = Answer(
            self._plan, asked, connection, self._writer, name=name, arrived=http.arrived, on_end=self._ended
        )
        answer.open()
        if answer.ended:
            return
        as_text = bool(asked.prompt) and isinstance(asked.prompt[0], str)
        if not (as_text and self._plan.tokenizing_per_token_s):
            self._pacer.submit(answer.request)
            return
        # Tokenised beside the engine, which meets it when that is done.
        answer.request.arrived += self._plan.tokenizing_per_token_s * asked.prompt_tokens
        asyncio.get_running_loop().call_at(answer.request.arrived, self._submit, answer)

    def _submit(self, answer: Answer) -> None:
        if not answer.ended:
            self._pacer.submit(answer.request)

    def _ended(self, answer: Answer) -> None:
        self._scheduler.cancel(answer.request)
        if self._log:
            self._log.write(msgspec.json.encode(answer.record()) + b"\n")
            self._log.flush()


@contextlib.asynccontextmanager
async def listening(
    plan: Plan, *, host: str = "127.0.0.1", port: int = 0, api_key: str | None = None, log: Path | None = None
) -> AsyncIterator[str]:
    """Serve ``plan`` while the context is open; gives the URL with the base path.

    Raises:
        UsageError: the address is taken or not this machine's, or ``log`` cannot be written.
    """
    try:
        file = log.open("ab") if log else None
    except OSError as error:
        raise UsageError(f"{log} cannot be written ({error.strerror}): give --log a file that can.") from None
    loop = asyncio.get_running_loop()
    server = Server(plan, api_key, file)
    try:
        with _listener(host, port) as listener:
            loop.add_reader(listener, server.accept, listener)
            gc.collect()
            gc.freeze()
            yield f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}{plan.prefix}"
            loop.remove_reader(listener)
    finally:
        server.close()
        if file:
            file.close()


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        why = (error.strerror or str(error)).split(" (")[0]
        raise UsageError(f"{host}:{port} cannot be listened on ({why}): give another --host or --port.") from None
    listener.setblocking(False)
    return listener


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are precise."""
    return asyncio.SelectorEventLoop(PreciseSelector())


def serve(
    plan: Plan,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    api_key: str | None = None,
    log: Path | None = None,
    seconds: float | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve ``plan`` from the main thread until SIGINT, SIGTERM or ``seconds`` have passed; ``announce`` gets the URL.

    Raises:
        UsageError: as ``listening``.
    """

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop.set)
        async with listening(plan, host=host, port=port, api_key=api_key, log=log) as url:
            announce(url)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), seconds)

    go_first()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(until_stopped())
