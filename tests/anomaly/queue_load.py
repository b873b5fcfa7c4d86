"""Load for a broker that will be killed: producers, pollers, a push consumer, and their account.

All of them reconnect when their connection breaks, and continue as a correct client would:

* a **producer** numbers its messages and sends again, under the same numbers, what was not answered;
* a **poller** acknowledges most of what it gets, gives some back, and forgets some, whose leases
  must expire. What was confirmed to be settled in time must never be redelivered;
* a **push consumer** acknowledges what it is sent, without confirmation;
* the group of the **failing** poller has dead letters: some messages it never accepts.

The account is checked when everything was produced and every group has nothing left.
"""

import random
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Self

from penstock.wire.queue._generated.queue_pb2 import Delivered, Request, Response
from tests.conformance_queue.wire_client import QueueClient, columns, frame

__all__ = ["Account", "Load"]

TOPIC = "load"
LEFT = "$dlq/load/failing"
VISIBILITY_MS = 1_000
CERTAIN_S = 0.5
"""An acknowledgement answered within this time was in time, even on a busy machine."""

PIPELINED = 16
TIMEOUT_S = 120.0


class Link:
    """A connection that is reopened as often as necessary, until ``stopped``."""

    def __init__(self, port: int, stopped: threading.Event) -> None:
        while not stopped.is_set():
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
            except OSError:
                stopped.wait(0.02)
            else:
                self._reader = self._socket.makefile("rb")
                return
        raise ConnectionError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, *requests: Request) -> None:
        self._socket.sendall(b"".join(frame(each.SerializeToString()) for each in requests))

    def receive(self) -> Response:
        header = self._reader.read(4)
        body = self._reader.read(struct.unpack(">I", header)[0]) if len(header) == 4 else b""
        if not body:
            raise ConnectionError
        response = Response.FromString(body)
        assert not response.HasField("error"), response
        return response

    def ask(self, **kind: Any) -> Response:
        self.send(Request(**kind))
        return self.receive()


class Account:
    """What was answered to whom. Writers hold the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.offsets: dict[tuple[str, int], int] = {}
        """By producer and number: the offset in the answer."""
        self.delivered: dict[str, Counter[bytes]] = defaultdict(Counter)
        self.settled: dict[str, set[bytes]] = defaultdict(set)
        """By group: payloads that are certainly done."""
        self.complaints: list[str] = []

    def produced(self, producer: str, seq: int, offset: int) -> None:
        with self.lock:
            known = self.offsets.setdefault((producer, seq), offset)
            if known != offset:
                self.complaints.append(f"{producer}/{seq} is at {known} and at {offset}")

    def received(self, group: str, items: Iterable[Delivered]) -> None:
        with self.lock:
            for item in items:
                self.delivered[group][item.payload] += 1
                if item.payload in self.settled[group]:
                    self.complaints.append(f"{item.payload!r} came to {group} after it was done")

    def done(self, group: str, payloads: Iterable[bytes]) -> None:
        with self.lock:
            self.settled[group].update(payloads)

    # ── checking ──────────────────────────────────────────────────────────────────────────────

    def check(self, stored: list[tuple[int, bytes]], letters: list[bytes]) -> None:
        """Compare the answers with the journal."""
        assert not self.complaints, self.complaints[:5]
        expected = {b"%s/%d" % (name.encode(), seq): o for (name, seq), o in self.offsets.items()}
        found = Counter(payload for _, payload in stored)
        assert not [p for p, times in found.items() if times > 1], "stored more than once"
        assert {payload: offset for offset, payload in stored} == expected, "lost or moved"
        for group, delivered in self.delivered.items():
            missing = expected.keys() - delivered.keys()
            assert not missing, f"never came to {group}: {sorted(missing)[:5]}"
        assert not [p for p, times in Counter(letters).items() if times > 1], "died twice"
        assert not self.settled["failing"] & {*letters}, "done and dead"
        rest = expected.keys() - self.settled["failing"] - {*letters}
        assert not [p for p in rest if is_poison(p)], "neither done nor dead"


def is_poison(payload: bytes) -> bool:
    """Whether the failing poller never accepts a message."""
    return int(payload.rsplit(b"/", 1)[1]) % 40 == 0


class Load:
    """The actors, each a thread."""

    def __init__(self, port: int, seed: int, messages: int) -> None:
        self.port = port
        self.account = Account()
        self._stopped = threading.Event()
        self._failures: list[BaseException] = []
        self._messages = messages
        dice = random.Random(seed)
        self._producers = [f"p{number}" for number in range(3)]
        acts: list[Callable[[], None]] = [
            *(_Producer(self, name, dice.random()).run for name in self._producers),
            *(_Poller(self, "polled", dice.random()).run for _ in range(2)),
            _Poller(self, "failing", dice.random()).run,
            _Pushed(self, "pushed").run,
        ]
        self._threads = [threading.Thread(target=self._act, args=(act,)) for act in acts]

    def start(self) -> None:
        with QueueClient("127.0.0.1", self.port) as client:
            client.ok(configure_topic={"topic": TOPIC, "keep": True})
            for group in ("polled", "failing", "pushed"):  # redeliver immediately
                at_once = {"backoff_ms": 0, "backoff_max_ms": 0}
                client.ok(configure_group={"topic": TOPIC, "group": group, **at_once})
            client.ok(configure_group={"topic": TOPIC, "group": "failing", "max_deliveries": 2})
        for thread in self._threads:
            thread.start()

    def _act(self, act: Callable[[], None]) -> None:
        """Retry until it is done, over as many connections as necessary."""
        while not self._stopped.is_set():
            try:
                act()
            except OSError:
                continue
            except BaseException as error:  # noqa: BLE001 - it is raised where the test sees it
                self._failures.append(error)
                self._stopped.set()
            else:
                return

    @property
    def produced(self) -> int:
        return len(self.account.offsets)

    @property
    def total(self) -> int:
        return self._messages * len(self._producers)

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Wait while the actors do their work; if one of them failed, so does this."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_reached():
            assert not self._failures, self._failures
            assert not self.account.complaints, self.account.complaints[:5]
            assert time.monotonic() < deadline, "it takes too long"
            self._stopped.wait(0.005)

    def finish(self) -> None:
        """Let all groups finish, and check the account."""
        self.wait_until(lambda: self.produced == self.total)
        with QueueClient("127.0.0.1", self.port) as client:
            self.wait_until(lambda: not _left(client))
            self.stop()
            self._send_all_again(client)
            self.account.check(_stored(client, TOPIC), [p for _, p in _stored(client, LEFT)])

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        assert not self._failures, self._failures

    def _send_all_again(self, client: QueueClient) -> None:
        """Every number is still known, and nothing is stored for it."""
        end = client.describe(TOPIC).end_offset
        for name in self._producers:
            many = {"topic": TOPIC, "producer_id": name, "payloads": [b"again"] * self._messages}
            produced = client.ask(produce_many=many).produced_many
            found = [o for s in produced.stretches for o in range(s.offset, s.offset + s.count)]
            assert found == [self.account.offsets[name, seq] for seq in range(self._messages)]
        assert client.describe(TOPIC).end_offset == end


def _left(client: QueueClient) -> int:
    """Return the number of unfinished messages."""
    groups = client.ask(list_groups={"topic": TOPIC}).groups.groups
    return sum(group.lag for group in groups) + (len(groups) < 3)


def _stored(client: QueueClient, topic: str) -> list[tuple[int, bytes]]:
    """Everything that the journal has of a topic."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:
        response = client.ask(fetch={"topic": topic, "offset": offset})
        found += [(column.offset, column.payload) for column in columns(response)]
        offset = response.fetched.next_offset
        if offset >= response.fetched.end_offset:
            return found


class _Producer:
    """Numbers its messages; keeps some of them in flight."""

    def __init__(self, load: Load, name: str, seed: float) -> None:
        self._load = load
        self._name = name
        self._dice = random.Random(seed)

    def run(self) -> None:
        offsets, total = self._load.account.offsets, self._load.total // 3
        with Link(self._load.port, self._load._stopped) as link:
            seq = next((s for s in range(total) if (self._name, s) not in offsets), total)
            while seq < total:
                end = min(seq + self._dice.randint(1, PIPELINED), total)
                if self._dice.random() < 0.5:
                    self._one_by_one(link, seq, end)
                else:
                    self._at_once(link, seq, end)
                seq = end

    def _fields(self, seq: int) -> dict[str, Any]:
        priority = self._dice.choice([0, 0, 0, 3, 7])
        return {"topic": TOPIC, "producer_id": self._name, "seq": seq, "priority": priority}

    def _payload(self, seq: int) -> bytes:
        return b"%s/%d" % (self._name.encode(), seq)

    def _one_by_one(self, link: Link, start: int, end: int) -> None:
        link.send(
            *(
                Request(produce={**self._fields(seq), "payload": self._payload(seq)})
                for seq in range(start, end)
            )
        )
        for seq in range(start, end):
            self._load.account.produced(self._name, seq, link.receive().produced.offset)

    def _at_once(self, link: Link, start: int, end: int) -> None:
        payloads = [self._payload(seq) for seq in range(start, end)]
        response = link.ask(produce_many={**self._fields(start), "payloads": payloads})
        seqs = iter(range(start, end))
        for stretch in response.produced_many.stretches:
            for number in range(stretch.count):
                self._load.account.produced(self._name, next(seqs), stretch.offset + number)


class _Poller:
    """Takes some messages at a time; acknowledges, gives back and forgets."""

    def __init__(self, load: Load, group: str, seed: float) -> None:
        self._load = load
        self._place = {"topic": TOPIC, "group": group}
        self._group = group
        self._dice = random.Random(seed)

    def run(self) -> None:
        account = self._load.account
        with Link(self._load.port, self._load._stopped) as link:
            while not self._load._stopped.is_set():
                began = time.monotonic()
                poll = {**self._place, "max": 16, "wait_ms": 50}
                response = link.ask(poll={**poll, "visibility_timeout_ms": VISIBILITY_MS})
                items = list(response.polled.items)
                account.received(self._group, items)
                good, bad = self._judge(items)
                link.ask(ack_many={**self._place, "lease_ids": [i.lease_id for i in good]})
                if time.monotonic() - began < CERTAIN_S:
                    account.done(self._group, [item.payload for item in good])
                link.ask(nack_many={**self._place, "lease_ids": [i.lease_id for i in bad]})

    def _judge(self, items: list[Delivered]) -> tuple[list[Delivered], list[Delivered]]:
        """What to acknowledge and what to give back; the rest is forgotten."""
        good, bad = [], []
        for item in items:
            chance = self._dice.random()
            if self._group == "failing":
                (bad if is_poison(item.payload) else good).append(item)
            elif chance < 0.9:
                good.append(item)
            elif chance < 0.97:
                bad.append(item)
        return good, bad


class _Pushed:
    """Acknowledges what it is sent."""

    def __init__(self, load: Load, group: str) -> None:
        self._load = load
        self._group = group

    def run(self) -> None:
        stopped = self._load._stopped
        with Link(self._load.port, stopped) as link:
            link._socket.settimeout(0.5)
            place = {"topic": TOPIC, "group": self._group, "prefetch": 64}
            link.send(Request(subscribe={**place, "visibility_timeout_ms": VISIBILITY_MS}))
            while not stopped.is_set():
                try:
                    [item] = link.receive().polled.items
                except TimeoutError:
                    raise ConnectionError from None  # a reader that timed out cannot continue
                self._load.account.received(self._group, [item])
                link.send(Request(ack={"lease_id": item.lease_id}))
