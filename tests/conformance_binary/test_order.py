"""Replies come in the order of requests, however requests are mixed, cut and joined."""

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance_binary.wire_client import (
    MESSAGE,
    BinaryClient,
    ack,
    error,
    frame,
    ping,
    pong,
    publish,
    subscribe,
    unsubscribe,
)

sequences = st.integers(0, 2**64 - 1)
UNKNOWN = error("Unknown command")

requests = st.one_of(
    st.tuples(st.just("publish"), sequences),
    st.tuples(st.just("ping"), sequences),
    st.tuples(st.just("unknown"), sequences),
    st.tuples(st.just("subscribe"), sequences),
    st.tuples(st.just("subscribe to filter"), sequences),
    st.tuples(st.just("subscribe to queue"), sequences),
    st.tuples(st.just("unsubscribe"), sequences),
    st.tuples(st.just("acknowledge"), sequences),
    st.tuples(st.just("refused"), sequences),
)


def on_wire(kind, sequence, root):
    """A request, and the reply that it must get; an acknowledgement gets none."""
    match kind:
        case "publish":
            return publish(root + b"/p", b"m", sequence), ack(sequence)
        case "ping":
            return ping(sequence), pong()
        case "unknown":
            return frame(0x42, sequence, b"x", b"y"), UNKNOWN
        case "subscribe":
            return subscribe(root + b"/s", b"id-" + root, sequence), ack(sequence)
        case "subscribe to filter":
            return subscribe(root + b"/+/f", None, sequence), ack(sequence)
        case "subscribe to queue":
            return subscribe(b"q:" + root, None, sequence), ack(sequence)
        case "unsubscribe":
            return unsubscribe(root + b"/s", sequence), ack(sequence)
        case "acknowledge":
            return ack(sequence % 100), b""
        case "refused":
            text = "Topic 'secure/x' requires signed publish (CMD_SIGNED_PUBLISH)"
            return publish(b"secure/x", b"m", sequence), error(text)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(requests, min_size=1, max_size=40), cuts=st.lists(st.integers(1, 400)))
def test_replies_come_in_the_order_of_requests(broker, script, cuts):
    root = uuid.uuid4().hex[:12].encode()
    pairs = [on_wire(kind, sequence, root) for kind, sequence in script]
    stream = b"".join(request for request, _ in pairs)
    with BinaryClient(broker.host, broker.port) as client:
        for cut in cuts:
            client.send(stream[:cut])
            stream = stream[cut:]
        client.send(stream)
        client.expect(*(reply for _, reply in pairs if reply))


def test_many_requests_at_once_are_answered_in_order(dial, unique):
    client = dial()
    pairs = [
        on_wire(kind, number, unique)
        for number in range(1_000)
        for kind in ("publish", "ping", "subscribe", "unknown", "publish", "unsubscribe")
    ]
    client.send(*(request for request, _ in pairs))
    client.expect(*(reply for _, reply in pairs))


def test_requests_that_come_while_history_is_sent_wait_for_their_turn(dial, unique):
    """Also those that are read at the moment at which the last of it is sent."""
    publisher = dial()
    publisher.publish(unique, *[b"x" * 100] * 3_000)
    for _ in range(5):
        client = dial()
        client.send(subscribe(unique, None, 1))
        for number in range(2, 200):
            client.send(publish(unique + b"/other", b"m", number))
        messages = client.receive_until(ack(1))
        assert {message.command for message in messages} == {MESSAGE}
        client.expect(*map(ack, range(2, 200)))
        client.close()


def test_a_publisher_hears_of_its_own_message_before_the_answer(dial, unique):
    client = dial()
    for number in range(2, 22):
        client.send(subscribe(unique + b"/%d" % number, None, 1))
        client.send(publish(unique + b"/%d" % number, b"m", number))
        client.expect(ack(1))
        assert client.receive_payloads(1) == [b"m"]
        client.expect(ack(number))


def test_what_was_published_before_an_unsubscribe_still_comes_and_what_after_does_not(dial, unique):
    client = dial()
    topic, root = unique + b"/t", unique + b"/#"
    client.send(
        publish(topic, b"0", 1),
        subscribe(root, None, 2),
        publish(topic, b"1", 3),
        unsubscribe(root, 4),
        publish(topic, b"2", 5),
        ping(),
    )
    client.expect(ack(1), ack(2))
    assert client.receive_payloads(1) == [b"1"]
    client.expect(ack(3), ack(4), ack(5), pong())
