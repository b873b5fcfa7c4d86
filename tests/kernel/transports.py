"""Servers whose transports are compared: the kernel's, uvloop's, asyncio's."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import uvloop

from penstock.kernel.sockets import Poller
from penstock.net.sockets import listening_sockets

TIMEOUT_S = 20.0


class Turns:
    """Told where the poller's turns begin and end."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def begin_turn(self) -> None:
        self.begun += 1

    def end_turn(self) -> None:
        self.ended += 1


class Recorder(asyncio.Protocol):
    """Notes what happens to a connection; ``on_data`` may do something about it."""

    def __init__(self, bench: "Bench") -> None:
        self.bench = bench
        self.received = bytearray()
        self.chunks = 0
        self.calls: list[str] = []
        self.lost: list[Exception | None] = []
        self.keeps_half_open = False
        self.on_data: Callable[[Recorder, bytes], None] = lambda _recorder, _data: None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.bench.made.append(self)
        self.bench.on_made(self)
        self.bench.changed.set()

    def data_received(self, data: bytes) -> None:
        assert not self.lost
        self.received += data
        self.chunks += 1
        self.bench.changed.set()
        self.on_data(self, data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        self.bench.changed.set()
        return self.keeps_half_open

    def pause_writing(self) -> None:
        self.calls.append("pause")
        self.bench.changed.set()

    def resume_writing(self) -> None:
        self.calls.append("resume")
        self.bench.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.bench.changed.set()


class Bench:
    """A server on loopback, its connections, and clients with plain sockets."""

    def __init__(self) -> None:
        self.made: list[Recorder] = []
        self.on_made: Callable[[Recorder], None] = lambda _recorder: None
        self.changed = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(self._complain)
        self.turns = Turns()
        self._clients = contextlib.ExitStack()

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(context)
        self.changed.set()

    async def open(self, kind: str) -> None:
        if kind.startswith("kernel"):
            self.poller = Poller(self.loop, self.turns)
            [listening] = await listening_sockets(self.loop, "127.0.0.1", 0, 1024)
            self.server: Any = self.poller.listen(listening, lambda: Recorder(self))
            self.port = listening.getsockname()[1]
        else:
            self.server = await self.loop.create_server(
                lambda: Recorder(self), "127.0.0.1", 0, backlog=1024
            )
            self.port = self.server.sockets[0].getsockname()[1]

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def dial(self) -> socket.socket:
        client = self._clients.enter_context(socket.socket())
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            client.connect(("127.0.0.1", self.port))
        return client

    async def connect(self) -> tuple[socket.socket, Recorder]:
        known = len(self.made)
        client = self.dial()
        await self.until(lambda: len(self.made) > known)
        return client, self.made[-1]

    async def read(self, client: socket.socket, size: int) -> bytes:
        """Exactly so many bytes, or what came before the end."""
        async with asyncio.timeout(TIMEOUT_S):
            data = bytearray()
            while len(data) < size:
                part = await self.loop.sock_recv(client, min(size - len(data), 1 << 20))
                if not part:
                    break
                data += part
        return bytes(data)

    async def close(self) -> None:
        self.server.close()
        for recorder in self.made:
            if not recorder.lost:
                recorder.transport.abort()
        await self.until(lambda: all(recorder.lost for recorder in self.made))
        self._clients.close()


def run(kind: str, test: Callable[[Bench], Any]) -> None:
    """Run a test on a server of that kind, such as ``kernel/uvloop`` or ``loop/asyncio``."""

    async def main() -> None:
        bench = Bench()
        await bench.open(kind)
        try:
            await test(bench)
        finally:
            await bench.close()

    factory = uvloop.new_event_loop if kind.endswith("uvloop") else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
