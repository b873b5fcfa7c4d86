"""The relays between nodes follow the campaign's commands, and identify who connects."""

import asyncio
import random
import time

import pytest

from penstock.cluster.framing import PeerFrameWriter
from penstock.cluster.handshake import Dialer, Identity, Purpose
from tests.chaos.network import Network

ANSWER_S = 10.0


class Echo:
    """A node that echoes everything, behind a relay."""

    async def __aenter__(self):
        self.network = Network(random.Random(1))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.port = await self.network.add(2, port)
        return self

    async def _serve(self, reader, writer):
        while data := await reader.read(1024):
            writer.write(data)
        writer.transport.abort()

    async def __aexit__(self, *_exception):
        await self.network.close()
        self._server.close()
        await asyncio.sleep(0.01)

    async def dial(self, node):
        """Connect as a node does: its first frame identifies it and is echoed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        hello = Dialer(Identity(node, 7), 2, Purpose.CONTROL, b"", bytes(32)).hello
        frame = b"".join(PeerFrameWriter().frame(hello))
        writer.write(frame)
        return reader, writer, len(frame)


async def opened(echo, node):
    reader, writer, length = await echo.dial(node)
    async with asyncio.timeout(ANSWER_S):
        await reader.readexactly(length)
    return reader, writer


async def is_silent(reader):
    """Return whether nothing arrives for a moment."""
    try:
        async with asyncio.timeout(0.2):
            await reader.readexactly(1)
    except TimeoutError:
        return True
    return False


@pytest.mark.asyncio
async def test_what_is_said_is_passed_on_both_ways():
    async with Echo() as echo:
        reader, writer = await opened(echo, 1)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.transport.abort()


@pytest.mark.asyncio
@pytest.mark.parametrize("cut", [(1, 2), (2, 1)])
@pytest.mark.parametrize("late", [True, False])
async def test_what_is_cut_is_held_and_comes_late_or_never(cut, late):
    async with Echo() as echo:
        reader, writer = await opened(echo, 1)
        other_reader, other_writer = await opened(echo, 3)
        echo.network.way(*cut).is_open.clear()
        writer.write(b"hello")
        other_writer.write(b"other")
        assert await other_reader.readexactly(5) == b"other"
        assert await is_silent(reader)
        await echo.network.heal(late=late)
        if late or cut == (2, 1):  # the connection is 1's; what 2 dialed would be gone
            assert await reader.readexactly(5) == b"hello"
        else:
            assert await reader.read() == b""
        writer.transport.abort()
        other_writer.transport.abort()


@pytest.mark.asyncio
async def test_a_way_that_refuses_closes_what_comes():
    async with Echo() as echo:
        echo.network.way(1, 2).refuses = True
        reader, writer, _ = await echo.dial(1)
        assert await reader.read() == b""
        writer.transport.abort()
        _, writer = await opened(echo, 3)
        writer.transport.abort()


@pytest.mark.asyncio
async def test_dropped_connections_are_those_of_one_node():
    async with Echo() as echo:
        reader, writer = await opened(echo, 1)
        other_reader, other_writer = await opened(echo, 3)
        await echo.network.drop(1, 2)
        assert await reader.read() == b""
        other_writer.write(b"other")
        assert await other_reader.readexactly(5) == b"other"
        writer.transport.abort()
        other_writer.transport.abort()


@pytest.mark.asyncio
async def test_a_delayed_way_keeps_the_order():
    async with Echo() as echo:
        reader, writer = await opened(echo, 1)
        way = echo.network.way(1, 2)
        way.delay_s, way.jitter_s = 0.1, 0.1
        began = time.monotonic()
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.005)
        assert await reader.readexactly(10) == b"0123456789"
        assert time.monotonic() - began > 0.1
        writer.transport.abort()
