"""TLS as a transport: decrypts what a socket receives, encrypts what is written to it.

``TlsHandshake`` is the protocol of a socket until both sides have agreed on keys; it is given the
bytes that the listener read to find out that a client speaks TLS, which ``loop.start_tls`` cannot
be given. Then a ``TlsTransport`` stands between the socket's transport and a connection, which uses
it like any other transport.

Both work on memory: ``ssl`` reads from one ``MemoryBIO`` and writes to another. A chunk from the
socket becomes one call of ``data_received``, however many records it has, and a write one write.
There is no buffer of plain text: the socket's transport has all that waits to be sent, and its
limits and calls to ``pause_writing`` pass through.

A memory BIO never gives back memory. So chunks are fed to it, and records fetched from it, in
pieces of ``RECORD_BYTES``: a client that once sent or received much costs no more than others.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Protocol, cast

from penstock.limits import KIB
from penstock.net.handshakes import HandshakeThreads
from penstock.net.wrapped_transport import WrappedTransport

RECORD_BYTES = 16 * KIB  # the most that a TLS record carries
HANDSHAKE_BYTES_MAX = 64 * KIB  # a ClientHello has 2 KiB at most, a chain of certificates some 10

Received = bytes | bytearray | memoryview


class TlsOwner(Protocol):
    """Waits for a handshake; ``connection_lost`` if the socket is gone before its end."""

    def secured(self, transport: "TlsTransport") -> None: ...  # becomes its protocol
    def tls_failed(self, why: str) -> None: ...  # the alert is written; close the transport
    def connection_lost(self, exc: Exception | None) -> None: ...


class TlsHandshake(asyncio.Protocol):
    """A socket until the end of the handshake.

    Threads compute the answer to a ClientHello: a third of a millisecond with a P-256 key, a whole
    one with RSA, and without the interpreter's lock. What follows is less than the way to a thread
    and back, unless a client's certificate is verified. While a thread is at work, reading pauses
    at the next chunk.
    """

    __slots__ = (
        "_bytes",
        "_has_answered",
        "_incoming",
        "_is_paused",
        "_is_stepping",
        "_outgoing",
        "_owner",
        "_raw",
        "_ssl",
        "_threads",
        "_waiting",
    )

    def __init__(
        self,
        raw: asyncio.Transport,
        context: ssl.SSLContext,
        threads: HandshakeThreads,
        owner: TlsOwner,
    ) -> None:
        self._raw = raw
        self._threads = threads
        self._owner = owner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._waiting = b""  # received, not looked at yet
        self._is_stepping = False
        self._is_paused = False
        self._bytes = 0
        self._has_answered = False
        raw.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if not self._is_stepping:
            self._step()
        elif not self._is_paused:
            self._is_paused = True
            self._raw.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)

    def _step(self) -> None:
        self._is_stepping = True
        data, self._waiting = self._waiting, b""
        self._bytes += len(data)
        if self._has_answered and self._ssl.context.verify_mode is ssl.CERT_NONE:
            self._advanced(self._advance(data))
        else:
            self._threads.submit(lambda: self._advance(data), self._advanced)

    def _advance(self, data: bytes) -> tuple[bool, bytes, str]:
        """In a thread: whether the handshake is done, what it left of the data, what failed."""
        for start in range(0, len(data), RECORD_BYTES):
            end = start + RECORD_BYTES
            self._incoming.write(data[start:end])
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except (ssl.SSLError, OSError, ValueError) as error:
                return False, b"", _why(error)
            return True, data[end:], ""
        return False, b"", ""

    def _advanced(self, result: tuple[bool, bytes, str]) -> None:
        is_done, rest, fault = result
        self._is_stepping = False
        if self._raw.is_closing():
            return
        if self._outgoing.pending:
            self._has_answered = True
            self._raw.write(self._outgoing.read())
        if is_done:
            self._finish(rest + self._waiting)
            return
        if not fault and self._bytes > HANDSHAKE_BYTES_MAX:
            fault = f"more than {HANDSHAKE_BYTES_MAX} bytes"
        if fault:
            self._owner.tls_failed(fault)
            return
        self._read_on()
        if self._waiting:
            self._step()

    def _read_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._raw.resume_reading()

    def _finish(self, rest: bytes) -> None:
        transport = TlsTransport(self._raw, self._ssl, self._incoming, self._outgoing)
        self._raw.set_protocol(transport)
        self._owner.secured(transport)
        if not transport.is_closing():
            self._read_on()
            transport.data_received(rest)  # even if empty: ``ssl`` may have read more


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)


class TlsTransport(WrappedTransport):
    """The protocol of a socket's transport, and the transport of a connection."""

    __slots__ = (
        "_error",
        "_incoming",
        "_is_ended",
        "_outgoing",
        "_protocol",
        "_ssl",
    )

    def __init__(
        self,
        raw: asyncio.Transport,
        ssl_object: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> None:
        super().__init__(raw)
        self._ssl = ssl_object
        self._incoming = incoming
        self._outgoing = outgoing
        self._protocol: asyncio.Protocol = _NOBODY
        self._is_ended = False  # whether the client has said that it sends no more
        self._error: ssl.SSLError | None = None

    # ── from the socket ───────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._is_closing or self._is_ended:
            return
        parts: list[bytes] = []
        is_ended = False
        try:
            if len(data) <= RECORD_BYTES:
                is_ended = self._decrypt(data, parts)
            else:
                pieces = range(0, len(data), RECORD_BYTES)
                is_ended = any(self._decrypt(data[at : at + RECORD_BYTES], parts) for at in pieces)
        except ssl.SSLError as error:
            self._deliver(parts)
            self._fail(error)
            return
        self._deliver(parts)
        if is_ended:
            self.eof_received()

    def _decrypt(self, data: bytes, parts: list[bytes]) -> bool:
        """Return whether the client has said goodbye; what it sends after that is ignored."""
        incoming, read = self._incoming, self._ssl.read
        incoming.write(data)
        try:
            while incoming.pending:
                if part := read(RECORD_BYTES):
                    parts.append(part)
                else:
                    return True
        except ssl.SSLWantReadError:
            pass  # the rest of a record is yet to come
        return False

    def _deliver(self, parts: list[bytes]) -> None:
        if self._outgoing.pending:  # the answer to a new key of the client
            self._raw.write(self._outgoing.read())
        if parts:
            self._protocol.data_received(parts[0] if len(parts) == 1 else b"".join(parts))

    def _fail(self, error: ssl.SSLError) -> None:
        """Records that were tampered with, or are none. The alert that says so is written."""
        self._error = error.with_traceback(None)  # whose frames have the keys
        self._is_closing = True
        self._raw.close()

    def eof_received(self) -> bool:
        """The client sends no more; without its goodbye, too, since protocols have lengths."""
        if not self._is_ended and not self._is_closing:
            self._is_ended = True
            if not self._protocol.eof_received():
                self.close()
        return not self._is_closing

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NOBODY  # breaks a cycle
        self._is_closing = True
        del self._ssl, self._incoming, self._outgoing  # deadlines remember the connection a while
        protocol.connection_lost(self._error or exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # ── for the connection ────────────────────────────────────────────────────────────────────

    def write(self, data: Received) -> None:
        if self._is_closing or not data:
            return
        if len(data) <= RECORD_BYTES:
            self._ssl.write(data)
            self._raw.write(self._outgoing.read())
            return
        view, parts = memoryview(data), list[bytes]()
        for start in range(0, len(view), RECORD_BYTES):
            self._ssl.write(view[start : start + RECORD_BYTES])
            parts.append(self._outgoing.read())
        self._raw.writelines(parts)

    def writelines(self, list_of_data: Iterable[Received]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        with contextlib.suppress(ssl.SSLError):  # "want read": the client's goodbye is not awaited
            self._ssl.unwrap()
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())
        self._raw.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name in _TLS_FACTS and hasattr(self, "_ssl"):
            return _TLS_FACTS[name](self._ssl)
        return super().get_extra_info(name, default)

    @property
    def ssl_object(self) -> ssl.SSLObject:
        return self._ssl


_TLS_FACTS: dict[str, Callable[[ssl.SSLObject], object]] = {
    "sslcontext": lambda ssl_object: ssl_object.context,
    "ssl_object": lambda ssl_object: ssl_object,
    "peercert": lambda ssl_object: ssl_object.getpeercert(),
    "cipher": lambda ssl_object: ssl_object.cipher(),
}
_NOBODY = asyncio.Protocol()  # takes what comes before and after a connection, and ignores it
