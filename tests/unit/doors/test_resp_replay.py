"""SUBSCRIBE replays the journal and goes live: every message once, in order, whatever the timing."""

import asyncio
import random

import pytest
from tests.benches.resp_bench import Client, settle

from penstock.core.live import Live
from penstock.doors.resp import replay
from penstock.errors import StorageError
from penstock.obs.reasons import DisconnectReason
from penstock.testing import AsyncBroker

TOPIC = b"line/1"


def broker(**options):
    return AsyncBroker(**{"sys": {"interval_s": 0}, "resp": {"replay": True}, **options})


class Publisher:
    """Publishes numbers, each with its QoS in front; remembers none but the next."""

    def __init__(self, parts) -> None:
        self.parts = parts
        self.sent = {0: 0, 1: 0}

    def publish(self, qos: int) -> None:
        payload = b"%d %d" % (qos, self.sent[qos])
        self.sent[qos] += 1
        now_ms = self.parts.wall_ms()
        if qos:
            self.parts.pipeline.publish(TOPIC, [payload], now_ms, qos=1, retain=False)
        else:
            self.parts.fanout.forward(
                self.parts.admission.route(TOPIC).targets, Live.of(TOPIC, [payload])
            )
            self.parts.pipeline.capture(TOPIC, [payload], now_ms)

    def expected(self, qos: int) -> list[bytes]:
        return [b"%d %d" % (qos, number) for number in range(self.sent[qos])]


def stall(client: Client) -> None:
    """The client stops reading: the transport is full."""
    client.transport.buffered = client.transport.high + 1
    client.connection.pause_writing()


def catch_up(client: Client) -> None:
    client.transport.buffered = 0
    client.connection.resume_writing()


@pytest.fixture
def small_lots(monkeypatch):
    """So few at a time that a short journal has many seams."""
    monkeypatch.setattr(replay, "READ_MESSAGES_MAX", 5)
    monkeypatch.setattr(replay, "SENT_TOGETHER_MAX", 2)
    monkeypatch.setattr(replay, "REMAINDER_MESSAGES_MAX", 3)


@pytest.mark.asyncio
@pytest.mark.parametrize("durability", ["sync", "interval"])
@pytest.mark.parametrize("seed", range(12))
async def test_each_subscriber_gets_each_message_once_and_in_order(seed, durability, small_lots):
    """Publishers of both kinds, commits and slow readers go on while subscribers come in."""
    dice = random.Random(seed)
    options = {"durability": durability, "durability_interval_ms": 1}
    async with broker(journal={"capture_interval_ms": 1}, **options) as own:
        publisher, clients = Publisher(own.server.parts), []
        for _turn in range(120):
            for _ in range(dice.randrange(4)):
                publisher.publish(dice.randrange(2))
            if dice.random() < 0.15:
                clients.append(Client(own))
                clients[-1].send(b"SUBSCRIBE", TOPIC)
            if clients and dice.random() < 0.2:
                dice.choice([stall, catch_up])(dice.choice(clients))
            await own.server.parts.pipeline.drain() if dice.random() < 0.1 else await turn()
        for client in clients:
            catch_up(client)
        await settle(own, *clients)
        assert clients
        for client in clients:
            got = client.payloads()
            for qos in (0, 1):
                assert [one for one in got if one[0] == b"01"[qos]] == publisher.expected(qos)


async def turn():
    await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_the_confirmation_comes_first_then_what_the_journal_holds_then_live():
    async with broker() as own:
        publisher = Publisher(own.server.parts)
        publisher.publish(0)
        publisher.publish(1)
        await own.server.parts.pipeline.drain()
        client = Client(own)
        client.send(b"SUBSCRIBE", TOPIC)
        await settle(own, client)
        publisher.publish(0)
        await settle(own, client)
        assert client.replies == [
            [b"subscribe", TOPIC, 1],
            [b"message", TOPIC, b"0 0"],
            [b"message", TOPIC, b"1 0"],
            [b"message", TOPIC, b"0 1"],
        ]


@pytest.mark.asyncio
async def test_what_is_not_on_disk_yet_is_replayed_too():
    async with broker(journal={"capture_interval_ms": 10_000}) as own:
        publisher, client = Publisher(own.server.parts), Client(own)
        publisher.publish(0)
        client.send(b"SUBSCRIBE", TOPIC)
        for _ in range(3):
            await turn()
        client.connection.outbox.flush()
        assert client.payloads() == [b"0 0"]


@pytest.mark.asyncio
async def test_too_much_in_the_line_is_read_from_the_disk_instead():
    options = {"outbound_bytes_max": "64KiB"}
    async with broker(limits=options, journal={"capture_interval_ms": 10_000}) as own:
        parts, client = own.server.parts, Client(own)
        payloads = [b"%05d" % number * 2_000 for number in range(5)]
        parts.pipeline.capture(TOPIC, payloads, 0)
        client.send(b"SUBSCRIBE", TOPIC)
        for _ in range(3):
            await turn()
        assert client.payloads() == []
        await settle(own, client)
        assert client.payloads() == payloads
        assert client.connection.reason is None


@pytest.mark.asyncio
async def test_a_slow_reader_is_sent_no_more_than_it_takes_and_loses_nothing(small_lots):
    async with broker(limits={"outbound_bytes_max": "64KiB"}) as own:
        parts, client = own.server.parts, Client(own)
        payloads = [b"%03d" % number * 3_000 for number in range(40)]
        parts.pipeline.capture(TOPIC, payloads, 0)
        await parts.pipeline.drain()
        stall(client)
        client.send(b"SUBSCRIBE", TOPIC)
        for _ in range(50):
            await turn()
            assert client.connection.outbox._out_bytes <= 64 * 1024
        assert client.payloads() == []
        catch_up(client)
        await settle(own, client)
        assert client.payloads() == payloads
        assert client.connection.reason is None


@pytest.mark.asyncio
async def test_unsubscribing_ends_the_replay(small_lots):
    async with broker() as own:
        parts, client = own.server.parts, Client(own)
        parts.pipeline.capture(TOPIC, [b"%d" % number for number in range(100)], 0)
        await parts.pipeline.drain()
        client.send(b"SUBSCRIBE", TOPIC)
        client.send(b"UNSUBSCRIBE", TOPIC)
        await settle(own, client)
        assert client.replies == [[b"subscribe", TOPIC, 1], [b"unsubscribe", TOPIC, 0]]


@pytest.mark.asyncio
async def test_a_topic_whose_replay_was_ended_can_be_replayed_again(small_lots):
    async with broker() as own:
        parts, client = own.server.parts, Client(own)
        payloads = [b"%d" % number for number in range(20)]
        parts.pipeline.capture(TOPIC, payloads, 0)
        await parts.pipeline.drain()
        client.send_all(b"SUBSCRIBE line/1", b"UNSUBSCRIBE line/1", b"SUBSCRIBE line/1")
        await settle(own, client)
        assert client.payloads() == payloads


@pytest.mark.asyncio
async def test_topics_are_replayed_one_after_the_other_each_in_full(small_lots):
    async with broker() as own:
        parts, client = own.server.parts, Client(own)
        for topic in (b"a", b"b", b"c"):
            parts.pipeline.capture(topic, [b"%b%d" % (topic, number) for number in range(12)], 0)
        await parts.pipeline.drain()
        client.send(b"SUBSCRIBE", b"a", b"b", b"c")
        await turn()
        client.send(b"UNSUBSCRIBE", b"b")
        await settle(own, client)
        wanted = [b"%b%d" % (topic, number) for topic in (b"a", b"c") for number in range(12)]
        assert client.payloads() == wanted


@pytest.mark.asyncio
async def test_one_who_replays_counts_as_a_receiver_from_the_confirmation_on():
    async with broker() as own:
        client, other = Client(own), Client(own)
        client.send(b"SUBSCRIBE", TOPIC)
        other.send(b"PUBLISH", TOPIC, b"x")
        await settle(own, client, other)
        assert other.replies == [1]
        assert client.payloads() == [b"x"]


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [b"#", b"line/#", b"line/+"])
async def test_filters_are_live_only(name):
    async with broker() as own:
        publisher, client = Publisher(own.server.parts), Client(own)
        publisher.publish(1)
        await own.server.parts.pipeline.drain()
        client.send(b"SUBSCRIBE", name)
        publisher.publish(0)
        publisher.publish(1)
        await settle(own, client)
        assert client.replies == [
            [b"subscribe", name, 1],
            [b"message", TOPIC, b"0 0"],
            [b"message", TOPIC, b"1 1"],
        ]


@pytest.mark.asyncio
async def test_by_default_nothing_is_replayed():
    async with broker(resp={}) as own:
        publisher, client = Publisher(own.server.parts), Client(own)
        publisher.publish(1)
        await own.server.parts.pipeline.drain()
        client.send(b"SUBSCRIBE", TOPIC)
        publisher.publish(0)
        await settle(own, client)
        assert client.payloads() == [b"0 0"]


@pytest.mark.asyncio
async def test_a_topic_that_is_not_captured_is_live_at_once():
    async with broker(journal={"capture_exclude": ["line/#"]}) as own:
        publisher, client = Publisher(own.server.parts), Client(own)
        client.send(b"SUBSCRIBE", TOPIC)
        parts = own.server.parts
        parts.fanout.forward(parts.admission.route(TOPIC).targets, Live.of(TOPIC, [b"live"]))
        publisher.publish(1)
        await settle(own, client)
        assert client.payloads() == [b"live", b"1 0"]


@pytest.mark.asyncio
async def test_a_journal_that_cannot_be_read_ends_the_connection(monkeypatch):
    async with broker() as own:
        parts, client = own.server.parts, Client(own)
        parts.pipeline.capture(TOPIC, [b"x"], 0)
        await parts.pipeline.drain()

        def broken(*_arguments):
            raise StorageError("no such page")

        monkeypatch.setattr(parts.store, "read_topic", broken)
        client.send(b"SUBSCRIBE", TOPIC)
        await settle(own, client)
        assert client.connection.reason is DisconnectReason.STORAGE_FAILED


class LateNews:
    """Keeps from the loop that a commit is done, though the disk has it."""

    def __init__(self, pipeline, monkeypatch) -> None:
        self._done = pipeline.committed
        self._kept: list = []
        monkeypatch.setattr(pipeline, "committed", lambda *news: self._kept.append(news))

    async def arrival(self) -> None:
        while not self._kept:
            await turn()

    def tell(self) -> None:
        self._done(*self._kept.pop())


@pytest.mark.asyncio
@pytest.mark.parametrize("durability", ["sync", "interval"])
async def test_what_is_on_disk_but_not_settled_is_not_sent_twice(durability, monkeypatch):
    """The reader sees a commit before the loop does: its messages come by the other ways."""
    async with broker(durability=durability, durability_interval_ms=1) as own:
        parts, client = own.server.parts, Client(own)
        publisher, news = Publisher(parts), LateNews(parts.pipeline, monkeypatch)
        publisher.publish(0)
        publisher.publish(1)
        await news.arrival()
        assert parts.store.next_sequence == 3
        client.send(b"SUBSCRIBE", TOPIC)
        while client.connection.subscriptions._own.replays.topics:
            await turn()
        news.tell()
        await turn()
        monkeypatch.undo()
        await settle(own, client)
        assert client.payloads() == [b"0 0", b"1 0"]
