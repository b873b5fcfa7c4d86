"""Acknowledgement state as a state machine: exactly the unacknowledged messages are delivered.

Two clients, two topics, one real broker on a real disk. Publishes, subscribes, acknowledgements of
every kind, lost connections, restarts and crashes come in any order. The model is a list of messages
for each topic and a set of sequences for each client; after every SUBSCRIBE exactly what is in the
list and not in the set must arrive, ascending, each once, and after that new messages.

Sequences are not predicted: an observer of all topics, which sees every message, reports them.
"""

import contextlib

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.testing import Broker
from tests.conformance_binary.wire_client import BinaryClient, Frame, ack

CLIENTS = (b"ann", b"bob")
TOPICS = (b"a", b"b/c")

clients = st.sampled_from(CLIENTS)
topics = st.sampled_from(TOPICS)


class Acknowledgements(RuleBasedStateMachine):
    """The broker, its clients, and what they ought to get."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()
        self.published: dict[bytes, list[Frame]] = {topic: [] for topic in TOPICS}
        self.done: dict[bytes, set[int]] = {client: set() for client in CLIENTS}
        self.connected: dict[bytes, BinaryClient] = {}
        self.subscribed: dict[bytes, set[bytes]] = {}
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.broker = self.stack.enter_context(Broker())
        self.connect_observer()

    def connect_observer(self) -> None:
        self.publisher, self.observer = self.dial(), self.dial()
        self.observer.subscribe(b"#")

    def dial(self) -> BinaryClient:
        return self.stack.enter_context(BinaryClient(self.broker.host, self.broker.port))

    def teardown(self) -> None:
        self.stack.close()

    # ── what happens

    @rule(topic=topics, count=st.integers(1, 5))
    def publish(self, topic: bytes, count: int) -> None:
        payloads = [b"%d" % (self.count + number) for number in range(count)]
        self.count += count
        self.publisher.publish(topic, *payloads)
        messages = self.observer.receive_messages(count)
        assert [message.payload for message in messages] == payloads
        self.published[topic] += messages
        for client, names in self.subscribed.items():
            if topic in names:
                assert self.connected[client].receive_messages(count) == messages

    @rule(client=clients, topic=topics, anew=st.booleans())
    def subscribe(self, client: bytes, topic: bytes, anew: bool) -> None:
        """Over the existing connection, or over a new one, which takes over the client id."""
        older = self.connected.get(client)
        if anew or older is None:
            self.connected[client] = self.dial()
            self.subscribed[client] = set()
        received = self.connected[client].subscribe(topic, client)
        if anew and older is not None:
            older.expect_error("Another connection")
            older.expect_close()
        unacked = [m for m in self.published[topic] if m.sequence not in self.done[client]]
        assert received == unacked
        self.subscribed[client].add(topic)

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), both=st.booleans())
    def acknowledge(self, data: st.DataObject, both: bool) -> None:
        """Any messages of all topics: in any order, again, and of topics never subscribed to."""
        client = data.draw(st.sampled_from(sorted(self.connected)))
        names = TOPICS if both else sorted(self.subscribed[client])
        sequences = [message.sequence for name in names for message in self.published[name]]
        if sequences:
            chosen = data.draw(st.lists(st.sampled_from(sequences), min_size=1, max_size=8))
            self.send_acks(client, chosen)

    @precondition(lambda self: self.connected)
    @rule(data=st.data())
    def acknowledge_in_order(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.connected)))
        topic = data.draw(topics)
        unacked = [m.sequence for m in self.published[topic] if m.sequence not in self.done[client]]
        self.send_acks(client, unacked[: data.draw(st.integers(1, 5))])

    def send_acks(self, client: bytes, sequences: list[int]) -> None:
        connection = self.connected[client]
        connection.send(*map(ack, sequences))
        connection.expect_nothing()
        self.done[client].update(sequences)

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), beyond=st.integers(1, 50))
    def acknowledge_the_future(self, data: st.DataObject, beyond: int) -> None:
        """It has no effect, not even once that sequence exists."""
        client = data.draw(st.sampled_from(sorted(self.connected)))
        connection = self.connected[client]
        connection.send(ack(0), ack(self.count + beyond), ack(2**64 - beyond))
        connection.expect_nothing()

    @rule()
    def acknowledge_without_a_name(self) -> None:
        self.publisher.send(*map(ack, range(1, self.count + 2)))
        self.publisher.expect_nothing()

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), reset=st.booleans())
    def disconnect(self, data: st.DataObject, reset: bool) -> None:
        client = data.draw(st.sampled_from(sorted(self.connected)))
        connection = self.connected.pop(client)
        del self.subscribed[client]
        connection.reset() if reset else connection.close()

    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.broker.restart(kill=kill)
        self.connected.clear()
        self.subscribed.clear()
        self.connect_observer()

    @rule()
    def checkpoint(self) -> None:
        """Let a checkpoint be written, so that a restart begins with it."""
        self.broker.clock.advance(2)

    @rule()
    def look(self) -> None:
        """Nothing unexpected is delivered."""
        for connection in self.connected.values():
            connection.expect_nothing()

    # ── what holds

    @invariant()
    def sequences_ascend_and_are_never_0(self) -> None:
        for messages in self.published.values():
            sequences = [message.sequence for message in messages]
            assert sequences == sorted(set(sequences))
            assert all(1 <= sequence <= self.count for sequence in sequences)


Acknowledgements.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAcknowledgements = Acknowledgements.TestCase
