"""Staged rows: no protocol shows them, retention keeps them; once committed, every protocol does."""

import asyncio
import json
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
import redis

from penstock.client import connect, connect_async
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import StagedBlock
from tests.conformance.wire_client import WireClient, connack, connect_packet, wait_until
from tests.conformance_binary.wire_client import BinaryClient
from tests.e2e.test_retention import publish

STAGE = "$stage/s/0/p"
FILTERS = ["$stage/#", "$stage/s/+/p", STAGE, "t"]
MIB = 1 << 20


def block(*payloads, topic="t", **fields):
    lots = [{"topic": topic, "payloads": payloads, **fields}]
    return StagedBlock(lots=lots).SerializeToString()


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


@contextmanager
def client_of(broker):
    with connect([f"{broker.host}:{broker.port}"]) as client:
        yield client


def pass_time_until(broker, condition):
    """A thread does the work, and a busy machine may delay it."""

    def has_come():
        broker.clock.advance(1.1)
        return condition()

    wait_until(has_come)


def page(broker, path):
    with urllib.request.urlopen(f"http://{broker.host}:{broker.port}{path}") as answer:
        return answer.read().decode()


def test_mqtt_subscribers_see_rows_when_they_are_committed_and_not_before(broker):
    with WireClient(broker.host, broker.port) as mqtt, client_of(broker) as client:
        mqtt.send(connect_packet("m"))
        mqtt.expect(connack())
        mqtt.subscribe(*((name, 1) for name in FILTERS))
        client.stage("s", 0, "p", 0, block(b"a"))
        mqtt.expect_nothing()
        client.commit_stage("s", 0, [("p", 1)])
        flags, _id, topic, payload = mqtt.receive_publish()
        assert (topic, payload) == (b"t", b"a")
        assert flags & 0b110 == 0b010, "not QoS 1"
        mqtt.expect_nothing()


def test_followers_see_rows_when_they_are_committed_and_not_before(broker):
    with BinaryClient(broker.host, broker.port) as binary, client_of(broker) as client:
        for name in FILTERS:
            binary.subscribe(name.encode())
        client.stage("s", 0, "p", 0, block(b"a"))
        client.commit_stage("s", 0, [("p", 1)])
        assert binary.receive_payloads(1) == [b"a"]
        binary.expect_nothing()


def test_redis_clients_see_rows_when_they_are_committed_and_not_before(broker):
    with redis.Redis(port=broker.port) as client, client_of(broker) as writer:
        writer.stage("s", 0, "p", 0, block(b"a"))
        assert client.xlen(STAGE) == 0
        assert client.xrange(STAGE) == []
        assert client.xread({STAGE: "0-0"}) in ([], {})
        writer.commit_stage("s", 0, [("p", 1)])
        assert client.xlen("t") == 1


def test_no_page_shows_staged_rows(broker):
    with client_of(broker) as client:
        client.stage("s", 0, "p", 0, block(b"a"))
        listed = ("/topics", "/topics?prefix=$stage/", "/queues", "/queues?prefix=$stage/")
        shown = [page(broker, path) for path in (*listed, "/metrics")]
        assert not any("$stage" in text for text in shown)
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            page(broker, f"/topics/{STAGE}")
        refused.value.close()
        assert "penstock_staged_parts 1.0" in shown[-1]
        client.commit_stage("s", 0, [("p", 1)])
        assert json.loads(page(broker, "/topics/t"))["messages"][0]["payload"]


def test_nobody_works_on_staged_rows(broker):
    """A shared subscription of MQTT makes a group of each topic that matches."""
    with WireClient(broker.host, broker.port) as mqtt, client_of(broker) as client:
        client.stage("s", 0, "p", 0, block(b"a"))
        mqtt.send(connect_packet("m"))
        mqtt.expect(connack())
        mqtt.subscribe(("$share/g/$stage/#", 1))
        mqtt.expect_nothing()
        assert not client.groups()


def test_groups_are_given_committed_rows_as_any_others(broker):
    with client_of(broker) as client:
        client.create_group("t", "g")
        client.stage("s", 0, "p", 0, block(b"a", priority=3))
        client.commit_stage("s", 0, [("p", 1)])
        [job] = client.poll("t", "g")
        assert (job.payload, job.priority) == (b"a", 3)


# ── retention ─────────────────────────────────────────────────────────────────────────────────


def test_retention_takes_everything_else_before_it_takes_staged_rows():
    rows = [b"%06d" % number * 10 for number in range(5_000)]
    limits = {"messages_max": 1, "age_s_max": 1}
    journal = {"total_bytes_max": 4 * MIB}
    with Broker(retention=limits, journal=journal) as broker, client_of(broker) as client:
        for number in range(4):
            client.stage("s", 0, "p", number, block(*rows))
        publish(broker, "other", 40, 200 * 1024)
        pass_time_until(broker, lambda: broker.server.store.topic(b"other").first_offset >= 39)
        broker.clock.advance(3_600)
        assert client.commit_stage("s", 0, [("p", 4)]).messages == 20_000


def test_the_total_takes_what_is_old_and_not_what_is_staged():
    rows = [b"%06d" % number * 10 for number in range(5_000)]
    with (
        Broker(journal={"total_bytes_max": 4 * MIB, "compression": "none"}) as broker,
        client_of(broker) as client,
    ):
        for number in range(4):
            client.stage("s", 0, "p", number, block(*rows))
        publish(broker, "other", 40, 200 * 1024)
        pass_time_until(broker, lambda: broker.server.store.topic(b"other").first_offset > 20)
        assert client.commit_stage("s", 0, [("p", 4)]).messages == 20_000


def test_staged_rows_take_half_of_the_journal_at_most():
    content = block(b"x" * 900_000)
    with Broker(journal={"total_bytes_max": 4 * MIB}) as broker, client_of(broker) as client:
        client.stage("a", 0, "p", 0, content)
        client.stage("b", 0, "p", 0, content)
        with pytest.raises(Exception, match=r"journal\.total_bytes_max"):
            client.stage("c", 0, "p", 0, content)
        client.abort_stage("a", 0)
        pass_time_until(broker, lambda: not client.sinks("a"))
        client.stage("c", 0, "p", 0, content)


# ── lives of a broker ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("durability", ["sync", "interval"])
def test_what_was_staged_is_committed_by_the_next_life(durability, kill):
    with Broker(durability=durability) as broker, client_of(broker) as client:
        client.stage("s", 0, "p", 0, block(b"a"))
        broker.restart(kill=kill)
        client.stage("s", 0, "p", 0, block(b"a"))
        client.stage("s", 0, "p", 1, block(b"b"))
        assert client.commit_stage("s", 0, [("p", 2)], b"n").messages == 2
        broker.restart(kill=kill)
        [sink] = client.sinks()
        assert (sink.epoch, sink.note, sink.messages) == (0, b"n", 2)
        assert client.commit_stage("s", 0, [("p", 2)]).is_repetition
        assert [record.payload for record in client.messages("t")] == [b"a", b"b"]


def test_an_orderly_stop_does_not_wait_for_a_long_commit_and_the_next_life_ends_it(broker):
    rows = [b"%d" % number for number in range(60_000)]
    with client_of(broker) as client:
        for number in range(4):
            client.stage("s", 0, "p", number, block(*rows))
    asyncio.run(_interrupted(broker))
    with client_of(broker) as client:
        pass_time_until(broker, lambda: not client.sinks()[0].is_committing)
        assert client.sinks()[0].messages == 240_000
        assert client.topic("t").end_offset == 240_000


async def _interrupted(broker):
    async with connect_async([f"{broker.host}:{broker.port}"]) as client:
        task = asyncio.create_task(client.commit_stage("s", 0, [("p", 4)]))
        while not (await client.sinks())[0].is_committing:
            pass
        await asyncio.to_thread(broker.restart)
        task.cancel()


def test_the_asynchronous_client_does_the_same(broker):
    async def dance():
        async with connect_async([f"{broker.host}:{broker.port}"]) as client:
            pending = client.begin_stage("s", 0, "p", 0, block(b"a"))
            await client.finish(pending)
            await client.stage("s", 0, "q", 0, block(b"b"))
            await client.abort_stage("s", 0, ["q"])
            done = await client.commit_stage("s", 0, [("p", 1)], b"n")
            again = await client.commit_stage("s", 0, [("p", 1)], b"n")
            [sink] = await client.sinks("s")
            await client.forget_sink("s")
            return done, again, sink, await client.sinks("s")

    done, again, sink, none = asyncio.run(dance())
    assert (done.messages, done.is_repetition, again.is_repetition) == (1, False, True)
    assert (sink.epoch, sink.note, none) == (0, b"n", [])
