"""One HTTP/1.1 response, fed with what the socket gave: httptools (llhttp) parses, this keeps."""

from __future__ import annotations

import httptools

from phasewise.errors import BrokenStream, NotAnEngine

MAX_HEAD = 64 * 2**10
"""Bytes of status line and headers."""


class Message:
    """A response as far as it has come; each has a parser of its own.

    Attributes:
        status: HTTP status code; 0 before the head is complete.
        headers: by lower-case name; of repeated ones, all, joined by a comma.
        has_head: the head is complete.
        complete: the whole body has come.
        size: bytes of body that it found.
        keep: the connection may carry another request.
        astray: a second answer followed the first: nothing on such a connection can be trusted.
        between: the last read ended a chunk of the body, and no chunk, trailer or end has begun after it.
    """

    def __init__(self, where: str) -> None:
        self.status = self.size = 0
        self.headers: dict[str, str] = {}
        self.has_head = self.complete = self.keep = self.astray = self.between = False
        self._where = where
        self._parts: list[bytes] = []
        self._head_size = self._received = 0
        self._whole = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Take what one read gave.

        Raises:
            NotAnEngine: it is no HTTP, or its headers have no end.
            BrokenStream: the framing broke, or the body is compressed although that was asked away.
        """
        self._received += len(data)
        headless = not self.has_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self.has_head:
                raise NotAnEngine(f"{self._where} does not speak HTTP: is this the port of an LLM server?") from None
            if not self.complete:
                raise BrokenStream(f"{self._where} broke the HTTP framing of its answer: look at its log.") from None
        # The line with a chunk's size, once it has ended, is told; what has come of one that has not ends in no CRLF.
        self.between = self._whole and not self.complete and data[-2:] == b"\r\n"
        if self._head_size > MAX_HEAD or (not self.has_head and self._received > MAX_HEAD):
            if self.has_head and not headless:
                raise BrokenStream(f"{self._where} sends an answer without end: this is no answer of a model.")
            raise NotAnEngine(
                f"{self._where} sends headers without end (over {MAX_HEAD >> 10} KiB): this is no LLM server."
            )
        if headless and self.has_head and self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BrokenStream(
                f"{self._where} compresses its answer although that was asked away, which hides when tokens arrive: "
                "turn compression off in the server or the proxy before it."
            )

    @property
    def framed(self) -> bool:
        """Whether the body's end is marked, so that the end of the connection before it is a fault."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")

    def take(self) -> bytes:
        """The body bytes since the last call."""
        parts = self._parts
        if not parts:
            return b""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return data

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Notice a second answer to the one request."""
        if self.complete:
            self.astray = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header, or one trailer."""
        self._head_size += len(name) + len(value) + 4
        if not (self.has_head or self.complete):
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Take the end of the head; an interim answer (1xx) is not it."""
        status = self._parser.get_status_code()
        if self.complete:
            return
        if status >= 200:
            self.status, self.has_head = status, True
        else:
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        """Take body bytes."""
        if not self.complete:
            self._parts.append(data)
            self.size += len(data)

    def on_chunk_header(self) -> None:
        """Notice that a chunk begins; the last, which is empty, and trailers are not `between` any."""
        self._whole = False

    def on_chunk_complete(self) -> None:
        """Notice that it has come."""
        self._whole = True

    def on_message_complete(self) -> None:
        """Take the end of the body."""
        if self.has_head and not self.complete:
            self.complete, self.keep = True, self._parser.should_keep_alive()
