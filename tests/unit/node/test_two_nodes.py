"""Several nodes that apply the same journal: what clients at each of them see of that."""

import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.benches.dispatch_bench import GROUP, LEASE_MS, TOPIC, Told, Worker, numbered
from tests.benches.resp_bench import Client as RespClient
from tests.benches.twin_bench import BinaryClient, Cluster

from penstock.core.commands import (
    Acknowledged,
    GroupConfigured,
    Progressed,
    Received,
    Subscribed,
    TopicConfigured,
)
from penstock.model.dead_letters import dead_letter_topic
from penstock.net.connection_ids import NO_NODE, node_of, node_of_worker
from penstock.obs.reasons import DisconnectReason
from penstock.wire.binary import client as binary
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import Will

pytestmark = pytest.mark.asyncio

WILL = Will(b"last/words", b"bye", 1, False)


@pytest_asyncio.fixture
async def cluster():
    cluster = Cluster(1, 2, 3, journal={"capture_interval_ms": 1})
    for node in cluster.nodes.values():
        node.start()
    await cluster.rest()
    yield cluster
    await cluster.rest()
    agree(cluster)
    await cluster.close()


def agree(cluster):
    """The claim of all tests here: what is durable is the same, whatever is connected where."""
    first, *others = [node.durable() for node in cluster.nodes.values()]
    for other in others:
        assert other == first


def published(node, topic):
    info = node.store.topic(topic)
    if info is None:
        return []
    found = node.store.read_topic(topic, info.first_offset, 1_000, 1 << 20)
    return [message.payload for message in found.messages()]


def push(node, *jobs, topic=TOPIC):
    node.parts.pipeline.publish(topic, list(jobs), node.parts.wall_ms(), qos=1, retain=False)


class Resp(RespClient):
    """A RESP client of a node that no server was built around."""

    def __init__(self, node):
        self.server = self
        self.parts = node.parts
        self.resp_door = node.parts.resp_door
        super().__init__(self)


# ── whose connection


async def test_a_connection_tells_its_node(cluster):
    numbers = {cluster[node].parts.connections.ids.next() for node in (1, 2, 3) for _ in range(50)}
    assert len(numbers) == 150
    assert {node_of(number) for number in numbers} == {1, 2, 3}
    assert max(numbers) < 1 << 63


async def test_numbers_of_earlier_versions_have_no_node(cluster):
    earlier = cluster.clock.wall_ms() << 10
    assert node_of(earlier) == NO_NODE
    number = cluster[2].parts.connections.ids.next()
    assert node_of_worker(b"any # name#%d" % number) == 2
    for name in (b"mqtt#%d" % earlier, b"pull#1#7", b"", b"#", b"x", b"x#" + b"9" * 40):
        assert node_of_worker(name) == NO_NODE


# ── sessions


@pytest.mark.parametrize("clean", [True, False])
async def test_a_client_id_is_taken_over_between_nodes(cluster, clean):
    older = cluster[1].mqtt(b"ann", clean_session=clean)
    await cluster.rest()
    assert not older.is_closed
    newer = cluster[2].mqtt(b"ann", clean_session=clean)
    await cluster.rest()
    assert older.reason is DisconnectReason.SESSION_TAKEN_OVER
    assert not newer.is_closed
    assert newer.events[0].session_present is not clean


async def test_two_who_connect_at_once_do_not_both_stay(cluster):
    both = [cluster[node].mqtt(b"ann") for node in (1, 2)]
    await cluster.rest()
    assert [client.is_closed for client in both] == [True, False]


async def test_a_session_is_found_at_another_node_as_it_was(cluster):
    reader = cluster[1].mqtt(b"ann", clean_session=False)
    await cluster.rest()
    reader.send(encode.subscribe(1, [(b"a/#", 1)]))
    await cluster.rest()
    writer = cluster[3].mqtt(b"bob")
    await cluster.rest()
    for number in range(3):
        writer.send(encode.publish(b"a/b", b"%d" % number, 1, packet_id=number + 1))
    await cluster.rest()
    assert reader.payloads == [b"0", b"1", b"2"]
    reader.send(encode.acks(4, [1]))
    reader.vanish()
    await cluster.rest()
    writer.send(encode.publish(b"a/b", b"3", 1, packet_id=9))
    await cluster.rest()
    again = cluster[2].mqtt(b"ann", clean_session=False)
    await cluster.rest()
    sent = [(e.packet_id, e.payload, e.dup) for e in again.events[1:]]
    assert sent == [(2, b"1", True), (3, b"2", True), (4, b"3", False)]


async def test_live_messages_reach_clients_of_all_nodes_once(cluster):
    readers = [cluster[node].mqtt(b"%d" % node) for node in (1, 2, 3)]
    await cluster.rest()
    for reader in readers:
        reader.send(encode.subscribe(1, [(b"#", 0)]))
    await cluster.rest()
    writer = cluster[2].mqtt(b"writer")
    await cluster.rest()
    writer.send(encode.publish(b"kept", b"1") + encode.publish(b"live/only", b"2"))
    await cluster.rest()
    assert [sorted(reader.payloads) for reader in readers] == [[b"1", b"2"]] * 3
    assert cluster[2].live == [(b"live/only", [b"2"])]
    assert cluster[1].live == cluster[3].live == []
    assert published(cluster[1], b"live/only") == []


async def test_what_an_earlier_session_is_told_late_does_not_reach_the_next(cluster):
    """The first node was cut off for a moment; the client started over at another."""
    first = cluster[1].mqtt(b"ann", clean_session=False)
    await cluster.rest()
    origin = cluster[1].broker.sessions[b"ann"].origin
    first.vanish()
    await cluster.rest()
    cluster[2].mqtt(b"ann", clean_session=True)
    await cluster.rest()
    cluster[1].submitted(Subscribed(b"ann", 1, [(b"#", 1)], origin))
    cluster[1].submitted(Received(b"ann", [7], origin))
    await cluster.rest()
    session = cluster[2].broker.sessions[b"ann"]
    assert (session.subscriptions, session.received) == (None, None)
    cluster[1].submitted(Acknowledged(b"ann", 4, [1], session.origin))
    await cluster.rest()


# ── wills


async def test_a_will_is_published_once_by_the_node_whose_client_vanished(cluster):
    client = cluster[2].mqtt(b"ann", will=WILL)
    await cluster.rest()
    client.vanish()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == [b"bye"]


@pytest.mark.parametrize("stays_behind", [False, True])
async def test_a_will_is_published_once_where_a_client_moves_to_another_node(cluster, stays_behind):
    """Also if the new node does not know of it yet."""
    older = cluster[1].mqtt(b"ann", will=WILL)
    if not stays_behind:
        await cluster.rest()
    newer = cluster[2].mqtt(b"ann")
    await cluster.rest()
    assert older.is_closed
    assert not newer.is_closed
    assert published(cluster[3], b"last/words") == [b"bye"]


async def test_a_will_is_published_once_though_the_leader_changes_meanwhile(cluster):
    """The first leader's message is void in the term of the next, which publishes it again."""
    client = cluster[2].mqtt(b"ann", will=WILL)
    await cluster.rest()
    client.vanish()
    await turns(3)
    cluster.order()  # the connection has ended
    cluster[1].apply_all()
    await turns(3)
    (waiting,) = cluster.waiting  # the will, by the leader, which is node 1
    assert waiting[2].term == cluster.term
    cluster.lead(3)
    cluster[3].apply_all()
    cluster[3].parts.housekeeping.turn()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == [b"bye"]
    assert b"ann" not in cluster[2].broker.sessions


async def test_a_will_is_published_though_its_leader_died_before_it_was_in_the_log(cluster):
    client = cluster[2].mqtt(b"ann", will=WILL)
    await cluster.rest()
    client.vanish()
    await turns(3)
    cluster.order()
    cluster[1].apply_all()
    await turns(3)
    cluster.waiting.clear()
    cluster.lead(3)
    cluster[1].restart()
    cluster[3].apply_all()
    cluster[3].parts.housekeeping.turn()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == [b"bye"]


async def test_the_leader_ends_the_sessions_of_a_node_that_died_and_publishes_their_wills(cluster):
    cluster[2].mqtt(b"ann", clean_session=False, will=WILL)
    cluster[2].mqtt(b"bob")
    cluster[3].mqtt(b"cyd", will=WILL)
    await cluster.rest()
    for node in cluster.nodes.values():
        node.parts.housekeeping.turn()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == []
    cluster.present.discard(2)
    dead = cluster.nodes.pop(2)
    for _ in range(3):
        for node in cluster.nodes.values():
            node.parts.housekeeping.turn()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == [b"bye"]
    sessions = cluster[3].broker.sessions
    assert set(sessions) == {b"ann", b"cyd"}
    assert not sessions[b"ann"].connected
    assert sessions[b"cyd"].connected
    cluster.nodes[2] = dead


async def test_a_node_that_was_taken_for_dead_closes_its_clients_and_publishes_no_will(cluster):
    client = cluster[2].mqtt(b"ann", clean_session=False, will=WILL)
    await cluster.rest()
    cluster.present.discard(2)
    cluster[1].parts.housekeeping.turn()
    await cluster.rest()
    assert client.reason is DisconnectReason.SESSION_ENDED
    assert published(cluster[1], b"last/words") == [b"bye"]


async def test_a_client_of_a_node_that_is_gone_by_now_is_ended_when_its_session_is_opened(cluster):
    cluster[2].mqtt(b"ann", will=WILL)
    cluster.present.discard(2)
    cluster[1].parts.housekeeping.turn()
    await cluster.rest()
    assert b"ann" not in cluster[3].broker.sessions
    assert published(cluster[1], b"last/words") == [b"bye"]


async def test_a_node_that_starts_ends_what_its_last_life_left_and_nothing_else(cluster):
    cluster[2].mqtt(b"ann", clean_session=False, will=WILL)
    other = cluster[3].mqtt(b"cyd", clean_session=False, will=WILL)
    await cluster.rest()
    cluster[2].restart()
    await cluster.rest()
    assert published(cluster[1], b"last/words") == [b"bye"]
    assert not cluster[1].broker.sessions[b"ann"].connected
    assert not other.is_closed


async def test_a_session_that_the_last_life_asked_for_is_ended_when_it_is_opened(cluster):
    cluster[2].mqtt(b"ann", clean_session=False)
    await turns()
    assert len(cluster.waiting) == 1
    cluster[2].restart()
    await cluster.rest()
    assert not cluster[1].broker.sessions[b"ann"].connected


async def test_a_node_that_starts_anew_knows_who_is_connected_elsewhere(cluster):
    client = cluster[1].mqtt(b"ann")
    await cluster.rest()
    for _ in range(3):
        cluster.clock.advance(2)
        cluster[2].parts.pipeline.turn()
        await cluster.rest()
    cluster[2].restart()
    await cluster.rest()
    assert cluster[2].broker.sessions[b"ann"].connected
    assert not client.is_closed


# ── housekeeping


async def test_only_the_leader_lets_sessions_expire(cluster):
    client = cluster[2].mqtt(b"ann", clean_session=False)
    await cluster.rest()
    client.vanish()
    await cluster.rest()
    cluster.clock.advance(cluster[1].parts.limits.session_expiry_s + 1)
    cluster[2].parts.housekeeping.turn()
    cluster[3].parts.housekeeping.turn()
    await cluster.rest()
    assert b"ann" in cluster[1].broker.sessions
    cluster[1].parts.housekeeping.turn()
    await cluster.rest()
    assert b"ann" not in cluster[3].broker.sessions


async def test_a_subscriber_that_is_connected_elsewhere_is_not_forgotten(cluster):
    here, there = BinaryClient(cluster[1]), BinaryClient(cluster[2])
    here.send(binary.subscribe(1, b"a", b"here"))
    there.send(binary.subscribe(1, b"a", b"there"))
    now_ms = cluster.clock.wall_ms()
    for client_id in (b"here", b"there", b"gone"):
        cluster[1].submitted(Progressed(client_id, b"a", [(0, 1)], now_ms))
    await cluster.rest()
    cluster.clock.advance(cluster[1].parts.limits.subscriber_expiry_s + 1)
    for _ in range(3):
        for node in cluster.nodes.values():
            node.parts.housekeeping.turn()
        await cluster.rest()
        cluster.clock.advance(61)
    assert set(cluster[3].broker.subscribers.by_id) == {b"here", b"there"}


async def test_a_leader_that_is_one_no_longer_leaves_duties_to_the_next(cluster):
    client = cluster[2].mqtt(b"ann", clean_session=False)
    await cluster.rest()
    client.vanish()
    await cluster.rest()
    cluster.lead(3)
    cluster.clock.advance(cluster[1].parts.limits.session_expiry_s + 1)
    cluster[1].parts.housekeeping.turn()
    await cluster.rest()
    assert b"ann" in cluster[1].broker.sessions
    cluster[3].parts.housekeeping.turn()
    await cluster.rest()
    assert b"ann" not in cluster[1].broker.sessions


# ── the binary protocol


async def test_an_identity_is_taken_over_between_nodes(cluster):
    older, newer = BinaryClient(cluster[1]), BinaryClient(cluster[2])
    older.send(binary.subscribe(1, b"a", b"ann"))
    await cluster.rest()
    newer.send(binary.subscribe(1, b"a", b"ann"))
    await cluster.rest()
    assert older.connection.reason is DisconnectReason.SESSION_TAKEN_OVER
    assert not newer.is_closed


async def test_of_two_identities_at_once_the_later_one_stays(cluster):
    both = [BinaryClient(cluster[node]) for node in (1, 2)]
    for client in both:
        client.send(binary.subscribe(1, b"a", b"ann"))
    await cluster.rest()
    assert [client.is_closed for client in both] == [True, False]


# ── groups


async def test_desks_of_two_nodes_never_hand_out_the_same_message(cluster):
    workers = {
        node: Worker(f"w#{cluster[node].parts.connections.ids.next()}", 30) for node in (1, 2, 3)
    }
    for node, worker in workers.items():
        cluster[node].parts.dispatchers.join(TOPIC, GROUP, worker)
    await cluster.rest()
    push(cluster[2], *numbered(60))
    await cluster.rest()
    given = [offset for worker in workers.values() for offset in worker.offsets]
    assert sorted(given) == list(range(60))
    leases = [lease for worker in workers.values() for lease in worker.leases]
    assert len(set(leases)) == 60


async def test_a_message_given_back_at_one_node_goes_to_a_worker_at_another(cluster):
    first, second = [Worker(f"w#{cluster[n].parts.connections.ids.next()}", 5) for n in (1, 2)]
    cluster[1].parts.dispatchers.join(TOPIC, GROUP, first)
    push(cluster[1], *numbered(3))
    await cluster.rest()
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, second)
    await cluster.rest()
    assert second.jobs == []
    cluster[1].parts.dispatchers.leave(TOPIC, GROUP, first.consumer)
    await cluster.rest()
    assert second.payloads == numbered(3)


async def test_a_worker_of_a_node_that_is_gone_by_now_does_not_keep_what_it_is_given(cluster):
    late, alive = [Worker(f"w#{cluster[n].parts.connections.ids.next()}", 5) for n in (2, 3)]
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, late)
    await cluster.rest()
    cluster.present.discard(2)
    cluster[1].parts.housekeeping.turn()
    push(cluster[1], *numbered(3))
    await cluster.rest()
    late.capacity = 0
    cluster[3].parts.dispatchers.join(TOPIC, GROUP, alive)
    await cluster.rest()
    assert sorted(alive.payloads) == numbered(3)


async def test_what_workers_of_a_dead_node_had_goes_to_others(cluster):
    """They hold it until they leave, and only they report it."""
    dead, alive = [Worker(f"w#{cluster[n].parts.connections.ids.next()}", 5) for n in (2, 3)]
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, dead)
    push(cluster[1], *numbered(3))
    await cluster.rest()
    cluster[3].parts.dispatchers.join(TOPIC, GROUP, alive)
    await cluster.rest()
    cluster.present.discard(2)
    dead.capacity = 0
    cluster[1].parts.housekeeping.turn()
    cluster[1].parts.housekeeping.turn()
    await cluster.rest()
    assert alive.payloads == numbered(3)


async def test_what_the_last_life_of_a_node_was_given_late_goes_back(cluster):
    worker = Worker(f"w#{cluster[2].parts.connections.ids.next()}", 5)
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, worker)
    await cluster.rest()
    push(cluster[1], *numbered(3))
    await turns()
    cluster.order()
    for node in cluster.nodes.values():
        node.apply_all()
    await turns()
    assert [node_id for node_id, _, _ in cluster.waiting] == [2]
    cluster[2].restart()
    await cluster.rest()
    late = Worker(f"w#{cluster[3].parts.connections.ids.next()}", 5)
    cluster[3].parts.dispatchers.join(TOPIC, GROUP, late)
    await cluster.rest()
    assert late.payloads == numbered(3)


async def test_leases_end_by_the_clock_of_the_leader(cluster):
    first, second = Worker("a", 1, visibility_ms=LEASE_MS), Worker("b", 1, visibility_ms=LEASE_MS)
    cluster[1].parts.dispatchers.join(TOPIC, GROUP, first)
    push(cluster[1], b"job")
    await cluster.rest()
    cluster[1].parts.dispatchers.rest(TOPIC, GROUP, first.consumer)
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, second)
    await cluster.rest()
    cluster[2].parts.steady.follow(cluster[1].parts.steady_ms() + LEASE_MS + 1)
    cluster[2].parts.dispatchers.dispatch(TOPIC, GROUP)
    await cluster.rest()
    assert second.payloads == [b"job"]


async def test_a_letter_is_buried_once_whoever_sees_it_die(cluster):
    cluster[1].submitted(TopicConfigured(TOPIC))
    worker = Worker(f"w#{cluster[2].parts.connections.ids.next()}", 1, visibility_ms=1_000)
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, worker)
    await cluster.rest()
    cluster[2].submitted(GroupConfigured(TOPIC, GROUP, 1, None, None))
    push(cluster[3], b"job")
    await cluster.rest()
    cluster[2].parts.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases)
    await cluster.rest()
    letters = dead_letter_topic(TOPIC, GROUP)
    assert published(cluster[3], letters) == [b"job"]
    assert cluster[2].broker.groups.get(TOPIC, GROUP).dead_letters == 1


# ── topics


@pytest.mark.parametrize(
    ("command", "left"),
    [((b"XDEL", b"s", b"0-1", b"0-3"), [0, 2, 4]), ((b"XTRIM", b"s", b"MAXLEN", b"2"), [3, 4])],
)
async def test_what_is_deleted_at_one_node_is_gone_at_all(cluster, command, left):
    push(cluster[1], *numbered(5), topic=b"s")
    await cluster.rest()
    time_ms = cluster.clock.wall_ms()
    words = [word.replace(b"0-", b"%d-" % time_ms) for word in command]
    client = Resp(cluster[2])
    client.send(*words)
    await cluster.rest()
    assert client.replies == [5 - len(left)]
    for node in cluster.nodes.values():
        assert published(node, b"s") == [b"%d" % number for number in left]
    client.send(*words)
    await cluster.rest()
    assert client.replies[1:] == [0]


async def test_a_stream_deleted_and_limited_at_one_node_is_so_at_all(cluster):
    push(cluster[1], *numbered(5), topic=b"s")
    push(cluster[1], *numbered(5), topic=b"t")
    await cluster.rest()
    client = Resp(cluster[2])
    client.send_all(b"MULTI", b"DEL s", b"EXPIRE t 60", b"XADD s * payload new", b"EXEC")
    await cluster.rest()
    *queued, (deleted, limited, added) = client.replies
    assert queued == [b"OK", *[b"QUEUED"] * 3]
    assert (deleted, limited) == (1, 1)
    assert added.endswith(b"-0")
    for node in cluster.nodes.values():
        assert published(node, b"s") == [b"new"]
        assert node.broker.topics.get(b"t").max_age_ms == 60_000


async def test_deleting_again_on_a_start_does_no_harm_to_the_next_topic_of_that_name(cluster):
    push(cluster[1], *numbered(5), topic=b"s")
    await cluster.rest()
    client = Resp(cluster[2])
    client.send(b"XTRIM", b"s", b"MAXLEN", b"1")
    await cluster.rest()
    cluster[1].parts.dispatchers.topics.delete(b"s", Told())
    await cluster.rest()
    push(cluster[1], *numbered(5), topic=b"s")
    await cluster.rest()
    cluster[2].restart()
    await cluster.rest()
    assert published(cluster[2], b"s") == numbered(5)


async def test_a_topic_deleted_at_one_node_begins_anew_for_workers_at_all(cluster):
    worker = Worker(f"w#{cluster[2].parts.connections.ids.next()}", 9, visibility_ms=LEASE_MS)
    cluster[2].parts.dispatchers.join(TOPIC, GROUP, worker)
    push(cluster[1], b"old")
    await cluster.rest()
    cluster[1].parts.dispatchers.topics.delete(TOPIC, Told())
    await cluster.rest()
    push(cluster[3], b"new")
    await cluster.rest()
    assert worker.payloads == [b"old", b"new"]
    assert worker.offsets == [0, 0]


async def test_a_consumer_that_waits_hears_of_what_another_node_gives_back(cluster):
    """XREADGROUP at one node, a worker at another."""
    worker = Worker(f"w#{cluster[1].parts.connections.ids.next()}", 9)
    cluster[1].parts.dispatchers.join(b"s", b"g", worker)
    push(cluster[1], b"job", topic=b"s")
    await cluster.rest()
    client = Resp(cluster[2])
    words = b"XREADGROUP GROUP g me BLOCK 0 STREAMS s >"
    client.send_all(words)
    await cluster.rest()
    assert client.replies == []
    cluster[1].parts.dispatchers.leave(b"s", b"g", worker.consumer)
    await cluster.rest()
    assert len(client.replies) == 1
