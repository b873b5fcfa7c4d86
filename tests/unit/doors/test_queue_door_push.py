"""Push subscriptions: messages in flight, extended leases, acknowledgements of all kinds."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.benches.queue_door_bench import (
    GROUP,
    TOPIC,
    Bench,
    ack,
    delete_topic,
    nack,
    poll,
    produce,
    stats,
    subscribe,
)

from penstock.doors.queue import push as module
from penstock.errors import StorageFull
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated import queue_pb2 as wire

pytestmark = pytest.mark.asyncio

VISIBILITY_MS = 3_000


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


async def subscribed(bench, messages, prefetch=2, **fields):
    """A client that subscribes to a topic with this many messages."""
    writer = bench.peer()
    writer.send(*[produce() for _ in range(messages)])
    await bench.rest()
    peer = bench.peer()
    fields.setdefault("visibility_timeout_ms", VISIBILITY_MS)
    peer.send(subscribe(prefetch, **fields))
    await bench.rest()
    return peer


async def in_flight(bench):
    return (await bench.peer().ask(stats())).stats.in_flight


def many(kind, leases, **fields):
    message = kind(topic=TOPIC, group=GROUP, lease_ids=leases, **fields)
    name = {wire.AckMany: "ack_many", wire.NackMany: "nack_many", wire.Extend: "extend"}[kind]
    return wire.Request(**{name: message})


# ── in flight


async def test_earlier_responses_leave_before_the_first_message(bench):
    peer = bench.peer()
    peer.send(produce(), produce(), subscribe(), ack(0))
    await bench.rest()
    assert peer.kinds() == ["produced", "produced", "polled", "polled"]
    assert [len(response.polled.items) for response in peer.heard()[2:]] == [1, 1]


async def test_a_subscription_waits_for_a_poll_before_it(bench):
    peer = bench.peer()
    await peer.ask(produce())
    peer.send(poll(topic="empty", wait_ms=1_000), subscribe())
    await bench.wait(0.9)
    assert peer.kinds() == ["produced"]
    await bench.wait(0.2)
    assert [len(response.polled.items) for response in peer.heard()[1:]] == [0, 1]


async def test_a_client_has_as_many_messages_as_it_wants_ahead(bench):
    peer = await subscribed(bench, 5, prefetch=2)
    assert peer.offsets() == [0, 1]
    peer.send(ack(peer.pushed()[1].lease_id))
    await bench.rest()
    assert peer.offsets() == [0, 1, 2]


@pytest.mark.parametrize(("prefetch", "count"), [(0, 1), (5_000, 1_024)])
async def test_the_prefetch_has_bounds(bench, prefetch, count):
    peer = await subscribed(bench, 1_030, prefetch=prefetch)
    assert len(peer.pushed()) == count


async def test_what_comes_is_pushed_at_once(bench):
    peer = await subscribed(bench, 0)
    await bench.peer().ask(produce(b"m"))
    await bench.rest()
    assert [item.payload for item in peer.pushed()] == [b"m"]


async def test_nothing_that_is_said_on_a_push_connection_is_answered(bench):
    peer = await subscribed(bench, 1)
    peer.send(ack(99), nack(98), stats(), b"\0\0\0\0", b"\0\0\0\2\xff\xff", produce(), poll())
    await bench.rest()
    assert peer.kinds() == ["polled"]
    assert (await bench.peer().ask(stats())).stats.messages == 1


async def test_the_same_acknowledgement_twice_frees_one_place(bench):
    peer = await subscribed(bench, 3, prefetch=1)
    peer.send(ack(peer.pushed()[0].lease_id), ack(peer.pushed()[0].lease_id))
    await bench.rest()
    assert peer.offsets() == [0, 1]


async def test_leases_of_an_earlier_connection_can_be_settled(bench):
    """A worker that outlived a crash of the broker has them, and they are good still."""
    taker = bench.peer()
    taker.send(produce(), produce(), produce())
    await bench.rest()
    (item,) = (await taker.ask(poll(max=1))).polled.items
    peer = await subscribed(bench, 0, prefetch=1)
    assert await in_flight(bench) == 2
    peer.send(ack(item.lease_id))
    await bench.rest()
    assert await in_flight(bench) == 1
    assert peer.offsets() == [1]


async def test_acknowledgements_name_any_topic_they_like(bench):
    """Only the lease counts: a subscription has one topic and one group."""
    peer = await subscribed(bench, 3, prefetch=1)
    peer.send(ack(peer.pushed()[0].lease_id, topic="x", group="y"))
    await bench.rest()
    assert peer.offsets() == [0, 1]


async def test_what_is_refused_comes_again(bench):
    peer = await subscribed(bench, 1)
    peer.send(nack(peer.pushed()[0].lease_id))
    await bench.rest()
    assert [(item.offset, item.redeliveries) for item in peer.pushed()] == [(0, 0), (0, 1)]


async def test_what_is_refused_with_a_delay_comes_after_it(bench):
    peer = await subscribed(bench, 2)
    peer.send(
        nack(peer.pushed()[0].lease_id, delay_ms=1_000),
        many(wire.NackMany, [peer.pushed()[1].lease_id], delay_ms=2_000, reason="why"),
    )
    await bench.wait(0.9)
    assert peer.offsets() == [0, 1]
    await bench.wait(0.2)
    assert peer.offsets() == [0, 1, 0]
    await bench.wait(1)
    assert peer.offsets() == [0, 1, 0, 1]


async def test_what_a_subscriber_gives_up_does_not_come_again(bench):
    peer = await subscribed(bench, 2)
    lease = peer.pushed()[0].lease_id
    peer.send(many(wire.NackMany, [lease], reason="never", dead_letter=True))
    await bench.wait(1)
    assert peer.offsets() == [0, 1]
    assert bench.store.topic(f"$dlq/{TOPIC}/{GROUP}".encode()).next_offset == 1


async def test_many_are_acknowledged_at_once(bench):
    peer = await subscribed(bench, 5, prefetch=2)
    peer.send(many(wire.AckMany, [item.lease_id for item in peer.pushed()]))
    await bench.rest()
    assert peer.offsets() == [0, 1, 2, 3]
    assert await in_flight(bench) == 2


async def test_in_the_automatic_mode_all_is_pushed_and_nothing_is_in_hand(bench):
    peer = await subscribed(bench, 10, prefetch=2, ack_mode="auto")
    await bench.wait(VISIBILITY_MS)
    assert peer.offsets() == list(range(10))
    assert await in_flight(bench) == 0


async def test_a_client_that_does_not_read_is_pushed_nothing(bench):
    peer = await subscribed(bench, 3, prefetch=1, ack_mode="auto")
    peer.stop_reading()
    writer = bench.peer()
    writer.send(produce(), produce())
    await bench.rest()
    assert peer.offsets() == [0, 1, 2]
    peer.read_on()
    await bench.rest()
    assert peer.offsets() == [0, 1, 2, 3, 4]


async def test_a_group_that_a_subscription_makes_begins_where_it_says(bench):
    peer = await subscribed(bench, 3, prefetch=9, start=wire.LATEST)
    assert peer.offsets() == []
    await bench.peer().ask(produce())
    await bench.rest()
    assert peer.offsets() == [3]


# ── leases


async def test_a_slow_handler_keeps_its_message_for_three_times_its_time(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    await bench.wait(2.9 * VISIBILITY_MS / 1000)
    assert peer.offsets() == [0]
    assert not (await bench.peer().ask(poll())).polled.items
    peer.send(ack(peer.pushed()[0].lease_id))
    await bench.wait(VISIBILITY_MS)
    assert peer.offsets() == [0]
    assert (await bench.peer().ask(stats())).stats.messages == 0


async def test_a_message_of_a_stuck_handler_comes_again_under_another_lease(bench):
    peer = await subscribed(bench, 2, prefetch=1)
    await bench.wait(3.2 * VISIBILITY_MS / 1000)
    first, again = peer.pushed()
    assert (first.offset, again.offset) == (0, 0)
    assert first.lease_id != again.lease_id
    assert again.redeliveries == 1


@pytest.mark.parametrize("which", [0, 1])
async def test_any_lease_under_which_a_message_was_pushed_acknowledges_it(bench, which):
    peer = await subscribed(bench, 2, prefetch=1)
    await bench.wait(3.2 * VISIBILITY_MS / 1000)
    peer.send(ack(peer.pushed()[which].lease_id))
    await bench.rest()
    assert peer.offsets() == [0, 0, 1]
    assert await in_flight(bench) == 1


async def test_a_stuck_message_leaves_room_and_may_go_to_another(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    peer.stop_reading()
    other = bench.peer()
    other.send(poll(wait_ms=60_000))
    await bench.wait(3.2 * VISIBILITY_MS / 1000)
    assert other.offsets() == [0]
    peer.read_on()
    await bench.peer().ask(produce())
    await bench.rest()
    assert peer.offsets() == [0, 1]


@pytest.mark.parametrize("visibility_ms", [VISIBILITY_MS, 10 * VISIBILITY_MS])
async def test_a_late_acknowledgement_is_made_good_when_the_message_comes_again(
    bench, visibility_ms
):
    """Its lease expired and no worker has it; it is settled, not pushed again."""
    peer = await subscribed(bench, 1, prefetch=1, visibility_timeout_ms=visibility_ms)
    peer.stop_reading()
    await bench.wait(3.2 * visibility_ms / 1000)
    assert await in_flight(bench) == 0
    peer.send(ack(peer.pushed()[0].lease_id))
    peer.read_on()
    await bench.rest()
    assert peer.offsets() == [0]
    assert (await bench.peer().ask(stats())).stats.messages == 0


async def test_a_late_acknowledgement_counts_while_nobody_else_has_the_message(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    peer.stop_reading()
    await bench.wait(3.2 * VISIBILITY_MS / 1000)
    peer.send(ack(peer.pushed()[0].lease_id))
    await bench.wait(module.LATE_MS / 1000 + 0.1)
    peer.read_on()
    await bench.rest()
    assert peer.offsets() == [0]


async def test_what_was_acknowledged_elsewhere_is_in_hand_no_longer(bench):
    peer = await subscribed(bench, 2, prefetch=1)
    await bench.peer().ask(ack(peer.pushed()[0].lease_id))
    assert peer.offsets() == [0]
    await bench.wait(0.8 * VISIBILITY_MS / 1000)
    assert peer.offsets() == [0, 1]


async def test_a_client_may_ask_for_more_time(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    lease = peer.pushed()[0].lease_id
    peer.send(many(wire.Extend, [lease, 99], visibility_timeout_ms=20 * VISIBILITY_MS))
    await bench.wait(15 * VISIBILITY_MS / 1000)
    assert peer.offsets() == [0]
    assert await in_flight(bench) == 1


async def test_a_client_may_ask_for_less_time_which_is_extended_too(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    lease = peer.pushed()[0].lease_id
    peer.send(many(wire.Extend, [lease], visibility_timeout_ms=VISIBILITY_MS // 2))
    await bench.wait(0.6 * VISIBILITY_MS / 1000)
    assert not (await bench.peer().ask(poll())).polled.items


async def test_what_is_forgotten_costs_nothing(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    (group,) = bench.parts.broker.groups
    await bench.wait(2 * VISIBILITY_MS / 1000)
    commit = wire.Commit(topic=TOPIC, group=GROUP, offset=1)
    await bench.peer().ask(wire.Request(commit=commit))
    await bench.wait(3 * VISIBILITY_MS / 1000)
    assert not group.pending
    assert not peer.connection._push._by_offset
    assert not peer.connection._push._by_lease
    assert peer.connection._push.room() == 1


# ── the topic goes


async def test_messages_of_a_topic_made_anew_are_not_taken_for_those_acknowledged_before(bench):
    peer = await subscribed(bench, 2, prefetch=2, visibility_timeout_ms=1_000)
    peer.send(ack(peer.pushed()[0].lease_id))
    other = bench.peer()
    await other.ask(delete_topic())
    other.send(produce(b"new"), produce(b"newer"))
    await bench.rest()
    assert [item.payload for item in peer.pushed()[2:]] == [b"new", b"newer"]


# ── the end


@pytest.mark.parametrize("eof", [True, False])
async def test_what_is_in_hand_goes_to_others_when_the_client_leaves(bench, eof):
    peer = await subscribed(bench, 3, prefetch=2)
    peer.send(ack(peer.pushed()[0].lease_id))
    await bench.rest()
    if eof:
        assert not peer.connection.eof_received()
    peer.connection.connection_lost(None)
    await bench.rest()
    items = (await bench.peer().ask(poll())).polled.items
    assert [item.offset for item in items] == [1, 2]
    assert bench.parts.counters.workers_connected == 0


async def test_what_is_on_its_way_to_a_client_that_leaves_goes_to_others(bench):
    writer = bench.peer()
    await writer.ask(produce())
    peer = bench.peer()
    peer.send(subscribe())
    bench.shut()
    await turns(20)
    peer.connection.connection_lost(None)
    bench.open()
    await bench.rest()
    assert [item.offset for item in (await writer.ask(poll())).polled.items] == [0]


async def test_a_subscription_that_waits_for_responses_ends_with_its_client(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), subscribe())
    assert peer.connection.eof_received()
    bench.open()
    await bench.rest()
    assert peer.kinds() == ["produced"]
    assert peer.transport.is_closed
    assert await in_flight(bench) == 0


async def test_when_the_disk_refuses_the_client_hears_of_it_and_is_closed(bench):
    peer = await subscribed(bench, 1, prefetch=1)
    writer = bench.peer()
    await writer.ask(produce())
    bench.store.error = StorageFull("no room")
    peer.send(ack(peer.pushed()[0].lease_id))
    await bench.wait(0)
    assert peer.codes() == ["internal"]
    assert peer.connection.reason is DisconnectReason.STORAGE_FULL
    bench.store.error = None
    await bench.wait(2)
