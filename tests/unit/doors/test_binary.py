"""The door of the binary protocol where timing decides: what no client can arrange from outside."""

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.benches.commit_bench import GatedStore, turns, until
from tests.cluster.lone_node import LoneNode

from penstock.assembly import Assembly
from penstock.commit.completion import Callback
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.doors.binary import BinaryConnection, BinaryDoor
from penstock.doors.binary import connection as module
from penstock.errors import StorageError, StorageFull
from penstock.limits import BATCH_BYTES_MAX
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.net.origin import Origin
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.testing import VirtualClock
from penstock.wire.binary import BinaryClientMachine, client, encode
from penstock.wire.binary.events import Acked, BinaryPong, Failed, ReceivedMessage

pytestmark = pytest.mark.asyncio


class Transport:
    """A socket that notes what is written and whether it is read from."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True
        self.is_closed = False
        self.buffered = 0
        self._then: Callable[[], None] | None = None

    def set_protocol(self, _protocol: Any) -> None:
        """The connection is the only one there ever is."""

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def get_extra_info(self, _name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data
        then, self._then = self._then, None
        if then is not None:
            then()

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def when_written(self, then: Callable[[], None]) -> None:
        """Do something in the moment in which the next bytes leave."""
        self._then = then

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True


class Turnstile:
    """A gate that lets commits through one by one."""

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)
        self.wait = lambda timeout: self._permits.acquire(timeout=timeout)
        self.set = lambda: self._permits.release(100)
        self.let_one_through = self._permits.release


class Peer:
    """A client: a connection of the broker, and what it received as text."""

    def __init__(self, door: BinaryDoor) -> None:
        self.transport = Transport()
        now = door.connections.monotonic()
        self.connection = BinaryConnection(door, self.transport, Origin(now))  # type: ignore[arg-type]
        self._machine = BinaryClientMachine()
        self._told: list[Any] = []

    def send(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    def told(self) -> list[Any]:
        """Everything so far: sequences of ACKs, texts of messages and errors, "pong"."""
        data, self.transport.written = self.transport.written, b""
        for event in self._machine.receive(data):
            match event:
                case Acked(sequences):
                    self._told += sequences
                case ReceivedMessage(_, payload):
                    self._told.append(payload.decode())
                case Failed(text):
                    self._told.append(text)
                case BinaryPong():
                    self._told.append("pong")
        return self._told

    async def hears(self, *expected: Any) -> None:
        await until(lambda: len(self.told()) >= len(expected))
        assert self.told() == list(expected)


class Bench:
    """A broker on a store that commits when the test lets it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.counters = Counters()
        self.store = GatedStore()
        node = LoneNode(self.store)
        self.parts = Assembly(
            config=msgspec.convert({}, Config),
            broker=Broker(self.counters),
            store=self.store,
            clock=self.clock,
            counters=self.counters,
            log=node,
            cluster=node,
        )
        self.door = self.parts.binary_door

    def peer(self) -> Peer:
        return Peer(self.door)

    def shut(self) -> None:
        """Let no commit through."""
        self.store.gate.clear()

    def open(self) -> None:
        self.store.gate.set()


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.open()
    made.parts.close()
    await turns()


# ── order


async def test_what_is_read_while_history_ends_stands_behind_what_was_held(bench):
    peer = bench.peer()
    peer.send(client.publish(b"t", b"m", 1))
    await peer.hears(1)
    peer.transport.when_written(lambda: peer.send(client.ping()))
    peer.send(client.subscribe(2, b"t"), client.publish(b"u", b"x", 3))
    await peer.hears(1, "m", 2, 3, "pong")


async def test_replies_wait_for_the_publishes_and_acknowledgements_before_them(bench):
    peer = bench.peer()
    peer.send(client.publish(b"t", b"m", 1), client.subscribe(2, b"t", b"name"))
    await peer.hears(1, "m", 2)
    bench.shut()
    peer.send(encode.ack(1), client.ping(), client.publish(b"t", b"n", 3), client.ping())
    await turns(20)
    assert peer.told() == [1, "m", 2]
    bench.open()
    await peer.hears(1, "m", 2, "n", "pong", 3, "pong")  # a message is no reply


async def test_a_pong_waits_for_the_last_acknowledgement_before_it_and_not_for_the_first(bench):
    peer = bench.peer()
    peer.send(client.publishes(b"t", [b"m", b"n"], 1), client.subscribe(3, b"t", b"name"))
    await peer.hears(1, 2, "m", "n", 3)
    bench.store.gate = gate = Turnstile()
    attempts = bench.store.attempts
    peer.send(encode.ack(1))
    await until(lambda: bench.store.attempts == attempts + 1)
    peer.send(encode.ack(2), client.ping())
    gate.let_one_through()
    await until(lambda: bench.store.attempts == attempts + 2)
    await turns(5)
    assert "pong" not in peer.told()
    gate.let_one_through()
    await peer.hears(1, 2, "m", "n", 3, "pong")


async def test_replies_that_wait_for_the_disk_are_bounded(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(client.publish(b"t", b"m", 1))
    count = module.HELD_MAX + 1
    for _ in range(count):
        assert peer.transport.is_reading
        peer.send(client.ping())
    assert not peer.transport.is_reading
    bench.open()
    await peer.hears(1, *["pong"] * count)
    assert peer.transport.is_reading


async def test_requests_behind_a_subscribe_are_bounded(bench):
    peer = bench.peer()
    bench.shut()
    bench.peer().send(client.publish(b"t", b"m", 1))
    peer.send(client.subscribe(1, b"t"))
    count = module.HELD_MAX + 1
    for _ in range(count):
        assert peer.transport.is_reading
        peer.send(client.ping())
    assert not peer.transport.is_reading
    bench.open()
    await peer.hears("m", 1, *["pong"] * count)
    assert peer.transport.is_reading


async def test_a_bad_frame_ends_the_connection_after_the_answers_before_it(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(client.publish(b"t", b"m", 1), b"\x09")
    await turns(10)
    assert not peer.transport.is_closed
    bench.open()
    await peer.hears(1, "Unsupported protocol version — connection closed")
    await until(lambda: peer.transport.is_closed)
    assert bench.counters.disconnects[DisconnectReason.MALFORMED_PACKET] == 1


# ── ends


async def test_a_subscriber_lost_while_it_subscribes_once_more_is_followed_no_longer(bench):
    peer, publisher = bench.peer(), bench.peer()
    peer.send(client.subscribe(1, b"t"))
    await peer.hears(1)
    bench.shut()
    publisher.send(client.publish(b"t", b"m", 1))
    peer.send(client.subscribe(2, b"t"))
    await turns(5)
    peer.connection.connection_lost(None)
    bench.open()
    await publisher.hears(1)
    assert bench.parts.feed.follower_count(b"t") == 0
    assert not bench.parts.feed.is_wanted


async def test_an_unsubscribe_that_is_in_the_line_when_its_client_is_lost_does_nothing(bench):
    peer, publisher = bench.peer(), bench.peer()
    bench.shut()
    publisher.send(client.publish(b"t", b"m", 1))
    peer.send(client.subscribe(1, b"#"))
    peer.connection.connection_lost(None)
    bench.open()
    await publisher.hears(1)
    await turns(5)
    assert not bench.parts.feed.is_wanted


async def test_a_late_acknowledgement_does_not_take_a_job_from_the_next_worker(bench):
    leaving, dying, last = bench.peer(), bench.peer(), bench.peer()
    leaving.send(client.publish(b"q:t", b"job", 1), client.subscribe(2, b"q:t", b"leaving"))
    await leaving.hears(1, 2, "job")
    leaving.send(client.unsubscribe(3, b"q:t"))
    dying.send(client.subscribe(1, b"q:t", b"dying"))
    await dying.hears(1, "job")
    leaving.send(encode.ack(1), client.ping())
    await leaving.hears(1, 2, "job", 3, "pong")
    dying.connection.connection_lost(None)
    last.send(client.subscribe(1, b"q:t", b"last"))
    await last.hears(1, "job")


async def test_an_acknowledgement_of_a_topic_that_ends_says_nothing_of_the_next(bench):
    peer, again, told = bench.peer(), bench.peer(), []
    peer.send(client.publish(b"t", b"old", 1), client.subscribe(2, b"t", b"name"))
    await peer.hears(1, "old", 2)
    bench.shut()
    bench.parts.dispatchers.topics.delete(b"t", Callback(told.append))
    peer.send(encode.ack(1), client.ping())
    await turns()
    bench.open()
    await until(lambda: bool(told))
    again.send(client.publish(b"t", b"new", 1), client.subscribe(2, b"t", b"name"))
    await again.hears(1, "new", 2)


# ── bounds


async def test_what_a_client_subscribes_to_by_name_is_kept_beyond_the_bound_of_its_topics(bench):
    limits = bench.door.connections.limits
    bench.door.connections.limits = msgspec.structs.replace(limits, subscriptions_max=1)
    publisher, peer, again = bench.peer(), bench.peer(), bench.peer()
    publisher.send(client.publish(b"t", b"m", 1), client.publish(b"u", b"n", 2))
    peer.send(client.subscribe(1, b"t", b"name"))
    await peer.hears("m", 1)
    peer.send(encode.ack(1), client.unsubscribe(2, b"t"), client.subscribe(3, b"u", b"name"))
    await peer.hears("m", 1, 2, "n", 3)
    peer.send(encode.ack(2), client.ping())
    await peer.hears("m", 1, 2, "n", 3, "pong")
    again.send(client.subscribe(4, b"u", b"name"))
    await again.hears(4)


# ── the disk


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (StorageFull("no room"), DisconnectReason.STORAGE_FULL, "disk is full"),
        (StorageError("broken"), DisconnectReason.STORAGE_FAILED, "disk failed"),
    ],
)
async def test_a_publish_that_the_disk_refuses_is_not_acknowledged(bench, error, reason, text):
    peer = bench.peer()
    bench.store.error = error
    peer.send(client.publish(b"t", b"m", 1), client.ping())
    await until(lambda: peer.transport.is_closed)
    (told,) = peer.told()
    assert text in told
    assert bench.counters.disconnects[reason] == 1


@pytest.mark.parametrize(("topic", "told"), [(b"t", ["m", 2]), (b"q:t", [2, "m"])])
async def test_an_acknowledgement_that_the_disk_refuses_ends_the_connection(bench, topic, told):
    """So the client finds out what is stored by subscribing again."""
    peer = bench.peer()
    peer.send(client.publish(topic, b"m", 1), client.subscribe(2, topic, b"name"))
    await peer.hears(1, *told)
    bench.store.error = StorageFull("no room")
    peer.send(encode.ack(1), client.ping())
    await until(lambda: peer.transport.is_closed)
    assert "pong" not in peer.told()
    bench.store.error = None
    again = bench.peer()
    again.send(client.subscribe(2, topic, b"name"))
    await again.hears(*told)


async def test_a_journal_that_cannot_be_read_ends_the_connection(bench, monkeypatch):
    peer = bench.peer()
    peer.send(client.publish(b"t", b"m", 1))
    await peer.hears(1)

    def broken(*_arguments: Any) -> None:
        raise StorageError("broken")

    monkeypatch.setattr(bench.store, "read_topic", broken)
    peer.send(client.subscribe(2, b"t"))
    await until(lambda: peer.transport.is_closed)
    assert 2 not in peer.told()


# ── slow workers


async def test_nothing_more_is_sent_to_who_is_paused_until_it_has_read(bench):
    peer, publisher = bench.peer(), bench.peer()
    peer.send(client.subscribe(1, b"t"), client.subscribe(2, b"q:t"))
    await peer.hears(1, 2)
    peer.connection.pause_writing()
    publisher.send(client.publish(b"t", b"m", 1), client.publish(b"q:t", b"job", 2))
    await publisher.hears(1, 2)
    await turns(20)
    assert peer.told() == [1, 2]
    peer.connection.resume_writing()
    await until(lambda: len(peer.told()) == 4)
    assert set(peer.told()[2:]) == {"m", "job"}


# ── signatures


async def test_many_signatures_leave_others_a_turn_and_are_answered_in_order(bench):
    signed = b"".join(
        encode.frame(encode.BinaryCommand.SIGNED_PUBLISH, number, b"t", b"m") + bytes(68)
        for number in range(3 * SIGNED_AT_ONCE)
    )
    peer = bench.peer()
    peer.send(signed, client.ping())
    assert not peer.transport.is_reading
    refused = "Invalid signature or unknown key"
    await peer.hears(*[refused] * (3 * SIGNED_AT_ONCE), "pong")
    await until(lambda: peer.transport.is_reading)


async def test_who_makes_much_work_is_read_from_again_when_others_had_their_turn(bench):
    peer = bench.peer()
    peer.send(client.ping())
    assert peer.transport.is_reading
    now = bench.parts.monotonic()
    clock = iter([now])
    bench.parts.connections.monotonic = lambda: next(clock, now + 1)  # the work takes a second
    peer.send(client.ping())
    assert not peer.transport.is_reading
    await turns(2)
    assert peer.transport.is_reading


async def test_nothing_is_read_while_too_much_waits_for_the_disk_even_if_answers_leave(bench):
    """Under ``interval`` they leave before the commit, and a commit that fails is tried again."""
    bench.parts.pipeline._applies_first = True
    peer = bench.peer()
    bench.store.error = StorageFull("no room")
    peer.send(client.publish(b"t", b"x" * (BATCH_BYTES_MAX // 5), 1))
    await until(lambda: bench.store.attempts == 1)
    for number in range(2, 8):  # what fails is with the writer, and kept
        peer.send(client.publish(b"t", b"x" * (BATCH_BYTES_MAX // 5), number))
    await peer.hears(*range(1, 8))
    await until(lambda: bench.store.attempts > 2)
    assert not peer.transport.is_reading
    bench.store.error = None
    await until(lambda: peer.transport.is_reading)
