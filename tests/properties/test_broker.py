"""The claim of the architecture page: whatever happens, a restart gives the same state again.

A small world (a few clients, topics and filters; windows and queues of two) is driven through every
command, in batches, exactly as the pipeline does it: a batch is committed, later it *lands* (its
commands are applied), and what is submitted in between waits in the next one. Checkpoint slices of
a row or two ride along at any moment, commits fail now and then, and the broker dies and comes back.

After every step three brokers must agree on everything durable, packet ids and queues included: the
one that lived, one recovered from its store, and one recovered from a twin of that store which
never saw a checkpoint.
"""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from penstock.commit import checkpoint
from penstock.commit.checkpoint import Checkpointer
from penstock.commit.recovery import recover
from penstock.core.broker import Broker
from penstock.core.commands import (
    Acknowledged,
    Closed,
    DeliveriesLost,
    Drained,
    Expired,
    Published,
    Received,
    Released,
    Repeated,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    WillMessage,
    to_event,
)
from penstock.core.effects import (
    Accepted,
    Effects,
    FollowUp,
    PageTurned,
    PortionSent,
    Unkept,
)
from penstock.core.session import AWAIT_PUBCOMP, PUBACK, PUBCOMP, PUBREC, Session
from penstock.model.message import FLAG_RETAIN
from penstock.obs.counters import Counters
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore

CLIENTS = [b"ann", b"bob", b"cyd"]
TOPICS = [b"a", b"a/b", b"c"]
FILTERS = [b"a", b"#", b"a/#"]
PACKET_IDS = [1, 2, 3]

clients = st.sampled_from(CLIENTS)
wills = st.none() | st.builds(
    WillMessage, st.sampled_from(TOPICS), st.just(b"will"), st.integers(1, 2), st.booleans()
)
requests = st.lists(
    st.tuples(st.sampled_from(FILTERS), st.sampled_from([0, 1, 2, 0x80])), min_size=1, max_size=3
)


def durable_part(broker: Broker) -> dict[str, Any]:
    """Everything that a restart must not change, in a form that compares and prints well."""
    return {
        "sessions": {
            client_id: _session_part(session)
            for client_id, session in sorted(broker.sessions.items())
            if session.recorded
        },
        "retained": [
            (message.topic, message.payload, message.qos, message.sequence, message.time_ms)
            for message in broker.retained.match(b"#")
        ],
    }


def _session_part(session: Session) -> tuple[Any, ...]:
    identity = (session.connected, session.connection, session.will)
    if not session.durable:
        return identity  # only its will is to survive
    return (
        *identity,
        session.away_since_ms,
        session.next_packet_id,
        session.subscriptions or {},
        list((session.inflight or {}).items()),
        list(session.queue or ()),
        sorted(session.received or ()),
    )


def needed(session: Session) -> list[int]:
    """The sequences of all that is on its way to a session, looked at one by one."""
    in_flight = [sequence for _, sequence, _, _ in session.unfinished()]
    return in_flight + [packed >> 3 for packed in session.queue or ()]


class Connection:
    """Stands for a client's connection: records its completions."""

    def __init__(self, opened: SessionOpened) -> None:
        self.opened = opened
        self.session: Session | None = None
        self.is_closed = False


Step = tuple[Any, Connection | None, bool]


class World(RuleBasedStateMachine):
    """The broker with its pipeline, step by step."""

    drops_oldest = True

    def __init__(self) -> None:
        super().__init__()
        self._rows_max = checkpoint.ROWS_PER_COMMIT_MAX
        checkpoint.ROWS_PER_COMMIT_MAX = 1  # long rounds are those in which things happen
        self.store, self.plain_store = MemoryStore(), MemoryStore()
        self.now_ms = 1_000
        self.connections: dict[bytes, Connection] = {}
        self.numbers = 0
        self.payloads = 0
        self.stored: set[tuple[bytes, int]] = set()
        """QoS 2 ids whose last message is known to have reached the disk."""
        self._live_again(self.new_broker())

    def new_broker(self) -> Broker:
        return Broker(
            Counters(),
            inflight_max=2,
            queue_messages_max=2,
            queue_drops_oldest=self.drops_oldest,
            retained_max=2,
        )

    def _live_again(self, broker: Broker) -> None:
        self.broker = broker
        self.checkpointer = Checkpointer(broker)
        self.batch = Batch()
        self.steps: list[Step] = []
        self.landing: tuple[Any, list[Step]] | None = None
        self.kept: list[Any] = []

    def teardown(self) -> None:
        checkpoint.ROWS_PER_COMMIT_MAX = self._rows_max

    # ── what the doors do ─────────────────────────────────────────────────────────────────────

    def submit(self, command: Any, connection: Connection | None, *, durable: bool) -> None:
        if durable:
            self.batch.add_event(to_event(command))
        elif self.landing is None and not self.steps:
            self.apply([(command, connection, False)])
            return
        self.steps.append((command, connection, durable))

    def append(self, message: Published, connection: Connection | None) -> None:
        flags = message.qos | (FLAG_RETAIN if message.retain else 0)
        position = self.batch.append(message.topic, message.payloads, message.time_ms, flags)
        self.steps.append((msgspec.structs.replace(message, position=position), connection, True))

    def message(self, topic: bytes, payloads: list[bytes], qos: int, *, retain: bool) -> Published:
        """A message as the door makes it: whether it may be retained is settled there."""
        retain = retain and (not payloads[-1] or self.broker.retained.admits(topic))
        return Published(topic, payloads, qos, retain, 0, self.now_ms, [])

    def append_will(self, will: WillMessage) -> None:
        self.append(self.message(will.topic, [will.payload], will.qos, retain=will.retain), None)

    def close(self, connection: Connection, *, with_will: bool = True) -> None:
        if connection.is_closed:
            return
        connection.is_closed = True
        if connection.session is not None:
            self.let_go(connection, with_will=with_will)

    def let_go(self, connection: Connection, *, with_will: bool) -> None:
        opened, session = connection.opened, connection.session
        assert session is not None
        if opened.will is not None and with_will:
            self.append_will(opened.will)
        closed = Closed(opened.client_id, opened.connection, self.now_ms)
        self.submit(closed, None, durable=session.recorded)
        connection.session = None

    def apply(self, steps: list[Step]) -> None:
        effects = Effects()
        for command, connection, _ in steps:
            self.broker.apply(command, connection, effects)
        for (connection, kind), packet_ids in effects.acks.items():
            client_id = connection.opened.client_id
            if kind == PUBREC:
                assert {(client_id, packet_id) for packet_id in packet_ids} <= self.stored
        for control in effects.controls:
            if isinstance(control, Accepted):
                control.waiter.session = control.session
                if control.waiter.is_closed:
                    self.let_go(control.waiter, with_will=True)
            elif isinstance(control, FollowUp):
                self.submit(control.command, control.waiter, durable=True)
            elif isinstance(control, PortionSent):
                session = control.waiter.session
                if session is not None:
                    drained = Drained(session.client_id, session.connection)
                    self.submit(drained, control.waiter, durable=session.durable)
            elif isinstance(control, PageTurned):
                self.offer_more(control.waiter)
            elif isinstance(control, Unkept):
                self.close(control.waiter)

    def offer_more(self, connection: Connection) -> None:
        """Make the next page of retained messages, if there is room for it."""
        session, retained_delivery = connection.session, self.broker.retained_delivery
        if session is None or not session.offers or not retained_delivery.has_room(session):
            return
        search = retained_delivery.search(session.offers[0])
        while not search.step(100):
            pass
        page = retained_delivery.page(session, session.offers[0], search, 0)
        if page is not None:
            self.submit(page, connection, durable=session.durable)

    def present(self, client_id: bytes) -> tuple[Connection, Session]:
        """Return the client's connection, connecting first if necessary."""
        connection = self.connections.get(client_id)
        if connection is None or connection.is_closed or connection.session is None:
            self.connect(client_id, clean=False, will=None)
            self.settle()
            connection = self.connections[client_id]
        assert connection.session is not None
        return connection, connection.session

    @initialize(
        habits=st.tuples(*[st.tuples(st.booleans(), wills, st.none() | requests)] * len(CLIENTS))
    )
    def begin_with_everybody_connected(self, habits):
        """From an empty state, too many steps are needed until something can go wrong."""
        for client_id, (clean, will, _) in zip(CLIENTS, habits, strict=True):
            self.connect(client_id, clean, will)
        self.settle()
        for client_id, (_, _, wanted) in zip(CLIENTS, habits, strict=True):
            if wanted:
                self.subscribe(client_id, wanted)
        self.settle()

    # ── what clients do ───────────────────────────────────────────────────────────────────────

    @rule(client_id=clients, clean=st.booleans(), will=wills)
    def connect(self, client_id, clean, will):
        before = self.connections.get(client_id)
        if before is not None:
            self.close(before)
        self.numbers += 1
        opened = SessionOpened(client_id, self.numbers, clean, will, is_paced=True)
        connection = self.connections[client_id] = Connection(opened)
        session = self.broker.sessions.get(client_id)
        opening = any(
            isinstance(c, SessionOpened) and c.client_id == client_id for c in self.line()
        )
        durable = not clean or will is not None or opening
        durable = durable or (session is not None and session.recorded)
        self.submit(opened, connection, durable=durable)

    def line(self) -> list[Any]:
        """The commands that have yet to be applied."""
        return [step[0] for step in self.steps + (self.landing[1] if self.landing else [])]

    @rule(client_id=clients, with_will=st.booleans())
    def disconnect(self, client_id, with_will):
        connection = self.connections.get(client_id)
        if connection is not None:
            self.close(connection, with_will=with_will)

    @rule(client_id=clients, requests=requests)
    def subscribe(self, client_id, requests):
        connection, session = self.present(client_id)
        self.submit(Subscribed(client_id, 9, requests), connection, durable=session.durable)

    @rule(client_id=clients, filters=st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2))
    def unsubscribe(self, client_id, filters):
        connection, session = self.present(client_id)
        self.submit(Unsubscribed(client_id, 9, filters), connection, durable=session.durable)

    @rule(
        client_id=clients,
        topic=st.sampled_from(TOPICS),
        qos=st.integers(0, 2),
        retain=st.booleans(),
        payloads=st.lists(st.sampled_from([b"", b"x"]), min_size=1, max_size=3),
    )
    def publish(self, client_id, topic, qos, retain, payloads):
        connection, session = self.present(client_id)
        self.payloads += 1
        payloads = [payload and b"%d" % self.payloads for payload in payloads]
        if not qos and not retain:
            self.batch.append(topic, payloads, self.now_ms, 0)  # captured, nothing more
            return
        message = self.message(topic, payloads, qos, retain=retain)
        if qos:
            packet_ids = PACKET_IDS[: len(payloads)]
            if qos == 2:
                packet_ids = self.receive(connection, session, packet_ids)
            message = msgspec.structs.replace(
                message, payloads=payloads[: len(packet_ids)], packet_ids=packet_ids
            )
        if message.payloads:
            self.append(message, connection if qos else None)

    def receive(self, connection: Connection, session: Session, packet_ids: list[int]) -> list[int]:
        """Take QoS 2 messages unless they are repetitions, as the door does."""
        client_id = session.client_id
        line = [c for c in self.line() if isinstance(c, Received) and c.client_id == client_id]
        receiving = {packet_id for command in line for packet_id in command.packet_ids}
        repeated = [number for number in packet_ids if number in receiving]
        if repeated:
            self.submit(Repeated(client_id, repeated), connection, durable=False)
        known = receiving | (session.received or set())
        taken = [number for number in packet_ids if number not in known]
        if taken:
            self.stored.difference_update((client_id, number) for number in taken)
            received = Received(client_id, taken)
            if session.durable:
                self.batch.add_event(to_event(received))
            self.steps.append((received, None, True))
        return taken

    @rule(
        client_id=clients,
        kind=st.sampled_from([PUBACK, PUBREC, PUBCOMP]),
        packet_ids=st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=3),
    )
    def acknowledge(self, client_id, kind, packet_ids):
        connection, session = self.present(client_id)
        if session.durable:
            self.submit(Acknowledged(client_id, kind, packet_ids), connection, durable=True)
        else:
            self.broker.acknowledge(session, kind, packet_ids, Effects())

    @rule(client_id=clients, count=st.integers(1, 2))
    def acknowledge_what_is_in_flight(self, client_id, count):
        """Random ids rarely fit: this is what clients usually do."""
        session = self.broker.sessions.get(client_id)
        for packet_id, _, state, _ in list(session.unfinished() if session else ())[:count]:
            self.acknowledge(client_id, {1: PUBACK, 2: PUBREC, 3: PUBCOMP}[state], [packet_id])

    @rule(client_id=clients, packet_ids=st.lists(st.sampled_from(PACKET_IDS), min_size=1))
    def release(self, client_id, packet_ids):
        connection, session = self.present(client_id)
        if session.durable:
            self.submit(Released(client_id, packet_ids), connection, durable=True)
        else:
            session.release(packet_ids)

    @rule(client_id=clients, count=st.integers(1, 2))
    def lose(self, client_id, count):
        """Retention has removed some of the messages to be sent."""
        connection = self.connections.get(client_id)
        session = connection.session if connection else None
        if session is not None:
            unsent = [i for i, _, state, _ in session.unfinished() if state != AWAIT_PUBCOMP]
            lost = DeliveriesLost(client_id, session.connection, unsent[:count])
            self.submit(lost, None, durable=session.durable)

    # ── what time and the disk do ─────────────────────────────────────────────────────────────

    @rule()
    def expire(self):
        for session in list(self.broker.away.values()):
            self.submit(Expired(session.client_id, session.connection), None, durable=True)

    @rule(rows=st.sampled_from([1, 2, 256]))
    def let_time_pass(self, rows):
        self.now_ms += 2_000
        checkpoint.ROWS_PER_COMMIT_MAX = rows

    @precondition(lambda self: self.landing is None)
    @rule()
    def commit(self):
        """Hand the batch to the disk; its commands are not applied yet."""
        self.now_ms += 400
        self.checkpointer.fill(self.batch, self.now_ms / 1000)
        batch, steps = self.batch, self.steps
        self.batch, self.steps = Batch(), []
        if batch.is_empty:
            self.apply(steps)
            return
        self.plain_store.commit(without_rows(batch))
        self.landing = (self.store.commit(batch), steps)
        if batch.count or batch.events:
            self.checkpointer.changed(self.landing[0].index)

    @rule()
    def settle(self):
        """Apply everything in the pipeline, and what follows from it."""
        self.try_again()
        while self.landing is not None or self.steps or not self.batch.is_empty:
            (self.commit if self.landing is None else self.land)()

    @precondition(lambda self: self.landing is None)
    @rule()
    def fail_to_commit(self):
        """Like the pipeline: refuse waiting clients, keep commands that no client can repeat."""
        self.checkpointer.fill(self.batch, self.now_ms / 1000)
        batch, steps = self.batch, self.steps
        self.batch, self.steps = Batch(), []
        self.checkpointer.failed(batch)
        for command, connection, durable in steps:
            if not durable:
                self.apply([(command, connection, False)])
            elif connection is not None:
                self.close(connection)
            elif not isinstance(command, Received):
                self.kept.append(command)

    @rule()
    def try_again(self):
        kept, self.kept = self.kept, []
        for command in kept:
            if isinstance(command, Published):
                self.append(command, None)
            else:
                self.submit(command, None, durable=True)

    @precondition(lambda self: self.landing is not None)
    @rule()
    def land(self):
        commit, steps = self.landing
        self.landing = None
        for command, _, _ in steps:
            if isinstance(command, Received):
                self.stored.update((command.client_id, number) for number in command.packet_ids)
        self.broker.begin(commit.index, commit.base_sequence)
        self.apply(steps)

    @rule()
    def crash(self):
        """Everything in memory is gone; the next start ends orphaned sessions first."""
        for connection in self.connections.values():
            connection.is_closed, connection.session = True, None
        self._live_again(self.recovered(self.store))
        for session in self.broker.orphans():
            if session.will is not None:
                self.append_will(session.will)
            closed = Closed(session.client_id, session.connection, self.now_ms)
            self.submit(closed, None, durable=True)

    # ── what must hold ────────────────────────────────────────────────────────────────────────

    def recovered(self, store: MemoryStore) -> Broker:
        broker = self.new_broker()
        recover(store, broker)
        return broker

    @precondition(lambda self: self.landing is None)
    @invariant()
    def a_restart_would_change_nothing(self):
        lived = durable_part(self.broker)
        again = self.recovered(self.store)
        assert durable_part(again) == lived
        assert durable_part(self.recovered(self.plain_store)) == lived
        for session in again.sessions.values():
            assert (session.oldest_needed() or 0) <= min(needed(session), default=0)
        assert set(again.away) == {c for c, s in again.sessions.items() if not s.connected}

    @invariant()
    def the_books_are_right(self):
        broker = self.broker
        sessions = broker.sessions.values()
        assert broker.queues.count == sum(session.queue_count for session in sessions)
        assert set(broker.away) == {s.client_id for s in sessions if not s.connected}
        filters = sum(len(session.subscriptions or ()) for session in sessions)
        assert broker.routes.subscription_count == filters
        for session in sessions:
            assert session.inflight_count <= session.window
            assert session.queue_count <= broker.queues.messages_max
            assert (session.oldest_needed() or 0) <= min(needed(session), default=0)
            assert session.overtaken is None or session.connected


def without_rows(batch: Batch) -> Batch:
    """The same commit for a store that never sees a checkpoint."""
    twin = Batch()
    twin.count, twin.payload_bytes = batch.count, batch.payload_bytes
    twin.topics, twin.group_messages = batch.topics, batch.group_messages
    twin.payloads, twin.runs, twin.events = batch.payloads, batch.runs, batch.events
    return twin


class WorldThatDropsTheNewest(World):
    """The other policy of full queues."""

    drops_oldest = False


EFFORT = settings(
    max_examples=50,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)


class TestARestartGivesTheSameState(World.TestCase):
    settings = EFFORT


class TestARestartGivesTheSameStateIfFullQueuesDropTheNewest(WorldThatDropsTheNewest.TestCase):
    settings = EFFORT


# ── long runs ─────────────────────────────────────────────────────────────────────────────────
# Hypothesis finds short histories and makes them shorter; its rules are all equally likely. Here
# busy clients work for a long time. A failure names its seed.

WEIGHTS = {
    "publish": 30, "acknowledge": 25, "commit": 30, "land": 30, "subscribe": 6, "unsubscribe": 2,
    "connect": 5, "disconnect": 5, "release": 6, "let_time_pass": 3, "settle": 2, "expire": 1,
    "fail_to_commit": 2, "try_again": 2, "lose": 3, "crash": 1,
}  # fmt: skip


def act(world: World, name: str, random: Random) -> None:
    """One step of a long run, with plausible arguments."""
    client_id, a_bool = random.choice(CLIENTS), random.random() < 0.5
    wanted = [(random.choice(FILTERS), random.choice([0, 1, 1, 2, 2]))]
    will = WillMessage(random.choice(TOPICS), b"will", random.choice([1, 2]), a_bool)
    payloads = [random.choice([b"", b"x", b"x"]) for _ in range(random.choice([1, 1, 2, 3]))]
    arguments = {
        "publish": (
            client_id,
            random.choice(TOPICS),
            random.choice([0, 1, 2, 2]),
            a_bool,
            payloads,
        ),
        "subscribe": (client_id, wanted),
        "unsubscribe": (client_id, [random.choice(FILTERS)]),
        "connect": (client_id, random.random() < 0.2, random.choice([None, will])),
        "disconnect": (client_id, a_bool),
        "release": (client_id, random.choices(PACKET_IDS, k=2)),
        "let_time_pass": (random.choice([1, 1, 2, 256]),),
        "lose": (client_id, random.choice([1, 2])),
    }
    if name == "acknowledge":
        world.acknowledge_what_is_in_flight(client_id, random.choice([1, 2]))
    elif name not in {"commit", "land", "fail_to_commit"}:
        getattr(world, name)(*arguments.get(name, ()))
    elif (name == "land") is (world.landing is not None):
        getattr(world, name)()


@pytest.mark.parametrize("kind", [World, WorldThatDropsTheNewest])
@pytest.mark.parametrize("seed", range(8))
def test_a_long_and_busy_life_can_be_recovered_at_any_moment(kind, seed):
    random, world = Random(seed), kind()
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    try:
        for _ in range(300):
            act(world, random.choices(names, weights)[0], random)
            world.the_books_are_right()
            if world.landing is None and random.random() < 0.3:
                world.a_restart_would_change_nothing()
    finally:
        world.teardown()


def test_a_round_does_not_change_which_retained_messages_were_refused(monkeypatch):
    """The limit is one. ``b`` was refused because of ``a``; ``a`` was cleared only afterwards."""
    monkeypatch.setattr(checkpoint, "ROWS_PER_COMMIT_MAX", 1)
    store, lived, again = (
        MemoryStore(),
        Broker(Counters(), retained_max=1),
        Broker(Counters(), retained_max=1),
    )
    checkpointer = Checkpointer(lived)
    history = [
        SessionOpened(b"ann", 1, clean=False, will=None),
        SessionOpened(b"bob", 2, clean=False, will=None),
        Published(b"a", [b"x"], 0, True, 0, 5, []),
        Published(b"b", [b"y"], 0, True, 0, 5, []),  # the round begins: ann's row
        Published(b"a", [b""], 0, True, 0, 5, []),  # bob's row
        Published(b"c", [b"z"], 0, False, 0, 5, []),  # a's row, which is gone, and the mark
    ]
    for now, command in zip((0.0, 0.0, 0.0, 10.0, 10.0, 10.0), history, strict=True):
        batch = Batch()
        if isinstance(command, Published):
            may_retain = not command.payloads[-1] or lived.retained.admits(command.topic)
            command = msgspec.structs.replace(command, retain=command.retain and may_retain)  # noqa: PLW2901
            batch.append(command.topic, command.payloads, 5, FLAG_RETAIN if command.retain else 0)
        else:
            batch.add_event(to_event(command))
        if now:
            checkpointer.fill(batch, now)
        commit = store.commit(batch)
        checkpointer.changed(commit.index)
        lived.begin(commit.index, commit.base_sequence)
        lived.apply(command, None, Effects())
    recover(store, again)
    assert lived.retained.count == 0
    assert durable_part(again)["retained"] == durable_part(lived)["retained"]
