"""TLS apart from its socket, so that a read of a secured connection bears the kernel's stamp too.

``ssl.SSLSocket`` reads by itself and loses the stamp. Here the bytes are read as from any socket, and handed to
OpenSSL, which gives back what they held.
"""

from __future__ import annotations

import ssl

_RECORD = 16 * 2**10


class Tls:
    """The client's end of one TLS connection: bytes of the network in, bytes of the network out.

    All methods raise ssl.SSLError, an OSError, for what is no TLS or cannot be trusted.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)

    def shake(self, received: bytes = b"") -> bool:
        """Go on with the handshake; True when it is done. Either way ``pending`` is to be sent."""
        self._in.write(received)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def pending(self) -> bytes:
        """What is to be sent, once."""
        return self._out.read()

    def seal(self, data: bytes) -> bytes:
        """``data`` as it goes over the network, after what else was pending."""
        self._tls.write(data)
        return self.pending()

    def unseal(self, received: bytes) -> bytes:
        """What can be read after ``received`` came: nothing before a record is whole."""
        self._in.write(received)
        parts = []
        try:
            while part := self._tls.read(_RECORD):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)
