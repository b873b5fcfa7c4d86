"""Clients of queues, streams and the binary protocol. Each works until it is stopped.

All of them reconnect to any node and continue as a correct client would. Their requests and answers
are in the history; what they hold when they stop is finished first.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from math import inf

from penstock.client import AsyncPublisher, AsyncQueueClient, AsyncSubscriber, Backoff, Job, Message
from penstock.client.binary.inbox import QUEUE_PREFIX
from penstock.errors import PenstockError
from tests.chaos.history import Delivery, Grant, History, Op, now
from tests.chaos.resp import RespClient, RespError

__all__ = [
    "Actor",
    "Adder",
    "EndReader",
    "Follower",
    "Poller",
    "Producer",
    "Puller",
    "Pusher",
    "StreamWorker",
    "WirePublisher",
]

LEASE_S = 1.5
CALL_S = 10.0
PAUSE_S = 0.015
"""Longest pause between two requests of one client, so that the machine is busy, not overloaded."""

Ports = Callable[[], Sequence[int]]


class Actor:
    """A named client that works until it is stopped."""

    def __init__(self, name: str, ports: Ports, dice: random.Random, history: History) -> None:
        self.name = name
        self.is_stopping = False
        self._ports = ports
        self._dice = dice
        self._history = history

    async def run(self) -> None:
        """Work, over as many connections as necessary."""
        while not self.is_stopping:
            try:
                await self.work()
            except (OSError, TimeoutError, PenstockError, RespError):
                await asyncio.sleep(0.05)

    async def work(self) -> None:
        """Work until it is stopped or an error occurs."""
        raise NotImplementedError

    async def rest(self) -> None:
        """Yield to other clients."""
        await asyncio.sleep(PAUSE_S * self._dice.random())

    def anywhere(self) -> int:
        """A node's port."""
        return self._dice.choice(list(self._ports()))

    def everywhere(self) -> list[str]:
        """All addresses, in any order."""
        ports = list(self._ports())
        self._dice.shuffle(ports)
        return [f"127.0.0.1:{port}" for port in ports]


# ── The queue protocol ────────────────────────────────────────────────────────────────────────


class Producer(Actor):
    """Numbers its messages, and repeats them under their numbers until they are acknowledged."""

    def __init__(self, *arguments: object, topic: str, most: int = 1) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._most = most
        self._next = 0
        self._due: list[Op] = []

    async def run(self) -> None:
        while not self.is_stopping or self._due:
            try:
                await self.work()
            except (OSError, TimeoutError, PenstockError):
                await asyncio.sleep(0.05)

    async def work(self) -> None:
        client = AsyncQueueClient(self.everywhere(), producer_id=self.name, timeout_s=CALL_S)
        async with client:
            while not self.is_stopping or self._due:
                if not self._due:
                    self._due = [self._new() for _ in range(self._dice.randint(1, self._most))]
                await self._produce(client)
                await self.rest()

    def _new(self) -> Op:
        number = self._next
        self._next += 1
        payload = b"%s/%d" % (self.name.encode(), number)
        return self._history.begin("numbered", self._topic, self.name, number, payload)

    async def _produce(self, client: AsyncQueueClient) -> None:
        first = self._due[0].number
        if len(self._due) == 1:
            self._due[0].done(await client.produce(self._topic, self._due[0].payload, seq=first))
        else:
            payloads = [op.payload for op in self._due]
            results = await client.produce_many(self._topic, payloads, seq=first)
            for result in results:
                if result.error is not None:
                    raise result.error
            for op, result in zip(self._due, results, strict=True):
                op.done(-1 if result.offset is None else result.offset)
        self._due = []


class EndReader(Actor):
    """Asks the leader where topics end.

    Without a leader, nodes answer from their own state, which may be old; so a read counts only
    between two answers of the leader of one term.
    """

    def __init__(self, *arguments: object, topics: Sequence[str]) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topics = topics

    async def work(self) -> None:
        async with AsyncQueueClient(self.everywhere(), timeout_s=CALL_S) as client:
            while not self.is_stopping:
                before = await client.stats()
                topic = self._dice.choice(self._topics)
                op = Op("end", topic, self.name, 0, b"", now())
                found = await client.topic(topic)
                op.done(found.end_offset if found else 0)
                after = await client.stats()
                if (
                    before.is_leader
                    and after.is_leader
                    and before.current_term == after.current_term
                ):
                    self._history.ops.append(op)
                await asyncio.sleep(0.05)


class Poller(Actor):
    """Takes jobs of a group; acknowledges most, gives some back, forgets some."""

    def __init__(self, *arguments: object, topic: str, group: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._group = group
        self.is_careful = False
        """Whether it acknowledges everything from now on."""

    async def work(self) -> None:
        async with AsyncQueueClient(self.everywhere(), timeout_s=CALL_S) as client:
            while not self.is_stopping:
                asked = now()
                jobs = await client.poll(
                    self._topic, self._group, wait_s=0.1, max=8, visibility_s=LEASE_S
                )
                await self._settle(client, jobs, self._grants(jobs, asked))
                await self.rest()

    def _grants(self, jobs: Sequence[Job], asked: float) -> list[Grant]:
        got = now()
        grants = [
            Grant(self._topic, self._group, self.name, job.offset, asked, got, LEASE_S)
            for job in jobs
        ]
        self._history.grants += grants
        return grants

    async def _settle(
        self, client: AsyncQueueClient, jobs: Sequence[Job], grants: Sequence[Grant]
    ) -> None:
        chances = [0.0 if self.is_careful else self._dice.random() for _ in jobs]
        judged = list(zip(jobs, grants, chances, strict=True))
        back = [(job, grant) for job, grant, chance in judged if chance > 0.9]
        for _, grant in back:
            grant.returned = now()
        if back:
            await client.nack([job for job, _ in back])
        good = [(job, grant) for job, grant, chance in judged if chance < 0.8]
        if good:
            await client.ack([job for job, _ in good])
        for _, grant in good:
            grant.acked = now()


# ── Streams ───────────────────────────────────────────────────────────────────────────────────


class Adder(Actor):
    """Adds to a stream, each message once: unanswered requests are not repeated."""

    def __init__(self, *arguments: object, topic: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._next = 0

    async def work(self) -> None:
        client = await RespClient.open(self.anywhere())
        try:
            while not self.is_stopping:
                self._next += 1
                payload = b"%s/%d" % (self.name.encode(), self._next)
                op = self._history.begin("once", self._topic, self.name, self._next, payload)
                op.done(await self.add(client, payload))
                await self.rest()
        finally:
            client.close()

    async def add(self, client: RespClient, payload: bytes) -> int:
        """Send the command and return the offset in the answer."""
        told = await client.ask("XADD", self._topic, "*", "payload", payload)
        return int(told.partition(b"-")[2])


class StreamWorker(Actor):
    """Reads a stream as a consumer of a group, and acknowledges; each entry goes to one, once."""

    def __init__(self, *arguments: object, topic: str, group: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._group = group

    async def work(self) -> None:
        client = await RespClient.open(self.anywhere())
        try:
            await self._have_group(client)
            while not self.is_stopping:
                await self._take(client)
                await self.rest()
                if self._dice.random() < 0.02:
                    return
        finally:
            client.close()

    async def _have_group(self, client: RespClient) -> None:
        try:
            await client.ask("XGROUP", "CREATE", self._topic, self._group, "0", "MKSTREAM")
        except RespError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _take(self, client: RespClient) -> None:
        asked = now()
        words = ("XREADGROUP", "GROUP", self._group, self.name, "COUNT", 4, "BLOCK", 100)
        told = await client.ask(*words, "STREAMS", self._topic, ">")
        ids = [entry[0] for entry in told[0][1]] if told else []
        if not ids:
            return
        got = now()
        grants = [
            Grant(self._topic, self._group, self.name, int(i.partition(b"-")[2]), asked, got, inf)
            for i in ids
        ]
        self._history.grants += grants
        await client.ask("XACK", self._topic, self._group, *ids)
        for grant in grants:
            grant.acked = now()


# ── Queues of Redis clients ───────────────────────────────────────────────────────────────────


class Pusher(Adder):
    """Pushes jobs into a queue, each once."""

    async def add(self, client: RespClient, payload: bytes) -> int:
        queue = self._topic.removeprefix(QUEUE_PREFIX)
        return int(await client.ask("PUSH", queue, payload)) - 1


class Puller(Actor):
    """Pulls jobs at any node, and acknowledges most; the rest goes to others when it leaves."""

    def __init__(self, *arguments: object, topic: str, group: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._group = group
        self.is_careful = False
        """Whether it acknowledges everything from now on."""

    async def work(self) -> None:
        client = await RespClient.open(self.anywhere())
        held: list[Grant] = []
        try:
            while not self.is_stopping:
                await self._take(client, held)
                await self.rest()
                if self._dice.random() < 0.03:
                    return
        finally:
            for grant in held:
                grant.returned = now()
            client.close()

    async def _take(self, client: RespClient, held: list[Grant]) -> None:
        asked = now()
        words = ("PULL", self._topic.removeprefix(QUEUE_PREFIX), "COUNT", 4, "BLOCK", 100)
        for number, payload in await client.ask(*words, "WITHACK") or ():
            job = payload.decode()
            grant = Grant(self._topic, self._group, self.name, job, asked, now(), inf)
            self._history.grants.append(grant)
            held.append(grant)
            if self.is_careful or self._dice.random() < 0.9:
                await client.ask("ACK", number)
                grant.acked = now()


# ── The binary protocol ───────────────────────────────────────────────────────────────────────


class WirePublisher(Actor):
    """Publishes by the binary protocol, and repeats unconfirmed messages."""

    def __init__(self, *arguments: object, topic: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self._next = 0
        self._due: Op | None = None

    async def run(self) -> None:
        while not self.is_stopping or self._due:
            try:
                await self.work()
            except (OSError, TimeoutError, PenstockError):
                await asyncio.sleep(0.05)

    async def work(self) -> None:
        backoff = Backoff(first_s=0.05, longest_s=0.2, give_up_s=1.0)
        publisher = AsyncPublisher(port=self.anywhere(), backoff=backoff, connect_timeout_s=3.0)
        await publisher.open()
        try:
            while not self.is_stopping or self._due:
                op = self._due = self._due or self._new()
                async with asyncio.timeout(CALL_S):
                    await publisher.publish(self._topic, op.payload)
                op.done()
                self._due = None
                await self.rest()
        finally:
            await publisher.abandon()

    def _new(self) -> Op:
        self._next += 1
        payload = b"%s/%d" % (self.name.encode(), self._next)
        return self._history.begin("again", self._topic, self.name, self._next, payload)


class Follower(Actor):
    """Follows a topic by the binary protocol under one name, at changing nodes."""

    def __init__(self, *arguments: object, topic: str) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._topic = topic
        self.deliveries: list[Delivery] = []

    async def work(self) -> None:
        backoff = Backoff(first_s=0.05, longest_s=0.2, give_up_s=0.5)
        subscriber = AsyncSubscriber(
            self.name,
            self._topic,
            port=self.anywhere(),
            backoff=backoff,
            connect_timeout_s=3.0,
            auto_ack=False,
        )
        leaves = now() + 0.5 + 2 * self._dice.random()
        await subscriber.open()
        try:
            while not self.is_stopping and now() < leaves:
                await self._take(subscriber)
        finally:
            await subscriber.abandon()

    async def _take(self, subscriber: AsyncSubscriber) -> None:
        taken = []
        while len(taken) < 16 and (message := await subscriber.receive(0.1)) is not None:
            taken.append(self._delivery(message))
            self.deliveries.append(taken[-1])
            message.ack()
        if taken:
            async with asyncio.timeout(CALL_S):
                await subscriber.flush()
        for delivery in taken:
            delivery.settled = now()

    def _delivery(self, message: Message) -> Delivery:
        return Delivery(self.name, message.topic, message.payload, now(), sequence=message.sequence)
