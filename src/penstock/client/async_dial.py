"""Opening a connection in an event loop, with TLS if asked for.

The transport with TLS is our own, over the plain one: unlike that of asyncio it can close one
direction, and it costs no buffers beyond what is under way. See ``tls``.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.client.credentials import Login
from penstock.client.dial import lost, unreachable
from penstock.client.errors import ClientError
from penstock.client.tls_channel import HandshakeClosedError, TlsChannel, TlsSettings


async def open_transport(
    factory: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    timeout_s: float,
    tls: TlsSettings | None = None,
    login: Login | None = None,
) -> None:
    """Connect a protocol and log in; raise a ``ClientError`` with the reason if that fails.

    The protocol sees the connection when all of that is done.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            ready, protocol = loop.create_future(), factory()
            if login is not None:
                protocol = _LoginProtocol(protocol, ready, login)
            if tls is not None:
                protocol = _TlsProtocol(protocol, ready, tls.channel(host))
            transport, _ = await loop.create_connection(lambda: protocol, host, port)
            if isinstance(protocol, _Stage):
                try:
                    await ready
                except BaseException:
                    transport.abort()
                    raise
    except OSError as error:
        raise unreachable(error, host, port, timeout_s) from error


async def open_streams(
    host: str,
    port: int,
    timeout_s: float,
    limit: int,
    tls: TlsSettings | None = None,
    login: Login | None = None,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    protocol = _Streams(reader, loop=loop)
    await open_transport(lambda: protocol, host, port, timeout_s, tls, login)
    assert protocol.transport is not None
    return reader, asyncio.StreamWriter(protocol.transport, protocol, reader, loop)


class _Streams(asyncio.StreamReaderProtocol):
    """Remembers its transport, which ``StreamWriter`` is made of."""

    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # those of uvloop do not derive
        super().connection_made(transport)


class _Stage(asyncio.Protocol):
    """Stands between a transport and the protocol that sees it when this stage is done."""

    def __init__(self, inner: asyncio.Protocol, ready: asyncio.Future[None]) -> None:
        self._inner = inner
        self._ready = ready  # of the whole connection
        self._is_done = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._begin(self._transport)

    def _begin(self, transport: asyncio.Transport) -> None:
        raise NotImplementedError

    def _finish(self, transport: asyncio.Transport) -> None:
        """Hand the connection on, unless nobody waits for it any more."""
        self._is_done = True
        if not self._ready.done():
            self._inner.connection_made(transport)
            if not isinstance(self._inner, _Stage):
                self._ready.set_result(None)

    def _fail(self, error: Exception) -> None:
        """End the connection; a protocol that saw it begin is told why."""
        assert self._transport is not None
        inner, self._inner = self._inner, asyncio.Protocol()
        self._transport.abort()
        if self._is_done:
            inner.connection_lost(error)
        elif not self._ready.done():
            self._ready.set_exception(error)

    def eof_received(self) -> bool | None:
        return bool(self._is_done and self._inner.eof_received())

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_done:
            self._inner.connection_lost(error)
        elif not self._ready.done():
            self._ready.set_exception(error or self._closed())

    def _closed(self) -> Exception:
        return lost()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _TlsProtocol(_Stage):
    """Encrypts."""

    def __init__(
        self, inner: asyncio.Protocol, ready: asyncio.Future[None], channel: TlsChannel
    ) -> None:
        super().__init__(inner, ready)
        self._channel = channel

    def _begin(self, transport: asyncio.Transport) -> None:
        self._shake_hands(transport, b"")

    def _closed(self) -> Exception:
        return HandshakeClosedError()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if not self._is_done:
            self._shake_hands(self._transport, data)
            data = b""  # what came behind the handshake waits in the channel
        if self._is_done:
            self._decrypt(data)

    def _shake_hands(self, transport: asyncio.Transport, data: bytes) -> None:
        try:
            is_done = self._channel.shake_hands(data)
        except OSError as error:
            transport.write(self._channel.encrypted(b""))  # the alert
            self._fail(error)
            return
        transport.write(self._channel.encrypted(b""))
        if is_done:
            self._finish(_TlsTransport(transport, self._channel, self))

    def hand_over(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner = cast("asyncio.Protocol", protocol)

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


class _LoginProtocol(_Stage):
    """Logs in; then it has nothing to do any more."""

    def __init__(self, inner: asyncio.Protocol, ready: asyncio.Future[None], login: Login) -> None:
        super().__init__(inner, ready)
        self._login = login

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.write(self._login.begin())

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._is_done:
            self._inner.data_received(data)
            return
        try:
            answer = self._login.receive(data)
        except ClientError as error:
            self._fail(error)
            return
        if answer is None:
            self._transport.set_protocol(self._inner)  # without a call in between from now on
            self._finish(self._transport)
        elif answer:
            self._transport.write(answer)


class _TlsTransport(asyncio.Transport):
    """Encrypts what is written to a plain transport."""

    def __init__(self, raw: asyncio.Transport, channel: TlsChannel, protocol: _TlsProtocol) -> None:
        super().__init__()
        self.set_protocol = protocol.hand_over  # type: ignore[method-assign]
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
