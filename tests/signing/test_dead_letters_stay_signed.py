"""A dead letter keeps the signature of its message, and has it still when it is sent back."""

from collections.abc import Iterator

import pytest
import redis

from penstock.client import QueueClient, connect
from penstock.client.errors import QueueRefusedError
from penstock.testing import Broker
from penstock.trust.signatures import is_valid
from tests.signing.kit import (
    TIMEOUT_S,
    Binary,
    Signer,
    ask,
    now_ms,
    publish_signed,
    register,
    request,
)

TOPIC = b"secure/jobs"
LETTERS = "$dlq/secure/jobs/g"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as own:
        ask(own.port, "PUT", "/queues/secure/jobs", keep=False)
        yield own


@pytest.fixture
def client(broker: Broker) -> Iterator[QueueClient]:
    with _connected(broker) as own:
        yield own


def _connected(broker: Broker) -> QueueClient:
    return connect([f"127.0.0.1:{broker.port}"])


def bury(broker: Broker, client: QueueClient, topic: str, group: str = "g") -> None:
    """Have the next message of a topic become a dead letter."""
    ask(broker.port, "PUT", "/groups", topic=topic, group=group, max_deliveries=1)
    before = len(list(client.dead_letters(topic, group)))
    [job] = client.poll(topic, group, max=1)
    client.nack(job)
    while len(list(client.dead_letters(topic, group))) == before:
        broker.clock.advance(0)


def stored(broker: Broker, topic: bytes):
    found = broker.server.store.read_topic(topic, 0, 100, 1 << 20)
    return list(found.messages())


def sign(broker: Broker, signer: Signer, payload: bytes, version: int):
    if version == 1:
        return signer.sign_1(TOPIC, payload)
    return signer.sign_2(TOPIC, payload, now_ms(broker))


@pytest.mark.parametrize("version", [1, 2])
def test_a_redriven_message_is_signed_as_it_was(broker, client, version):
    signer = register(broker)
    signature = sign(broker, signer, b"work", version)
    assert publish_signed(broker, TOPIC, b"work", signature) == ""
    bury(broker, client, TOPIC.decode())
    [letter] = stored(broker, LETTERS.encode())
    assert letter.extras.signature == signature
    broker.clock.advance(3600)  # beyond the window for replays: nobody sends it again but we
    assert client.redrive(TOPIC.decode(), "g") == 1
    back = stored(broker, TOPIC)[-1]
    assert back.extras.signature == signature
    assert is_valid(signer.public_key, TOPIC, back.payload, back.extras.signature)


def test_a_subscriber_can_verify_what_was_redriven(broker, client):
    signer = register(broker)
    signature = signer.sign_1(TOPIC, b"work")
    assert publish_signed(broker, TOPIC, b"work", signature) == ""
    bury(broker, client, TOPIC.decode())
    assert client.redrive(TOPIC.decode(), "g") == 1
    with Binary(broker) as reader:
        received = reader.subscribe(TOPIC, b"reader")
    assert [event.signature.signature for event in received] == [signature.signature] * 2


def test_a_letter_without_a_signature_is_not_sent_to_a_topic_that_demands_one(tmp_path):
    """It was buried before the configuration demanded signatures."""
    with Broker(data=tmp_path, signing={"required": []}) as lax, _connected(lax) as client:
        client.produce("secure/jobs", b"unsigned")
        bury(lax, client, "secure/jobs")
    with Broker(data=tmp_path) as strict, _connected(strict) as client:
        with pytest.raises(QueueRefusedError, match="requires signed messages"):
            client.redrive("secure/jobs", "g")
        body = {"topic": "secure/jobs", "group": "g"}
        status, answer = request(strict.port, "POST", "/dlq/redrive", body)
        assert status == 409
        assert "has no signature" in answer["error"]
        assert strict.server.store.topic(TOPIC).next_offset == 1
        assert len(list(client.dead_letters("secure/jobs", "g"))) == 1
        ask(strict.port, "DELETE", "/dlq?topic=secure/jobs&group=g")
        assert list(client.dead_letters("secure/jobs", "g")) == []


def test_letters_before_one_without_a_signature_are_sent_back(tmp_path):
    with Broker(data=tmp_path, signing={"required": []}) as lax:
        signer = register(lax)
        with _connected(lax) as client:
            client.create_topic("secure/jobs")
            publish_signed(lax, TOPIC, b"signed", signer.sign_1(TOPIC, b"signed"))
            client.produce("secure/jobs", b"unsigned")
            bury(lax, client, "secure/jobs")
            bury(lax, client, "secure/jobs")
    with Broker(data=tmp_path) as strict, _connected(strict) as client:
        with pytest.raises(QueueRefusedError, match="dead letter 1 has no signature"):
            client.redrive("secure/jobs", "g")
        assert [m.payload for m in stored(strict, TOPIC)][-1] == b"signed"
        left = [record.payload for record in client.dead_letters("secure/jobs", "g")]
        assert left == [b"unsigned"]


@pytest.mark.parametrize(
    "words",
    [
        ("PULL", LETTERS, "GROUP", "redrive"),
        ("XREADGROUP", "GROUP", "redrive", "c", "STREAMS", LETTERS, ">"),
        ("XGROUP", "SETID", LETTERS, "redrive", "$"),
        ("XGROUP", "DESTROY", LETTERS, "redrive"),
    ],
)
def test_clients_cannot_use_the_account_of_protected_letters(broker, client, words):
    """What its group has taken counts as sent back or dropped."""
    register_and_bury(broker, client)
    client.redrive(TOPIC.decode(), "g")  # which makes the group
    with (
        redis.Redis(port=broker.port, protocol=2, socket_timeout=TIMEOUT_S) as other,
        pytest.raises(redis.ResponseError, match="only administrators"),
    ):
        other.execute_command(*words)


def test_clients_of_the_queue_protocol_cannot_either(broker, client):
    register_and_bury(broker, client)
    for ask_for in (
        lambda: client.poll(LETTERS, "redrive"),
        lambda: client.commit(LETTERS, "redrive", 1),
        lambda: client.seek(LETTERS, "redrive", "latest"),
    ):
        with pytest.raises(QueueRefusedError, match="only administrators"):
            ask_for()
    assert len(list(client.dead_letters(TOPIC.decode(), "g"))) == 1


def register_and_bury(broker: Broker, client: QueueClient) -> None:
    signer = register(broker)
    assert publish_signed(broker, TOPIC, b"work", signer.sign_1(TOPIC, b"work")) == ""
    bury(broker, client, TOPIC.decode())
