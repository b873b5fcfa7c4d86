"""What changes at a node when it begins to lead, or does so no longer."""

import msgspec
import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.benches.dispatch_bench import Told
from tests.benches.resp_bench import Transport
from tests.benches.twin_bench import Cluster

from penstock.clock import SteadyClock
from penstock.core.commands import SinkBegan
from penstock.doors.queue.connection import QueueConnection
from penstock.model.stages import Stage, stage_topic
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.testing import VirtualClock
from penstock.trust.replay import ReplayWindow
from penstock.wire.queue._generated import queue_pb2


@pytest_asyncio.fixture
async def cluster():
    cluster = Cluster(1, 2)
    for node in cluster.nodes.values():
        node.start()
    await cluster.rest()
    yield cluster
    await cluster.close()


# ── the queue protocol


def framed(**request):
    data = queue_pb2.Request(**request).SerializeToString()
    return len(data).to_bytes(4, "big") + data


@pytest.mark.asyncio
async def test_who_waits_for_messages_is_sent_away_when_another_node_leads(cluster):
    transport = Transport()
    door = QueueConnection(cluster[1].parts.queue_door, transport, Origin(0.0))
    door.data_received(framed(poll=queue_pb2.Poll(topic="t", group="g", wait_ms=60_000)))
    await cluster.rest()
    assert len(door.polls) == 1
    cluster.lead(2)
    await turns()
    assert not door.polls
    assert b"not_leader" in transport.written


# ── sinks


@pytest.mark.asyncio
async def test_what_was_staged_is_known_to_the_next_leader(cluster):
    stage = Stage(b"sink", 1, b"part")
    block = msgspec.msgpack.encode([])
    parts = cluster[1].parts
    parts.pipeline.publish(stage_topic(stage), [block], parts.wall_ms(), qos=0, retain=False)
    await cluster.rest()
    cluster.lead(2)
    assert cluster[2].parts.sinks.stages.get(stage).stored == 1
    assert cluster[1].parts.sinks.stages.get(stage) is None
    assert cluster[1].counters.staged_parts == 0
    assert cluster[2].counters.staged_parts == 1


@pytest.mark.asyncio
async def test_a_commit_is_carried_on_by_the_next_leader_and_by_no_other(cluster):
    cluster[1].submitted(SinkBegan(b"sink", 1, [], b""), Told())
    await cluster.rest()
    assert cluster[2].broker.sinks.get(b"sink").committing is not None
    cluster.lead(2)
    await cluster.rest()
    for node in cluster.nodes.values():
        assert node.broker.sinks.get(b"sink").epoch == 1
    assert not cluster[1].parts.sinks._commits


@pytest.mark.asyncio
async def test_letters_are_sent_back_by_the_leader_only(cluster):
    told = Told()
    cluster[2].parts.dispatchers.dead_letters.redrive(b"t", b"g", 0, told)
    assert told.refusals == [DisconnectReason.LEADERSHIP_LOST]


# ── time


def test_the_time_of_a_cluster_never_goes_back():
    clock = VirtualClock()
    steady = SteadyClock(clock)
    start_ms = steady.now_ms()
    steady.follow(start_ms + 5_000)
    assert steady.now_ms() == start_ms + 5_000
    steady.follow(start_ms + 3_000)
    assert steady.now_ms() == start_ms + 5_000
    clock.advance(2.5)
    assert steady.now_ms() == start_ms + 5_500


def test_a_node_that_was_hours_ahead_takes_the_time_of_the_cluster_at_once():
    clock = VirtualClock()
    steady = SteadyClock(clock)
    start_ms = steady.now_ms()
    steady.follow(start_ms - 7_200_000)
    clock.advance(1)
    assert steady.now_ms() == start_ms - 7_199_000


# ── signatures


def test_a_signature_that_another_node_has_taken_is_not_taken_here():
    window = ReplayWindow(60_000, 1, 1_000)
    window.note_stored(7, b"n" * 12, 2_000)
    window.note_stored(7, b"m" * 12, 2_000)  # beyond the bound: it was taken, all the same
    assert window.count == 2
    assert window.check(7, b"n" * 12, 2_000, 2_000) is not None
    assert window.is_stored(7, b"n" * 12, 2_000)
    window.note_stored(7, b"o" * 12, 500)  # from before our time: refused for that
    assert window.count == 2
