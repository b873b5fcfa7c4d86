"""Signed messages are removed by administrators alone, whichever way a client asks.

The clients of RESP and of the queue protocol prove nothing about themselves. What they ask for is
refused with advice, counted, and the messages stay.
"""

from collections.abc import Callable, Iterator

import pytest
import redis

from penstock.client import QueueClient, connect
from penstock.client.errors import QueueRefusedError
from penstock.testing import Broker
from penstock.trust.faults import SignatureFault
from tests.signing.kit import TIMEOUT_S, ask, publish_signed, register

Way = Callable[[Broker, str], object]

ADVICE = "only administrators may remove them or change their retention"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(signing={"required": ["secure/*"]}) as own:
        yield own


@pytest.fixture
def topic(broker, topic) -> str:
    """A topic with two signed messages."""
    signer = register(broker)
    for payload in (b"a", b"b"):
        assert publish_signed(broker, topic, payload, signer.sign_1(topic, payload)) == ""
    return topic.decode()


def _resp(*words: str) -> Way:
    def send(broker: Broker, topic: str) -> object:
        with redis.Redis(port=broker.port, protocol=2, socket_timeout=TIMEOUT_S) as client:
            entry = client.xrange(topic)[0][0] if "ID" in words else b""
            names = {"TOPIC": topic, "ID": entry}
            return client.execute_command(*(names.get(word, word) for word in words))

    return send


def _queue(request: Callable[[QueueClient, str], None]) -> Way:
    def send(broker: Broker, topic: str) -> None:
        with connect([f"127.0.0.1:{broker.port}"]) as client:
            request(client, topic)

    return send


WAYS: dict[str, Way] = {
    "XTRIM MAXLEN": _resp("XTRIM", "TOPIC", "MAXLEN", "0"),
    "XTRIM MINID": _resp("XTRIM", "TOPIC", "MINID", "ID"),
    "XDEL": _resp("XDEL", "TOPIC", "ID"),
    "XADD with a limit": _resp("XADD", "TOPIC", "MAXLEN", "0", "*", "f", "v"),
    "deleting the topic": _queue(lambda client, topic: client.delete_topic(topic)),
    "limiting the topic": _queue(lambda client, topic: client.set_retention(topic, max_messages=1)),
    "reclaiming what is done": _queue(
        lambda client, topic: client.configure_topic(topic, keep=False)
    ),
}


def _stored(broker: Broker, topic: str) -> list[bytes]:
    with redis.Redis(port=broker.port, protocol=2, socket_timeout=TIMEOUT_S) as client:
        return [fields[b"payload"] for _, fields in client.xrange(topic)]


@pytest.mark.parametrize("way", WAYS)
def test_clients_cannot_remove_signed_messages(broker, topic, way):
    failures = broker.server.parts.gate.failures
    before = sum(failures.values())
    with pytest.raises((redis.ResponseError, QueueRefusedError)) as refused:
        WAYS[way](broker, topic)
    if way != "XADD with a limit":  # which is refused before that, as it has no signature
        assert ADVICE in str(refused.value)
    assert sum(failures.values()) == before + 1
    assert _stored(broker, topic) == [b"a", b"b"]


@pytest.mark.parametrize("way", ["XTRIM MAXLEN", "deleting the topic", "limiting the topic"])
def test_dead_letters_of_signed_messages_are_protected_alike(broker, way):
    with pytest.raises((redis.ResponseError, QueueRefusedError), match=ADVICE):
        WAYS[way](broker, "$dlq/secure/x/g")
    assert broker.server.parts.gate.failures[SignatureFault.PROTECTED]


def test_a_topic_cannot_be_made_a_queue_before_its_first_signed_message(broker):
    """Whoever acknowledges messages of a queue has them removed."""
    with pytest.raises(QueueRefusedError, match=ADVICE):
        _queue(lambda client, topic: client.create_topic(topic))(broker, "secure/unborn")


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_other_topics_are_removed_as_before(broker, way):
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        client.xadd("free", {"payload": "a"})
    WAYS[way](broker, "free")


def test_an_administrator_can_limit_and_delete_the_topic(broker, topic):
    ask(broker.port, "PUT", f"/queues/{topic}", max_messages=1)
    ask(broker.port, "DELETE", f"/queues/{topic}")
    assert _stored(broker, topic) == []
