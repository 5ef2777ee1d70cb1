"""Every way in which a server fails a user: the right error, one sentence, the next step, and no secret in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from engines_fake import NOT_FOUND, Fake
from engines_loopback import END, HANG_UP, RESET, SSE_HEAD, Loopback, Request, Script, Step, chunk, event, page

from phasewise.engines import address, openai, wire
from phasewise.engines.base import Answer
from phasewise.engines.client import Client
from phasewise.engines.reply import Reply
from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Refused, Stalled, Unreachable, UsageError

pytestmark = pytest.mark.alone

KEY = "sk-secret-4711"
HTML = page("<html><body>Welcome to nginx!</body></html>", kind="text/html; charset=utf-8")


def connect(script: Script, path: str = "", *, stall_s: float = 0.5, **options: Any) -> EngineError:
    """The error of connecting to ``script``."""
    with Loopback(script) as server, pytest.raises(EngineError) as caught:
        openai.connect(server.url + path, api_key=KEY, stall_s=stall_s, **options).close()
    return told(caught.value)


def told(error: EngineError) -> EngineError:
    text = str(error)
    assert text.isprintable(), "one line, no control characters"
    assert len(text) < 600
    assert KEY not in text
    return error


def everywhere(*steps: Step) -> Script:
    return lambda request: steps


def generating(*steps: Step) -> Script:
    """A sound server whose answers are ``steps``."""
    fake = Fake()
    return lambda request: steps if request.path.endswith("completions") else fake(request)


def test_a_dead_port() -> None:
    with Loopback(everywhere()) as server:
        url = server.url
    with pytest.raises(Unreachable, match=r"Nothing listens .* start the server or correct the port"):
        openai.connect(url, api_key="")


def test_a_wrong_path_names_the_right_one() -> None:
    error = connect(Fake(), "/wrong")
    assert isinstance(error, Refused)
    assert error.status == 404
    assert "/v1 answers: give that" in str(error)


def test_a_wrong_path_with_no_right_one() -> None:
    error = connect(everywhere(NOT_FOUND), "/wrong")
    assert isinstance(error, Refused)
    assert error.status == 404
    assert "base path" in str(error)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("make", [everywhere, generating])
def test_a_refused_key_names_the_variables(make: Callable[..., Script], status: str) -> None:
    error = connect(make(page({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status)))
    assert isinstance(error, Refused)
    assert error.status == int(status[:3])
    assert "set PHASEWISE_API_KEY or OPENAI_API_KEY" in str(error)
    assert "Incorrect API key provided: ***" in str(error)


def test_an_unknown_model_names_the_served_ones() -> None:
    error = connect(Fake(models=[{"id": "a"}, {"id": "b"}]), model="nosuch")
    assert isinstance(error, Refused)
    assert error.status == 404
    assert "`nosuch` does not exist" in str(error)
    assert "--served-model one of: a, b" in str(error)


@pytest.mark.parametrize("make", [everywhere, generating])
def test_a_rate_limit(make: Callable[..., Script]) -> None:
    error = connect(
        make(page({"error": {"message": "slow down"}}, "429 Too Many Requests", extra="Retry-After: 20\r\n"))
    )
    assert isinstance(error, Refused)
    assert error.status == 429
    assert "slow down" in str(error)
    assert "20 s; wait, or raise its limit" in str(error)


@pytest.mark.parametrize(
    ("status", "step"),
    [("500 Internal Server Error", "log"), ("502 Bad Gateway", "log"), ("503 Service Unavailable", "not ready")],
)
@pytest.mark.parametrize("make", [everywhere, generating])
def test_a_server_error(make: Callable[..., Script], status: str, step: str) -> None:
    error = connect(make(page("Internal Server Error", status, "text/plain")))
    assert isinstance(error, Refused)
    assert error.status == int(status[:3])
    assert step in str(error)


def test_a_gateway_page_is_not_quoted() -> None:
    error = connect(everywhere(page("<html>sorry</html>", "502 Bad Gateway", "text/html")))
    assert "<" not in str(error)


@pytest.mark.parametrize(
    "script",
    [
        everywhere(HTML),
        generating(HTML),
        everywhere(page("hello", kind="text/plain")),
        everywhere(page({"hello": "world"})),
        everywhere(page([1, 2])),
        everywhere(page("", kind="")),
        everywhere(b"HTTP/1.1 204 No Content\r\n\r\n"),
        everywhere(b"SSH-2.0-OpenSSH_9.2\r\n"),
        everywhere(b"+PONG\r\n"),
    ],
)
def test_something_that_is_no_llm_server(script: Script) -> None:
    assert isinstance(connect(script), NotAnEngine)


@pytest.mark.parametrize("make", [everywhere, generating])
def test_a_redirect_is_named_and_not_followed(make: Callable[..., Script]) -> None:
    where = "Location: https://user:password@other.example/v1/models?token=4711\r\n"
    script = make(page("", "307 Temporary Redirect", extra=where))
    with (
        Loopback(script) as server,
        pytest.raises(Refused, match=r"https://other\.example/v1/models, which is not") as caught,
    ):
        openai.connect(server.url, api_key=KEY)
    told(caught.value)
    assert "password" not in str(caught.value)
    assert "4711" not in str(caught.value)


def slowly(start: bytes, more: bytes, pause: float) -> Script:
    def script(request: Request) -> Iterator[Step]:
        yield start
        while True:
            yield more
            yield pause

    return script


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.engines.client.PAGE_S", 0.3)
    assert isinstance(connect(everywhere(3.0)), Stalled)


@pytest.mark.parametrize(
    "steps",
    [(3.0,), (SSE_HEAD, 3.0), (SSE_HEAD, event({"choices": [{"text": "a"}]}), 3.0), (SSE_HEAD, chunk(b"data: {"), 3.0)],
)
def test_a_stall_names_the_time(steps: tuple[Step, ...]) -> None:
    error = connect(generating(*steps))
    assert isinstance(error, Stalled)
    assert "0.5 s" in str(error)


def test_keep_alive_comments_do_not_hide_a_stall() -> None:
    fake, drip = Fake(), slowly(SSE_HEAD, chunk(b": ping\n\n"), 0.1)
    assert isinstance(connect(lambda request: (drip if "completions" in request.path else fake)(request)), Stalled)


@pytest.mark.parametrize("end", [HANG_UP, RESET])
def test_a_drop_in_the_middle_of_a_stream(end: str) -> None:
    error = connect(generating(SSE_HEAD, event({"choices": [{"text": "a"}]}), end))
    assert isinstance(error, BrokenStream)
    assert "log" in str(error)


def test_a_drop_before_the_answer() -> None:
    assert isinstance(connect(generating(HANG_UP)), Unreachable)


@pytest.mark.parametrize(
    "steps",
    [
        (SSE_HEAD, event("{not json"), END),
        (SSE_HEAD, chunk(b"no event\n\n"), END),
        (SSE_HEAD, event({"error": {"message": f"key {KEY}\x1b[2J died"}}), END),
        (page("{", extra=""),),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{}", HANG_UP),
    ],
)
def test_invalid_streams(steps: tuple[Step, ...]) -> None:
    assert isinstance(connect(generating(*steps)), BrokenStream)


def test_endless_headers() -> None:
    assert isinstance(connect(slowly(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000, 0.0)), NotAnEngine)


def test_a_line_without_end() -> None:
    fake, long = Fake(), slowly(SSE_HEAD, chunk(b"x" * 2**20), 0.0)
    error = connect(lambda request: (long if "completions" in request.path else fake)(request), stall_s=30.0)
    assert isinstance(error, BrokenStream)
    assert "16 MiB" in str(error)


def test_a_page_without_end() -> None:
    error = connect(slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b" " * 2**20, 0.0))
    assert isinstance(error, BrokenStream)


@pytest.mark.parametrize("status", ["401 No", "404 Not Found", "500 Oops"])
def test_a_server_that_fails_later_fails_the_request(status: str) -> None:
    fake = Fake()
    broken = False

    def script(request: Request) -> Any:
        return [page({"error": {"message": "m"}}, status)] if broken else fake(request)

    with Loopback(script) as server:
        engine = openai.connect(server.url, api_key=KEY)
        broken = True
        with pytest.raises(Refused) as caught:
            engine.ask(engine.prompt(10), 3)
        assert caught.value.status == int(status[:3])
        broken = False
        assert engine.ask(engine.prompt(10), 3).completion_tokens == 3  # and the engine can go on
        engine.close()
        engine.close()


def test_hostile_messages_are_cleaned_and_cut() -> None:
    error = connect(everywhere(page({"error": {"message": "\x1b[31mred\x07\u202e" + "x" * 10000}}, "500 Oops")))
    assert "red" in str(error)


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"error": ' * 1000, '{"error": {"message": {"message": 5}}}', "\xff", ""]
)
def test_hostile_error_bodies(body: str) -> None:
    assert isinstance(connect(everywhere(page(body, "500 Oops"))), Refused)


@pytest.mark.parametrize(
    "data", ["[" * 100_000, '{"data": ' + "[" * 5000, '{"data": [{"id": 5}, {"id": "m", "meta": 3}]}']
)
def test_hostile_model_lists(data: str) -> None:
    with Loopback(everywhere(page(data))) as server, pytest.raises((EngineError, UsageError)):
        openai.connect(server.url, api_key="")


@pytest.mark.parametrize("stall_s", [0.0, -1.0, float("nan"), float("inf"), 1e300, 1e12, 86_401.0])
def test_a_time_limit_that_cannot_be(stall_s: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        openai.connect("http://127.0.0.1:1", stall_s=stall_s)


@pytest.mark.parametrize("model", ["\udcff", "m\ud800"])
def test_a_model_name_that_is_no_text(model: str) -> None:
    with Loopback(Fake()) as server, pytest.raises(UsageError, match="--served-model"):
        openai.connect(server.url, model=model, api_key="")


def endless(*more: Step) -> Script:
    """A sound server that after ``[DONE]`` goes on with ``more``, over and over, where its answer should end."""
    fake = Fake()

    def script(request: Request) -> Iterator[Step]:
        for step in fake(request):
            if step != END:
                yield step
                continue
            yield more[0]
            while True:
                yield from more[1:]

    return script


@pytest.mark.parametrize(
    "script",
    [
        endless(b"", chunk(b"x"), 0.05),
        endless(b"", chunk(b"x" * 2**16)),
        endless(b"0\r\n", b"X-Trailer: yes\r\n" * 100),
        endless(b"0\r\nX-Trailer: ", b"y", 0.05),
        endless(b"", 30.0, HANG_UP),
    ],
    ids=["trickle", "flood", "trailers", "slow trailer", "silence"],
)
def test_what_follows_the_last_event_is_neither_waited_for_nor_kept(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Reply] = []

    class Watched(Reply):
        def start(self, message: bytes) -> None:
            received.append(self)
            super().start(message)

    monkeypatch.setattr(wire, "Reply", Watched)
    with Loopback(script) as server:
        client = Client(address.parse(server.url), api_key="", insecure=False, stall_s=30.0)
        body = b'{"model": "m", "prompt": "a", "max_tokens": 3, "stream_options": {"include_usage": true}}'
        for connections in (1, 2):
            before = time.perf_counter()
            answer = client.stream("/v1/completions", body, 3)
            assert isinstance(answer, Answer)
            assert answer.completion_tokens == 3
            assert time.perf_counter() - before < 10.0  # a second in truth, thirty when it waits for the end
            assert server.connections == connections  # no request is sent on a connection that still talks
            assert received[-1]._received < 2**20
            assert not received[-1]._message._parts
        client.close()


@pytest.mark.parametrize("extra", [page({"more": 1}), page("a") * 3, b"garbage", b"\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_bytes_after_a_whole_answer_cost_the_connection_and_nothing_else(extra: bytes) -> None:
    fake = Fake()

    def script(request: Request) -> Iterator[Step]:
        for step in fake(request):
            yield step + extra if isinstance(step, bytes) and (step == END or "models" in request.path) else step

    with Loopback(script) as server:
        engine = openai.connect(server.url, api_key="", stall_s=5.0)
        for _ in range(3):
            assert engine.ask(engine.prompt(10), 3).completion_tokens == 3
        engine.close()


class TestKey:
    def sent(self, url_login: str = "", **options: Any) -> str | None:
        with Loopback(Fake()) as server:
            engine = openai.connect(server.url.replace("//", f"//{url_login}"), **options)
            shown = repr(engine.target)
            engine.close()
        for secret in ("given", "mine", "theirs", "password"):
            assert secret not in shown
        return server.requests[-1].headers.get("authorization")

    def test_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PHASEWISE_API_KEY", raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", "theirs\n")
        assert self.sent() == "Bearer theirs"
        monkeypatch.setenv("PHASEWISE_API_KEY", "mine")
        assert self.sent() == "Bearer mine"
        assert self.sent(api_key="given") == "Bearer given"
        assert self.sent(api_key="") is None

    def test_login_in_the_url(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PHASEWISE_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        assert self.sent("user:password@") == "Basic dXNlcjpwYXNzd29yZA=="

    @pytest.mark.parametrize("key", ["a\nb", "ключ", "a\x00b"])
    def test_keys_that_no_header_carries(self, key: str) -> None:
        with pytest.raises(UsageError, match="header") as caught:
            openai.connect("http://127.0.0.1:1", api_key=key)
        assert key not in str(caught.value)
