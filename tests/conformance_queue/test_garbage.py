"""Random and mutated frames: each is answered or closes its connection, without affecting others."""

import os
import random

import pytest
from google.protobuf.message import DecodeError

from penstock.wire.queue._generated.queue_pb2 import Request, Response
from tests.conformance_queue.wire_client import GROUP, QueueClient, frame, payloads_of

SESSIONS = int(os.environ.get("PENSTOCK_FUZZ_SESSIONS", "300"))

PLACE = {"topic": "fuzz", "group": GROUP}
SAMPLES = [
    Request(**kind).SerializeToString()
    for kind in (
        {"produce": {"topic": "fuzz", "payload": b"x" * 40, "producer_id": "p", "seq": 3}},
        {"produce": {"topic": "fuzz", "delay_ms": 5, "ttl_ms": 9, "headers": [{"name": "n"}]}},
        {"produce_many": {"topic": "fuzz", "payloads": [b"a", b"b"], "producer_id": "p"}},
        {"poll": {**PLACE, "max": 3, "visibility_timeout_ms": 50, "wait_ms": 10}},
        {"poll": {**PLACE, "ack_mode": "auto", "start": 3, "start_value": 1 << 50}},
        {"ack": {**PLACE, "lease_id": 2}},
        {"nack": {**PLACE, "lease_id": 1, "delay_ms": 7, "reason": "why"}},
        {"ack_many": {**PLACE, "lease_ids": [1, 2, 1 << 60]}},
        {"nack_many": {**PLACE, "lease_ids": [3]}},
        {"extend": {**PLACE, "lease_ids": [3, 4], "visibility_timeout_ms": 9}},
        {"commit": {**PLACE, "offset": 4}},
        {"create_topic": {"topic": "fuzz"}},
        {"delete_topic": {"topic": "fuzz"}},
        {"set_rate_limit": {"topic": "fuzz", "rate_per_sec": 1e9, "burst": 4}},
        {"set_retention": {"topic": "fuzz", "max_messages": 9, "max_age_ms": 9, "max_bytes": 99}},
        {"configure_topic": {"topic": "fuzz", "burst": 1, "keep": True}},
        {"create_group": {**PLACE, "start": 2, "start_value": 1, "seek": True}},
        {"delete_group": PLACE},
        {"configure_group": {**PLACE, "max_deliveries": 1, "backoff_ms": 1}},
        {"redrive": PLACE},
        {"fetch": {"topic": "fuzz", "max_messages": 5}},
        {"locate": {"topic": "fuzz", "times_ms": [1, 1 << 62]}},
        {"fetch": {"topic": "fuzz", "max_messages": 5, "columns": 31}},
        {"fetch_many": {"topics": ["fuzz", "f"], "offsets": [1, 1 << 62], "scan": 3}},
        {"fetch_many": {"scan": 3, "max_messages": 1}},
        {"locate": {"topic": "fuzz", "measures": [{"offset": 1, "bytes": 1 << 62}]}},
        {"changes": {"filters": ["fuzz/#", "f"], "after_sequence": 1, "max": 2}},
        {"changes": {"filters": ["+"], "after": "f"}},
        {"list_keys": {"after": 1, "max": 2}},
        {"list_topics": {"prefix": "f", "max": 2}},
        {"list_groups": {"topic": "fuzz"}},
        {"bootstrap": {"nodes": [{"id": 1, "peer_addr": "a"}]}},
        {"stats": {}},
    )
]


@pytest.fixture
def dice():
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def unharmed(dial, topic):
    """A bystander that has a job before, and finishes it after."""
    bystander = dial()
    bystander.produce(topic, b"before")
    items = bystander.poll(topic)
    yield
    bystander.ack(topic, items)
    bystander.produce(topic, b"after")
    assert payloads_of(bystander.poll(topic)) == [b"after"]


def mutated(data: bytes, dice: random.Random) -> bytes:
    """The same with a few things wrong."""
    damaged = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(damaged) + 1)
        match dice.randrange(5):
            case 0 if damaged:
                damaged[place % len(damaged)] ^= 1 << dice.randrange(8)
            case 1:
                damaged[place:place] = dice.randbytes(dice.randint(1, 9))
            case 2:
                del damaged[place : place + dice.randint(1, 9)]
            case 3:
                damaged[place:place] = b"\xff" * dice.randint(1, 11)
            case _:
                damaged[place:place] = dice.choice(SAMPLES)[: dice.randint(0, 20)]
    return bytes(damaged)


def is_subscribe(body: bytes) -> bool:
    """Whether a body is, by chance, what makes a push channel of the connection."""
    try:
        return Request.FromString(body).WhichOneof("kind") == "subscribe"
    except DecodeError:
        return False


def disconnects(broker) -> dict[str, float]:
    """How many connections ended so far, by reason."""
    name = "penstock_disconnects_total"
    return {k: v for k, v in broker.metrics().items() if k.startswith(name) and v}


def heard(client: QueueClient) -> list[Response]:
    """Everything that the broker says until it closes; each frame is a response."""
    client.close_own_side()
    responses = []
    while received := client.receive_bytes():
        responses.append(Response.FromString(received[4:]))
        assert responses[-1].WhichOneof("kind")
    return responses


def test_every_body_gets_one_response_whatever_it_contains(broker, dial, unharmed, dice):
    for _ in range(SESSIONS):
        bodies = [mutated(dice.choice(SAMPLES), dice) for _ in range(dice.randint(1, 8))]
        bodies = [body for body in bodies if not is_subscribe(body)]
        client = dial()
        client.send(*map(frame, [*bodies, SAMPLES[-1]]))
        responses = heard(client)
        assert len(responses) == len(bodies) + 1
        in_order = [response for response in responses if not response.request_id]
        assert in_order[-1].WhichOneof("kind") == "stats"
    assert not any("internal_error" in key for key in disconnects(broker))


def test_broken_frames_close_only_their_own_connection_with_a_counted_reason(
    broker, dial, unharmed, dice
):
    before = sum(disconnects(broker).values())
    for _ in range(SESSIONS):
        stream = b"".join(frame(dice.choice(SAMPLES)) for _ in range(dice.randint(1, 5)))
        client = dial()
        client.send(frame(SAMPLES[-1]), mutated(stream, dice))
        assert heard(client)[0].WhichOneof("kind") == "stats"
    after = disconnects(broker)
    assert sum(after.values()) - before == SESSIONS
    assert not any("internal_error" in key for key in after)


def test_a_push_channel_survives_any_input(dial, unharmed, topic, dice):
    client, other = dial(), dial()
    name = f"{topic}/pushed"
    client.subscribe(name, prefetch=2)
    other.produce(name, b"first")
    client.pushed()
    for _ in range(SESSIONS):
        client.send(frame(mutated(dice.choice(SAMPLES), dice)))
    other.produce(name, b"second")
    while client.pushed()[0].payload != b"second":
        pass  # what was mutated may have given the first one back
