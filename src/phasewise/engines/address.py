"""Where a server is: a URL taken apart, without its secrets in anything that is shown."""

from __future__ import annotations

import base64
import ipaddress
import re
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec

from phasewise.engines.text import is_text
from phasewise.errors import UsageError

_ENDPOINTS = ("/chat/completions", "/completions", "/models")

_LABEL = re.compile(r"[a-z0-9_-]{1,63}", re.IGNORECASE)
"""One part of a host's name (RFC 1035, and the underscore that container networks use)."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A server's address.

    Attributes:
        scheme: ``http`` or ``https``.
        host: name or IP address, IPv6 without brackets.
        port: TCP port.
        path: what stands before the server's own paths, without a trailing slash (``""``, ``"/v1"``, ``"/llm/v1"``).
        query: sent with every request (some gateways need it), never shown.
        login: value of a Basic ``Authorization`` header from ``user:password@``, never shown; empty without one.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str
    query: str = ""
    login: str = ""

    @property
    def authority(self) -> str:
        """Value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL as it may be printed: without login and query."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def target(self, path: str) -> str:
        """Request target of ``path``, which starts at the server's root."""
        return f"{path}?{self.query}" if self.query else path


def is_url(text: str) -> bool:
    """Whether ``text`` is meant as a server's URL; the scheme may be in capitals."""
    return text.lower().startswith(("http://", "https://"))


def parse(url: str) -> Address:
    """Read ``url``; an endpoint at its end (``/v1/chat/completions``) is taken off.

    Raises:
        UsageError: not an http or https URL with a host and a port that can be.
    """
    example = "write it like http://127.0.0.1:8000"
    if not is_text(url) or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise UsageError(f"The URL holds a space, a control character or a byte that is no text: {example}.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(f"The URL is not one that can be read: {example}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"A server's URL starts with http:// or https:// and names a host: {example}.")
    if port == 0:
        raise UsageError(f"Port 0 is no server's port: {example}.")
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~-._").rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint)
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    return Address(
        scheme=scheme,
        host=_host(parts.hostname, example),
        port=port or {"http": 80, "https": 443}[scheme],
        path=path.rstrip("/"),
        query=quote(parts.query, safe="=&%/?:@!$'()*+,;~-._"),
        login=_login(parts),
    )


def _host(host: str, example: str) -> str:
    """``host`` in ASCII: an IPv6 address, or a name that a resolver can be asked for."""
    try:
        ascii_ = host if host.isascii() else host.encode("idna").decode("ascii")
        if ":" in ascii_:
            ipaddress.IPv6Address(ascii_)
            return ascii_
    except ValueError:
        ascii_ = ""
    if len(ascii_) > 253 or not all(_LABEL.fullmatch(label) for label in ascii_.removesuffix(".").split(".")):
        raise UsageError(f"The URL's host is no address and no name that DNS knows: {example}.")
    return ascii_


def _login(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
