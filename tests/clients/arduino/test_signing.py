"""Signed publishes, signed messages and logins of the Arduino library, against a real broker."""

import pytest

from penstock.client import Publisher, Subscriber
from penstock.testing import Broker
from tests.clients.arduino.driver import Driver, encoded
from tests.signing.kit import Signer, now_ms, publish_signed, register

TOPIC = "secure/pump"


def connect(driver: Driver, broker: Broker, signer: Signer, **fields: object) -> None:
    key = {"id": signer.key_id, "seed_b64": encoded(signer.seed)}
    fields = {"client_id": "device", "clock_ms": now_ms(broker), "key": key, **fields}
    driver.do("connect", host="127.0.0.1", port=broker.port, **fields)


@pytest.mark.parametrize("version", [1, 2])
def test_a_signed_publish_is_stored_with_its_signature(
    driver: Driver, broker: Broker, version: int
) -> None:
    connect(driver, broker, register(broker))
    assert driver.answer(driver.publish(TOPIC, b"4.2", signed=version))["ok"]
    with Subscriber("reader", TOPIC, port=broker.port) as subscriber:
        message = subscriber.receive()
    assert message is not None
    assert message.payload == b"4.2"
    assert message.signature is not None


def test_an_unsigned_publish_is_refused_in_the_brokers_words(
    driver: Driver, broker: Broker
) -> None:
    connect(driver, broker, register(broker))
    refused = driver.answer(driver.publish(TOPIC, b"4.2"))
    assert refused["kind"] == "refused"
    assert "requires signed publish" in refused["error"]


def test_a_publish_refused_for_its_time_is_signed_again(driver: Driver, broker: Broker) -> None:
    """The clock of a board may be set while publishes wait; what is behind keeps its order."""
    connect(driver, broker, register(broker), clock_ms=now_ms(broker) + 3_600_000)
    requests = [driver.publish(TOPIC, b"%d" % i, signed=2) for i in range(3)]
    driver.wait(lambda line: "from the future" in line.get("text", ""))
    driver.do("clock", ms=now_ms(broker))
    assert all(driver.answer(request)["ok"] for request in requests)
    with Subscriber("reader", TOPIC, port=broker.port) as subscriber:
        received = [m.payload for m in subscriber.messages(idle_s=0.2)]
    assert sorted(received) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("version", [1, 2])
def test_messages_are_verified(driver: Driver, broker: Broker, version: int) -> None:
    signer, stranger = register(broker), register(broker)
    driver.do("verify", key_id=signer.key_id, public_b64=encoded(signer.public_key), require=False)
    connect(driver, broker, signer)
    driver.do("subscribe", topic=TOPIC)
    for author in [signer, stranger]:
        topic = TOPIC.encode()
        by_1, by_2 = author.sign_1(topic, b"x"), author.sign_2(topic, b"x", now_ms(broker))
        publish_signed(broker, topic, b"x", by_1 if version == 1 else by_2)
    assert [message["signer"] for message in driver.messages(2)] == ["verified", "unknown"]


def test_what_must_be_verified_and_is_not_is_withheld_and_told(
    driver: Driver, broker: Broker
) -> None:
    signer = register(broker)
    driver.do("verify", key_id=signer.key_id, public_b64=encoded(signer.public_key), require=True)
    connect(driver, broker, signer)
    driver.do("subscribe", topic="a")
    with Publisher(port=broker.port) as publisher:
        publisher.publish("a", b"unsigned")
        publisher.publish("a", b"large" * 1000)
    for _ in range(2):
        driver.wait(lambda line: line.get("kind") == "withheld")
    assert driver.ask("stats")["received"] == 0


def test_a_publish_waits_until_the_time_is_known(driver: Driver, broker: Broker) -> None:
    connect(driver, broker, register(broker), clock_ms=0)
    waiting = driver.publish(TOPIC, b"later", signed=2)
    assert driver.answer(driver.publish("another", b"now"))["ok"]
    driver.do("clock", ms=now_ms(broker))
    assert driver.answer(waiting)["ok"]


def test_a_password_lets_in() -> None:
    with Broker(users={"ann": "s3cret"}) as broker, Driver() as driver:
        where = {"host": "127.0.0.1", "port": broker.port, "client_id": "device"}
        driver.do("connect", **where, user="ann", password="s3cret")
        assert driver.answer(driver.publish("a", b"x"))["ok"]


def test_a_wrong_password_is_told() -> None:
    with Broker(users={"ann": "s3cret"}) as broker, Driver() as driver:
        where = {"host": "127.0.0.1", "port": broker.port, "client_id": "device"}
        driver.do("connect", **where, user="ann", password="wrong", wait=False)
        driver.state("refused")


def test_a_key_signs_the_login(driver: Driver, broker: Broker) -> None:
    connect(driver, broker, register(broker), login_with_key=True)
    assert driver.answer(driver.publish("a", b"x"))["ok"]
