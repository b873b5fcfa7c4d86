"""The lane of streams at the HTTP door: how long they last, how many there are, who is cut."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from penstock.net.http import HttpDoor
from penstock.net.http_streams import STREAM
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason

NEVER_S = 50.0
GET = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"


class First(asyncio.Protocol):
    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

    def data_received(self, data):
        self.server.door.accept(self.transport, data, Origin(0.0, "192.0.2.7:4711"))


class Server:
    """``/stream`` writes what the test puts into ``lines``; ``/flood`` as much as it can."""

    def __init__(self, **limits):
        self.closed = asyncio.Queue()
        self.lines = asyncio.Queue()
        self.flooded = 0
        self.door = HttpDoor(self.app, self.on_close, **limits)

    def on_close(self, _transport, reason, _origin, _detail):
        self.closed.put_nowait(reason)

    async def app(self, scope, receive, send):
        has_room = scope["path"] == "/plain" or scope[STREAM]()
        status = 200 if has_room else 503
        await send({"type": "http.response.start", "status": status, "headers": []})
        if scope["path"] == "/stream" and has_room:
            while line := await self.lines.get():
                await send({"type": "http.response.body", "body": line, "more_body": True})
        gone = asyncio.ensure_future(self.gone(receive))
        while scope["path"] == "/flood" and not gone.done():
            await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
            self.flooded += 10_000
            await asyncio.sleep(0)  # ``send`` to a client that is gone does not wait
        gone.cancel()
        await send({"type": "http.response.body", "body": b"end", "more_body": False})

    async def gone(self, receive):
        while (await receive())["type"] != "http.disconnect":
            pass

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.listener = await loop.create_server(lambda: First(self), "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc):
        self.listener.close()
        self.lines.put_nowait(b"")
        self.door.abort_all()

    @contextlib.asynccontextmanager
    async def ask(self, path):
        address = self.listener.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address[:2], limit=1_000)
        writer.write(GET % path.encode())
        try:
            yield reader, int((await reader.readline()).split()[1])
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    def run(main):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(main(), NEVER_S))

    return run


def test_stream_outlives_the_time_of_other_answers(run):
    async def main():
        limits = {"request_timeout_s": 0.05, "keep_alive_s": 0.05}
        async with Server(**limits) as server:
            loop = asyncio.get_running_loop()
            async with server.ask("stream") as (reader, status):
                began = loop.time()
                while loop.time() < began + 0.3:
                    server.lines.put_nowait(b"tick\n")
                    await reader.readuntil(b"tick\n")
            assert status == 200
            assert await server.closed.get() is DisconnectReason.CLIENT_DISCONNECT

    run(main)


def test_reader_that_takes_nothing_is_cut_with_a_reason(run):
    async def main():
        async with Server(stream_silence_s=0.2) as server, server.ask("flood") as (_, status):
            assert status == 200
            assert await server.closed.get() is DisconnectReason.STREAM_STALLED
            assert server.flooded < 10_000_000

    run(main)


def test_reader_that_takes_a_little_at_a_time_is_not_cut(run):
    async def main():
        async with Server(stream_silence_s=0.4) as server, server.ask("flood") as (reader, _):
            loop = asyncio.get_running_loop()
            began = loop.time()
            while loop.time() < began + 1.0:
                assert await reader.read(1_000)
            assert server.closed.empty()

    run(main)


def test_there_are_so_many_streams_and_other_answers_have_their_own_room(run):
    async def main():
        async with (
            Server(streams_max=2, connections_max=2) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            for _ in range(2):
                _, status = await stack.enter_async_context(server.ask("stream"))
                assert status == 200
            assert len(server.door.streams) == 2
            assert server.door.connections == 0
            async with server.ask("stream") as (_, status):
                assert status == 503
            for _ in range(2):
                _, status = await stack.enter_async_context(server.ask("plain"))
                assert status == 200

    run(main)


def test_stream_that_ends_leaves_the_lane(run):
    async def main():
        async with Server(streams_max=1) as server:
            async with server.ask("stream") as (reader, _):
                server.lines.put_nowait(b"")
                await reader.readuntil(b"end")
            await server.closed.get()
            assert not server.door.streams

    run(main)


def test_stopping_ends_streams(run):
    async def main():
        async with Server() as server, server.ask("stream"):
            server.door.close_all()
            assert await server.closed.get() is DisconnectReason.SERVER_SHUTDOWN

    run(main)
