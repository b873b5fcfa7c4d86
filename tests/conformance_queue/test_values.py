"""How absent, excessive and odd values are treated."""

import math

import pytest

from tests.conformance_queue.wire_client import GROUP, offsets_of, request

PAYLOAD_MAX = 1 << 20


def fill(client, topic, count):
    response = client.ask(produce_many={"topic": topic, "payloads": [b"x"] * count})
    assert response.produced_many.stretches[0].count == count


@pytest.mark.parametrize(("asked", "granted"), [(0, 16), (1, 1), (1_024, 1_024), (5_000, 1_024)])
def test_the_number_of_messages_per_poll(client, topic, asked, granted):
    fill(client, topic, 1_100)
    assert offsets_of(client.poll(topic, maximum=asked)) == list(range(granted))


def test_a_lease_lasts_30_seconds_by_default(client, broker, topic):
    client.produce(topic, b"x")
    [item] = client.poll(topic)
    broker.clock.advance(29.9)
    assert client.poll(topic) == []
    broker.clock.advance(0.2)
    [again] = client.poll(topic)
    assert (again.offset, again.redeliveries) == (item.offset, 1)
    assert again.lease_id > item.lease_id


def test_a_lease_may_last_very_long(dial, own_broker, topic):
    broker = own_broker()
    client = dial(at=broker)
    client.produce(topic, b"x")
    [item] = client.poll(topic, visibility_timeout_ms=(1 << 64) - 1)
    broker.clock.advance(100 * 365 * 86_400)
    assert client.poll(topic) == []
    client.ack(topic, [item])
    assert client.stats().in_flight == 0


def test_the_wait_of_a_poll_is_capped(dial, client, topic):
    client.send(request(poll={"topic": topic, "group": GROUP, "wait_ms": (1 << 64) - 1}))
    dial().produce(topic, b"x")
    assert len(client.receive().polled.items) == 1


@pytest.mark.parametrize(("asked", "granted"), [(0, 1), (1, 1), (7, 7), (5_000, 1_024)])
def test_the_number_of_messages_pushed_ahead(dial, client, topic, asked, granted):
    """Each acknowledgement frees one slot."""
    fill(client, topic, 1_100)
    client.subscribe(topic, prefetch=asked)
    items = client.pushed(granted)
    assert dial().group(topic).in_flight == granted
    client.settle(items[0])
    assert offsets_of([*items, *client.pushed()]) == list(range(granted + 1))


@pytest.mark.parametrize(("asked", "kept"), [(0, 0), (7, 7), (8, 7), (99, 7), ((1 << 32) - 1, 7)])
def test_priorities_above_the_maximum_become_the_maximum(client, topic, asked, kept):
    client.produce(topic, b"x", priority=asked)
    assert [item.priority for item in client.poll(topic)] == [kept]


@pytest.mark.parametrize(("asked", "kept"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (9, 0)])
def test_unknown_content_types_become_raw(client, topic, asked, kept):
    client.produce(topic, b"x", content_type=asked)
    assert [item.content_type for item in client.poll(topic)] == [kept]


@pytest.mark.parametrize("mode", ["", "manual", "AUTO", "Auto", "auto ", "none"])
def test_every_ack_mode_except_auto_is_manual(client, topic, mode):
    client.produce(topic, b"x")
    [item] = client.poll(topic, ack_mode=mode)
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})
    assert len(client.poll(topic, ack_mode=mode)) == 1


def test_messages_polled_in_auto_mode_are_done(client, topic):
    client.produce(topic, b"x", b"y")
    items = client.poll(topic, ack_mode="auto")
    assert offsets_of(items) == [0, 1]
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": items[0].lease_id})
    assert client.poll(topic) == []


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (0.0, 0.0),
        (-1.0, 0.0),
        (math.nan, 0.0),
        (0.0004, 0.001),
        (0.0005, 0.001),
        (0.0015, 0.002),
        (0.4, 0.4),
        (12.3456, 12.346),
        (1e6, 1e6),
    ],
)
def test_rates_are_kept_in_thousandths(client, topic, asked, kept):
    """In HermesMQ less than half a thousandth would be no limit at all."""
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": asked, "burst": 3})
    described = client.describe(topic)
    assert (described.rate_per_sec, described.burst) == (kept, 3)


def test_a_burst_is_never_less_than_one(client, topic):
    client.produce(topic, b"x", b"y")
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 0.001, "burst": 0})
    assert len(client.poll(topic)) == 1
    assert client.refusal(poll={"topic": topic, "group": GROUP}) == "rate_limited"


def test_a_payload_may_have_one_mebibyte(client, topic):
    client.produce(topic, bytes(PAYLOAD_MAX))
    refused = {"topic": topic, "payload": bytes(PAYLOAD_MAX + 1)}
    assert client.refusal(produce=refused) == "payload_too_large"
    assert [len(item.payload) for item in client.poll(topic)] == [PAYLOAD_MAX]


def test_a_payload_may_be_empty(client, topic):
    client.produce(topic, b"")
    assert [item.payload for item in client.poll(topic)] == [b""]


@pytest.mark.parametrize("name", ["", "a/#", "+/b", "a\0b", "x" * 1_025])
def test_topics_are_those_of_mqtt(client, name):
    """HermesMQ accepts any text; here every protocol shares the same topics."""
    assert client.refusal(produce={"topic": name}) == "bad_request"
    assert client.refusal(poll={"topic": name, "group": GROUP}) == "bad_request"
    assert client.refusal(create_topic={"topic": name}) == "bad_request"


@pytest.mark.parametrize("name", ["$SYS/broker", "$queue/x", "$dlq/t/g"])
def test_producing_to_topics_of_the_broker_is_refused(client, name):
    assert client.refusal(produce={"topic": name}) == "forbidden"


@pytest.mark.parametrize("name", ["", "größe 🐘", "#", "$group", "x" * 256])
def test_a_group_may_have_any_name(client, topic, name):
    client.produce(topic, b"x")
    items = client.poll(topic, name)
    assert offsets_of(items) == [0]
    client.ack(topic, items, name)
    assert client.poll(topic, name) == []


@pytest.mark.parametrize(
    "kind",
    [
        {"poll": {"topic": "t", "group": "x" * 257}},
        {"produce": {"topic": "t", "producer_id": "x" * 257}},
        {"produce": {"topic": "t", "headers": [{"name": "n"}] * 65}},
        {"produce": {"topic": "t", "headers": [{"name": "n", "value": bytes(16 << 10)}]}},
        {"locate": {"topic": "t", "times_ms": [0] * 1_025}},
        {"locate": {"topic": "t", "measures": [{"bytes": 1}] * 17}},
        {"changes": {"filters": ["t"] * 1_025}},
    ],
)
def test_values_beyond_their_limit_are_refused(client, kind):
    assert client.refusal(**kind) == "limit"


def test_nobody_may_number_messages_as_a_client_of_the_binary_protocol(client):
    asked = {"topic": "t", "producer_id": "$binary/0123", "payload": b"x"}
    assert client.refusal(produce=asked) == "forbidden"


def test_an_answer_is_limited_to_about_four_mebibytes(client, topic):
    """In HermesMQ the answer could exceed a frame, and the poll fail forever."""
    client.produce(topic, *[bytes(PAYLOAD_MAX)] * 7)
    sizes = []
    while items := client.poll(topic, maximum=1_024):
        sizes.append(len(items))
    assert sum(sizes) == 7
    assert max(sizes) <= 5
