"""The transport on asyncio's loop and on uvloop: flow control, big writes, both ends."""

import asyncio
import socket
import ssl

import pytest
import uvloop

from penstock.config.schema import Tls
from penstock.net.certificates import Certificates
from penstock.net.handshakes import HandshakeThreads
from penstock.net.tls import TlsHandshake
from tests.tls.authority import client_context, needs_openssl

pytestmark = needs_openssl

LIMIT = 64 * 1024
TOO_MUCH = 8 * 1024 * 1024  # more than the kernel holds for a client that does not read


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request):
    with asyncio.Runner(loop_factory=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def certificates(server_files):
    return Certificates(Tls(**server_files._asdict()), wall_ms=lambda: 1_700_000_000_000)


class Echo(asyncio.Protocol):
    """Stands for listener and connection: begins TLS at the first bytes, then echoes."""

    def __init__(self, certificates, threads):
        self.certificates, self.threads = certificates, threads
        self.events = []
        self.lost = asyncio.get_running_loop().create_future()
        self.paused, self.resumed = asyncio.Event(), asyncio.Event()
        self.failed = asyncio.Event()
        self.transport = None

    def connection_made(self, transport):
        self.raw = transport

    def data_received(self, data):
        if self.transport is None:
            context = self.certificates.context("off")
            TlsHandshake(self.raw, context, self.threads, self).data_received(data)
        elif data == b"flood":
            self.transport.set_write_buffer_limits(high=LIMIT)
            self.transport.write(bytes(TOO_MUCH))
        elif data == b"close":
            self.transport.write(bytes(TOO_MUCH))
            self.transport.close()
            assert self.transport.is_closing()
            self.transport.write(b"too late")
        else:
            self.transport.write(data)

    def secured(self, transport):
        self.transport = transport
        transport.set_protocol(self)

    def tls_failed(self, why):
        self.events.append(why)
        self.raw.close()
        self.failed.set()

    def eof_received(self):
        self.events.append("eof")

    def pause_writing(self):
        self.paused.set()

    def resume_writing(self):
        self.resumed.set()

    def connection_lost(self, exc):
        if not self.lost.done():
            self.lost.set_result(exc)


async def served(certificates, authority, use):
    """Run ``use(reader, writer, echo)`` with a client that has done its handshake."""
    loop = asyncio.get_running_loop()
    threads = HandshakeThreads(loop)
    made = []

    def make():
        made.append(Echo(certificates, threads))
        return made[-1]

    server = await loop.create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=client_context(authority), server_hostname="localhost"
    )
    try:
        async with asyncio.timeout(60):
            await use(reader, writer, made[0])
    finally:
        writer.close()
        server.close()
        threads.close()


def test_megabytes_come_back_as_they_were_sent(runner, certificates, authority):
    payload = bytes(range(256)) * 8_000  # 2 MB

    async def use(reader, writer, _echo):
        writer.write(payload)
        assert await reader.readexactly(len(payload)) == payload

    runner.run(served(certificates, authority, use))


def test_a_client_that_does_not_read_pauses_writing_until_it_does(runner, certificates, authority):
    async def use(reader, writer, echo):
        reader._transport.pause_reading()
        writer.write(b"flood")
        await echo.paused.wait()
        assert echo.transport.get_write_buffer_size() > LIMIT
        assert not echo.resumed.is_set()
        reader._transport.resume_reading()
        assert await reader.readexactly(TOO_MUCH) == bytes(TOO_MUCH)
        await echo.resumed.wait()
        assert echo.transport.get_write_buffer_size() <= LIMIT

    runner.run(served(certificates, authority, use))


def test_while_reading_is_paused_nothing_is_delivered(runner, certificates, authority):
    async def use(reader, writer, echo):
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        echo.transport.pause_reading()
        assert not echo.transport.is_reading()
        writer.write(b"two")
        answer = asyncio.ensure_future(reader.readexactly(3))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not answer.done()
        echo.transport.resume_reading()
        assert await answer == b"two"

    runner.run(served(certificates, authority, use))


def test_closing_writes_the_rest_and_says_goodbye(runner, certificates, authority):
    """To a client with sockets of its own: uvloop's TLS loses what it has not read at a goodbye."""

    def read_all(port):
        context = client_context(authority)
        received = b""
        with (
            socket.create_connection(("127.0.0.1", port), 60) as plain,
            context.wrap_socket(
                plain, server_hostname="localhost", suppress_ragged_eofs=False
            ) as client,
        ):
            client.sendall(b"close")
            while part := client.recv(65_536):  # raises if the end comes without a goodbye
                received += part
        return received

    async def use(_reader, writer, _echo):
        port = writer.get_extra_info("peername")[1]
        assert await asyncio.to_thread(read_all, port) == bytes(TOO_MUCH)

    runner.run(served(certificates, authority, use))


def test_the_goodbye_of_a_client_is_an_end_and_ends_the_connection(runner, certificates, authority):
    async def use(reader, writer, echo):
        writer.write(b"bye")
        assert await reader.readexactly(3) == b"bye"
        writer.close()
        assert await echo.lost is None
        assert echo.events == ["eof"]

    runner.run(served(certificates, authority, use))


def test_an_aborted_connection_ends_at_once(runner, certificates, authority):
    async def use(reader, writer, echo):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        echo.transport.write(bytes(TOO_MUCH))
        echo.transport.abort()
        await echo.lost
        assert echo.transport.get_extra_info("sslcontext") is None
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(TOO_MUCH)

    runner.run(served(certificates, authority, use))
