"""Nodes that talk: order, bounds, loss, restarts. Real sockets on loopback."""

import asyncio
import socket

import pytest
import structlog

from penstock.cluster import transport
from penstock.cluster.framing import PeerFrameWriter
from penstock.cluster.handshake import Purpose
from penstock.cluster.peer_link import BACKOFF_S_MAX, BACKOFF_S_MIN, QUEUE_BYTES_MAX, backoff_s
from penstock.cluster.record import NO_CLUSTER
from penstock.cluster.security import PeerSecurity
from penstock.config.address import Address
from penstock.config.digest import settings_digest
from penstock.config.schema import Config, Limits
from penstock.errors import ConfigError, Refused
from penstock.limits import MIB
from penstock.obs.reasons import PeerReason
from tests.cluster.peer_bench import Node, append, forward, heartbeat, started, until

pytestmark = pytest.mark.asyncio


async def meet(one, two):
    one.knows(two)
    two.knows(one)
    await until(lambda: one.transport.is_connected(2) and two.transport.is_connected(1))


async def test_frames_of_one_purpose_arrive_in_order_both_ways():
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        sent = [heartbeat(1, term) for term in range(500)]
        for frame in sent:
            one.transport.send(2, frame)
        two.transport.send(1, heartbeat(2))
        await until(lambda: len(two.inbox.frames) == 500 and one.inbox.frames)
        assert two.inbox.frames == [(1, frame) for frame in sent]
        assert one.inbox.frames == [(2, heartbeat(2))]
        stats = two.transport.stats.of(1)
        assert stats.frames_in == one.transport.stats.of(2).frames_out == 500
        assert stats.bytes_in == one.transport.stats.of(2).bytes_out > 0
        assert stats.last_contact <= asyncio.get_running_loop().time()


async def test_what_is_sent_while_the_first_connection_is_made_arrives():
    async with started(Node(1), Node(2)) as (one, two):
        one.knows(two)
        one.transport.send(2, heartbeat(1))
        one.transport.send(2, forward(100))
        await until(lambda: len(two.inbox.frames) == 2)
        assert not one.inbox.lost


async def test_large_frames_arrive_whole():
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        sent = [forward(size, n) for n, size in enumerate((20 * MIB, 1, 5 * MIB, 0))]
        for frame in sent:
            one.transport.send(2, frame)
        await until(lambda: len(two.inbox.frames) == 4, 30)
        assert [frame for _, frame in two.inbox.frames] == sent


async def test_a_guest_who_proves_himself_is_heard_and_answered():
    """A node that lags behind does not know the newest leader yet."""
    async with started(Node(1), Node(2)) as (one, two):
        one.knows(two)
        one.transport.send(2, heartbeat(1))
        await until(lambda: two.inbox.frames)
        two.transport.send(1, heartbeat(2))
        await until(lambda: one.inbox.frames)


async def test_a_guest_who_falls_silent_is_forgotten_and_makes_room(monkeypatch):
    monkeypatch.setattr(transport, "LINGER_S", 0.2)
    monkeypatch.setattr(transport, "NON_MEMBERS_MAX", 1)
    async with started(Node(1), Node(2), Node(3)) as (one, two, three):
        one.knows(two)
        one.transport.send(2, heartbeat(1))
        await until(lambda: two.inbox.frames)
        two.transport.send(1, heartbeat(2))
        await until(lambda: two.transport.is_connected(1))
        await one.transport.stop()
        three.knows(two)
        await until(lambda: two.ends(PeerReason.NOT_REACHED))
        await until(lambda: three.transport.is_connected(2), 10)


async def test_to_whom_nobody_knows_the_way_is_unreachable():
    async with started(Node(1)) as (one,):
        one.transport.send(7, heartbeat(1))
        assert not one.inbox.lost  # delivered in a separate turn, so as not to interrupt the sender
        await until(lambda: one.inbox.lost == [7])


async def test_a_node_that_is_not_admitted_is_refused():
    async with started(Node(1), Node(2, admits=lambda node: node != 1)) as (one, two):
        one.knows(two)
        await until(lambda: two.ends(PeerReason.UNKNOWN_NODE) and one.inbox.lost)
        assert one.ends(PeerReason.UNKNOWN_NODE)
        assert not one.transport.is_connected(2)


@pytest.mark.parametrize(
    ("reason", "other"),
    [
        (PeerReason.WRONG_SECRET, {"security": PeerSecurity(b"quite another secret")}),
        (PeerReason.WRONG_SECRET, {"security": PeerSecurity()}),
        (PeerReason.WRONG_CLUSTER, {"cluster_id": b"another cluster!"}),
    ],
)
async def test_strangers_are_refused_counted_and_logged_on_both_sides(reason, other):
    with structlog.testing.capture_logs() as lines:
        async with started(Node(1, **other), Node(2)) as (one, two):
            one.knows(two)
            one.transport.send(2, heartbeat(1))
            await until(lambda: one.ends(reason) and two.ends(reason) and one.inbox.lost)
            assert not two.inbox.frames
    assert any(line.get("reason") == reason.value for line in lines)
    assert "secret, quite" not in str(lines)
    assert "bench know" not in str(lines)


async def test_a_node_of_no_cluster_yet_is_heard():
    async with started(Node(1, cluster_id=NO_CLUSTER), Node(2)) as (one, two):
        await meet(one, two)


async def test_at_the_address_of_another_node_nothing_is_sent():
    async with started(Node(1), Node(3)) as (one, three):
        three.id = 2
        one.knows(three)
        three.id = 3
        one.transport.send(2, heartbeat(1))
        await until(lambda: one.ends(PeerReason.WRONG_NODE))
        assert not three.inbox.frames


async def test_a_node_can_not_speak_for_another():
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        one.transport.send(2, heartbeat(3))
        await until(lambda: two.ends(PeerReason.MALFORMED_FRAME))
        assert not two.inbox.frames


async def test_a_new_life_of_a_node_ends_the_connections_of_the_old_one():
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        await until(lambda: len(two.transport._listener._nodes) == 2)
        for link in one.transport._links.values():
            link._task.cancel()  # it hangs: its connections stay, and no new ones are made
        async with started(Node(1, incarnation=2)) as (again,):
            again.knows(two)
            await until(lambda: two.ends(PeerReason.NEW_INCARNATION) >= 2)  # control and bulk
            assert not two.ends(PeerReason.REPLACED)
            again.transport.send(2, heartbeat(1, 9))
            await until(lambda: (1, heartbeat(1, 9)) in two.inbox.frames)
            incarnations = {
                link.session.incarnation for link in two.transport._listener._nodes.values()
            }
            assert incarnations == {2}
            assert not any(link.is_open for link in one.transport._links.values())


async def test_a_node_that_comes_back_is_found_again_at_once_since_it_calls(monkeypatch):
    monkeypatch.setattr("penstock.cluster.peer_link.BACKOFF_S_MAX", 3600.0)
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        place = two.listening
        await two.transport.stop()
        await until(lambda: not one.transport.is_connected(2) and 2 in one.inbox.lost)
        link = one.transport._links[2, Purpose.CONTROL]
        await until(lambda: link._is_backing_off)
        link._attempt = 15  # it has been away for long: the attempt after the next is an hour away
        await until(lambda: link._attempt == 16 and link._is_backing_off)
        again = Node(2, incarnation=2)
        await again.start(place)
        try:
            again.knows(one)
            await until(lambda: one.transport.is_connected(2))
            one.transport.send(2, heartbeat(1, 5))
            await until(lambda: again.inbox.frames)
        finally:
            await again.transport.stop()


async def test_while_a_node_is_away_nothing_is_queued_for_it():
    async with started(Node(1), Node(2)) as (one, two):
        await two.transport.stop()
        one.knows(two)
        link = one.transport._links[2, Purpose.CONTROL]
        await until(lambda: one.ends(PeerReason.NOT_REACHED) > 2)
        await until(lambda: link._is_backing_off)
        drops = one.transport.stats.of(2).drops
        one.inbox.lost.clear()
        one.transport.send(2, heartbeat(1))
        assert one.transport.stats.of(2).drops == drops + 1
        assert link.queue_bytes == 0
        await until(lambda: 2 in one.inbox.lost)


async def test_why_a_node_is_not_reached_is_known_until_it_is_and_logged_once():
    with structlog.testing.capture_logs() as lines:
        async with started(Node(1), Node(2)) as (one, two):
            stats = one.transport.stats.of(2)
            await meet(one, two)
            assert not stats.trouble
            await two.transport.stop()
            await until(lambda: one.ends(PeerReason.NOT_REACHED) > 6)
            assert stats.trouble.endswith("Connection refused (not_reached)")
    assert [line.get("reason") for line in lines].count("not_reached") == 1


async def test_a_blocked_bulk_connection_delays_no_heartbeat_and_is_bounded():
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        await until(lambda: one.transport._links[2, Purpose.BULK].is_open)
        two.transport._listener._nodes[1, Purpose.BULK].pause_reading()
        bulk = one.transport._links[2, Purpose.BULK]
        for number in range(80):
            one.transport.send(2, append(1, MIB, number))
            await asyncio.sleep(0)
        await until(lambda: 2 in one.inbox.lost)
        assert bulk.queue_bytes <= QUEUE_BYTES_MAX[Purpose.BULK]
        assert one.transport.stats.of(2).drops > 0
        for term in range(10):
            one.transport.send(2, heartbeat(1, term))
        await until(lambda: (1, heartbeat(1, 9)) in two.inbox.frames, 5)
        assert bulk.queue_bytes > 32 * MIB  # still there, still blocked
        two.transport._listener._nodes[1, Purpose.BULK].resume_reading()
        await until(lambda: bulk.queue_bytes == 0, 30)


async def test_frames_of_one_turn_leave_in_one_write(monkeypatch):
    async with started(Node(1), Node(2)) as (one, two):
        await meet(one, two)
        link = one.transport._links[2, Purpose.CONTROL]._connection
        writes = []
        send = link.send
        link.send = lambda payloads: (writes.append(len(payloads)), send(payloads))
        for term in range(100):
            one.transport.send(2, heartbeat(1, term))
        await until(lambda: len(two.inbox.frames) == 100)
        assert writes == [100]


async def test_members_that_left_are_let_go_and_members_that_moved_are_followed():
    async with started(Node(1), Node(2), Node(2, incarnation=5)) as (one, two, moved):
        await meet(one, two)
        one.knows(moved)
        await until(lambda: one.transport.is_connected(2))
        one.transport.send(2, heartbeat(1, 3))
        await until(lambda: moved.inbox.frames)
        one.knows()
        one.transport._disconnect({2})
        await until(lambda: not one.transport._links)


async def test_a_member_that_moved_is_spoken_to_where_it_says_that_it_is():
    async with started(Node(1), Node(2), Node(2, incarnation=5)) as (one, two, moved):
        await meet(one, two)
        await two.transport.stop()
        moved.knows(one)  # no other node reports it
        await until(lambda: one.transport._links[2, Purpose.CONTROL].address == moved.address)
        await until(lambda: one.transport.is_connected(2))
        one.transport.send(2, heartbeat(1, 3))
        await until(lambda: moved.inbox.frames)


async def test_nodes_with_other_settings_are_turned_away_and_named():
    own, other = settings_digest(Config()), settings_digest(Config(limits=Limits(inflight_max=7)))
    async with started(Node(1, settings=own), Node(2, settings=other)) as (one, two):
        one.knows(two)
        two.knows(one)
        await until(lambda: two.transport.stats.differing and one.transport.stats.differing)
        assert one.transport.stats.differing == {2: ("limits.inflight_max",)}
        assert two.transport.stats.differing == {1: ("limits.inflight_max",)}
        await until(lambda: one.ends(PeerReason.WRONG_SETTINGS) >= 2)  # refused, and was refused
        assert not one.transport.is_connected(2)
        two.settings = own
        await until(lambda: one.transport.is_connected(2) and two.transport.is_connected(1))
        assert not one.transport.stats.differing


async def test_strangers_get_little_time_and_are_few(monkeypatch):
    monkeypatch.setattr("penstock.cluster.peer_connection.HANDSHAKE_S", 0.2)
    monkeypatch.setattr("penstock.cluster.peer_listener.UNAUTHENTICATED_MAX", 3)
    async with started(Node(2)) as (two,):
        place = (two.listening.host, two.listening.port)
        silent = [socket.create_connection(place) for _ in range(5)]
        await until(lambda: two.ends(PeerReason.TOO_MANY_STRANGERS) == 2)
        await until(lambda: two.ends(PeerReason.HANDSHAKE_TIMEOUT) == 3)
        for connection in silent:
            connection.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n" * 10, PeerReason.FRAME_TOO_LARGE),
        ((1025).to_bytes(4, "little"), PeerReason.FRAME_TOO_LARGE),
        (b"".join(PeerFrameWriter().frame(b"rubbish")), PeerReason.MALFORMED_FRAME),
        (b"\x04\0\0\0" + bytes(20), PeerReason.MALFORMED_FRAME),
    ],
)
async def test_rubbish_is_refused_before_it_is_kept(words, reason):
    async with started(Node(2)) as (two,):
        reader, writer = await asyncio.open_connection(two.listening.host, two.listening.port)
        writer.write(words)
        await until(lambda: two.ends(reason) == 1)
        await reader.read()
        writer.close()


async def test_without_secret_and_certificates_only_this_machine_is_listened_to():
    node = Node(1, security=PeerSecurity())
    with pytest.raises(ConfigError, match="without a secret"):
        await node.transport.start(Address("0.0.0.0", 0))
    with structlog.testing.capture_logs() as lines:
        async with started(Node(1, security=PeerSecurity())):
            pass
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
        "peers_not_authenticated"
    ]


async def test_without_secret_and_certificates_no_other_machine_is_dialed():
    async with started(Node(1, security=PeerSecurity())) as (one,):
        other = Node(2)
        other.address = "192.0.2.1:7700"
        one.knows(other)
        await until(lambda: one.ends(PeerReason.NOT_REACHED))


async def test_a_port_that_is_taken_is_said():
    async with started(Node(1)) as (one,):
        with pytest.raises(Refused, match="cannot listen for other nodes"):
            await Node(2).transport.start(one.listening)


async def test_a_short_secret_is_refused_with_advice():
    with pytest.raises(ConfigError, match="openssl rand"):
        PeerSecurity(b"short")


async def test_attempts_come_fast_at_first_and_never_in_step():
    assert BACKOFF_S_MIN / 2 <= backoff_s(0, lambda n: 0) <= backoff_s(0, lambda n: n - 1) < 0.06
    assert backoff_s(1_000, lambda n: n - 1) <= BACKOFF_S_MAX
    assert backoff_s(1_000, lambda n: 0) >= BACKOFF_S_MAX / 2
    assert backoff_s(3, lambda n: 0) < backoff_s(3, lambda n: 500)
