"""Frames, the order of responses, and the end of a connection."""

import pytest

from penstock.wire.queue._generated.queue_pb2 import Request
from tests.conformance_queue.wire_client import GROUP, frame, request

BODY_MAX = 64 << 20
STATS = request(stats={})
UNKNOWN_FIELD = b"\xfa\x7f"
"""The tag of field 2,047, which no message has, with bytes of a length that follows."""


def padded(size: int) -> bytes:
    """A Stats request whose body has exactly this size: the rest is a field nobody knows."""
    body = Request(stats={}).SerializeToString() + UNKNOWN_FIELD
    rest = size - len(body) - 4
    length = bytes([rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14 & 0x7F | 0x80])
    return frame(body + length + bytes([rest >> 21]) + bytes(rest))


def test_a_request_may_have_4_mib(client):
    client.send(request(produce_many={"topic": "large", "payloads": [bytes(1 << 20)] * 3}))
    assert client.receive().produced_many.stretches[0].count == 3


def test_a_body_of_up_to_64_mib_is_answered_though_it_is_not_read(client):
    client.expect_nothing()
    client.send(padded(BODY_MAX), STATS)
    assert client.receive().error.code == "bad_request"
    assert client.receive().HasField("stats")


def test_a_payload_that_is_far_too_large_gets_the_usual_error(client, topic):
    client.expect_nothing()
    client.send(request(produce={"topic": topic, "payload": bytes(BODY_MAX - 100)}), STATS)
    assert client.receive().error.code == "payload_too_large"
    assert client.receive().HasField("stats")


def test_a_longer_body_ends_the_connection_after_all_pending_responses(client, topic):
    """There is no error frame, and nothing after it is read."""
    produced = [request(produce={"topic": topic}) for _ in range(3)]
    client.send(*produced, (BODY_MAX + 1).to_bytes(4, "big"), *produced)
    assert [response.produced.offset for response in client.receive_many(3)] == [0, 1, 2]
    client.expect_close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xff\xff",
        bytes.fromhex("0a05 0a01 74"),  # announces more than there is
        bytes.fromhex("0a03 0a01 ff"),  # a topic that is not UTF-8
        bytes.fromhex("fa06 00"),  # kind 111
        bytes.fromhex("78 05"),  # a request id and no kind
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_an_invalid_request_is_answered_in_order_and_the_connection_stays_open(client, body):
    client.send(STATS, frame(body), STATS)
    first, error, last = client.receive_many(3)
    assert first.HasField("stats")
    assert error.error.code == "bad_request"
    assert error.error.message
    assert last.HasField("stats")


def test_a_frame_may_arrive_byte_by_byte(client, topic):
    for byte in request(produce={"topic": topic, "payload": b"slow"}) + STATS:
        client.send(bytes([byte]))
    assert client.receive().HasField("produced")
    assert client.receive().HasField("stats")


def test_after_a_half_close_pending_requests_are_answered_and_the_broker_closes(client, topic):
    """A poll no longer waits: nothing can be produced for it on this connection."""
    requests = [request(produce={"topic": topic, "payload": b"x"}) for _ in range(200)]
    wait = {"topic": "nothing/here", "group": GROUP, "wait_ms": 200_000}
    client.send(*requests, request(poll=wait), STATS)
    client.close_own_side()
    kinds = [response.WhichOneof("kind") for response in client.receive_many(202)]
    assert kinds == ["produced"] * 200 + ["polled", "stats"]
    client.expect_close()


def test_a_half_frame_before_a_half_close_is_dropped(client):
    client.send(STATS, request(stats={})[:3])
    client.close_own_side()
    assert client.receive().HasField("stats")
    client.expect_close()


def test_responses_come_in_the_order_of_the_requests(client, topic):
    """Requests that take different paths through the broker, and some invalid ones."""
    place = {"topic": topic, "group": GROUP}
    requests = {
        "ok": request(create_topic={"topic": topic}),
        "produced": request(produce={"topic": topic}),
        "polled": request(poll=place),
        "stats": STATS,
        "error": frame(b""),
        "topics": request(list_topics={"name": topic}),
        "groups": request(list_groups={"topic": topic}),
        "fetched": request(fetch={"topic": topic}),
        "located": request(locate={"topic": topic, "times_ms": [0]}),
        "produced_many": request(produce_many={"topic": topic, "payloads": [b"a", b"b"]}),
        "changed": request(changes={"filters": [topic]}),
        "keys": request(list_keys={}),
    }
    for _ in range(5):
        client.send(*requests.values())
    kinds = [response.WhichOneof("kind") for response in client.receive_many(5 * len(requests))]
    assert kinds == list(requests) * 5


def test_a_long_poll_delays_the_responses_after_it(dial, client, topic):
    client.send(request(poll={"topic": topic, "group": GROUP, "wait_ms": 60_000}), STATS)
    dial().produce(topic, b"there")
    assert [item.payload for item in client.receive().polled.items] == [b"there"]
    assert client.receive().HasField("stats")


def test_thousands_of_requests_may_be_pipelined(client, topic):
    client.send(*[request(produce={"topic": topic, "payload": b"x"}) for _ in range(5_000)])
    offsets = [response.produced.offset for response in client.receive_many(5_000)]
    assert offsets == list(range(5_000))


def test_pipelined_requests_take_effect_in_their_order(client, topic):
    """HermesMQ may apply them in any order."""
    place = {"topic": topic, "group": GROUP}
    client.send(
        request(set_retention={"topic": topic, "max_messages": 2}),
        *[request(produce={"topic": topic, "payload": b"%d" % n}) for n in range(4)],
        request(poll=place),
    )
    client.receive_many(5)
    assert [item.payload for item in client.receive().polled.items] == [b"2", b"3"]


def test_responses_with_a_request_id_do_not_wait(dial, client, topic):
    """Those without keep their order among themselves."""
    place = {"topic": topic, "group": GROUP}
    client.send(
        request(11, poll={**place, "wait_ms": 60_000}),
        request(12, stats={}),
        request(13, poll={"topic": f"{topic}/other", "group": GROUP}),
        STATS,
        request(14, produce={"topic": f"{topic}/other"}),
    )
    answered = {response.request_id: response for response in client.receive_many(4)}
    assert sorted(answered) == [0, 12, 13, 14]
    dial().produce(topic, b"there")
    last = client.receive()
    assert (last.request_id, last.polled.items[0].payload) == (11, b"there")


def test_an_error_carries_the_id_of_its_request(client):
    assert client.ask(7, produce={"topic": ""}).request_id == 7
    client.send(frame(bytes.fromhex("7807")))
    assert client.receive().request_id == 7


def test_any_connection_may_settle_any_lease(dial, client, topic):
    client.produce(topic, b"a", b"b")
    items = client.poll(topic)
    other = dial()
    other.ack(topic, items[:1])
    other.ok(nack={"topic": topic, "group": GROUP, "lease_id": items[1].lease_id})
    assert [item.payload for item in client.poll(topic)] == [b"b"]
