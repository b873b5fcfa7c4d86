"""The shared side of connections: effects are carried out, and output leaves when it should."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.cluster.lone_node import LoneNode

from penstock.assembly import Assembly
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.commands import Offered, Published, WillMessage
from penstock.core.effects import Effects, FollowUp, SubscribeAnswer, Unkept
from penstock.core.pending_will import PendingWill
from penstock.core.session import PUBACK
from penstock.net.flusher import QUIET_S
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.memory import MemoryStore
from penstock.testing import VirtualClock

pytestmark = pytest.mark.asyncio


class Outlet:
    """A connection that records what it receives, and how often it is flushed."""

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self.told: list[Any] = []
        self.flushes = 0

    def say(self, what: Any) -> None:
        """Something to be written: as an outbox, we want to be flushed once for all of it."""
        self.told.append(what)
        self._parts.connections.flusher.flush_soon(self)

    def flush(self) -> None:
        self.flushes += 1

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        self.say((kind, packet_ids))

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        self.say((packet_id, return_codes))

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self.close(reason, detail)

    def close(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.told.append(reason)


class Bench:
    """A broker on a clock that stands still."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.counters = Counters()
        self.broker = Broker(self.counters, retained_max=1)
        self.store = MemoryStore()
        node = LoneNode(self.store)
        self.parts = Assembly(
            config=msgspec.convert({}, Config),
            broker=self.broker,
            store=self.store,
            clock=self.clock,
            counters=self.counters,
            log=node,
            cluster=node,
        )

    def outlet(self) -> Outlet:
        return Outlet(self.parts)

    def chunk(self, *outlets: Outlet) -> None:
        """A chunk of some publisher's arrives and has something for each of these."""
        self.parts.connections.flusher.hold()
        for outlet in outlets:
            outlet.say("message")
        self.parts.connections.flusher.release(self.clock.monotonic())

    def be_quiet(self) -> None:
        self.clock.advance(QUIET_S * 2)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.parts.close()


# ── flushing ──────────────────────────────────────────────────────────────────────────────────


async def test_a_message_that_is_alone_leaves_with_the_chunk_that_brought_it(bench):
    outlet = bench.outlet()
    for count in (1, 2):
        bench.be_quiet()
        bench.chunk(outlet)
        assert outlet.flushes == count
    await turns()
    assert outlet.flushes == 2


async def test_while_much_is_going_on_output_leaves_once_per_turn(bench):
    happened = []
    first, second = bench.outlet(), bench.outlet()
    for outlet in (first, second):
        outlet.flush = lambda: happened.append("flush")  # type: ignore[method-assign]
    bench.be_quiet()
    bench.chunk(bench.outlet())
    bench.chunk(first)
    bench.chunk(second)
    assert happened == []
    for _ in range(3):
        asyncio.get_running_loop().call_soon(happened.append, "turn")
        await turns(1)
    together = "".join(happened).replace("turn", " ").split()
    assert together == ["flushflush"]


async def test_a_chunk_without_output_flushes_nothing_and_does_not_count_as_traffic(bench):
    bench.be_quiet()
    bench.chunk()
    outlet = bench.outlet()
    bench.chunk(outlet)
    assert outlet.flushes == 1


async def test_output_outside_a_chunk_leaves_at_the_end_of_the_turn(bench):
    outlet = bench.outlet()
    bench.be_quiet()
    outlet.say("answer")
    assert outlet.flushes == 0
    await turns()
    assert outlet.flushes == 1


async def test_what_commands_bring_about_leaves_at_once(bench):
    """A commit is company enough: nothing else is coming that could share the write."""
    effects, outlet = Effects(), bench.outlet()
    effects.ack(outlet, PUBACK, [1, 2])
    bench.parts.effects.execute(effects)
    assert outlet.told == [(PUBACK, [1, 2])]
    assert outlet.flushes == 1


async def test_what_commands_bring_about_within_a_chunk_leaves_with_the_chunk(bench):
    effects, outlet = Effects(), bench.outlet()
    effects.ack(outlet, PUBACK, [1])
    bench.be_quiet()
    bench.parts.connections.flusher.hold()
    bench.parts.effects.execute(effects)
    assert outlet.flushes == 0
    bench.parts.connections.flusher.release(bench.clock.monotonic())
    assert outlet.flushes == 1


# ── effects ───────────────────────────────────────────────────────────────────────────────────


async def test_a_client_whose_message_was_not_kept_is_closed_so_that_it_sends_again(bench):
    effects, outlet = Effects(), bench.outlet()
    effects.controls.append(Unkept(outlet))
    bench.parts.effects.execute(effects)
    assert outlet.told == [DisconnectReason.STORAGE_FAILED]


async def test_a_follow_up_takes_its_turn_in_the_line(bench):
    effects, outlet = Effects(), bench.outlet()
    offered = Offered(b"ann", 1, 7, [1], [])
    effects.controls.append(FollowUp(outlet, offered))
    bench.parts.effects.execute(effects)
    assert not bench.parts.pipeline.is_idle
    await bench.parts.pipeline.drain()
    ((_, event),) = next(iter(bench.store.replay())).events
    assert event[1:4] == (b"ann", 1, 7)


async def test_one_clients_trouble_stays_its_own(bench):
    effects, unlucky, lucky = Effects(), bench.outlet(), bench.outlet()
    unlucky.subscribed = None
    for outlet in (unlucky, lucky):
        effects.controls.append(SubscribeAnswer(outlet, 7, [0]))
    bench.parts.effects.execute(effects)
    assert unlucky.told == [DisconnectReason.INTERNAL_ERROR]
    assert lucky.told == [(7, [0])]
    assert lucky.flushes == 1


# ── the limit on retained messages ────────────────────────────────────────────────────────────


def retain(bench: Bench, topic: bytes) -> None:
    bench.broker.apply(Published(topic, [b"x"], 0, True, 0, 5, []), None, Effects())


async def test_a_retained_message_beyond_the_limit_is_counted_when_it_is_refused(bench):
    assert bench.parts.admission.may_retain(b"a", b"x")
    retain(bench, b"a")
    assert bench.parts.admission.may_retain(b"a", b"changed")
    assert bench.parts.admission.may_retain(b"b", b"")  # clears, and takes no room
    assert sum(bench.counters.drops.values()) == 0
    assert not bench.parts.admission.may_retain(b"b", b"x")
    assert bench.counters.drops[DropReason.RETAINED_LIMIT] == 1


async def test_a_will_has_its_properties_and_expires_from_its_publication_on(bench):
    headers = ((b"n", b"v"), (b"mqtt-content-type", b"application/json"))
    will = WillMessage(b"w", b"{}", 1, retain=True, headers=headers, expiry_s=60, delay_s=30)
    done = asyncio.Event()
    bench.parts.wills.publish(PendingWill(b"ann", 1, will, 0), done.set)
    await done.wait()
    (message,) = bench.store.read([1])
    assert (message.extras.headers, message.content_type) == (headers, 2)
    assert message.extras.expires_ms == message.time_ms + 60_000
    retained = bench.broker.retained.get(b"w")
    assert (retained.extras, retained.content_type) == (message.extras, 2)


async def test_a_will_beyond_the_limit_is_published_but_not_retained(bench):
    retain(bench, b"a")
    will = WillMessage(b"w", b"bye", 1, retain=True)
    done = asyncio.Event()
    bench.parts.wills.publish(PendingWill(b"ann", 1, will, 0), done.set)
    await done.wait()
    assert bench.broker.retained.get(b"w") is None
    (message,) = bench.store.read([1])
    assert (message.payload, message.retain) == (b"bye", False)
    assert bench.counters.drops[DropReason.RETAINED_LIMIT] == 1
