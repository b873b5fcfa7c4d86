"""The TLS of one connection, without a socket: ciphertext in, plaintext out, and the way back.

The blocking links (``tls_socket``) and the asyncio ones (``async_dial``) share it. So one thread
can read while another writes, which the sockets of Python's ``ssl`` do not allow before 3.13, and a
direction can be closed while the other one goes on, which the transports of asyncio do not allow.
"""

import socket
import ssl
from contextlib import suppress
from typing import Final

from penstock.client.errors import ClientError, ConnectionLostError, TlsFailedError

READ_BYTES: Final = 16 * 1024  # as much as a record has
ENCRYPT_BYTES: Final = 64 * 1024  # at a time, so that ciphertext is never twice a large message


class TlsSettings:
    """The keyword, read: a context for all connections of one client."""

    def __init__(self, context: ssl.SSLContext, server_name: str = "") -> None:
        self._context = context
        self._server_name = server_name

    @property
    def is_verified(self) -> bool:
        """Whether another server cannot pretend to be the broker."""
        context = self._context
        return context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname

    def wrapped(self, connection: socket.socket, host: str) -> ssl.SSLSocket:
        """TLS by Python's own socket, for libraries that need one."""
        return self._context.wrap_socket(connection, server_hostname=self._server_name or host)

    def channel(self, host: str) -> "TlsChannel":
        """Begin the TLS of a new connection."""
        return TlsChannel(self._context, self._server_name or host)


class TlsChannel:
    """The TLS of one connection, between plaintext and ciphertext; see the module."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.has_ended = False  # the broker ends its direction

    def shake_hands(self, data: bytes = b"") -> bool:
        """Go on with the handshake; true when it is done. Raises ssl.SSLError."""
        self._incoming.write(data)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypted(self, data: bytes) -> bytes:
        """Return the plaintext that ``data`` completes, perhaps none. Raises ssl.SSLError."""
        self._incoming.write(data)
        read, parts = self._ssl.read, list[bytes]()
        try:
            while part := read(READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        else:
            self.has_ended = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def encrypted(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the ciphertext of ``data``, after what TLS itself has to say."""
        if data:
            self._ssl.write(data)  # a BIO in memory takes everything
        return self._outgoing.read()

    def goodbye(self) -> bytes:
        """Return the alert that ends our direction; reading goes on."""
        with suppress(ssl.SSLError):  # it waits for the other end's, or that one was faster
            self._ssl.unwrap()
        return self._outgoing.read()


class HandshakeClosedError(ssl.SSLError):
    """The other end closed the connection instead of shaking hands."""


# ── Errors ────────────────────────────────────────────────────────────────────────────────────

_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"}
)
_ADVICE: Final = "does it demand a client certificate? Give cert_file and key_file (--cert, --key)"


def handshake_failed(error: ssl.SSLError, address: str) -> ClientError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailedError(
            f"the certificate of {address} is not accepted: {error.verify_message}",
            "name its authority (ca_file, --ca-file), or connect by a name that it has",
        )
    if isinstance(error, HandshakeClosedError) or error.reason in _NOT_TLS:
        return TlsFailedError(
            f"{address} does not answer with TLS", "has the broker a certificate? (--tls-cert)"
        )
    return TlsFailedError(f"no TLS with {address}: {_words(error)}", _ADVICE)


def ended_by_tls(error: ssl.SSLError) -> ConnectionLostError:
    return ConnectionLostError(f"the connection was ended by TLS: {_words(error)}", _ADVICE)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
