"""Dispatchers on a store that commits when the test lets it, and workers that only take notes."""

import asyncio
import threading
from typing import Any

import msgspec

from penstock.assembly import Assembly
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.groups import Group
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.dispatchers import REST_S
from penstock.model.message import PRIORITY_SHIFT, Extras
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import READERS
from penstock.testing import VirtualClock
from tests.benches.commit_bench import GatedStore, turns
from tests.cluster.lone_node import LoneNode

TOPIC, GROUP = b"jobs", b"workers"

LEASE_MS = 30_000
"""Longer than any test takes, by the clock of the loop."""


class Worker:
    """Takes as many jobs as it has room for. With a lease of its own time it has no name."""

    def __init__(
        self,
        name: str,
        room: int = 10,
        *,
        visibility_ms: int = 0,
        settles: bool = False,
        takes_turns: bool = True,
    ) -> None:
        self.consumer = name.encode()
        self.capacity = room
        self.visibility_ms = visibility_ms
        self.settles = settles
        self.takes_turns = takes_turns
        self.jobs: list[LeasedMessage] = []
        self.closed: list[DisconnectReason] = []
        self.limits: list[int] = []
        self.asked = 0
        self.idled = 0

    @property
    def payloads(self) -> list[bytes]:
        return [job.message.payload for job in self.jobs]

    @property
    def offsets(self) -> list[int]:
        return [job.message.offset for job in self.jobs]

    @property
    def leases(self) -> list[int]:
        return [job.lease for job in self.jobs]

    def room(self) -> int:
        self.asked += 1
        return self.capacity

    def work(self, jobs: list[LeasedMessage]) -> None:
        self.jobs += jobs
        self.capacity -= 0 if self.settles else len(jobs)

    def idle(self) -> None:
        self.idled += 1

    def limited(self, retry_ms: int) -> None:
        self.limits.append(retry_ms)

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.closed.append(reason)


class Told:
    """A completion that notes what it is told."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self.refusals: list[DisconnectReason] = []

    def done(self, value: object) -> None:
        self.values.append(value)

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.refusals.append(reason)


class Bench:
    """A broker with dispatchers; nothing is on disk, and time stands still until it is moved."""

    def __init__(self, **settings: object) -> None:
        self.store = GatedStore()
        self.clock = VirtualClock()
        counters = Counters()
        node = LoneNode(self.store)
        self.parts = Assembly(
            config=msgspec.convert(settings, Config),
            broker=Broker(counters),
            store=self.store,
            clock=self.clock,
            counters=counters,
            log=node,
            cluster=node,
        )
        self.dispatchers = self.parts.dispatchers

    def push(
        self,
        *jobs: bytes,
        topic: bytes = TOPIC,
        priority: int = 0,
        extras: Extras | None = None,
    ) -> None:
        self.parts.pipeline.publish(
            topic,
            list(jobs),
            self.parts.wall_ms(),
            qos=1,
            retain=False,
            extras=[extras] * len(jobs) if extras else None,
            marks=priority << PRIORITY_SHIFT,
        )

    def join(self, *workers: Worker, group: bytes = GROUP) -> None:
        for worker in workers:
            self.dispatchers.join(TOPIC, group, worker)

    def leave(self, worker: Worker) -> None:
        self.dispatchers.leave(TOPIC, GROUP, worker.consumer)

    def dispatch(self) -> None:
        self.dispatchers.dispatch(TOPIC, GROUP)

    async def submitted(self, command: Any) -> object:
        """Have a command applied; what came of it."""
        told = Told()
        self.parts.pipeline.submit(command, told, durable=True)
        await self.rest()
        return told.values[0]

    async def rest(self) -> None:
        """Wait until nothing moves any more."""
        for _ in range(10):
            await self.parts.pipeline.drain()
            await turns(3)
            await self._readers_rest()

    async def _readers_rest(self) -> None:
        """Have all threads that read meet: whatever they were reading is read then."""
        meeting = threading.Barrier(READERS)
        run = self.parts.loop.run_in_executor
        await asyncio.gather(
            *[run(self.parts.readers._readers, meeting.wait, 10) for _ in range(READERS)]
        )

    async def later(self, seconds: float) -> None:
        """Let time pass; whoever has a date in that time keeps it."""
        self.clock.advance(seconds)
        self.dispatch()
        await self.rest()

    def close_desks(self) -> None:
        """Let time pass until dispatchers without workers are closed."""
        self.clock.advance(REST_S + 1)
        self.dispatchers.turn()

    async def close(self) -> None:
        self.store.gate.set()
        self.store.error = None
        for topic, dispatchers in list(self.dispatchers._dispatchers.items()):
            for dispatcher in list(dispatchers.values()):
                for consumer in list(dispatcher.workers):
                    self.dispatchers.rest(topic, dispatcher.group, consumer)
        await self.rest()
        self.parts.close()
        await turns()

    @property
    def group(self) -> Group:
        group = self.parts.broker.groups.get(TOPIC, GROUP)
        assert group is not None
        return group


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]
