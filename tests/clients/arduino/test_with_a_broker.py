"""The library on this machine, with sanitizers, against a real broker."""

import pytest

from penstock.client import Publisher, Subscriber
from penstock.testing import Broker
from tests.clients.arduino.driver import Driver


def connect(driver: Driver, broker: Broker, client_id: str = "", **fields: object) -> None:
    driver.do("connect", host="127.0.0.1", port=broker.port, client_id=client_id, **fields)


def test_a_publish_is_answered_when_the_broker_has_it(driver: Driver, broker: Broker) -> None:
    connect(driver, broker)
    assert driver.answer(driver.publish("plant/pump7", b"4.2"))["ok"]
    with Subscriber("reader", "plant/pump7", port=broker.port) as subscriber:
        message = subscriber.receive()
    assert message is not None
    assert message.payload == b"4.2"


def test_publishes_keep_their_order(driver: Driver, broker: Broker) -> None:
    connect(driver, broker)
    sent = [b"%d" % i for i in range(200)]
    for request in [driver.publish("a/b", payload) for payload in sent]:
        answer = driver.answer(request)
        if not answer["ok"]:
            assert answer["kind"] == "full"
    stats = driver.ask("stats")
    with Subscriber("reader", "a/b", port=broker.port) as subscriber:
        received = [m.payload for m in subscriber.messages(idle_s=0.2)]
    assert len(received) == stats["acked"]
    assert received == sorted(received, key=int)


def test_history_comes_before_what_is_new_and_both_once(driver: Driver, broker: Broker) -> None:
    with Publisher(port=broker.port) as publisher:
        publisher.publish_many("a", [b"%d" % i for i in range(100)])
        connect(driver, broker, "device")
        driver.do("subscribe", topic="a")
        assert driver.payloads(100) == [b"%d" % i for i in range(100)]
        publisher.publish_many("a", [b"%d" % i for i in range(100, 200)])
        assert driver.payloads(100) == [b"%d" % i for i in range(100, 200)]
    driver.do("flush", timeout_ms=20_000)
    assert driver.ask("stats")["received"] == 200


def test_nothing_is_allocated_after_begin(driver: Driver, broker: Broker) -> None:
    connect(driver, broker, "device")
    driver.do("subscribe", topic="a")
    requests = [driver.publish("a", b"x" * 100) for _ in range(8)]
    assert driver.payloads(8) == [b"x" * 100] * 8
    assert all(driver.answer(request)["ok"] for request in requests)
    broker.restart(kill=True)
    driver.state("down")
    driver.state("up")
    assert driver.answer(driver.publish("a", b"y"))["ok"]
    assert driver.ask("heap")["allocations_after_begin"] == 0


def test_a_payload_larger_than_the_buffer_comes_in_pieces(driver: Driver, broker: Broker) -> None:
    connect(driver, broker, "device")
    driver.do("subscribe", topic="big")
    large = bytes(range(256)) * 1000
    with Publisher(port=broker.port) as publisher:
        publisher.publish_many("big", [b"before", large, b"after", b"z" * 494, b"z" * 493])
    assert driver.payloads(5) == [b"before", large, b"after", b"z" * 494, b"z" * 493]


def test_what_was_published_while_away_arrives_once_the_broker_is_there(
    driver: Driver, broker: Broker
) -> None:
    connect(driver, broker, "device")
    broker.stop()
    driver.state("down")
    requests = [driver.publish("later", b"%d" % i) for i in range(5)]
    broker.start()
    assert all(driver.answer(request)["ok"] for request in requests)
    with Subscriber("reader", "later", port=broker.port) as subscriber:
        assert [m.payload for m in subscriber.messages(idle_s=0.2)] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]


def test_a_full_offline_buffer_refuses_and_tells(driver: Driver) -> None:
    driver.do("connect", host="127.0.0.1", port=1, client_id="device", wait=False)
    requests = [driver.publish("a", b"x" * 300) for _ in range(4)]
    refused = driver.answer(requests[3])
    assert (refused["ok"], refused["kind"]) == (False, "full")
    assert driver.ask("stats")["refused"] == 1


def test_a_full_offline_buffer_may_push_out_the_oldest(driver: Driver) -> None:
    driver.do("connect", host="127.0.0.1", port=1, client_id="d", wait=False, drop_oldest=True)
    requests = [driver.publish("a", b"x" * 300) for _ in range(4)]
    assert driver.answer(requests[0])["kind"] == "dropped"


def test_a_client_id_that_was_taken_over_stops_for_good(driver: Driver, broker: Broker) -> None:
    connect(driver, broker, "device")
    driver.do("subscribe", topic="a")
    driver.do("flush", timeout_ms=20_000)
    with Subscriber("device", "a", port=broker.port) as other:
        other.receive(timeout_s=0)  # it subscribes when first used
        driver.state("taken_over")
        refused = driver.answer(driver.publish("a", b"x"))
    assert refused["kind"] == "taken_over"


@pytest.mark.parametrize("topic", ["", "a/+", "a/#"])
def test_what_is_no_topic_is_refused_at_once(driver: Driver, broker: Broker, topic: str) -> None:
    connect(driver, broker)
    assert driver.answer(driver.publish(topic, b"x"))["kind"] == "bad_topic"


def test_silence_for_weeks_is_filled_with_pings(driver: Driver, broker: Broker) -> None:
    """The milliseconds of a board begin anew after 49 days."""
    connect(driver, broker, "device")
    for _ in range(60):
        driver.do("millis", add=24 * 3600 * 1000)
        driver.do("flush", timeout_ms=20_000)
    assert driver.answer(driver.publish("a", b"x"))["ok"]
    assert driver.ask("stats")["connects"] >= 1
