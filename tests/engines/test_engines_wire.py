from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines_loopback import CERTIFICATE, END, HANG_UP, RESET, SSE_HEAD, Loopback, Request, Script, Step, chunk, page

from phasewise.engines import address
from phasewise.engines.wire import Connection
from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Stalled, Unreachable

pytestmark = pytest.mark.alone


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "certificate.pem"
    file.write_text(CERTIFICATE)
    return file


def connection(server: Loopback, **options: object) -> Connection:
    return Connection(address.parse(server.url), **options)  # type: ignore[arg-type]


def steps(*given: Step) -> Script:
    return lambda request: given


def fetch(script: Script, wait_s: float = 5.0) -> bytes:
    with Loopback(script) as server:
        wire = connection(server)
        try:
            return wire.fetch("GET", "/", wait_s=wait_s).body
        finally:
            wire.close()


@pytest.mark.parametrize(
    "answer",
    [
        [page("hello")],
        [SSE_HEAD + chunk(b"hel") + chunk(b"lo") + END],
        [SSE_HEAD, chunk(b"hel"), b"2;name=value\r\nlo\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", HANG_UP],
        [b"HTTP/1.0 200 OK\r\n\r\nhello", HANG_UP],
        [b"HTTP/1.1 100 Continue\r\n\r\n", page("hello")],
        [bytes([byte]) for byte in page("hello")],
        [page("hello") + b"surplus that nobody asked for"],
    ],
    ids=["length", "chunked", "extension and trailer", "until close", "1.0", "interim", "byte by byte", "surplus"],
)
def test_a_body_comes_whole_however_it_is_framed(answer: list[Step]) -> None:
    assert fetch(steps(*answer)) == b"hello"


def test_one_connection_serves_many_requests() -> None:
    with Loopback(steps(page("hello"))) as server:
        wire = connection(server)
        for _ in range(3):
            assert wire.fetch("GET", "/", wait_s=5).body == b"hello"
        assert server.connections == 1
        wire.close()


@pytest.mark.parametrize(
    "last", [[page("hello"), HANG_UP], [page("hello", extra="Connection: close\r\n")], [page("hello") + b"HTTP/1.1"]]
)
def test_a_connection_that_cannot_be_used_again_is_opened_anew(last: list[Step]) -> None:
    with Loopback(steps(*last)) as server:
        wire = connection(server)
        for _ in range(2):
            assert wire.fetch("GET", "/", wait_s=5).body == b"hello"
            time.sleep(0.05)
        assert server.connections == 2
        wire.close()


@pytest.mark.parametrize("end", [HANG_UP, RESET])
def test_a_reused_connection_that_dies_without_a_byte_is_retried_once_and_stamped_anew(end: str) -> None:
    def script(request: Request) -> Iterator[Step]:
        if request.connection == 1 and request.number == 2:
            yield 0.2
            yield end
        else:
            yield page("hello")

    with Loopback(script) as server:
        wire = connection(server)
        wire.fetch("GET", "/", wait_s=5)
        before = time.perf_counter()
        reply = wire.request("GET", "/", wait_s=5)
        assert reply.body() == b"hello"
        assert server.connections == 2
        assert reply.sent_at - before > 0.19  # the time that the dead connection took is nobody's TTFT
        wire.close()


def test_a_fresh_connection_that_dies_without_a_byte_is_not_retried() -> None:
    with Loopback(steps(HANG_UP)) as server:
        with pytest.raises(Unreachable, match="without an answer"):
            connection(server).request("GET", "/", wait_s=5)
        assert server.connections == 1


def test_no_request_is_sent_twice_once_a_byte_of_an_answer_came() -> None:
    def script(request: Request) -> Iterator[Step]:
        yield page("hello") if request.number == 1 else b"HTTP/1.1 200"
        if request.number == 2:
            yield HANG_UP

    with Loopback(script) as server:
        wire = connection(server)
        wire.fetch("GET", "/", wait_s=5)
        with pytest.raises(Unreachable, match="inside the head"):
            wire.fetch("GET", "/", wait_s=5)
        assert len(server.requests) == 2


def test_an_answer_left_unread_closes_its_connection() -> None:
    with Loopback(steps(SSE_HEAD, chunk(b"hello"), 0.2, END)) as server:
        wire = connection(server)
        wire.request("GET", "/", wait_s=5)
        assert wire.fetch("GET", "/", wait_s=5).body == b"hello"
        assert server.connections == 2
        wire.close()


def forever(start: bytes, more: bytes, pause: float = 0.0) -> Script:
    def script(request: Request) -> Iterator[Step]:
        yield start
        while True:
            yield more
            if pause:
                yield pause

    return script


@pytest.mark.parametrize(
    ("script", "error", "said"),
    [
        (steps(SSE_HEAD, chunk(b"hel"), HANG_UP), BrokenStream, "closed the connection inside"),
        (steps(SSE_HEAD, chunk(b"hel"), RESET), BrokenStream, "closed the connection inside"),
        (steps(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", HANG_UP), BrokenStream, "closed the connection"),
        (steps(SSE_HEAD, b"not a chunk size\r\n"), BrokenStream, "framing"),
        (steps(page("x", extra="Content-Encoding: gzip\r\n")), BrokenStream, "compress"),
        (steps(b"SSH-2.0-OpenSSH_9.2\r\n"), NotAnEngine, "does not speak HTTP"),
        (steps(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), NotAnEngine, "HTTP"),
        (forever(b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n" * 100), NotAnEngine, "headers without end"),
        (forever(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 1000), NotAnEngine, "headers without end"),
        (forever(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 2**16), BrokenStream, "without end"),
        (forever(SSE_HEAD, chunk(b"x" * 2**16)), BrokenStream, "without end"),
        (forever(SSE_HEAD + b"0\r\n", b"X-Trailer: yes\r\n" * 100), BrokenStream, "without end"),
        (steps(5.0), Stalled, "sent nothing"),
        (steps(SSE_HEAD, chunk(b"hel"), 5.0), Stalled, "sent nothing"),
        (forever(b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n", pause=0.1), Stalled, "sent nothing"),
    ],
)
def test_what_goes_wrong_is_told_apart(script: Script, error: type[EngineError], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        fetch(script, wait_s=0.6)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def test_nothing_listens() -> None:
    with Loopback(steps()) as server:
        url = server.url
    with pytest.raises(Unreachable, match="refused"):
        Connection(address.parse(url)).fetch("GET", "/", wait_s=1)


def test_a_host_without_an_address() -> None:
    with pytest.raises(Unreachable, match="has no address"):
        Connection(address.parse("http://nosuch.invalid")).fetch("GET", "/", wait_s=1)


def test_a_self_signed_certificate_needs_the_flag(certificate: Path) -> None:
    with Loopback(steps(page("hello")), certificate=certificate) as server:
        with pytest.raises(Unreachable, match="--insecure"):
            connection(server).fetch("GET", "/", wait_s=5)
        wire = connection(server, insecure=True)
        for _ in range(2):
            assert wire.fetch("GET", "/", wait_s=5).body == b"hello"
        assert server.connections == 2  # the refused one, and one that served both requests
        wire.close()


def test_a_known_authority_needs_no_flag(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Loopback(steps(page("hello")), certificate=certificate) as server:
        wire = Connection(address.parse(server.url.replace("127.0.0.1", "localhost")))
        assert wire.fetch("GET", "/", wait_s=5).body == b"hello"
        wire.close()
        with pytest.raises(Unreachable, match="not trusted"):  # the certificate is for the name, not for the address
            connection(server).fetch("GET", "/", wait_s=5)


def test_tls_against_a_server_without_it() -> None:
    with Loopback(steps()) as server:
        wire = Connection(address.parse(server.url.replace("http:", "https:")), connect_s=1.0)
        with pytest.raises(Unreachable, match="http://"):
            wire.fetch("GET", "/", wait_s=1)


def test_no_tls_against_a_server_with_it(certificate: Path) -> None:
    with Loopback(steps(), certificate=certificate) as server, pytest.raises(EngineError):
        Connection(address.parse(server.url.replace("https:", "http:"))).fetch("GET", "/", wait_s=1)


def test_every_read_is_stamped_when_it_comes_and_coalesced_events_share_it() -> None:
    pause = 0.3
    with Loopback(steps(SSE_HEAD, pause, chunk(b"a") + chunk(b"b"), pause, chunk(b"c"), pause, END)) as server:
        wire = connection(server)
        reply = wire.request("POST", "/", body=b"{}", wait_s=5)
        reads = list(reply.reads())
        wire.close()
    assert [read.data for read in reads] == [b"ab", b"c"]
    assert reads[0].number < reads[1].number
    assert reply.sent_at < reply.headers_at < reads[0].at < reads[1].at
    for earlier, later in itertools.pairwise((reply.headers_at, reads[0].at, reads[1].at)):
        assert pause / 3 < later - earlier < pause + 2


def test_progress_starts_the_stall_clock_again_and_bytes_alone_do_not() -> None:
    drip = forever(SSE_HEAD, chunk(b"x"), pause=0.1)
    with Loopback(drip) as server:
        reply = connection(server).request("GET", "/", wait_s=0.5)
        started = time.perf_counter()

        def follow() -> None:
            for read in reply.reads():
                if read.at - started < 1.0:
                    reply.progress()

        with pytest.raises(Stalled):
            follow()
        assert 1.2 < time.perf_counter() - started < 4


def test_what_is_sent() -> None:
    with Loopback(steps(page("hello"))) as server:
        wire = Connection(address.parse(f"{server.url}/v1?key=1"))
        wire.fetch("POST", "/v1/x", body=b'{"a": 1}', headers={"X-Mine": "yes"}, wait_s=5)
        wire.close()
    request = server.requests[0]
    assert (request.method, request.path, request.body) == ("POST", "/v1/x?key=1", b'{"a": 1}')
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["x-mine"] == "yes"


def test_an_early_refusal_is_read_although_the_request_was_not_taken() -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            opened, _ = listener.accept()
            with opened:
                opened.recv(100)
                opened.sendall(page("too large", "413 Content Too Large"))
                opened.shutdown(socket.SHUT_WR)
                while opened.recv(2**16):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        wire = Connection(address.parse(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        assert wire.fetch("POST", "/", body=b"x" * 2**22, wait_s=5).status == 413
        wire.close()
        thread.join()
