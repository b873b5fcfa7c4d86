"""A broker that vanishes silently: the network drops everything, and no connection is closed."""

import asyncio
import queue
import threading
import time
from contextlib import contextmanager

import pytest

from penstock.testing import Broker
from tests.unit.queue_client_broker import Blocking, Looped

TIMEOUT_S = 120.0
"""Time-out of a call; without pings it would notice after half of it."""

SOON_S = 40.0
"""Well below that, even on a busy machine."""


class BlackHole:
    """Forwards bytes to a port until ``swallow``; then it reads everything and answers nothing.

    The broker's end is then closed, as if the broker were gone; the client's end stays open.
    """

    def __init__(self, port):
        self._port = port
        self._gone = asyncio.Event()
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._meet, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def swallow(self):
        self._loop.call_soon_threadsafe(self._gone.set)

    async def _meet(self, reader, writer):
        try:
            if not self._gone.is_set():
                await self._relay(reader, writer)
            if self._gone.is_set():
                await self._over.wait()
        finally:
            writer.transport.abort()

    async def _relay(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [self._pass_on(reader, back), self._pass_on(there, writer), self._gone.wait()]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        back.transport.abort()

    async def _pass_on(self, reader, writer):
        while data := await reader.read(65_536):
            writer.write(data)

    def close(self):
        async def end():
            self._server.close()
            self._gone.set()
            self._over.set()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()


@contextmanager
def black_hole(port):
    made = BlackHole(port)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


def test_call_to_a_broker_that_vanished_goes_to_the_next_node_within_seconds(clients):
    with Broker() as broker, black_hole(broker.port) as hole:
        direct = f"127.0.0.1:{broker.port}"
        with clients.connect(hole.address, direct, timeout_s=TIMEOUT_S) as client:
            assert client.produce("t", b"before") == 0
            hole.swallow()
            began = time.monotonic()
            assert client.produce("t", b"after") == 1
            assert client.poll("t", "g", wait_s=0)
    assert time.monotonic() - began < SOON_S


def test_subscription_at_a_broker_that_vanished_goes_to_the_next_node_within_seconds(clients):
    got = queue.Queue()
    with Broker() as broker, black_hole(broker.port) as hole:
        direct = f"127.0.0.1:{broker.port}"
        with (
            clients.connect(hole.address, direct) as subscriber,
            clients.connect(direct) as producer,
            subscriber.subscribe("t", "g", lambda job: got.put(job.payload), visibility_s=1),
        ):
            producer.produce("t", b"before")
            assert got.get(timeout=SOON_S) == b"before"
            hole.swallow()
            producer.produce("t", b"after")
            seen = {got.get(timeout=SOON_S)}
            while b"after" not in seen:
                seen.add(got.get(timeout=SOON_S))
