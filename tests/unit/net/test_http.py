"""The HTTP door on real sockets, on both event loops, with polite and with rude clients."""

import asyncio
import contextlib
import json

import pytest
import structlog
import uvloop

from penstock.net.http import HttpDoor
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason

GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
NEVER_S = 50.0


async def application(scope, receive, send):
    """Answer with the path, or do what the path says."""
    if scope["path"] == "/fail":
        raise ZeroDivisionError
    if scope["path"] == "/wait":
        await receive()
        await scope["hold"]()
    size = int(scope["query_string"] or 0)
    body = scope["path"].encode() + b"." * size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Detector(asyncio.Protocol):
    """Stands for the listener: hands over with the first bytes."""

    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.server.take(self.transport, data)


class BufferedDetector(asyncio.BufferedProtocol):
    """The same for a listener that reads into its own buffer."""

    def __init__(self, server):
        self.server = server
        self.buffer = bytearray(65_536)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.server.take(self.transport, bytes(self.buffer[:nbytes]))


class Server:
    """A door behind a listening socket; ``closed`` receives the reason of each end."""

    def __init__(self, detector=Detector, **limits):
        self.detector = detector
        self.taken = asyncio.Event()
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.empty = asyncio.Event()
        self.closed = asyncio.Queue()
        self.door = HttpDoor(self.app, self.on_close, **limits)

    def take(self, transport, data):
        self.door.accept(transport, data, Origin(0.0, "192.0.2.7:4711"))
        self.taken.set()

    def on_close(self, _transport, reason, _origin, _detail):
        self.closed.put_nowait(reason)
        if not self.door.connections:
            self.empty.set()

    async def app(self, scope, receive, send):
        scope["hold"] = self.hold
        await application(scope, receive, send)

    async def hold(self):
        self.held.set()
        await self.release.wait()

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.listener = await loop.create_server(lambda: self.detector(self), "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc):
        self.listener.close()
        self.empty.clear()
        self.door.abort_all()
        if self.door.connections:
            await self.empty.wait()

    @contextlib.asynccontextmanager
    async def connect(self):
        address = self.listener.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address[:2])
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def read_answer(reader):
    """Return status, headers and body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    if "content-length" not in headers:
        return int(head[0].split()[1]), headers, await reader.read()
    return (
        int(head[0].split()[1]),
        headers,
        await reader.readexactly(int(headers["content-length"])),
    )


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Run a test's coroutine on one of the loops; an uncaught exception fails it."""

    def run(main):
        faults = []
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.get_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
            runner.run(asyncio.wait_for(main(), NEVER_S))
        assert not faults

    return run


@pytest.mark.parametrize("detector", [Detector, BufferedDetector])
def test_a_connection_that_was_handed_over_is_answered(run, detector):
    async def main():
        async with Server(detector) as server, server.connect() as (reader, writer):
            writer.write(GET)
            status, headers, body = await read_answer(reader)
            assert (status, body) == (200, b"/health")
            assert headers["server"] == "penstock"
            assert headers["date"].endswith("gmt")

    run(main)


@pytest.mark.parametrize("detector", [Detector, BufferedDetector])
def test_a_connection_serves_several_requests(run, detector):
    async def main():
        async with Server(detector) as server, server.connect() as (reader, writer):
            for _ in range(3):
                writer.write(GET)
                assert (await read_answer(reader))[0] == 200
            assert server.door.connections == 1
            writer.close()
            assert await server.closed.get() is DisconnectReason.CLIENT_DISCONNECT
            assert server.door.connections == 0

    run(main)


def test_pipelined_requests_are_answered_in_order(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(b"".join(GET.replace(b"health", b"%d" % i) for i in range(20)))
            for i in range(20):
                assert (await read_answer(reader))[2] == b"/%d" % i

    run(main)


def test_a_request_may_arrive_byte_by_byte(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            for i in range(len(GET)):
                writer.write(GET[i : i + 1])
                await asyncio.sleep(0)
            assert (await read_answer(reader))[0] == 200

    run(main)


def test_a_client_that_asks_to_close_is_closed(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"Host", b"Connection: close\r\nHost"))
            await read_answer(reader)
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.CLIENT_DISCONNECT

    run(main)


def test_a_client_that_shuts_its_sending_side_gets_its_answer(run):
    """As a shell pipe into a socket does."""

    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"health", b"wait"))
            writer.write_eof()
            await server.held.wait()
            server.release.set()
            assert (await read_answer(reader))[2] == b"/wait"
            assert await reader.read() == b""

    run(main)


def test_a_client_that_vanishes_is_connection_lost(run):
    async def main():
        async with Server() as server, server.connect() as (_reader, writer):
            writer.write(b"GET / HT")
            await writer.drain()
            writer.transport.abort()
            assert await server.closed.get() is DisconnectReason.CONNECTION_LOST

    run(main)


# ── Rude clients


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # without Host
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n",
    ],
)
def test_garbage_is_answered_with_400_and_the_close(run, garbage):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(garbage)
            assert (await read_answer(reader))[0] == 400
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.MALFORMED_PACKET

    run(main)


def test_garbage_after_a_request_does_not_spoil_its_answer(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET + b"\x00garbage\r\n\r\n")
            assert (await read_answer(reader))[0] == 200
            assert (await read_answer(reader))[0] == 400
            assert await server.closed.get() is DisconnectReason.MALFORMED_PACKET

    run(main)


def test_bad_requests_are_not_logged(run, caplog, capfd):
    """A stranger must not be able to fill the log."""

    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            upgrade = b"Connection: upgrade\r\nUpgrade: websocket\r\nHost"
            writer.write(GET.replace(b"Host", upgrade) + b"\x00\r\n\r\n")
            await reader.read()

    run(main)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


LONG = GET[:-2] + b"X: " + b"x" * 5_000 + b"\r\n\r\n"


def test_an_unfinished_head_of_the_limit_may_go_on(run):
    async def main():
        async with Server(head_bytes_max=2_048) as server, server.connect() as (reader, writer):
            writer.write(LONG[:2_048])
            await server.taken.wait()
            writer.write(LONG[2_048:])
            assert (await read_answer(reader))[0] == 200

    run(main)


def test_an_unfinished_head_above_the_limit_is_refused(run):
    async def main():
        async with Server(head_bytes_max=2_048) as server, server.connect() as (reader, writer):
            writer.write(LONG[:2_049])
            assert (await read_answer(reader))[0] == 400
            assert await server.closed.get() is DisconnectReason.MALFORMED_PACKET

    run(main)


def test_a_body_of_the_limit_is_ignored(run):
    async def main():
        body = b"b" * 1_000
        request = GET.replace(b"Host", b"Content-Length: 1000\r\nHost") + body
        async with Server(body_bytes_max=1_000) as server, server.connect() as (reader, writer):
            for _ in range(2):
                writer.write(request)
                assert (await read_answer(reader))[0] == 200

    run(main)


@pytest.mark.parametrize("header", [b"Content-Length: 1001", b"Transfer-Encoding: chunked"])
def test_a_body_above_the_limit_or_of_unknown_size_is_refused(run, header):
    async def main():
        async with Server(body_bytes_max=1_000) as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"Host", header + b"\r\nHost"))
            status, _headers, body = await read_answer(reader)
            assert (status, json.loads(body)["error"]) == (413, "Request body too large")
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.PACKET_TOO_LARGE

    run(main)


def test_a_head_that_never_ends_is_cut_off(run):
    """However often a byte arrives."""

    async def main():
        limits = {"request_timeout_s": 0.05, "keep_alive_s": 0.05}
        async with Server(**limits) as server, server.connect() as (_reader, writer):
            writer.write(GET[:-2])
            while server.closed.empty():
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.005)
            assert await server.closed.get() is DisconnectReason.CONNECT_TIMEOUT

    run(main)


def test_every_answer_gives_new_time(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"health", b"wait"))
            await server.held.wait()
            (connection,) = server.door.state.connections
            timer = connection._timer
            server.release.set()
            await read_answer(reader)
            assert timer.cancelled()
            assert not connection._timer.cancelled()

    run(main)


def test_an_idle_connection_is_closed_after_the_keep_alive(run):
    async def main():
        limits = {"request_timeout_s": NEVER_S, "keep_alive_s": 0.02}
        async with Server(**limits) as server, server.connect() as (reader, writer):
            writer.write(GET)
            await read_answer(reader)
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.HTTP_IDLE

    run(main)


def test_a_client_that_does_not_take_its_answer_is_cut_off(run):
    async def main():
        limits = {"request_timeout_s": 0.05, "keep_alive_s": 0.05}
        async with Server(**limits) as server, server.connect() as (reader, writer):
            reader._transport.pause_reading()
            writer.write(GET.replace(b"health", b"?20000000"))
            assert await server.closed.get() in {
                DisconnectReason.CONNECT_TIMEOUT,
                DisconnectReason.KEEP_ALIVE_TIMEOUT,
            }

    run(main)


def test_more_connections_than_allowed_are_told_so(run):
    async def main():
        async with Server(connections_max=1) as server, server.connect() as (reader, writer):
            writer.write(GET)
            assert (await read_answer(reader))[0] == 200
            async with server.connect() as (second_reader, second_writer):
                second_writer.write(GET)
                assert (await read_answer(second_reader))[0] == 503

    run(main)


# ── Our own faults, and the end


def test_an_error_of_the_application_is_500_and_logged_once(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"health", b"fail"))
            assert (await read_answer(reader))[0] == 500
            assert await server.closed.get() is DisconnectReason.INTERNAL_ERROR

    with structlog.testing.capture_logs() as logged:
        run(main)
    assert [(line["event"], line["path"]) for line in logged] == [("http_request_failed", "/fail")]


def test_close_all_ends_idle_connections_at_once(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET)
            await read_answer(reader)
            server.door.close_all()
            server.door.close_all()
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.SERVER_SHUTDOWN

    run(main)


def test_close_all_lets_an_answer_under_way_finish(run):
    async def main():
        async with Server() as server, server.connect() as (reader, writer):
            writer.write(GET.replace(b"health", b"wait"))
            await server.held.wait()
            server.door.close_all()
            server.release.set()
            assert (await read_answer(reader))[2] == b"/wait"
            assert await reader.read() == b""
            assert await server.closed.get() is DisconnectReason.SERVER_SHUTDOWN

    run(main)


def test_abort_all_does_not_wait(run):
    async def main():
        async with Server() as server, server.connect() as (_reader, writer):
            writer.write(GET.replace(b"health", b"wait"))
            await server.held.wait()
            server.door.abort_all()
            assert await server.closed.get() is DisconnectReason.SERVER_SHUTDOWN
            server.release.set()

    run(main)
