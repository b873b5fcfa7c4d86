"""Opening a connection in an event loop, with TLS if asked for.

The transport with TLS is our own, over the plain one: unlike that of asyncio it can close one
direction, and it costs no buffers beyond what is under way. See ``tls``.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.client.dial import unreachable
from penstock.client.tls_channel import TlsChannel, TlsSettings


async def open_transport(
    factory: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    timeout_s: float,
    tls: TlsSettings | None = None,
) -> None:
    """Connect a protocol; raise a ``ClientError`` with the reason if that fails."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            if tls is None:
                await loop.create_connection(factory, host, port)
                return
            ready = loop.create_future()
            channel = tls.channel(host)
            transport, _ = await loop.create_connection(
                lambda: _TlsProtocol(channel, factory(), ready), host, port
            )
            try:
                await ready
            except BaseException:
                transport.abort()
                raise
    except OSError as error:
        raise unreachable(error, host, port, timeout_s) from error


async def open_streams(
    host: str, port: int, timeout_s: float, limit: int, tls: TlsSettings | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    protocol = _Streams(reader, loop=loop)
    await open_transport(lambda: protocol, host, port, timeout_s, tls)
    assert protocol.transport is not None
    return reader, asyncio.StreamWriter(protocol.transport, protocol, reader, loop)


class _Streams(asyncio.StreamReaderProtocol):
    """Remembers its transport, which ``StreamWriter`` is made of."""

    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # those of uvloop do not derive
        super().connection_made(transport)


class _TlsProtocol(asyncio.Protocol):
    """Stands between a plain transport and a protocol that sees it once it is safe."""

    def __init__(
        self, channel: TlsChannel, inner: asyncio.Protocol, ready: asyncio.Future[None]
    ) -> None:
        self._channel = channel
        self._inner = inner
        self._ready = ready
        self._is_safe = False
        self._raw: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._shake_hands(b"")

    def data_received(self, data: bytes) -> None:
        if not self._is_safe:
            self._shake_hands(data)
            data = b""  # what came behind the handshake waits in the channel
        if self._is_safe:
            self._decrypt(data)

    def _shake_hands(self, data: bytes) -> None:
        assert self._raw is not None
        try:
            self._is_safe = self._channel.shake_hands(data)
        except OSError as error:
            self._raw.write(self._channel.encrypted(b""))  # the alert
            self._fail(error)
            return
        self._raw.write(self._channel.encrypted(b""))
        if self._is_safe and not self._ready.done():
            self._inner.connection_made(_TlsTransport(self._raw, self._channel))
            self._ready.set_result(None)

    def _decrypt(self, data: bytes) -> None:
        try:
            plain = self._channel.decrypted(data)
        except OSError as error:
            self._fail(error)
            return
        if plain:
            self._inner.data_received(plain)
        if self._channel.has_ended:
            self.eof_received()

    def _fail(self, error: OSError) -> None:
        """End the connection; a protocol that saw it begin is told why."""
        if not self._ready.done():
            self._ready.set_exception(error)
        assert self._raw is not None
        self._inner, inner = asyncio.Protocol(), self._inner
        self._raw.abort()
        if self._is_safe:
            inner.connection_lost(error)

    def eof_received(self) -> bool | None:
        return bool(self._is_safe and self._inner.eof_received())

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ready.done():
            text = "the connection was closed during the TLS handshake"
            self._ready.set_exception(error or ConnectionResetError(text))
        elif self._is_safe:
            self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _TlsTransport(asyncio.Transport):
    """Encrypts what is written to a plain transport."""

    def __init__(self, raw: asyncio.Transport, channel: TlsChannel) -> None:
        super().__init__()
        self._raw = raw
        self._channel = channel
        self._has_ended = False
        self.get_extra_info = raw.get_extra_info  # type: ignore[method-assign]
        self.is_closing = raw.is_closing  # type: ignore[method-assign]
        self.abort = raw.abort  # type: ignore[method-assign]
        self.pause_reading = raw.pause_reading  # type: ignore[method-assign]
        self.resume_reading = raw.resume_reading  # type: ignore[method-assign]
        self.is_reading = raw.is_reading  # type: ignore[method-assign]
        self.get_write_buffer_size = raw.get_write_buffer_size  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._has_ended and not self._raw.is_closing():
            self._raw.write(self._channel.encrypted(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._say_goodbye()
        self._raw.write_eof()

    def close(self) -> None:
        self._say_goodbye()
        self._raw.close()

    def _say_goodbye(self) -> None:
        if not self._has_ended and not self._raw.is_closing():
            self._has_ended = True
            self._raw.write(self._channel.goodbye())
