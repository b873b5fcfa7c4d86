"""All clients of a round, and what their topics hold at every node in the end.

Each round has its own topics. The MQTT subscribers and their sessions last as long as the cluster.
"""

import asyncio
import random
from collections import defaultdict

from penstock.client import AsyncQueueClient
from penstock.errors import PenstockError
from tests.chaos import checker
from tests.chaos.access import Administrator
from tests.chaos.actors import (
    Actor,
    Adder,
    EndReader,
    Follower,
    Poller,
    Producer,
    Puller,
    Pusher,
    StreamWorker,
    WirePublisher,
)
from tests.chaos.ground import Ground, StuckError
from tests.chaos.history import History, now
from tests.chaos.mqtt import MqttPublisher, MqttSubscriber, PipelinedPublisher
from tests.chaos.resp import RespClient, RespError

__all__ = ["Audience", "Load"]

FINISH_S = 60.0
"""Time-out for clients to finish their work once the cluster is healthy."""
PAGE = 1_000
GROUP = "workers"


class Audience:
    """The subscribers that last as long as a cluster."""

    def __init__(self, ground: Ground, dice: random.Random) -> None:
        self._ground = ground
        ports = self.ports
        self.members = [MqttSubscriber(f"sub{n}", ports, dice, "m/#") for n in (1, 2)]
        self._tasks: list[asyncio.Task[None]] = []

    def ports(self) -> list[int]:
        """Return the client addresses of the nodes."""
        return [node.port for node in self._ground.nodes.values()]

    async def open(self) -> None:
        """Subscribe."""
        self._tasks = [asyncio.create_task(member.run()) for member in self.members]
        async with asyncio.timeout(FINISH_S):
            for member in self.members:
                await member.is_subscribed.wait()

    async def close(self) -> None:
        """Leave."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check_alive(self) -> None:
        """Raise the error of a failed subscriber."""
        for task in self._tasks:
            if task.done():
                task.result()


class Load:
    """The clients of one round."""

    def __init__(self, ground: Ground, audience: Audience, dice: random.Random, name: str) -> None:
        self._ground = ground
        self._audience = audience
        self.history = History()
        self._queues = [f"q/{name}/a", f"q/{name}/b"]
        self._streams = [f"s/{name}"]
        self._pushed = f"q:{name}"
        homes = [(qos, home) for home in range(len(ground.nodes)) for qos in (1, 2)]
        roaming, at_home = [f"m/{name}/1", f"m/{name}/2"], [f"m/{name}/{q}-{h}" for q, h in homes]
        self._mqtt = [*roaming, *at_home]
        self._followed = f"b/{name}"
        self.topics = [
            *(*self._queues, self._pushed, *self._streams, *self._mqtt, self._followed),
        ]
        self._publishers: list[MqttPublisher] = [
            MqttPublisher(
                f"mqtt{qos}-{name}",
                audience.ports,
                random.Random(dice.random()),
                history=self.history,
                topic=topic,
                qos=qos,
            )
            for qos, topic in zip((1, 2), roaming, strict=True)
        ]
        self._publishers += [
            PipelinedPublisher(
                f"pipe{qos}-{home}-{name}",
                audience.ports,
                random.Random(dice.random()),
                history=self.history,
                topic=topic,
                qos=qos,
                home=home,
            )
            for (qos, home), topic in zip(homes, at_home, strict=True)
        ]
        self._make_actors(dice, name)
        self._tasks: list[asyncio.Task[None]] = []

    def _make_actors(self, dice: random.Random, name: str) -> None:
        def common(who: str) -> tuple[object, ...]:
            dice_of_its_own = random.Random(dice.random())
            return f"{who}-{name}", self._audience.ports, dice_of_its_own, self.history

        first, second = self._queues
        [stream] = self._streams
        self._workers: list[Poller | Puller] = [
            *(
                Poller(*common(f"poller{n}"), topic=topic, group=GROUP)
                for n, topic in enumerate((first, first, second))
            ),
            *(Puller(*common(f"puller{n}"), topic=self._pushed, group=GROUP) for n in (1, 2)),
        ]
        self._follower = Follower(*common("follower"), topic=self._followed)
        self._writers: list[Actor] = [
            Producer(*common("p1"), topic=first),
            Producer(*common("p2"), topic=first, most=4),
            Producer(*common("p3"), topic=second, most=8),
            Producer(*common("p4"), topic=second),
            Adder(*common("x1"), topic=stream),
            Adder(*common("x2"), topic=stream),
            Pusher(*common("y1"), topic=self._pushed),
            WirePublisher(*common("w1"), topic=self._followed),
        ]
        self._readers: list[Actor] = [
            EndReader(*common("reader"), topics=self._queues),
            *(StreamWorker(*common(f"s{n}"), topic=stream, group=GROUP) for n in (1, 2)),
        ]
        own_dice = random.Random(dice.random())
        self.administrator = Administrator(f"root-{name}", self._ground, own_dice, self.history)
        if self._ground.has_users:
            self._readers.append(self.administrator)

    # ── A round ───────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Start all of them; finished messages are kept for the check."""
        await self._ground.until(self._is_configured, "topics are configured", FINISH_S)
        actors = [*self._publishers, *self._writers, *self._readers, *self._workers, self._follower]
        self._tasks = [asyncio.create_task(actor.run(), name=actor.name) for actor in actors]

    async def _is_configured(self) -> bool:
        try:
            async with AsyncQueueClient([n.address for n in self._ground.nodes.values()]) as client:
                for topic in (*self._queues, self._pushed):
                    await client.configure_topic(topic, keep=True)
        except PenstockError:  # an election, possible at any time on a busy machine
            return False
        return True

    def check_alive(self) -> None:
        """Raise the error of a failed client: a bug of the harness, or of our clients."""
        self._audience.check_alive()
        for task in self._tasks:
            if task.done():
                task.result()

    def abandon(self) -> None:
        """Stop all clients."""
        for task in self._tasks:
            task.cancel()

    async def finish(self) -> dict[int, checker.Journal]:
        """Let clients finish; return what every node then has of the round's topics."""
        for actor in (*self._publishers, *self._writers, *self._readers):
            actor.is_stopping = True
        for worker in self._workers:
            worker.is_careful = True
        writers = self._tasks[: len(self._publishers) + len(self._writers) + len(self._readers)]
        await self._wait_for(writers)
        await self._ground.until(self._is_worked_off, "all jobs are done", FINISH_S)
        await self._ground.until_healthy()
        if self._ground.has_users:
            await self.administrator.finish()
        journals = {number: await self._journal(number) for number in self._ground.nodes}
        await self._wait_for_subscribers(next(iter(journals.values())))
        for actor in (*self._workers, self._follower):
            actor.is_stopping = True
        await self._wait_for(self._tasks)
        return journals

    async def _wait_for(self, tasks: list[asyncio.Task[None]]) -> None:
        _, pending = await asyncio.wait(tasks, timeout=FINISH_S)
        self.check_alive()
        if pending:
            names = ", ".join(task.get_name() for task in pending)
            raise StuckError(f"not finished {FINISH_S:g} s after all was well: {names}")

    async def _is_worked_off(self) -> bool:
        self.check_alive()
        try:
            async with AsyncQueueClient([n.address for n in self._ground.nodes.values()]) as client:
                for topic in (*self._queues, self._pushed):
                    groups = await client.groups(topic)
                    if [group.name for group in groups if not group.lag] != [GROUP]:
                        return False
        except PenstockError:
            return False
        return True

    async def _wait_for_subscribers(self, journal: checker.Journal) -> None:
        """Wait until everything was delivered; the checker finds what was not."""

        def is_complete() -> bool:
            return not any("never came" in fault for fault in self._check_subscribers(journal))

        deadline = now() + FINISH_S
        while not is_complete() and now() < deadline:
            self.check_alive()
            await asyncio.sleep(0.1)

    async def _journal(self, number: int) -> checker.Journal:
        """Read one node by XRANGE, which every node answers itself."""
        for _ in range(20):
            try:
                client = await RespClient.open(self._ground.nodes[number].port)
                try:
                    return {topic: await _messages(client, topic) for topic in self.topics}
                finally:
                    client.close()
            except (OSError, TimeoutError, RespError) as error:
                trouble = error
                await asyncio.sleep(0.3)
        raise StuckError(f"node {number} cannot be read: {trouble!r}")

    def story(self) -> list[str]:
        """Return everything that clients saw, to explain a complaint."""
        lines = [line for who in (*self._audience.members, *self._publishers) for line in who.trace]
        lines += [f"{op.invoked:.4f} {op}" for op in self.history.ops]
        lines += [f"{grant.got:.4f} {grant}" for grant in self.history.grants]
        lines += [f"{delivery.at:.4f} {delivery}" for delivery in self._follower.deliveries]
        return sorted(lines, key=lambda line: float(line.split()[0]))

    # ── The verdict ───────────────────────────────────────────────────────────────────────────

    def check(self, journals: dict[int, checker.Journal]) -> list[str]:
        """Return all violations."""
        journal = next(iter(journals.values()))
        ops = self.history.ops
        return [
            *self.history.complaints,
            *(fault for member in self._audience.members for fault in member.complaints),
            *checker.check_journals(journals),
            *checker.check_publishes(ops, journal),
            *checker.check_order(ops, journal),
            *checker.check_grants(self.history.grants),
            *self._check_subscribers(journal),
            *checker.check_settled(self._follower.deliveries),
            *self._check_given(journal),
            *checker.check_linearizable(ops, journal),
        ]

    def _check_subscribers(self, journal: checker.Journal) -> list[str]:
        found = []
        ours = {topic: journal[topic] for topic in self._mqtt}
        for member in self._audience.members:
            came = [d for d in member.deliveries if d.topic in ours]
            found += checker.check_deliveries(member.name, self.history.ops, came, ours)
            found += checker.check_delivery_order(member.name, self.history.ops, came)
        followed = {self._followed: journal[self._followed]}
        found += checker.check_deliveries(
            self._follower.name, self.history.ops, self._follower.deliveries, followed
        )
        return found

    def _check_given(self, journal: checker.Journal) -> list[str]:
        """Every job of a queue was handed out."""
        given = defaultdict(set)
        for grant in self.history.grants:
            given[grant.topic].add(grant.offset)
        return [
            f"{topic}/{offset} is done, and was given to nobody"
            for topic in (*self._queues, self._pushed)
            for offset, payload in journal[topic]
            if given[topic].isdisjoint({offset, payload.decode()})
        ]


async def _messages(client: RespClient, topic: str) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    start = b"-"
    while True:
        page = await client.ask("XRANGE", topic, start, "+", "COUNT", PAGE)
        found += [(int(name.partition(b"-")[2]), fields[1]) for name, fields in page]
        if len(page) < PAGE:
            return found
        start = b"(" + page[-1][0]
