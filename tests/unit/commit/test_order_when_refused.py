"""A refused message is never followed by a later one of its publisher, at any door that repeats."""

import pytest
import pytest_asyncio
from tests.benches.commit_bench import Bench, until
from tests.benches.twin_bench import BinaryClient, Cluster

from penstock.commit.feed import Feed
from penstock.commit.produce import ProducedMessages
from penstock.core.commands import Published, Received, SessionOpened
from penstock.errors import LeadershipLost, NoQuorum, StorageFull
from penstock.limits import BATCH_BYTES_MAX
from penstock.model.message import Extras
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.wire.binary import client as binary
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import Will

pytestmark = pytest.mark.asyncio

LOST = LeadershipLost("another node leads the cluster by now", "Send it again.")
NOBODY = NoQuorum("no node leads the cluster", "Start the others.")


@pytest_asyncio.fixture(params=[False, True], ids=["one in flight", "several in flight"])
async def cluster(request):
    cluster = Cluster(1, 2, 3)
    cluster.has_room = request.param
    for node in cluster.nodes.values():
        node.start()
    await cluster.rest()
    yield cluster
    await cluster.rest()
    await cluster.close()


class Producer:
    """Waits for numbered messages."""

    def __init__(self):
        self.stretches = None
        self.reason = None

    def done(self, stretches):
        self.stretches = stretches

    def refused(self, reason, _detail=""):
        self.reason = reason


def produce(node, *seqs, topic=b"jobs"):
    producer = Producer()
    lot = ProducedMessages(topic, [b"job %d" % seq for seq in seqs], producer=b"p", seqs=seqs)
    node.parts.producing.produce(lot, node.parts.wall_ms(), producer)
    return producer


def stored(node, topic):
    info = node.store.topic(topic)
    found = node.store.read_topic(topic, info.first_offset, 100, 1 << 20) if info else None
    return [message.payload for message in found.messages()] if found else []


async def reader_of(node, cluster):
    reader = node.mqtt(b"reader")
    await cluster.rest()
    reader.send(encode.subscribe(1, [(b"a", 2)]))
    await cluster.rest()
    return reader


async def publisher_of(node, cluster, name=b"publisher", **options):
    publisher = node.mqtt(name, clean_session=False, **options)
    await cluster.rest()
    return publisher


def publish(publisher, qos, *numbers, topic=b"a"):
    for number in numbers:
        publisher.send(encode.publish(topic, b"%d" % number, qos, packet_id=number))


async def in_flight(cluster, count=1):
    """Let the open batch go to the log."""
    await until(lambda: len(cluster.waiting) >= count)


def acked(client):
    return [n for e in client.events if type(e).__name__ == "MqttAcks" for n in e.packet_ids]


# ── another node leads


@pytest.mark.parametrize("qos", [1, 2])
async def test_publishers_do_not_notice_that_others_asked_a_leader_of_another_term(cluster, qos):
    """What the former leader decided is void; what came with it goes on, before what is newer."""
    reader = await reader_of(cluster[3], cluster)
    publisher = await publisher_of(cluster[1], cluster)
    publish(publisher, qos, 1)
    producer = produce(cluster[1], 1, 2)
    publish(publisher, qos, 2)
    await in_flight(cluster)
    publish(publisher, qos, 3, 4)
    cluster.lead(2)
    cluster.refuse(LOST)
    await cluster.rest()
    assert reader.payloads == [b"1", b"2", b"3", b"4"]
    assert publisher.reason is None
    assert acked(publisher) == [1, 2, 3, 4]
    assert producer.reason is DisconnectReason.LEADERSHIP_LOST
    assert stored(cluster[2], b"jobs") == []


async def test_what_a_former_leader_decided_can_be_asked_of_the_next(cluster):
    producer = produce(cluster[1], 1, 2)
    await in_flight(cluster)
    cluster.lead(2)
    cluster.refuse(LOST)
    assert producer.reason is DisconnectReason.LEADERSHIP_LOST
    again = produce(cluster[2], 1, 2)
    await cluster.rest()
    assert again.stretches == [(0, 2)]
    assert stored(cluster[1], b"jobs") == [b"job 1", b"job 2"]


async def test_a_message_without_a_number_is_stored_where_it_was_told_to_lie(cluster):
    """Its place in the batch changes when others before it are void."""
    numbered = produce(cluster[1], 1, 2, topic=b"t")
    plain = Producer()
    cluster[1].parts.producing.produce(ProducedMessages(b"t", [b"plain"]), 1, plain)
    await in_flight(cluster)
    cluster.lead(2)
    cluster.refuse(LOST)
    await cluster.rest()
    assert numbered.reason is DisconnectReason.LEADERSHIP_LOST
    assert plain.stretches == [(0, 1)]
    assert stored(cluster[3], b"t") == [b"plain"]


async def test_captured_messages_outlive_what_is_void_beside_them(cluster):
    publisher = await publisher_of(cluster[1], cluster)
    publisher.send(encode.publish(b"b", b"live", 0))
    produce(cluster[1], 1)
    await in_flight(cluster)
    cluster.refuse(LOST)
    await cluster.rest()
    assert stored(cluster[2], b"b") == [b"live"]
    assert cluster[1].counters.drops[DropReason.CAPTURE_FAILED] == 0


async def test_void_and_sound_commands_of_several_batches_come_apart_in_order(cluster):
    """The log has none of them, for it takes none without the one before."""
    cluster.has_room = True
    reader = await reader_of(cluster[3], cluster)
    publisher = await publisher_of(cluster[1], cluster)
    producers = []
    for number in (1, 2, 3):
        publish(publisher, 1, number)
        if number != 2:
            producers.append(produce(cluster[1], number))
        await in_flight(cluster, number)
    publish(publisher, 1, 4)
    cluster.lead(2)
    cluster.refuse(LOST)
    await cluster.rest()
    assert reader.payloads == [b"1", b"2", b"3", b"4"]
    assert acked(publisher) == [1, 2, 3, 4]
    assert [producer.reason for producer in producers] == [DisconnectReason.LEADERSHIP_LOST] * 2
    assert stored(cluster[2], b"jobs") == []


async def test_rows_of_a_batch_that_is_submitted_again_are_written_anew(cluster):
    """Rows that are older than those on disk must not replace them."""
    cluster.has_room = True
    publisher = await publisher_of(cluster[1], cluster)
    pipeline = cluster[1].parts.pipeline
    cluster.clock.advance(10)
    for number in (1, 2, 3):
        produce(cluster[1], number)
        publish(publisher, 1, number)
        await in_flight(cluster, number)
    assert any(batch.rows for _, _, batch in cluster.waiting)
    cluster.refuse(LOST)
    assert [batch.rows for _, _, batch in cluster.waiting] == [[]] * 3
    assert [batch.checkpoint for _, _, batch in cluster.waiting] == [None] * 3
    await cluster.rest()
    assert acked(publisher) == [1, 2, 3]
    assert pipeline.is_idle


# ── the whole batch is refused


@pytest.mark.parametrize("error", [NOBODY, LOST])
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_publisher_sent_behind_a_refused_message_is_refused_too(cluster, qos, error):
    reader = await reader_of(cluster[3], cluster)
    publisher = await publisher_of(cluster[1], cluster)
    publish(publisher, qos, 1, 2)
    await in_flight(cluster)
    publish(publisher, qos, 3, 4)
    cluster.refuse(error)
    await cluster.rest()
    assert publisher.reason is not None
    assert reader.payloads == []
    again = await publisher_of(cluster[1], cluster)
    publish(again, qos, 1, 2, 3, 4)
    await cluster.rest()
    assert reader.payloads == [b"1", b"2", b"3", b"4"]
    assert acked(again) == [1, 2, 3, 4]


async def test_batches_in_flight_behind_a_refused_one_are_refused_too(cluster):
    cluster.has_room = True
    reader = await reader_of(cluster[3], cluster)
    one = await publisher_of(cluster[1], cluster, b"one")
    other = await publisher_of(cluster[1], cluster, b"other")
    publish(one, 1, 1)
    await in_flight(cluster)
    publish(other, 1, 11)
    await in_flight(cluster, 2)
    publish(one, 1, 2)
    await in_flight(cluster, 3)
    publish(other, 1, 12)
    cluster.refuse(NOBODY)
    await cluster.rest()
    assert reader.payloads == []
    assert one.reason is not None
    assert other.reason is not None
    assert cluster[1].counters.drops[DropReason.NO_QUORUM] == 4


async def test_batches_in_flight_before_a_refused_one_go_on(cluster):
    """And a command that needs no disk keeps its place behind theirs."""
    cluster.has_room = True
    reader = await reader_of(cluster[3], cluster)
    one = await publisher_of(cluster[1], cluster, b"one")
    other = await publisher_of(cluster[1], cluster, b"other")
    publish(one, 1, 1)
    await in_flight(cluster)
    publish(other, 1, 11)
    passed, pipeline = [], cluster[1].parts.pipeline
    before = pipeline.next_sequence
    pipeline.barrier(lambda: passed.append(pipeline.next_sequence))
    await in_flight(cluster, 2)
    first = cluster.waiting.pop(0)
    cluster.refuse(NOBODY)
    assert not passed
    cluster.waiting.append(first)
    await cluster.rest()
    assert reader.payloads == [b"1"]
    assert acked(one) == [1]
    assert passed == [before + 1]
    assert other.reason is not None


async def test_a_publisher_that_left_meanwhile_is_not_overtaken_by_itself(cluster):
    """It will send all that was not acknowledged, whether its connection was closed or lost."""
    reader = await reader_of(cluster[3], cluster)
    publisher = await publisher_of(cluster[1], cluster)
    publish(publisher, 1, 1, 2)
    await in_flight(cluster)
    publish(publisher, 1, 3, 4)
    publisher.connection.connection_lost(None)
    cluster.refuse(NOBODY)
    again = await publisher_of(cluster[2], cluster)
    publish(again, 1, 1, 2, 3, 4)
    await cluster.rest()
    assert reader.payloads == [b"1", b"2", b"3", b"4"]


async def test_publishers_in_the_next_batch_only_are_not_refused(cluster):
    reader = await reader_of(cluster[3], cluster)
    one = await publisher_of(cluster[1], cluster, b"one")
    other = await publisher_of(cluster[1], cluster, b"other")
    publish(one, 2, 1)
    await in_flight(cluster)
    publish(one, 2, 2)
    publish(other, 2, 11)
    publish(one, 2, 3)
    publish(other, 2, 12)
    cluster.refuse(NOBODY)
    await cluster.rest()
    assert reader.payloads == [b"11", b"12"]
    assert acked(other) == [11, 12]
    assert not cluster[1].parts.pipeline.receiving
    assert cluster[1].counters.drops[DropReason.NO_QUORUM] == 3


async def test_the_will_of_a_refused_publisher_is_published(cluster):
    reader = await reader_of(cluster[3], cluster)
    publisher = await publisher_of(cluster[1], cluster, will=Will(b"a", b"will", 1, retain=False))
    publish(publisher, 1, 1)
    await in_flight(cluster)
    publish(publisher, 1, 2)
    cluster.refuse(NOBODY)
    await cluster.rest()
    assert reader.payloads == [b"will"]


async def test_binary_publishers_keep_their_order_too(cluster):
    client = BinaryClient(cluster[1])
    client.send(binary.publish(b"t", b"1", 1))
    await in_flight(cluster)
    client.send(binary.publish(b"t", b"2", 2))
    cluster.refuse(NOBODY)
    await cluster.rest()
    assert client.is_closed
    assert stored(cluster[2], b"t") == []


# ── a disk that is full for a while


def put(bench, outlet, payload, qos=1):
    if qos == 2:
        bench.pipeline.receive(Received(outlet, [1]), bench.client(outlet), record=True)
    bench.pipeline.publish(
        b"t", [payload], 5, qos=qos, retain=False, packet_ids=[1], client=bench.client(outlet)
    )


async def fail_once(bench):
    """Let the commit under way fail, and the next one succeed."""
    failing = bench.pipeline.refused

    def mend(batch, error):
        bench.store.error = None
        failing(batch, error)

    bench.pipeline.refused = mend
    bench.store.error = StorageFull("full")
    bench.store.gate.set()
    await until(lambda: bench.counters.commit_failures_total == 1)
    await bench.pipeline.drain()


async def test_a_disk_that_has_room_again_does_not_take_what_came_behind_a_refused_message():
    async with Bench() as bench:
        bench.store.gate.clear()
        put(bench, b"ann", b"1")
        await until(lambda: bench.store.attempts == 1)
        bench.pipeline.submit(
            SessionOpened(b"bob", 1, clean=False, will=None), b"bob", durable=True
        )
        put(bench, b"ann", b"2", qos=2)
        bench.pipeline.capture(b"t", [b"live"], 5)
        put(bench, b"bob", b"3", qos=2)
        put(bench, b"ann", b"4")
        await fail_once(bench)
        assert [m.payload for m in bench.store.read_topic(b"t", 0, 9, 99).messages()] == [
            b"live",
            b"3",
        ]
        applied = [c for c in bench.applied if isinstance(c, Published)]
        assert [(c.payloads, c.position) for c in applied] == [([b"3"], 1)]
        assert bench.broker.sessions[b"bob"].received == {1}
        assert {outlet for outlet, _ in bench.refused} == {b"ann"}
        assert bench.counters.drops[DropReason.STORAGE_FULL] == 3


async def test_what_was_withdrawn_takes_no_more_room():
    async with Bench() as bench:
        bench.store.gate.clear()
        put(bench, b"ann", b"1")
        await until(lambda: bench.store.attempts == 1)
        put(bench, b"ann", bytes(BATCH_BYTES_MAX))
        assert bench.pipeline.is_congested
        await fail_once(bench)
        assert not bench.pipeline.is_congested
        assert bench.pipeline.pending_bytes == 0


async def test_signed_messages_that_were_withdrawn_may_be_sent_again():
    """Only their signatures are passed to the replay window."""
    feed, failed = Feed(), []
    feed.on_extras_failed = lambda batch: failed.append(batch.extras)
    async with Bench(feed=feed) as bench:
        bench.store.gate.clear()
        put(bench, b"ann", b"1")
        await until(lambda: bench.store.attempts == 1)
        for name in (b"bob", b"ann"):
            beside = [Extras(headers=((b"of", name),))]
            bench.pipeline.publish(
                b"t",
                [name],
                5,
                qos=1,
                retain=False,
                packet_ids=[2],
                client=bench.client(name),
                extras=beside,
            )
        await fail_once(bench)
        assert failed == [{b"t": {0: beside[0]}}]
        [message] = bench.store.read_topic(b"t", 0, 9, 99).messages()
        assert (message.payload, message.extras.headers) == (b"bob", ((b"of", b"bob"),))
