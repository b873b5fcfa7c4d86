"""History, then live: whatever happens in between, no gap and no double.

The door's own code makes the pages, the core applies them, a store has the journal. Only time is in
the test's hands: when a batch is sealed, when it is on disk, when a read is done, when the loop
comes to make a page, when the client acknowledges or reads, when it leaves, and when the broker dies.
"""

from collections import deque
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.commit import checkpoint
from penstock.commit.checkpoint import Checkpointer
from penstock.commit.pending_batch import PendingBatch, PendingBatches
from penstock.commit.recovery import recover
from penstock.core import replay_delivery
from penstock.core.broker import Broker
from penstock.core.commands import (
    Acknowledged,
    Closed,
    Drained,
    Published,
    SessionOpened,
    Subscribed,
    to_event,
)
from penstock.core.delivery import DELIVER_DUP, DELIVER_PUBREL, DELIVER_QOS
from penstock.core.effects import Accepted, Effects, FollowUp, PortionSent, ReplayTurned
from penstock.core.live import Live
from penstock.core.session import AWAIT_PUBCOMP, PUBACK, PUBCOMP, PUBREC
from penstock.doors.mqtt import replay_memory, replays
from penstock.doors.mqtt.replay_memory import ReplayMemory
from penstock.doors.mqtt.replays import MqttReplays
from penstock.obs.counters import Counters
from penstock.store.memory import MemoryStore
from tests.properties.broker_world import without_rows

CLIENT = b"ann"
TOPICS = [b"t/a", b"t/b", b"u"]


def durable_part(session):
    if session is None:
        return None
    offers = [msgspec.to_builtins(offer) for offer in session.replays or ()]
    inflight = list((session.inflight or {}).items())
    needed = session.oldest_needed()
    sequences = [sequence for _, sequence, _, _ in session.unfinished()]
    assert (needed or 0) <= min(sequences, default=0)
    return session.connected, session.subscriptions, inflight, list(session.queue or ()), offers


class FakePipeline(PendingBatches):
    """Commits when it is told to."""

    def __init__(self, world):
        super().__init__(world.store.next_sequence, applies_first=False)
        self.world = world

    def submit(self, command, waiter, *, durable):
        if durable:
            self._open.batch.add_event(to_event(command))
        elif not self._has_steps():
            self.world.apply([(command, waiter, False)])
            return
        self._open.steps.append((command, waiter, durable))

    def publish(self, topic, payload, qos):
        position = self._open.batch.append(topic, [payload], 1, qos)
        if qos:
            command = Published(topic, [payload], qos, False, position, 1, [])
            self._open.steps.append((command, None, True))

    def seal(self):
        self._in_flight.append(self._open)
        self._open = PendingBatch()

    def land(self):
        if not self._in_flight:
            return False
        pending = self._in_flight.popleft()
        self.world.now_s += 0.4
        self.world.plain_store.commit(without_rows(pending.batch))
        self.world.checkpointer.fill(pending.batch, self.world.now_s)
        commit = self.world.store.commit(pending.batch)
        if pending.batch.count or pending.batch.events:
            self.world.checkpointer.changed(commit.index)
        self.next_sequence = commit.base_sequence + commit.count
        self.world.broker.begin(commit.index, commit.base_sequence)
        self.world.apply(pending.steps)
        self.world.check_restart()
        return True

    @property
    def is_idle(self):
        return not (self._in_flight or self._open.steps or not self._open.batch.is_empty)


class FakeClient:
    """A connection; it acknowledges when it is told to."""

    reason = None

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.is_reading = True
        self.outbox = SimpleNamespace(is_idle=lambda: self.is_reading)
        self.replays = None
        self.principal = None

    def replay_more(self, *, is_page_done=False):
        session = self.world.broker.sessions.get(CLIENT)
        if session is not None and session.client is self:
            if self.replays is None:
                self.replays = MqttReplays(self.world.door, self, session)
            self.replays.go_on(is_page_done=is_page_done)

    def deliver(self, deliveries):
        for _, payload, flags, _, sequence, _ in deliveries:
            if flags & (DELIVER_PUBREL | DELIVER_DUP):
                continue
            found = self.world.store.read([sequence])[0].payload if payload is None else payload
            self.world.take(found, flags & DELIVER_QOS)

    def forward(self, live):
        for run in live.runs:
            for payload in run.payloads:
                self.world.take(payload, 0)


class Replaying(RuleBasedStateMachine):
    """One subscriber that asked for everything, and publishers that do not stop."""

    durable = True
    granted = 2

    def __init__(self):
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(replays, "READ_MESSAGES", 3)
        self._patch.setattr(replays, "PAGE_MESSAGES", 2)
        self._patch.setattr(replay_delivery, "HELD_MAX", 4)
        self._patch.setattr(replay_memory, "COLLECTED_BYTES_MAX", 12)
        self._patch.setattr(checkpoint, "ROWS_PER_COMMIT_MAX", 1)
        self.store, self.plain_store = MemoryStore(), MemoryStore()
        self.now_s = 1.0
        self.published = {0: [], 1: [], 2: []}
        self.received = {0: [], 1: [], 2: []}
        self.was_away = False
        self.numbers = 0
        self.payloads = 0
        self.live_again(Broker(Counters(), inflight_max=3, queue_messages_max=1_000))

    def teardown(self):
        try:
            self.finish()
        finally:
            self._patch.undo()

    def live_again(self, broker):
        self.broker = broker
        self.checkpointer = Checkpointer(broker)
        self.pipeline = FakePipeline(self)
        self.works = deque()
        self.reads = deque()
        turns = SimpleNamespace(share=self.works.append)
        self.door = SimpleNamespace(
            broker=broker,
            pipeline=self.pipeline,
            connections=SimpleNamespace(turns=turns, wall_ms=lambda: 1),
            readers=SimpleNamespace(store=self.store, run=self.read_later),
            replay_memory=ReplayMemory(bytes_max=2_000),
            admission=None,
        )

    def read_later(self, job, done, _fail, *, is_search):
        self.reads.append((job, done))

    # ── effects ───────────────────────────────────────────────────────────────────────────────

    def apply(self, steps):
        effects = Effects()
        for command, waiter, _ in steps:
            self.broker.apply(command, waiter, effects)
        for client, pass_on in effects.seams:
            client.deliver(effects.deliveries.pop(client, []))
            pass_on()
        for control in effects.controls:
            self.control(control)
        for client, deliveries in effects.deliveries.items():
            client.deliver(deliveries)

    def control(self, control):
        match control:
            case FollowUp():
                self.pipeline.submit(control.command, control.waiter, durable=True)
            case ReplayTurned():
                control.waiter.replay_more(is_page_done=control.is_done)
            case PortionSent():
                drained = Drained(CLIENT, control.waiter.number)
                self.pipeline.submit(drained, control.waiter, durable=self.durable)
            case Accepted():
                pass

    def take(self, payload, qos):
        published, number = payload.split()
        assert qos == min(int(published), self.granted)
        self.received[int(published)].append(int(number))

    @property
    def session(self):
        return self.broker.sessions.get(CLIENT)

    def connect(self):
        self.numbers += 1
        client = FakeClient(self, self.numbers)
        opened = SessionOpened(CLIENT, self.numbers, not self.durable, None, is_paced=True)
        self.pipeline.submit(opened, client, durable=self.durable)
        self.settle()

    def settle(self):
        while not self.pipeline.is_idle:
            self.pipeline.seal()
            while self.pipeline.land():
                pass

    @initialize(before=st.integers(0, 9))
    def subscribe(self, before):
        for number in range(before):
            self.publish(TOPICS[number % 2], number % 3)
        self.settle()
        self.connect()
        self.ask()

    # ── what happens ──────────────────────────────────────────────────────────────────────────

    @rule(topic=st.sampled_from(TOPICS), qos=st.integers(0, 2))
    def publish(self, topic, qos):
        self.payloads += 1
        payload = b"%d %d" % (qos, self.payloads)
        if topic != b"u":
            self.published[qos].append(self.payloads)
        if not qos:
            live = Live.of(topic, [payload])
            for target, _ in self.broker.routes.resolve(topic).targets:
                if target.client is not None:
                    target.client.forward(live)
        self.pipeline.publish(topic, payload, qos)

    @rule(count=st.integers(1, 6), qos=st.integers(0, 2))
    def publish_many(self, count, qos):
        for _ in range(count):
            self.publish(b"t/a", qos)

    @rule()
    def seal(self):
        self.pipeline.seal()

    @rule()
    def land(self):
        self.pipeline.land()

    @rule()
    def work(self):
        if self.works:
            for _ in self.works.popleft():
                pass

    @rule()
    def read(self):
        if self.reads:
            job, done = self.reads.popleft()
            done(job())

    @rule()
    def settle_and_work(self):
        self.settle()
        self.work()
        self.read()

    @rule(count=st.integers(1, 3))
    def acknowledge(self, count):
        session = self.session
        if session is None or session.client is None:
            return
        for packet_id, _, state, _ in list(session.unfinished())[:count]:
            kind = {1: PUBACK, 2: PUBREC, AWAIT_PUBCOMP: PUBCOMP}[state]
            if self.durable:
                command = Acknowledged(CLIENT, kind, [packet_id], session.connection)
                self.pipeline.submit(command, session.client, durable=True)
            else:
                effects = Effects()
                self.broker.acknowledge(session, kind, [packet_id], effects)
                for client, deliveries in effects.deliveries.items():
                    client.deliver(deliveries)
                for control in effects.controls:
                    self.control(control)

    @rule(is_reading=st.booleans())
    def read_slowly(self, is_reading):
        if self.session is not None and self.session.client is not None:
            self.session.client.is_reading = is_reading
            self.session.client.replay_more()

    @precondition(lambda self: self.durable)
    @rule()
    def leave_and_come_back(self):
        self.was_away = True
        session = self.session
        if session.client is not None and session.client.replays is not None:
            session.client.replays.close()
        closed = Closed(CLIENT, session.connection, 1)
        self.pipeline.submit(closed, None, durable=True)
        self.publish(b"t/b", 1)
        self.connect()

    @precondition(lambda self: self.durable)
    @rule()
    def die(self):
        """What is not on disk is lost; the journal alone says what is left."""
        self.settle_publishes()
        self.was_away = True
        broker = Broker(Counters(), inflight_max=3, queue_messages_max=1_000)
        recover(self.store, broker)
        self.live_again(broker)
        session = self.session
        if session is not None and session.connected:
            self.pipeline.submit(Closed(CLIENT, session.connection, 1), None, durable=True)
        self.connect()
        if not self.session.subscriptions:
            self.ask()

    def settle_publishes(self):
        """Messages that are lost with the broker were never acknowledged: forget them."""
        lost = [
            payload
            for pending in (*self.pipeline._in_flight, self.pipeline._open)
            for payload in pending.batch.payloads
        ]
        for payload in lost:
            qos, number = map(int, payload.split())
            if number in self.published[qos]:
                self.published[qos].remove(number)

    def ask(self):
        command = Subscribed(CLIENT, 9, [(b"$replay/offset=0/t/#", self.granted)])
        self.pipeline.submit(command, self.session.client, durable=self.durable)

    def check_restart(self):
        """The journal, with or without rows of a checkpoint, gives the same session."""
        if self.durable and not self.pipeline._in_flight and not self.payloads % 3:
            lived = durable_part(self.broker.sessions.get(CLIENT))
            for store in (self.store, self.plain_store):
                again = Broker(Counters(), inflight_max=3, queue_messages_max=1_000)
                recover(store, again)
                assert durable_part(again.sessions.get(CLIENT)) == lived
                assert again.routes.subscription_count == self.broker.routes.subscription_count

    # ── what must hold ────────────────────────────────────────────────────────────────────────

    def finish(self):
        if self.session is None:
            return
        for _ in range(400):
            self.settle()
            if self.session.client is not None:
                self.session.client.is_reading = True
                self.session.client.replay_more()
            while self.works or self.reads:
                self.work()
                self.read()
            self.acknowledge(3)
            busy = self.session.inflight_count or self.session.queue_count or self.session.replays
            if not busy and self.pipeline.is_idle:
                break
        assert not self.session.replays, "it has caught up"
        for qos in (1, 2) if self.granted else ():
            assert self.received[qos] == self.published[qos]
        for qos, received in self.received.items():
            assert received == sorted(set(received))
            if not self.was_away:
                assert received == self.published[qos]


class ReplayingLive(Replaying):
    durable = False


class ReplayingWithQos0(Replaying):
    granted = 0


SETTINGS = settings(
    deadline=None,
    max_examples=20,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("machine", [Replaying, ReplayingLive, ReplayingWithQos0])
def test_history_then_live_has_no_gap_and_no_double(machine):
    case = machine.TestCase
    case.settings = SETTINGS
    case("runTest").runTest()
