"""The compiled way of QoS 0 packets: found, routed, captured and forwarded as in the Python form."""

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.output_world import output_world

from penstock.access.admission import CAPTURED, SIGNED_ONLY
from penstock.core.routes import UNKNOWN_POLICY, Route
from penstock.kernel.names import interned
from penstock.kernel.output_queue import OutputQueue
from penstock.kernel.publishes import PublishFrames, find_publishes, pass_on
from penstock.store.batch import Batch
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import MqttPublishRun
from penstock.wire.mqtt.properties import NONE
from penstock.wire.mqtt.server import FramedServerMachine, MqttServerMachine

TOPICS = [b"a", b"b/c", b"plant/pump/1", b"plant/pump/2", b"x" * 300, b"y" * 7, b"z" * 8]
USER_PROPERTY = b"\x26\x00\x01k\x00\x01v"

topics = st.sampled_from(TOPICS)
payloads = st.one_of(st.binary(max_size=20), st.just(bytes(200)), st.just(bytes(20_000)))


@st.composite
def packets(draw, version):
    topic, payload = draw(topics), draw(payloads)
    block = None if version < 5 else draw(st.sampled_from([b"", b"", b"", USER_PROPERTY]))
    kind = draw(st.sampled_from(["plain"] * 6 + ["retained", "qos 1", "ping", "ack"]))
    if kind == "qos 1":
        return encode.publish(topic, payload, qos=1, packet_id=7, block=block)
    if kind == "ping":
        return b"\xc0\x00"
    if kind == "ack":
        return b"\x40\x02\x00\x09"
    return encode.publish(topic, payload, retain=kind == "retained", block=block)


def flat(events):
    """All messages and other events in order; how they are gathered does not matter."""
    for event in events:
        if isinstance(event, PublishFrames):
            yield from flat(event.runs(MqttPublishRun, 0, len(event)))
        elif isinstance(event, MqttPublishRun):
            each = event.each or [event.properties] * len(event.payloads)
            for payload, properties in zip(event.payloads, each, strict=True):
                yield event.topic, payload, properties, event.version
        else:
            yield event


def frames_of(events):
    """The raw packets of QoS 0, one after another."""
    found = b""
    for event in events:
        if isinstance(event, PublishFrames):
            found += event.frames(0, len(event))
        elif isinstance(event, MqttPublishRun):
            found += event.frames
    return found


@given(st.data(), st.sampled_from([4, 5]))
def test_both_machines_report_the_same_messages_however_the_bytes_are_cut(data, version):
    drawn = data.draw(st.lists(packets(version), max_size=12))
    stream = b"".join(drawn) + data.draw(st.sampled_from([b"", b"0", b"\x30\xff\xff", b"\x30\x02"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    found = []
    for make in (MqttServerMachine, FramedServerMachine):
        machine = make(packet_bytes_max=19_000)
        machine.receive(encode.connect(b"c", properties=NONE if version == 5 else None))
        events = []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            events += machine.receive(stream[start:end])
        found.append((list(flat(events)), frames_of(events), machine.pending_bytes))
    assert found[0] == found[1]


@given(st.binary(max_size=60), st.integers(0, 70), st.sampled_from([4, 5]))
def test_any_bytes_are_read_within_their_bounds(noise, position, version):
    data = b"\x30" + noise
    events = []
    end = find_publishes(version, data, position, 50, events)
    assert end == position or position < end <= len(data)
    assert bool(events) == (end > position)


def test_a_name_that_comes_again_is_the_same_object():
    assert interned(b"plant/pump/1") is interned(bytes(bytearray(b"plant/pump/1")))


@given(st.lists(st.binary(max_size=40), max_size=200))
def test_names_keep_their_bytes_whatever_falls_on_their_place(names):
    assert [interned(name) for name in names] == names


class Connection:
    """Of an MQTT client, whose version its outbox knows."""

    def __init__(self, version, bytes_max=1 << 40):
        self.outbox = OutputQueue(output_world(), None)
        self.outbox.frames_version, self.outbox.frames_bytes_max = version, bytes_max


class Cluster(NamedTuple):
    is_clustered: bool


ALONE = Cluster(is_clustered=False)


class OtherConnection:
    """Of a client that speaks another protocol."""


class Target:
    def __init__(self, client):
        self.client = client


class World:
    """Two clients of 3.1.1, one of 5, one of another door, one that has left."""

    def __init__(self):
        self.clients = [Connection(4), Connection(4), Connection(5), OtherConnection(), None]
        self.targets = [Target(client) for client in self.clients]
        self.forwarded = [b""] * len(self.clients)

    def route(self, topic, places, policy, marked):
        route = Route(topic, tuple((self.targets[place], 0) for place in places), marked)
        route.policy = policy
        return route

    def forward(self, targets, frames, first, last):
        for target, _ in targets:
            self.forwarded[self.targets.index(target)] += frames.frames(first, last)

    def received(self):
        passed = [b"".join(client.outbox.live_pieces()[0]) for client in self.clients[:2]]
        assert self.forwarded[:2] == [b"", b""], "they can have the packets as they are"
        return [*passed, *self.forwarded[2:]]

    def wanted(self, messages, routes):
        found = [b""] * len(self.clients)
        for topic, payload in messages:
            for target, _ in routes[topic].targets:
                if target.client is not None:
                    found[self.targets.index(target)] += encode.publish(topic, payload)
        return found


def ordinary(messages, routes, publishable, *, is_clustered):
    """The messages before the first that needs more than to be captured and forwarded."""
    for place, (topic, _) in enumerate(messages):
        route = routes.get(topic)
        if route is None or route.marked is not None or route.policy not in {0, CAPTURED}:
            return messages[:place]
        if (is_clustered and not route.policy) or (
            publishable is not None and topic not in publishable
        ):
            return messages[:place]
    return messages


def found_in(messages):
    data = b"".join(encode.publish(topic, payload) for topic, payload in messages)
    events = []
    assert find_publishes(4, data, 0, 1 << 20, events) == len(data)
    return events[0]


routes_of = st.tuples(
    st.lists(st.integers(0, 4), unique=True, max_size=3),
    st.sampled_from([CAPTURED] * 4 + [0, UNKNOWN_POLICY, SIGNED_ONLY]),
    st.sampled_from([None] * 5 + [{}]),
)


@given(
    messages=st.lists(st.tuples(topics, st.binary(max_size=30)), min_size=1, max_size=10),
    known=st.dictionaries(topics, routes_of),
    publishable=st.one_of(st.none(), st.just(set(TOPICS)), st.sets(topics)),
    is_clustered=st.booleans(),
    is_full=st.booleans(),
)
def test_ordinary_packets_are_routed_captured_and_forwarded_up_to_one_that_is_not(
    messages, known, publishable, is_clustered, is_full
):
    world, frames = World(), found_in(messages)
    routes = {topic: world.route(topic, *how) for topic, how in known.items()}
    batch = None if is_full else Batch()
    expected = ordinary(messages, routes, publishable, is_clustered=is_clustered)
    taken, captured = pass_on(
        frames, routes, publishable, batch, 5, Cluster(is_clustered), Connection, world.forward
    )
    kept = [(topic, payload) for topic, payload in expected if routes[topic].policy]
    assert (taken, captured) == (len(expected), len(kept))
    assert len(frames) == len(messages) - taken
    assert world.received() == world.wanted(expected, routes)
    if batch is not None:
        assert batch.payloads_between(0, batch.count) == [payload for _, payload in kept]
        assert {topic: batch.messages_of(topic) for topic, _ in kept} == Counter(
            topic for topic, _ in kept
        )


def test_what_is_not_ordinary_is_taken_as_a_run_and_the_rest_goes_on():
    world = World()
    frames = found_in([(b"a", b"1"), (b"new", b"2"), (b"new", b"3"), (b"a", b"4")])
    routes = {b"a": world.route(b"a", [0], CAPTURED, None)}
    arguments = routes, None, Batch(), 5, ALONE, Connection, world.forward
    assert pass_on(frames, *arguments) == (1, 1)
    run = frames.take_run(MqttPublishRun)
    assert (run.topic, run.payloads) == (b"new", [b"2", b"3"])
    assert pass_on(frames, *arguments) == (1, 1)
    assert not len(frames)
    with pytest.raises(IndexError):
        frames.take_run(MqttPublishRun)


def test_a_client_that_takes_only_small_packets_is_left_to_the_python_form():
    world = World()
    world.clients[0].outbox.frames_bytes_max = 10
    frames = found_in([(b"a", bytes(20))])
    routes = {b"a": world.route(b"a", [0], CAPTURED, None)}
    pass_on(frames, routes, None, None, 5, ALONE, Connection, world.forward)
    assert world.forwarded[0] == encode.publish(b"a", bytes(20))
