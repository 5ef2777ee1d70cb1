"""How the loop opens connections: which address of a host, and TLS."""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from engines_loop import ANSWER, fetch, order, run, well
from engines_loopback import CERTIFICATE, Loopback, stream

from phasewise.engines import address, line
from phasewise.engines.loop import Loop

pytestmark = pytest.mark.alone


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "certificate.pem"
    file.write_text(CERTIFICATE)
    return file


class TestAddresses:
    def places(self, monkeypatch: pytest.MonkeyPatch, *found: tuple[int, Any]) -> None:
        answer = [(family, socket.SOCK_STREAM, 6, "", where) for family, where in found]
        monkeypatch.setattr(line.socket, "getaddrinfo", lambda *_, **__: answer)

    def test_the_next_address_of_a_host_is_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as dead:
            nobody = dead.getsockname()
        with Loopback(lambda request: ANSWER) as server:
            self.places(monkeypatch, (socket.AF_INET, nobody), (socket.AF_INET, ("127.0.0.1", server.port)))
            for got in fetch("http://several.invalid", order(1), order(2)):
                well(got)

    def test_an_address_that_no_route_leads_to_is_passed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the first address of a host with IPv6 is on a machine without."""
        with Loopback(lambda request: ANSWER) as server:
            nowhere = ("127.0.0.1", server.port)
            self.places(monkeypatch, (socket.AF_INET6, nowhere[:1]), (socket.AF_INET, nowhere))
            real = socket.socket.connect_ex

            def connect_ex(self: socket.socket, where: Any) -> int:
                return errno.ENETUNREACH if self.family == socket.AF_INET6 else real(self, where)

            monkeypatch.setattr(line.socket.socket, "connect_ex", connect_ex)
            (got,) = fetch("http://several.invalid")
        well(got)

    def test_a_host_of_which_no_address_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            places = [(socket.AF_INET, dead.getsockname()) for dead in (one, two)]
        self.places(monkeypatch, *places)
        for got in fetch("http://several.invalid", order(1), order(2)):
            assert "Nothing listens at http://several.invalid" in got.error

    def test_ipv6(self) -> None:
        try:
            listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            pytest.skip("skipped: no IPv6 loopback")
        with Loopback(lambda request: ANSWER, listener=listener) as server:
            (got,) = fetch(f"http://[::1]:{server.port}")
            well(got)
            assert server.requests[0].headers["host"] == f"[::1]:{server.port}"

    def test_a_host_that_swallows_everything(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            fillers = []
            for _ in range(4):  # until its queue is full, and the next one hears nothing
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
                fillers.append(filler)
            before = time.perf_counter()
            (got,) = fetch(f"http://127.0.0.1:{full.getsockname()[1]}", stall_s=0.5)
            assert time.perf_counter() - before < 5
            for filler in fillers:
                filler.close()
        assert "No connection to http://127.0.0.1" in got.error

    def test_nothing_listens(self) -> None:
        with Loopback(lambda request: []) as server:
            url = server.url
        (got,) = fetch(url)
        assert "Nothing listens" in got.error
        assert got.sent_at == got.first_at == 0.0


class TestTls:
    @pytest.mark.parametrize("waiting", ["epoll", "poll"])
    def test_a_self_signed_certificate_needs_the_flag(
        self, certificate: Path, waiting: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if waiting == "poll":
            monkeypatch.delattr(select, "epoll", raising=False)  # macOS has none
        with Loopback(lambda request: ANSWER, certificate=certificate) as server:
            (got,) = fetch(server.url)
            assert "give --insecure" in got.error
            done = fetch(server.url, *(order(key) for key in range(8)), insecure=True)
        for got in done:
            well(got)
            assert got.stamped
            assert got.connect_s > 0

    def test_a_known_authority_needs_no_flag(self, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Loopback(lambda request: ANSWER, certificate=certificate) as server:
            well(fetch(server.url.replace("127.0.0.1", "localhost"))[0])
            assert "not trusted" in fetch(server.url)[0].error

    def test_connections_are_kept_and_large_requests_and_answers_pass(self, certificate: Path) -> None:
        big = stream([{"choices": [{"text": "x" * 100_000}]}] * 20)
        with (
            Loopback(lambda request: big, certificate=certificate) as server,
            Loop(address.parse(server.url), headers={}, stall_s=5, insecure=True) as loop,
        ):
            for key in range(2):
                (got,) = run(loop, [order(key, body=b'"' + b"x" * 2**22 + b'"')])
                assert got.error == ""
                assert got.arrivals.at.size == 20
                assert got.received > 2_000_000
            assert server.connections == 1
            assert {len(request.body) for request in server.requests} == {2**22 + 2}

    def test_each_token_bears_its_own_time(self, certificate: Path) -> None:
        slow = [step for one in ANSWER for step in (one, 0.05)]
        with Loopback(lambda request: slow, certificate=certificate) as server:
            (got,) = fetch(server.url, insecure=True)
        assert (got.arrivals.at[1:] - got.arrivals.at[:-1] > 40_000_000).all()

    @pytest.mark.parametrize(
        "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x16\x03\x03\xff\xff" + b"\0" * 200, b""]
    )
    def test_a_server_that_speaks_no_tls(self, answer: bytes) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve() -> None:
                opened = listener.accept()[0]
                opened.recv(10_000)
                opened.sendall(answer)
                opened.close()

            thread = threading.Thread(target=serve)
            thread.start()
            (got,) = fetch(f"https://127.0.0.1:{listener.getsockname()[1]}", insecure=True, stall_s=2)
            thread.join()
        assert "did not agree on TLS" in got.error or "No connection" in got.error

    def test_no_tls_against_a_server_with_it(self, certificate: Path) -> None:
        with Loopback(lambda request: ANSWER, certificate=certificate) as server:
            (got,) = fetch(server.url.replace("https", "http"), stall_s=2)
        assert got.error
