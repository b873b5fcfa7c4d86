"""The claim of the architecture page: whatever happens, a restart gives the same state again.

A small world (a few clients, topics and filters; windows and queues of two) is driven through every
command, in batches, exactly as the pipeline does it: a batch is committed, later it *lands* (its
commands are applied), and what is submitted in between waits in the next one. Checkpoint slices of
a row or two ride along at any moment, commits fail now and then, and the broker dies and comes back.

Sessions have an expiry, wills a delay, messages an expiry, subscriptions options and identifiers, all
under a clock that the test moves. A will is published at most once, whatever crashes, and once it is
due it does not stay.

After every step three brokers must agree on everything durable, packet ids and queues included: the
one that lived, one recovered from its store, and one recovered from a twin of that store which
never saw a checkpoint.
"""

from typing import Any

import msgspec
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
    PublishedBy,
    Received,
    Released,
    Repeated,
    RetainedExpired,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    WillMessage,
    WillSent,
    to_event,
)
from penstock.core.effects import (
    Accepted,
    Effects,
    FollowUp,
    Outcome,
    PageTurned,
    PortionSent,
    Unkept,
)
from penstock.core.pending_will import PendingWill
from penstock.core.session import AWAIT_PUBCOMP, PUBACK, PUBCOMP, PUBREC, Session
from penstock.model.message import FLAG_RETAIN, FLAG_RETAIN_UNKEPT, Extras
from penstock.obs.counters import Counters
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore

CLIENTS = [b"ann", b"bob", b"cyd"]
TOPICS = [b"a", b"a/b", b"c"]
FILTERS = [b"a", b"#", b"a/#"]
PACKET_IDS = [1, 2, 3]

clients = st.sampled_from(CLIENTS)
wills = st.none() | st.builds(
    WillMessage,
    st.sampled_from(TOPICS),
    st.just(b"will"),
    st.integers(1, 2),
    st.booleans(),
    st.just(()),
    st.sampled_from([-1, 3]),
    st.sampled_from([0, 0, 3, 60]),
)
# QoS alone, a refusal, no local, retain as published with an identifier, each retain handling
options = st.sampled_from([0, 1, 2, 0x80, 1 | 4, 2 | 8 | 5 << 8, 1 | 16 | 7 << 8, 2 | 32])
requests = st.lists(st.tuples(st.sampled_from(FILTERS), options), min_size=1, max_size=3)
expiries = st.sampled_from([-1, -1, 0, 3, 60])  # -1: as clean session says


def durable_part(broker: Broker) -> dict[str, Any]:
    """Everything that a restart must not change, in a form that compares and prints well."""
    return {
        "sessions": {
            client_id: _session_part(session)
            for client_id, session in sorted(broker.sessions.items())
            if session.recorded
        },
        "retained": [
            msgspec.structs.replace(message, author="") for message in broker.retained.match(b"#")
        ],
    }


def _session_part(session: Session) -> tuple[Any, ...]:
    identity = (session.connected, session.connection, session.will, session.wills)
    if not session.durable:
        return identity  # only its wills are to survive
    notes = session.notes
    return (
        *identity,
        (session.version, session.expiry_s, session.receive_maximum, session.window),
        (notes.expiries, notes.own, notes.offer_ids) if notes and not notes.is_empty else None,
        session.marked_count,
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


class Publishing:
    """Waits for a will to be published, which is given up if the commit fails."""

    def __init__(self, world: "World", number: int) -> None:
        self._world = world
        self._number = number

    def over(self) -> None:
        self._world.publishing.discard(self._number)


Step = tuple[Any, Connection | Publishing | None, bool]


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
        self.wills_stored: set[bytes] = set()
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
        self.publishing: set[int] = set()

    # ── what the doors do ─────────────────────────────────────────────────────────────────────

    def submit(self, command: Any, connection: Connection | None, *, durable: bool) -> None:
        if durable:
            self.batch.add_event(to_event(command))
        elif self.landing is None and not self.steps:
            self.apply([(command, connection, False)])
            return
        self.steps.append((command, connection, durable))

    def append(self, message: Published, connection: Connection | Publishing | None) -> None:
        flags = message.qos | (FLAG_RETAIN if message.retain else 0) | message.marks
        position = self.batch.append(
            message.topic, message.payloads, message.time_ms, flags, message.extras
        )
        self.steps.append((msgspec.structs.replace(message, position=position), connection, True))

    def message(
        self, topic: bytes, payloads: list[bytes], qos: int, *, retain: bool, expiry_s: int = -1
    ) -> Published:
        """A message as the door makes it: whether it may be retained is settled there."""
        is_kept = retain and (not payloads[-1] or self.broker.retained.admits(topic))
        extras: list[Extras | None] | None = None
        if expiry_s >= 0:
            expires_ms = self.now_ms + expiry_s * 1000
            extras = [Extras(((b"n", b"v"),), expires_ms=expires_ms) for _ in payloads]
        marks = FLAG_RETAIN_UNKEPT if retain and not is_kept else 0
        return Published(topic, payloads, qos, is_kept, 0, self.now_ms, [], False, extras, marks)

    def close(self, connection: Connection, *, with_will: bool = True, expiry_s: int = -1) -> None:
        if connection.is_closed:
            return
        connection.is_closed = True
        if connection.session is not None:
            self.let_go(connection, with_will=with_will, expiry_s=expiry_s)

    def let_go(self, connection: Connection, *, with_will: bool, expiry_s: int = -1) -> None:
        opened, session = connection.opened, connection.session
        assert session is not None
        will = opened.will if with_will else None
        will_at_ms = 0 if will is None else self.now_ms + will.delay_s * 1000
        closed = Closed(opened.client_id, opened.connection, self.now_ms, expiry_s, will_at_ms)
        self.submit(closed, None, durable=session.recorded)
        connection.session = None

    def apply(self, steps: list[Step]) -> None:
        effects = Effects()
        for command, connection, _ in steps:
            self.broker.apply(command, connection, effects)
        for (connection, kind), packet_ids in effects.acks.items():
            if kind == PUBREC and isinstance(connection, Connection):
                client_id = connection.opened.client_id
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
            elif isinstance(control, Outcome):
                control.waiter.over()

    def offer_more(self, connection: Connection) -> None:
        """Make the next page of retained messages, if there is room for it."""
        session, retained_delivery = connection.session, self.broker.retained_delivery
        if session is None or not session.offers or not retained_delivery.has_room(session):
            return
        search = retained_delivery.search(session.offers[0])
        while not search.step(100):
            pass
        page = retained_delivery.page(session, session.offers[0], search, self.now_ms)
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

    @rule(
        client_id=clients,
        clean=st.booleans(),
        will=wills,
        expiry_s=expiries,
        receive_maximum=st.sampled_from([0, 1, 9]),
        closes_first=st.booleans(),
    )
    def connect(self, client_id, clean, will, expiry_s=-1, receive_maximum=0, closes_first=True):
        """``closes_first``: the connection that it takes over is at the same node."""
        before = self.connections.get(client_id)
        if before is not None and closes_first:
            self.close(before)
        self.numbers += 1
        if will is not None:
            will = msgspec.structs.replace(will, payload=b"will %d" % self.numbers)
        opened = SessionOpened(
            client_id,
            self.numbers,
            clean,
            will,
            is_paced=True,
            version=4 if expiry_s < 0 else 5,
            expiry_s=expiry_s,
            receive_maximum=receive_maximum,
            now_ms=self.now_ms,
        )
        if before is not None:
            before.is_closed, before.session = True, None
        connection = self.connections[client_id] = Connection(opened)
        session = self.broker.sessions.get(client_id)
        opening = any(
            isinstance(c, SessionOpened) and c.client_id == client_id for c in self.line()
        )
        is_lasting = not clean if expiry_s < 0 else expiry_s > 0
        durable = is_lasting or will is not None or opening
        durable = durable or (session is not None and session.recorded)
        self.submit(opened, connection, durable=durable)

    def line(self) -> list[Any]:
        """The commands that have yet to be applied."""
        return [step[0] for step in self.steps + (self.landing[1] if self.landing else [])]

    @rule(client_id=clients, with_will=st.booleans(), expiry_s=expiries)
    def disconnect(self, client_id, with_will, expiry_s):
        connection = self.connections.get(client_id)
        if connection is not None:
            session = connection.session
            is_changed = session is not None and session.durable and not with_will
            self.close(connection, with_will=with_will, expiry_s=expiry_s if is_changed else -1)

    @rule(client_id=clients, requests=requests)
    def subscribe(self, client_id, requests):
        connection, session = self.present(client_id)
        command = Subscribed(client_id, 9, requests, now_ms=self.now_ms)
        self.submit(command, connection, durable=session.durable)

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
        expiry_s=st.sampled_from([-1, -1, 0, 3]),
        is_named=st.booleans(),
    )
    def publish(self, client_id, topic, qos, retain, payloads, expiry_s, is_named):
        connection, session = self.present(client_id)
        self.payloads += 1
        payloads = [payload and b"%d" % self.payloads for payload in payloads]
        if not qos and not retain:
            self.batch.append(topic, payloads, self.now_ms, 0)  # captured, nothing more
            return
        message = self.message(topic, payloads, qos, retain=retain, expiry_s=expiry_s)
        if qos:
            packet_ids = PACKET_IDS[: len(payloads)]
            if qos == 2:
                packet_ids = self.receive(connection, session, packet_ids)
            count = len(packet_ids)
            message = msgspec.structs.replace(
                message,
                payloads=payloads[:count],
                packet_ids=packet_ids,
                extras=message.extras and message.extras[:count],
            )
        if message.payloads:
            if qos and is_named:  # as clients with no local are
                named = PublishedBy(client_id, len(message.payloads))
                self.submit(named, connection, durable=True)
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
        for session in self.broker.session_table.ends.due(self.now_ms, 100):
            self.submit(Expired(session.client_id, session.connection), None, durable=True)

    @rule()
    def expire_retained(self):
        due = self.broker.retained.due(self.now_ms, 100)
        if due:
            self.submit(RetainedExpired(due), None, durable=True)

    @rule()
    def publish_wills(self):
        """As the leader does: the message and ``WillSent`` in one batch."""
        for session in self.broker.session_table.wills.due(self.now_ms, 100):
            for pending in session.wills:
                if pending.at_ms <= self.now_ms and pending.connection not in self.publishing:
                    self.publish_will(pending)

    def publish_will(self, pending: PendingWill) -> None:
        will, waiter = pending.will, Publishing(self, pending.connection)
        self.publishing.add(pending.connection)
        message = self.message(
            will.topic, [will.payload], will.qos, retain=will.retain, expiry_s=will.expiry_s
        )
        self.submit(PublishedBy(pending.client_id, 1), waiter, durable=True)
        self.append(message, waiter)
        self.submit(WillSent(pending.client_id, pending.connection), waiter, durable=True)

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
        for will in filter(lambda payload: payload.startswith(b"will "), batch.payloads):
            assert will not in self.wills_stored
            self.wills_stored.add(will)
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
            elif isinstance(connection, Publishing):
                connection.over()
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
            will = session.will
            at_ms = self.now_ms + will.delay_s * 1000 if will is not None else 0
            closed = Closed(session.client_id, session.connection, self.now_ms, -1, at_ms)
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

    def teardown(self) -> None:
        """Once everything is settled and a minute has passed, no will is left."""
        self.settle()
        self.now_ms += 61_000
        self.publish_wills()
        self.settle()
        assert not [session.wills for session in self.broker.sessions.values() if session.wills]
        checkpoint.ROWS_PER_COMMIT_MAX = self._rows_max

    @invariant()
    def the_books_are_right(self):
        broker = self.broker
        sessions = broker.sessions.values()
        assert broker.queues.count == sum(session.queue_count for session in sessions)
        assert set(broker.away) == {s.client_id for s in sessions if not s.connected}
        filters = sum(len(session.subscriptions or ()) for session in sessions)
        assert broker.routes.subscription_count == filters
        for session in sessions:
            assert session.inflight_count <= broker.session_table.inflight_max
            assert session.queue_count <= broker.queues.messages_max
            assert (session.oldest_needed() or 0) <= min(needed(session), default=0)
            assert session.overtaken is None or session.connected


def without_rows(batch: Batch) -> Batch:
    """The same commit for a store that never sees a checkpoint."""
    twin = Batch()
    twin.add_messages(batch)
    twin.payload_bytes = batch.payload_bytes
    twin.events, twin.extras = batch.events, batch.extras
    return twin


class WorldThatDropsTheNewest(World):
    """The other policy of full queues."""

    drops_oldest = False
