"""The door of the queue protocol without a socket: time moves when the test says so."""

import asyncio
from typing import Any

from penstock.doors.queue.connection import QueueConnection
from penstock.net.origin import Origin
from penstock.wire.queue import QueueClientMachine, encode
from penstock.wire.queue._generated import queue_pb2 as wire
from tests.benches.dispatch_bench import Bench as DispatchBench
from tests.virtual_loop import VirtualLoop

ASK_PAUSES_MAX = 500

TOPIC, GROUP = "jobs", "g"


class Transport:
    """A socket that notes what is written and whether it is read from."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True
        self.is_closed = False

    def set_protocol(self, _protocol: Any) -> None:
        """The connection is the only one there ever is."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Tests say when the client is slow."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True


class Peer:
    """A client: a connection of the broker's, and the responses that it was sent."""

    def __init__(self, bench: "Bench") -> None:
        self._bench = bench
        self.transport = Transport()
        self.connection = QueueConnection(
            bench.door, self.transport, Origin(bench.parts.monotonic())
        )  # type: ignore[arg-type]
        self._machine = QueueClientMachine()
        self.responses: list[Any] = []

    def send(self, *requests: "wire.Request | bytes") -> None:
        """Send requests, or bytes, in one piece."""
        parts = [r if isinstance(r, bytes) else encode.request(r) for r in requests]
        self.connection.data_received(b"".join(parts))

    async def ask(self, request: "wire.Request") -> Any:
        """Send a request; its response. Threads that search are given the time they need."""
        count = len(self.heard())
        self.send(request)
        await self._bench.rest()
        patience = ASK_PAUSES_MAX
        while len(self.heard()) == count and patience:
            await asyncio.sleep(0.01)
            patience -= 1
        assert len(self.heard()) == count + 1
        return self.responses[-1]

    def heard(self) -> list[Any]:
        """All responses so far."""
        data, self.transport.written = self.transport.written, b""
        self.responses += self._machine.receive(data)
        return self.responses

    def kinds(self) -> list[str]:
        return [response.WhichOneof("kind") for response in self.heard()]

    def codes(self) -> list[str]:
        """The codes of all errors."""
        return [r.error.code for r in self.heard() if r.HasField("error")]

    def pushed(self) -> list[Any]:
        """All messages that it was sent."""
        return [item for response in self.heard() for item in response.polled.items]

    def offsets(self) -> list[int]:
        return [item.offset for item in self.pushed()]

    def stop_reading(self) -> None:
        self.connection.pause_writing()

    def read_on(self) -> None:
        self.connection.resume_writing()


class Bench(DispatchBench):
    """A broker with dispatchers; nothing is on disk, and time stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop(self.parts.loop, self.clock.monotonic)
        self.parts.loop = self.parts.connections.loop = self.loop  # type: ignore[assignment]
        self.dispatchers = self.parts.dispatchers
        self.door = self.parts.queue_door
        self.door.loop = self.loop  # type: ignore[assignment]

    @property
    def cluster(self) -> Any:
        """The node as the door sees it; tests put another in its place."""
        return self.door.cluster

    @cluster.setter
    def cluster(self, node: Any) -> None:
        self.door.cluster = node
        self.dispatchers._parts = self.dispatchers._parts._replace(cluster=node)

    def peer(self) -> Peer:
        return Peer(self)

    def shut(self) -> None:
        """Let no commit through."""
        self.store.gate.clear()

    def open(self) -> None:
        self.store.gate.set()

    async def wait(self, seconds: float) -> None:
        """Let time pass; whoever has a date in that time keeps it."""
        end = self.clock.monotonic() + seconds
        await self.rest()
        while (due := self.loop.due(end)) is not None:
            when, callback = due
            self.clock.advance(max(when - self.clock.monotonic(), 0))
            callback()
            await self.rest()
        self.clock.advance(end - self.clock.monotonic())

    def ring(self, seconds: float) -> None:
        """Let time pass at once, whatever is under way."""
        self.clock.advance(seconds)
        while (due := self.loop.due(self.clock.monotonic())) is not None:
            due[1]()

    async def close(self) -> None:
        for client in list(self.parts.connections.clients):
            client.connection_lost(None)  # type: ignore[attr-defined]
        await super().close()


def produce(payload: bytes = b"x", topic: str = TOPIC, **fields: Any) -> "wire.Request":
    request_id = fields.pop("request_id", 0)
    message = wire.Produce(topic=topic, payload=payload, **fields)
    return wire.Request(produce=message, request_id=request_id)


def poll(topic: str = TOPIC, group: str = GROUP, **fields: Any) -> "wire.Request":
    request_id = fields.pop("request_id", 0)
    return wire.Request(poll=wire.Poll(topic=topic, group=group, **fields), request_id=request_id)


def ack(lease: int, topic: str = TOPIC, group: str = GROUP) -> "wire.Request":
    return wire.Request(ack=wire.Ack(topic=topic, group=group, lease_id=lease))


def nack(lease: int, topic: str = TOPIC, group: str = GROUP, **fields: Any) -> "wire.Request":
    return wire.Request(nack=wire.Nack(topic=topic, group=group, lease_id=lease, **fields))


def subscribe(prefetch: int = 2, topic: str = TOPIC, **fields: Any) -> "wire.Request":
    message = wire.Subscribe(topic=topic, group=GROUP, prefetch=prefetch, **fields)
    return wire.Request(subscribe=message)


def delete_topic(topic: str = TOPIC) -> "wire.Request":
    return wire.Request(delete_topic=wire.DeleteTopic(topic=topic))


def stats() -> "wire.Request":
    return wire.Request(stats=wire.Stats())
