"""The links between nodes: a relay in front of each node, in the harness's own loop.

A node advertises one address for all others, so a relay cannot see who connects. But the first
frame of a connection identifies the node, in clear (``penstock.cluster.handshake.Hello``). Nodes
send only on connections that they opened: traffic from 1 to 2 goes through 2's relay on connections
of 1, and only the answers of a handshake go the other way.

A ``Way`` is one direction between two nodes. A cut way holds its bytes, like unacknowledged packets;
when it opens again, either all of them arrive late, or the connections are gone.
"""

import asyncio
import random
from collections import defaultdict

import msgspec

from penstock.cluster.faults import PeerFault
from penstock.cluster.framing import PeerFrameReader
from penstock.cluster.handshake import HANDSHAKE_BYTES_MAX, Hello

__all__ = ["Network", "Way"]

CHUNK_BYTES = 64 * 1024
HELD_MAX = 64
"""Chunks in flight in one direction of a connection; beyond it the sender waits."""
HELLO_S = 10.0


class Way:
    """From one node to another; ``distance_s``: how long everything takes without any fault."""

    def __init__(self, distance_s: float = 0.0) -> None:
        self._distance_s = distance_s
        self.is_open = asyncio.Event()
        self.refuses = False
        """Whether connections are closed immediately."""
        self.delay_s = distance_s
        self.jitter_s = 0.0
        self.rate = 0
        """Bytes per second; 0: no limit."""
        self.is_open.set()

    def heal(self) -> None:
        """Forward everything as far as the distance allows."""
        self.refuses = False
        self.delay_s, self.jitter_s = self._distance_s, 0.0
        self.rate = 0
        self.is_open.set()


class Network:
    """All relays and all ways."""

    def __init__(self, dice: random.Random, distance_s: float = 0.0) -> None:
        self.dice = dice
        self._ways = defaultdict[tuple[int, int], Way](lambda: Way(distance_s))
        self._gates: dict[int, asyncio.Server] = {}
        self._relays: dict[asyncio.Task[None], tuple[int, int]] = {}
        self._closing = False

    def way(self, source: int, target: int) -> Way:
        """Return one direction, to be changed."""
        return self._ways[source, target]

    async def add(self, node: int, port: int) -> int:
        """Put a relay in front of a node's port; return the relay's port."""

        async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._meet(node, port, reader, writer)

        gate = await asyncio.start_server(met, "127.0.0.1", 0)
        self._gates[node] = gate
        return int(gate.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Close everything."""
        self._closing = True
        for gate in self._gates.values():
            gate.close()
        await self._end(list(self._relays))

    async def drop(self, source: int, target: int) -> None:
        """Close the connections that one node has opened to another."""
        await self._end([task for task, pair in self._relays.items() if pair == (source, target)])

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def heal(self, *, late: bool) -> None:
        """Open all ways; what was held arrives ``late``, or its connections are gone."""
        shut = [pair for pair, way in self._ways.items() if not way.is_open.is_set()]
        if not late:
            for pair in shut:
                await self.drop(*pair)
        for way in self._ways.values():
            way.heal()

    # ── One connection ────────────────────────────────────────────────────────────────────────

    async def _meet(
        self, target: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays[task] = (0, target)
        try:
            source, said = await _hello(reader)
            self._relays[task] = (source, target)
            if not (self._closing or self.way(source, target).refuses):
                await self._relay((source, target), port, said, reader, writer)
        except (OSError, PeerFault, TimeoutError, asyncio.CancelledError, msgspec.DecodeError):
            pass  # one end is gone, or the relay: so is the connection
        finally:
            del self._relays[task]
            writer.transport.abort()

    async def _relay(
        self,
        pair: tuple[int, int],
        port: int,
        said: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        source, target = pair
        await self.way(source, target).is_open.wait()
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            inner_writer.write(said)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(self.way(source, target), reader, inner_writer))
                group.create_task(self._pass_on(self.way(target, source), inner_reader, writer))
        except* (OSError, EOFError):
            pass
        finally:
            inner_writer.transport.abort()

    async def _pass_on(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD_MAX)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take(way, reader, held))
            group.create_task(_give(way, held, writer))

    async def _take(
        self, way: Way, reader: asyncio.StreamReader, held: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        due = 0.0
        loop = asyncio.get_running_loop()
        while data := await reader.read(CHUNK_BYTES):
            late_s = way.delay_s + way.jitter_s * self.dice.random()
            due = max(due, loop.time() + late_s)  # nothing overtakes on one connection
            await held.put((due, data))
        raise EOFError


async def _give(
    way: Way, held: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due, data = await held.get()
        await asyncio.sleep(due - loop.time())
        await way.is_open.wait()
        if way.refuses:
            raise EOFError
        if way.rate:
            await asyncio.sleep(len(data) / way.rate)
        writer.write(data)
        await writer.drain()


async def _hello(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return which node connects, and the bytes read to find out."""
    frames = PeerFrameReader(HANDSHAKE_BYTES_MAX)
    said = b""
    async with asyncio.timeout(HELLO_S):
        while True:
            data = await reader.read(HANDSHAKE_BYTES_MAX)
            if not data:
                raise ConnectionError
            said += data
            frames.append(data)
            if (payload := frames.next()) is not None:
                return msgspec.msgpack.decode(payload, type=Hello).node_id, said
