"""Queues, repetitions and what only a broker that was greeted can do."""

from pathlib import Path

from penstock.client import QueueProducer, Subscriber
from penstock.testing import Broker
from tests.clients.arduino.driver import Driver
from tests.clients.proxy import Fault, LossyProxy


def connect(driver: Driver, port: int, **fields: object) -> None:
    driver.do("connect", host="127.0.0.1", port=port, client_id="device", **fields)


def test_a_job_that_is_not_acknowledged_goes_to_another_worker(broker: Broker, built: None) -> None:
    with Driver() as first, Driver() as second:
        first.do("connect", host="127.0.0.1", port=broker.port, client_id="first")
        first.do("auto_ack", on=False)
        first.do("subscribe", topic="q:jobs")
        with QueueProducer("jobs", port=broker.port) as producer:
            producer.push(b"job")
        assert first.payloads(1) == [b"job"]
        first.do("close")
        second.do("connect", host="127.0.0.1", port=broker.port, client_id="second")
        second.do("subscribe", topic="q:jobs")
        assert second.payloads(1) == [b"job"]


def test_a_worker_may_take_one_job_at_a_time(driver: Driver, broker: Broker) -> None:
    connect(driver, broker.port)
    driver.do("auto_ack", on=False)
    driver.do("subscribe", topic="q:jobs", prefetch=1)
    with QueueProducer("jobs", port=broker.port) as producer:
        producer.push_many([b"1", b"2", b"3"])
    for payload in [b"1", b"2", b"3"]:
        job = next(driver.messages(1))
        assert job["payload"] == payload
        assert driver.ask("stats")["received"] == int(payload)
        driver.do("ack", sequence=job["sequence"])


def test_a_retained_message_is_kept(driver: Driver, broker: Broker) -> None:
    connect(driver, broker.port)
    assert driver.answer(driver.publish("state", b"on", retain=True))["ok"]
    assert broker.metrics()["penstock_retained_messages"] == 1


def test_a_publish_whose_answer_was_lost_is_stored_once(driver: Driver, broker: Broker) -> None:
    """WELCOME passes, which has 46 bytes, and some of the ACK; the publish is sent again."""
    planned = [Fault("cut", after, is_upstream=False) for after in range(46, 62, 2)]
    with LossyProxy(broker.port, planned) as proxy:
        connect(driver, proxy.port)
        assert driver.answer(driver.publish("a", b"once"))["ok"]
        assert driver.ask("stats")["sent"] > 1
    with Subscriber("reader", "a", port=broker.port) as subscriber:
        assert [m.payload for m in subscriber.messages(idle_s=0.2)] == [b"once"]


def test_a_reading_that_was_saved_is_published_once_after_a_restart(
    broker: Broker, built: None, tmp_path: Path
) -> None:
    """The example DeepSleep: power fails after the broker has the reading and before its answer."""
    for planned in [[Fault("cut", 50, is_upstream=False)] * 40, []]:
        with LossyProxy(broker.port, planned) as proxy, Driver() as driver:
            driver.do("store", folder=str(tmp_path))
            connect(driver, proxy.port, wait=False)
            if planned:
                driver.publish("soil", b"42")
            wanted = (lambda stats: stats["sent"]) if planned else (lambda stats: stats["acked"])
            while not wanted(driver.ask("stats")):
                pass
            if planned:
                driver.state("down")
    with Subscriber("reader", "soil", port=broker.port) as subscriber:
        assert [m.payload for m in subscriber.messages(idle_s=0.2)] == [b"42"]
