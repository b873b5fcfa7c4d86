"""The whole broker, killed at every commit of a script, just before and just after it.

Each run plays the same script on real sockets until commit number *n* is reached. From that moment
on the disk accepts nothing more: whether commit *n* itself took effect is the run's parameter, and
in neither case is it answered. The broker is killed and restarted on what the disk has, the clients
reconnect as the standard requires, and then the guarantees are checked:

* every message that was acknowledged to its publisher reaches the subscriber, QoS 2 exactly once;
* a subscription that was answered is there, and one whose end was answered is not;
* a retained message that was acknowledged is there;
* the will of a client that was connected is published.

*n* grows until the script runs to its end without reaching it.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

import pytest

from penstock.errors import StorageError
from penstock.server import Server
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import Commit
from penstock.testing import Broker
from tests.conformance.wire_client import (
    WireClient,
    connack,
    connect_packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)

WILL = ("day/will", b"will", 1, False)


class Disk(MemoryStore):
    """A store that outlives the broker; commit number ``deadly`` is the last one it sees."""

    def __init__(self, deadly: int, *, takes_effect: bool) -> None:
        super().__init__()
        self._commits_left = deadly
        self._takes_effect = takes_effect
        self._was_opened = False
        self.is_dead = False

    def commit(self, batch: Batch) -> Commit:
        if self.is_dead:
            raise StorageError("dead")
        self._commits_left -= 1
        if self._commits_left == 0:
            self.is_dead = True
            if self._takes_effect:
                super().commit(batch)
            raise StorageError("killed")
        return super().commit(batch)

    def opened(self) -> Self:
        """A broker starts on it; from the second start on the machine stays up for good."""
        if self._was_opened:
            self.is_dead = False
            self._commits_left = 0
        self._was_opened = True
        return self

    def close(self) -> None:
        """The broker closes it; the bytes stay."""


class Subscriber:
    """A durable subscriber that does its half of every handshake, over any number of connections."""

    def __init__(self, dial: Callable[[], WireClient]) -> None:
        self._dial = dial
        self.delivered: Counter[bytes] = Counter()
        self._unreleased: set[int] = set()

    def connect(self, *, known: bool | None) -> None:
        self.client = self._dial()
        self.client.send(connect_packet("sub", clean=False))
        answer = self.client.receive()
        if known is None:  # the answer to our CONNECT was lost: both are right
            assert answer in {connack(session_present=False), connack(session_present=True)}
        else:
            assert answer == connack(session_present=known)

    def take(self, until: bytes) -> None:
        """Receive and acknowledge until this packet or the payload of this name has come."""
        while not self._is(self.client.receive(), until):
            pass

    def _is(self, packet: bytes, until: bytes) -> bool:
        assert packet, "the connection ended"
        if packet == until:
            return True
        kind = packet[0] >> 4
        if kind == 6:
            self._unreleased.discard(int.from_bytes(packet[2:4], "big"))
            self.client.send(pubcomp(int.from_bytes(packet[2:4], "big")))
        if kind != 3:
            return False
        qos, topic_end = packet[0] >> 1 & 3, 4 + int.from_bytes(packet[2:4], "big")
        packet_id = int.from_bytes(packet[topic_end : topic_end + 2], "big")
        payload = packet[topic_end + 2 :]
        if qos == 1 or packet_id not in self._unreleased:
            self.delivered[payload] += 1
        if qos == 2:
            self._unreleased.add(packet_id)
        self.client.send(puback(packet_id) if qos == 1 else pubrec(packet_id))
        return payload == until


class Day:
    """The script, and a record of what was acknowledged before it ended."""

    def __init__(self, broker: Broker, connections: ExitStack) -> None:
        self.broker = broker
        self._connections = connections
        self.subscriber = Subscriber(self.dial)
        self.acknowledged: set[str] = set()
        self.begun: set[str] = set()
        self.pubrec_seen: set[int] = set()

    def dial(self) -> WireClient:
        return self._connections.enter_context(WireClient(self.broker.host, self.broker.port))

    def play(self) -> None:
        """Raises AssertionError or OSError when the broker's death is noticed."""
        self._step("session", lambda: self.subscriber.connect(known=False))
        self._step("subscription", self._subscribe)
        self._step("publisher", self._connect_publisher)
        self._step("one", lambda: self.publisher.publish_acknowledged("day/1", b"one"))
        self._step("two", lambda: self._publish_exactly_once(2, b"two"))
        self._rest()
        self._step("kept", self._publish_retained)
        self.subscriber.take(until=b"kept")
        self._step("other", self._subscribe_to_other)
        self._step("not other", self._unsubscribe_from_other)
        self._rest()
        self.subscriber.client.abort()
        self._step("three", lambda: self._publish_exactly_once(3, b"three"))
        self._step("four", lambda: self.publisher.publish_acknowledged("day/4", b"four"))
        self._rest()
        self._step("again", lambda: self.subscriber.connect(known=True))
        self.subscriber.take(until=b"four")
        self.publisher.abort()
        self.subscriber.take(until=b"will")
        self._rest()

    def _step(self, name: str, act: Callable[[], None]) -> None:
        self.begun.add(name)
        act()
        self.acknowledged.add(name)

    def _rest(self) -> None:
        """Two seconds: time for a round of the checkpoint."""
        self.broker.clock.advance(2)

    def _subscribe(self) -> None:
        self.subscriber.client.send(subscribe(1, ("day/#", 2)))
        self.subscriber.take(until=suback(1, 2))

    def _subscribe_to_other(self) -> None:
        self.subscriber.client.send(subscribe(2, ("other", 1)))
        self.subscriber.take(until=suback(2, 1))

    def _unsubscribe_from_other(self) -> None:
        self.subscriber.client.send(unsubscribe(3, "other"))
        self.subscriber.take(until=unsuback(3))

    def _connect_publisher(self) -> None:
        self.publisher = self.dial()
        self.publisher.send(connect_packet("pub", clean=False, will=WILL))
        self.publisher.expect(connack())

    def _publish_exactly_once(self, packet_id: int, payload: bytes) -> None:
        topic = f"day/{packet_id}"
        self.publisher.send(publish(topic, payload, qos=2, packet_id=packet_id))
        self.publisher.expect(pubrec(packet_id))
        self.pubrec_seen.add(packet_id)
        self.publisher.send(pubrel(packet_id))
        self.publisher.expect(pubcomp(packet_id))

    def _publish_retained(self) -> None:
        self.publisher.publish_acknowledged("day/kept", b"kept", retain=True)

    # ── after the restart ─────────────────────────────────────────────────────────────────────

    def resume(self) -> None:
        """All clients reconnect and finish what they began, as the standard requires."""
        self.subscriber.connect(known=True if "session" in self.acknowledged else None)
        if "subscription" not in self.acknowledged:
            self._subscribe()
        publisher = self.dial()
        publisher.send(connect_packet("pub", clean=False))
        present = publisher.receive() == connack(session_present=True)
        assert present or "publisher" not in self.acknowledged
        for packet_id, name in ((2, "two"), (3, "three")):
            if name in self.begun and name not in self.acknowledged:
                self._finish(publisher, packet_id, name)
        publisher.publish_acknowledged("other", b"unwanted", packet_id=8)
        publisher.publish_acknowledged("day/end", b"end", packet_id=9)
        self.subscriber.take(until=b"end")

    def _finish(self, publisher: WireClient, packet_id: int, name: str) -> None:
        if packet_id not in self.pubrec_seen:
            repeated = publish(
                f"day/{packet_id}", name.encode(), qos=2, packet_id=packet_id, dup=True
            )
            publisher.send(repeated)
            publisher.expect(pubrec(packet_id))
        publisher.send(pubrel(packet_id))
        publisher.expect(pubcomp(packet_id))
        self.acknowledged.add(name)

    def check(self) -> None:
        delivered = self.subscriber.delivered
        if "subscription" in self.acknowledged:
            for name in {"one", "kept", "four"} & self.acknowledged:
                assert delivered[name.encode()] >= 1, name
            for name in {"two", "three"} & self.acknowledged:
                assert delivered[name.encode()] == 1, name
            assert delivered[b"will"] >= ("publisher" in self.acknowledged)
        if "not other" in self.acknowledged:
            assert delivered[b"unwanted"] == 0
        elif "other" in self.acknowledged and "not other" not in self.begun:
            assert delivered[b"unwanted"] == 1
        if "kept" in self.acknowledged:
            late = self.dial()
            late.send(connect_packet(""), subscribe(1, ("day/kept", 0)))
            late.expect(connack(), suback(1, 0), publish("day/kept", b"kept", retain=True))


def live_through(deadly: int, *, takes_effect: bool, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do one run; return whether commit number ``deadly`` was reached."""
    disk = Disk(deadly, takes_effect=takes_effect)
    monkeypatch.setattr(Server, "_open_store", lambda _server: disk.opened())
    with Broker() as broker, ExitStack() as connections:
        day = Day(broker, connections)
        try:
            day.play()
        except (AssertionError, OSError):
            assert disk.is_dead, "the broker failed before its disk did"
        was_met = disk.is_dead
        broker.restart(kill=True)
        if was_met:
            day.resume()
        day.check()
        return was_met


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
def test_promises_hold_whichever_commit_the_broker_dies_at(takes_effect, monkeypatch):
    deadly = 1
    while live_through(deadly, takes_effect=takes_effect, monkeypatch=monkeypatch):
        deadly += 1
    assert deadly > 15, "the script has become too short to prove much"
