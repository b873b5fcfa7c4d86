"""A work queue, killed at every commit of a script, just before and just after it.

As in ``test_broker_crash``: each run plays the same script on real sockets until commit number *n*,
the last one that the disk sees. Whether it took effect is the run's parameter; it is not answered.
Then the broker restarts on what the disk has, time passes until all leases have expired, the
producer sends everything again under the same numbers, and the groups are drained:

* every message has one offset, the one that was answered before if it was;
* acknowledged and confirmed messages are not redelivered; everything else is, once;
* a message that failed too often is one dead letter, and no longer in its group;
* nothing is left of a deleted topic, a commit holds, and no lease id is reused.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from penstock.server import Server
from penstock.testing import Broker
from tests.anomaly.test_broker_crash import Disk
from tests.conformance_queue.wire_client import QueueClient, payloads_of, wait_until

JOBS = [(b"a", 0), (b"b", 7), (b"c", 0), (b"d", 0), (b"e", 0)]
"""Payload and priority; the index of each is its offset."""

LONG_MS = 10**6


class Day:
    """The script, and a record of what was answered before it ended."""

    def __init__(self, broker: Broker, connections: ExitStack) -> None:
        self.broker = broker
        self._connections = connections
        self.client = self.dial()
        self.begun: set[str] = set()
        self.answered: set[str] = set()
        self.places: dict[bytes, int] = {}
        self.leases: set[int] = set()

    def dial(self) -> QueueClient:
        return self._connections.enter_context(QueueClient(self.broker.host, self.broker.port))

    def play(self) -> None:
        """Raises AssertionError or OSError when the broker's death is noticed."""
        self._step("groups", self._make_groups)
        self._step("jobs", self._produce)
        self._rest()
        first = self._poll("done", 2)
        self._settle("ack b", "done", first[:1])
        self._give_back("nack a", "done", first[1:], delay_ms=LONG_MS)
        others = self._poll("done", 3)
        self._step("extend", lambda: self._extend(others[:1]))
        self._settle("ack d e", "done", others[1:])
        self._rest()
        for name in ("fails once", "fails twice"):
            self._give_back(name, "dies", self._poll("dies", 1), reason="bad")
        self._rest()
        self._step("old", lambda: self._produce_one("again", b"old", 1))
        self._step("delete", lambda: self.client.ok(delete_topic={"topic": "again"}))
        self._step("new", lambda: self._produce_one("again", b"new", 1))
        self._step("commit", self._commit)
        self._rest()

    def _step(self, name: str, act: Callable[[], None]) -> None:
        self.begun.add(name)
        act()
        self.answered.add(name)

    def _rest(self) -> None:
        """Two seconds: time for a round of the checkpoint."""
        self.broker.clock.advance(2)

    def _make_groups(self) -> None:
        dies = {"topic": "jobs", "group": "dies", "max_deliveries": 2}
        self.client.ok(create_group={"topic": "jobs", "group": "done"})
        self.client.ok(configure_group=dies)

    def _produce(self) -> None:
        for seq, (payload, priority) in enumerate(JOBS):
            self._produce_one("jobs", payload, seq, priority)

    def _produce_one(self, topic: str, payload: bytes, seq: int, priority: int = 0) -> None:
        numbered: dict[str, Any] = {"producer_id": "p", "seq": seq, "priority": priority}
        [offset] = self.client.produce(topic, payload, **numbered)
        assert self.places.setdefault(payload, offset) == offset, "it has another place"

    def _poll(self, group: str, maximum: int, topic: str = "jobs") -> list[Any]:
        items = self.client.poll(topic, group, maximum, visibility_timeout_ms=LONG_MS)
        fresh = {item.lease_id for item in items}
        assert not fresh & self.leases, "a lease number was used again"
        self.leases |= fresh
        return items

    def _settle(self, name: str, group: str, items: list[Any]) -> None:
        leases = [item.lease_id for item in items]
        place = {"topic": "jobs", "group": group, "lease_ids": leases}
        self._step(name, lambda: self.client.ok(ack_many=place))

    def _give_back(self, name: str, group: str, items: list[Any], **fields: Any) -> None:
        [item] = items
        place = {"topic": "jobs", "group": group, "lease_id": item.lease_id, **fields}
        self._step(name, lambda: self.client.ok(nack=place))

    def _extend(self, items: list[Any]) -> None:
        place = {"topic": "jobs", "group": "done", "lease_ids": [items[0].lease_id]}
        self.client.ok(extend={**place, "visibility_timeout_ms": LONG_MS})

    def _commit(self) -> None:
        self.client.produce("commits", b"0", b"1", b"2")
        self.client.ok(commit={"topic": "commits", "group": "done", "offset": 2})

    # ── after the restart ─────────────────────────────────────────────────────────────────────

    def resume(self) -> None:
        """The client reconnects after all leases have expired, and repeats what it sent."""
        self.broker.clock.advance(3 * LONG_MS / 1_000)
        self.client = self.dial()
        if "groups" not in self.answered:
            self._make_groups()
        if "jobs" in self.begun:
            self._produce()

    def _drain(self, group: str, topic: str = "jobs") -> list[bytes]:
        found: list[bytes] = []
        while items := self._poll(group, 2, topic):
            found += payloads_of(items)
            self.client.ack(topic, items, group)
        return found

    def check(self) -> None:
        self._check_done()
        self._check_dies()
        self._check_deleted()
        if "commit" in self.answered:
            assert self._drain("done", "commits") == [b"2"]

    def _check_done(self) -> None:
        done = {b"b": "ack b", b"d": "ack d e", b"e": "ack d e"}
        found = self._drain("done")
        assert len(set(found)) == len(found), "it came twice"
        for payload in self.places.keys() & {payload for payload, _ in JOBS}:
            step = done.get(payload)
            if step in self.answered:
                assert payload not in found, "it was acknowledged"
            elif step not in self.begun:
                assert payload in found, "it was lost"

    def _check_dies(self) -> None:
        """The oldest job was given back at most twice; the others were never taken."""
        found = self._drain("dies")
        letters = "$dlq/jobs/dies"
        if "fails twice" in self.answered:
            wait_until(lambda: self.client.group("jobs", "dies").dead_letters == 1)
        dead = self._drain("reader", letters)
        jobs = [payload for payload, _ in JOBS if payload in self.places]
        assert sorted(found + dead) == jobs
        assert dead in ([], [b"b"])
        assert "fails twice" not in self.answered or dead

    def _check_deleted(self) -> None:
        found = self._drain("reader", "again")
        if "new" in self.answered:
            assert (found, self.places[b"new"]) == ([b"new"], 0)
        elif "delete" in self.answered:
            assert b"old" not in found
        elif "old" in self.answered and "delete" not in self.begun:
            assert found == [b"old"]


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
        if was_met:
            broker.restart(kill=True)
            day.resume()
            day.check()
        return was_met


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
def test_promises_hold_whichever_commit_the_broker_dies_at(takes_effect, monkeypatch):
    deadly = 1
    while live_through(deadly, takes_effect=takes_effect, monkeypatch=monkeypatch):
        deadly += 1
    assert deadly > 25, "the script has become too short to prove much"
