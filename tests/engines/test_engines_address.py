from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.engines import address
from phasewise.errors import UsageError


@pytest.mark.parametrize(
    ("url", "shown", "path", "port"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "", 8000),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000", "", 8000),
        ("http://host/v1/", "http://host/v1", "/v1", 80),
        ("HTTPS://Host/llm/v1/chat/completions", "https://host/llm/v1", "/llm/v1", 443),
        ("http://host/v1/completions?x=1#y", "http://host/v1", "/v1", 80),
        ("https://user:password@host:8443/v1?key=secret", "https://host:8443/v1", "/v1", 8443),
        ("http://[::1]:8000", "http://[::1]:8000", "", 8000),
        ("http://bücher.example", "http://xn--bcher-kva.example", "", 80),
        ("http://host/ä", "http://host/%C3%A4", "/%C3%A4", 80),
        ("HTTP://127.0.0.1:1", "http://127.0.0.1:1", "", 1),
        ("http://my_container.lan.:1", "http://my_container.lan.:1", "", 1),
    ],
)
def test_urls(url: str, shown: str, path: str, port: int) -> None:
    found = address.parse(url)
    assert (found.shown, found.path, found.port) == (shown, path, port)


@pytest.mark.parametrize(
    ("text", "url"),
    [("http://x", True), ("HTTPS://x", True), ("Http://", True), ("gguf:http://", False), ("x", False), ("", False)],
)
def test_what_is_meant_as_a_url(text: str, url: bool) -> None:
    assert address.is_url(text) is url


def test_login_and_query_are_used_but_not_shown() -> None:
    found = address.parse("https://us%20er:pa%3Ass@host/v1?api-version=2")
    assert found.login == "Basic dXMgZXI6cGE6c3M="  # echo -n 'us er:pa:ss' | base64
    assert found.target("/v1/models") == "/v1/models?api-version=2"
    assert "pa" not in found.shown
    assert "api-version" not in found.shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host",
        "localhost:8000",
        "ftp://host",
        "http://",
        "http://:80",
        "http://host:0",
        "http://host:99999",
        "http://host:x",
        "http://[::1",
        "http://a b",
        "http://host/\r\nX: y",
        "http://host\x7f",
        "http://" + "ä" * 80 + ".example",
        "gguf:x",
        "http://" + "a" * 300,
        "http://" + "a." * 150 + "b",
        "http://a..b",
        "http://.",
        "http://a_b!c",
        "http://[fe80::zz]",
        "http://xn--\u00e4..b",
        "http://host/\udcff",
        "http://\udcff",
        "http://\udcff@host",
    ],
)
def test_what_is_no_server_url(url: str) -> None:
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:8000"):
        address.parse(url)


@given(st.text(st.characters(), max_size=40))
def test_any_text_is_an_address_or_the_users_mistake(text: str) -> None:
    for url in (text, f"http://{text}", f"http://host/{text}", f"http://host?{text}", f"http://{text}@host"):
        try:
            found = address.parse(url)
        except UsageError:
            continue
        assert (found.authority + found.target(found.path)).isascii()
        assert not set(found.authority + found.target(found.path) + found.login) & {"\r", "\n"}
