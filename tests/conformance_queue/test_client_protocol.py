"""What clients of this protocol rely on: the thirteen tests of its first broker."""

import pytest

from tests.conformance_queue.wire_client import GROUP, offsets_of, payloads_of, request


def test_bootstrap_produce_poll_ack(dial, own_broker):
    client = dial(at=own_broker())
    client.ok(bootstrap={"nodes": [{"id": 1, "peer_addr": "127.0.0.1:7700"}]})
    assert client.produce("t", b"payload \0 intact") == [0]
    items = client.poll("t")
    assert payloads_of(items) == [b"payload \0 intact"]
    client.ack("t", items)
    assert client.poll("t") == []


def test_long_poll_wakes_on_produce(dial, client, topic):
    client.send(request(poll={"topic": topic, "group": GROUP, "wait_ms": 30_000}))
    dial().produce(topic, b"at last")
    assert payloads_of(client.receive().polled.items) == [b"at last"]


def test_push_subscribe_manual(dial, client, topic):
    dial().produce(topic, b"a", b"b", b"c")
    client.subscribe(topic)
    items = client.pushed(3)
    assert payloads_of(items) == [b"a", b"b", b"c"]
    client.settle(*items)
    assert dial().poll(topic) == []


def test_push_subscribe_auto_wakes_on_produce(dial, client, topic):
    client.subscribe(topic, ack_mode="auto")
    other = dial()
    other.produce(topic, b"later")
    assert payloads_of(client.pushed()) == [b"later"]


def test_subscribe_duplicate_ack_does_not_stall(dial, client, topic):
    dial().produce(topic, b"a", b"b")
    client.subscribe(topic, prefetch=1)
    [first] = client.pushed()
    client.settle(first, first)
    assert payloads_of(client.pushed()) == [b"b"]


def test_subscribe_reclaims_slot_after_visibility_expiry(dial, ticking, topic):
    client = dial(at=ticking)
    client.produce(topic, b"stuck")
    client.subscribe(topic, prefetch=1, visibility_timeout_ms=100)
    first, second = client.pushed(2)
    assert first.offset == second.offset
    assert first.lease_id != second.lease_id
    assert second.redeliveries == 1


def test_subscribe_dedups_slow_handler_and_accepts_late_ack(dial, ticking, topic):
    """Within three times the visibility the message is not redelivered; the next one is delivered."""
    client, other = dial(at=ticking), dial(at=ticking)
    other.produce(topic, b"slow")
    client.subscribe(topic, prefetch=4, visibility_timeout_ms=300)
    [slow] = client.pushed()
    # 600 ms go by on the broker's own clock: as long as a poll of an empty topic waits.
    assert other.poll("nothing/here", wait_ms=600) == []
    client.settle(slow)
    other.produce(topic, b"next")
    assert payloads_of(client.pushed()) == [b"next"]


def test_poll_zero_values_are_normalized(client, topic):
    client.produce(topic, *[b"x"] * 20)
    assert len(client.poll(topic, maximum=0, visibility_timeout_ms=0)) == 16
    assert len(client.poll(topic)) == 4
    assert client.poll(topic) == []


def test_pipelined_requests_get_in_order_responses(dial, own_broker):
    client = dial(at=own_broker())
    client.send(
        request(create_topic={"topic": "t"}),
        *[request(produce={"topic": "t"}) for _ in range(3)],
        request(stats={}),
    )
    ok, *produced, stats = client.receive_many(5)
    assert ok.HasField("ok")
    assert [response.produced.offset for response in produced] == [0, 1, 2]
    assert (stats.stats.topics, stats.stats.messages) == (1, 3)


def test_pipelined_subscribe_drains_pending_responses_first(client, topic):
    client.send(
        *[request(produce={"topic": topic, "payload": b"x"}) for _ in range(2)],
        request(subscribe={"topic": topic, "group": GROUP, "prefetch": 4}),
    )
    assert [response.produced.offset for response in client.receive_many(2)] == [0, 1]
    assert offsets_of(client.pushed(2)) == [0, 1]


def test_rejects_oversized_payload(client, topic):
    assert client.refusal(produce={"topic": topic, "payload": bytes((1 << 20) + 1)}) == (
        "payload_too_large"
    )
    assert client.produce(topic, b"fits") == [0]


def test_rate_limit(client, topic):
    client.ok(set_rate_limit={"topic": topic, "rate_per_sec": 1, "burst": 1})
    assert client.produce(topic, b"a", b"b", b"c") == [0, 1, 2]
    assert len(client.poll(topic, maximum=10)) == 1
    assert client.refusal(poll={"topic": topic, "group": GROUP, "max": 10}) == "rate_limited"


@pytest.mark.parametrize(("mode", "again"), [("auto", []), ("manual", [0])])
def test_ack_mode_auto_vs_manual(client, broker, topic, mode, again):
    client.produce(topic, b"x")
    assert len(client.poll(topic, ack_mode=mode, visibility_timeout_ms=100)) == 1
    broker.clock.advance(0.3)
    assert offsets_of(client.poll(topic)) == again
