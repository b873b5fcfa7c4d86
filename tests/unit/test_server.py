"""Recovery and the life cycle of a server, independent of protocols."""

import asyncio
import threading

import msgspec
import pytest

from penstock.commit.recovery import recover
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.commands import (
    Closed,
    Progressed,
    Received,
    SessionOpened,
    Subscribed,
    WillMessage,
    to_event,
)
from penstock.errors import Refused, StorageFull
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.server import Server
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.testing import VirtualClock


def recovered(store: MemoryStore) -> Broker:
    broker = Broker(Counters())
    recover(store, broker)
    return broker


def opened(batch: Batch, client_id: bytes = b"ann", will: WillMessage | None = None) -> None:
    batch.add_event(to_event(SessionOpened(client_id, 1, clean=False, will=will)))


def test_events_are_replayed_at_their_place_between_the_messages():
    store, batch = MemoryStore(), Batch()
    opened(batch)
    batch.append(b"t", [b"before"], 5, 1)
    batch.add_event(to_event(Subscribed(b"ann", 1, [(b"t", 1)])))
    batch.append(b"t", [b"captured"], 5, 0)
    batch.append(b"t", [b"after"], 5, 1)
    batch.add_event(to_event(Received(b"ann", [4])))
    store.commit(batch)
    session = recovered(store).sessions[b"ann"]
    assert [sequence for _, sequence, _, _ in session.unfinished()] == [3]
    assert session.has_received(4)


def test_recovery_stands_at_the_last_entry_even_if_there_was_nothing_to_replay():
    store, batch = MemoryStore(), Batch()
    batch.append(b"t", [b"x"], 5, 0)
    store.commit(batch)
    mark = Batch()
    mark.checkpoint = 1
    store.commit(mark)
    assert recovered(store).index == 1


def test_recovering_twice_gives_the_same_rows():
    store, batch = MemoryStore(), Batch()
    opened(batch)
    batch.add_event(to_event(Subscribed(b"ann", 1, [(b"#", 2)])))
    batch.append(b"t", [b"1", b"2"], 5, 2)
    batch.add_event(to_event(Closed(b"ann", 1, 9)))
    batch.append(b"t", [b"3"], 5, 1 | 4)
    store.commit(batch)
    first, second = recovered(store), recovered(store)
    assert first.session_row(b"ann") == second.session_row(b"ann")
    assert first.retained.match(b"#") == second.retained.match(b"#")
    assert list(first.away) == [b"ann"]


# ── the server ────────────────────────────────────────────────────────────────────────────────


class Store(MemoryStore):
    """Outlives its server, and fails on demand."""

    is_full = False

    def commit(self, batch: Batch):
        if self.is_full:
            raise StorageFull("full")
        return super().commit(batch)

    def close(self) -> None:
        """Stays open for the next start."""


def new_server(store: MemoryStore, port: int = 0, **sections) -> Server:
    plain = {"listen": [f"127.0.0.1:{port}"], "http_listen": [], "sys": {"interval_s": 0}}
    config = msgspec.convert({**plain, **sections}, Config)
    return Server(config, clock=VirtualClock(), store=store)


@pytest.mark.asyncio
async def test_orphans_are_buried_with_their_wills():
    store, batch = Store(), Batch()
    opened(batch, will=WillMessage(b"w", b"bye", 1, retain=True))
    store.commit(batch)
    server = new_server(store)
    await server.start()
    await server.parts.pipeline.drain()
    assert server.view.sessions() == (0, 1)
    assert server.view.retained() == 1
    await server.abandon()
    again = recovered(store)
    assert not again.sessions[b"ann"].connected
    assert again.retained.get(b"w").payload == b"bye"


@pytest.mark.asyncio
async def test_a_server_that_cannot_listen_leaves_nothing_behind():
    first = new_server(Store())
    await first.start()
    second = new_server(Store(), port=first.addresses[0].port)
    with pytest.raises(Refused):
        await second.start()
    await first.stop()
    assert first.view.ready() == (False, "shutting down")


@pytest.mark.asyncio
async def test_a_session_expires_when_its_time_is_over_and_not_before():
    store, batch = Store(), Batch()
    opened(batch)
    store.commit(batch)
    server = new_server(store, limits={"session_expiry_s": 60})
    await server.start()
    await server.parts.pipeline.drain()
    server._clock.advance(59)
    server.turn()
    await server.parts.pipeline.drain()
    assert b"ann" in server.broker.sessions
    server._clock.advance(2)
    server.turn()
    await server.parts.pipeline.drain()
    assert not server.broker.sessions
    await server.stop()


@pytest.mark.asyncio
async def test_a_full_disk_is_not_ready_and_says_why():
    store = Store()
    server = new_server(store)
    await server.start()
    assert server.view.ready() == (True, "")
    store.is_full = True
    server.parts.pipeline.publish(b"t", [b"x"], 5, qos=1, retain=False, packet_ids=[])
    await server.parts.pipeline.drain()
    assert server.view.ready() == (False, "full")
    store.is_full = False
    await server.stop()


@pytest.mark.asyncio
async def test_expiry_does_not_pile_up_while_the_disk_is_full():
    store, batch = Store(), Batch()
    opened(batch)
    batch.add_event(to_event(Closed(b"ann", 1, 5)))
    store.commit(batch)
    server = new_server(store)
    await server.start()
    store.is_full = True
    for _ in range(20):
        server.turn()
        await server.parts.pipeline.drain()
    pipeline = server.parts.pipeline
    waiting = len(pipeline._open.steps)
    waiting += sum(len(pending.steps) for pending in pipeline._in_flight)
    await server.abandon()
    assert waiting <= 2


def acknowledged(*client_ids: bytes) -> Batch:
    """Durable subscribers who acknowledged something when the virtual clock began."""
    batch = Batch()
    for client_id in client_ids:
        batch.add_event(to_event(Progressed(client_id, b"t", [(0, 1)], VirtualClock().wall_ms())))
    return batch


@pytest.mark.asyncio
async def test_forgetting_subscribers_does_not_pile_up_while_the_disk_is_full():
    store = Store()
    store.commit(acknowledged(b"ann", b"bob"))
    server = new_server(store, limits={"subscriber_expiry_s": 60})
    await server.start()
    server._clock.advance(61)
    store.is_full = True
    for _ in range(20):
        server.turn()
        await server.parts.pipeline.drain()
    pipeline = server.parts.pipeline
    waiting = len(pipeline._open.steps) + len(pipeline._retries)
    waiting += sum(len(pending.steps) for pending in pipeline._in_flight)
    await server.abandon()
    assert waiting <= 2


@pytest.mark.asyncio
async def test_a_wall_clock_that_jumps_makes_no_subscriber_forgotten():
    store = Store()
    store.commit(acknowledged(b"ann"))
    server = new_server(store, limits={"subscriber_expiry_s": 60})
    await server.start()
    wall_ms = server._clock.wall_ms
    server._clock.wall_ms = lambda: wall_ms() + 50 * 365 * 24 * 3600 * 1000
    server.turn()
    await server.parts.pipeline.drain()
    assert b"ann" in server.broker.subscribers.by_id
    server._clock.advance(61)
    server.turn()
    await server.parts.pipeline.drain()
    assert not server.broker.subscribers.by_id
    await server.stop()


@pytest.mark.asyncio
async def test_a_stop_says_that_all_that_was_accepted_is_kept():
    server = new_server(Store())
    await server.start()
    server.parts.pipeline.publish(b"t", [b"x"], 5, qos=1, retain=False)
    assert await server.stop() is True
    assert server.store.next_sequence == 2


@pytest.mark.parametrize("durability", ["sync", "interval"])
@pytest.mark.asyncio
async def test_a_stop_on_a_full_disk_says_that_something_is_missing(durability):
    """Under ``sync`` a will, which no client repeats; under ``interval`` what was acknowledged."""
    store = Store()
    server = new_server(store, durability=durability)
    await server.start()
    store.is_full = True
    server.parts.pipeline.publish(b"t", [b"x"], 5, qos=1, retain=False, keep=True)
    assert await server.stop() is False


CONNECT = b"\x10\x0f\x00\x04MQTT\x04\x00\x00\x00\x00\x03ann"


@pytest.mark.asyncio
async def test_a_retained_message_beyond_the_limit_is_taken_but_not_as_retained():
    """Settled when it arrives, and written down so: a restart with another limit agrees."""
    store = Store()
    server = new_server(store, limits={"retained_max": 1})
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.addresses[0].port)
    writer.write(CONNECT)
    await reader.readexactly(4)
    for packet_id, topic in enumerate((b"a", b"b", b"a"), start=1):
        writer.write(b"\x33\x06\x00\x01" + topic + packet_id.to_bytes(2, "big") + b"x")
        await reader.readexactly(4)
    assert server.view.retained() == 1
    assert server.counters.drops[DropReason.RETAINED_LIMIT] == 1
    assert store.next_sequence == 4
    writer.close()
    await server.stop()
    assert [message.sequence for message in recovered(store).retained.match(b"#")] == [3]


@pytest.mark.asyncio
async def test_stopping_also_ends_connections_that_have_said_nothing():
    server = new_server(Store())
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.addresses[0].port)
    while not server._listener.undetected:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.001)
    await server.stop()
    try:
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    finally:
        writer.close()
        for connection in list(server._listener.undetected):
            connection._transport.abort()
        await asyncio.sleep(0)


class SlowStore(Store):
    """Fails as well, but only once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def commit(self, batch: Batch):
        assert self.gate.wait(10)
        return super().commit(batch)


@pytest.mark.asyncio
async def test_a_client_that_leaves_before_its_connect_is_refused_is_forgotten():
    store = SlowStore()
    store.is_full = True
    server = new_server(store)
    await server.start()
    _reader, writer = await asyncio.open_connection("127.0.0.1", server.addresses[0].port)
    writer.write(CONNECT)
    opening = server.parts.mqtt_door.connect_queue._opening
    while not opening:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.001)
    (connection,) = server.parts.connections.clients
    connection.close(DisconnectReason.KEEP_ALIVE_TIMEOUT)
    store.gate.set()
    await server.parts.pipeline.drain()
    left_over = dict(opening)
    writer.close()
    await server.abandon()
    assert left_over == {}
