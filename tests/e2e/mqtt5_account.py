"""Everything that a session of MQTT 5 consists of, set up at one broker and claimed at another.

``prepare`` leaves a session in the middle of everything: subscriptions with options and
identifiers, a QoS 1 and two QoS 2 deliveries at different steps, messages that wait with properties
and expiry, a QoS 2 id received and not released, a will that is due later. ``claim`` connects again
and insists on all of it. Between the two the process dies, or another node takes over.
"""

from contextlib import ExitStack

from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.conformance.packets5 import Packet, Will, options

__all__ = ["Account"]

PROPERTIES = {
    "payload_format": 1, "content_type": "text/plain", "response_topic": "answer/here",
    "correlation_data": b"\0\xff", "user": [("b", "2"), ("a", "1"), ("b", "2")],
}  # fmt: skip
EXPIRY_S = 3_600


class Account:
    """One session, and what the test knows of it."""

    def __init__(self, stack: ExitStack, will_delay: int = 3_600) -> None:
        self._stack = stack
        will = v5.block(will_delay=will_delay, **PROPERTIES)
        self._will = Will("will", b"gone", 1, properties=will)
        self.in_flight: list[Packet] = []

    def _connect(self, broker, client_id: str, *, is_there: bool = False, **more) -> Client5:
        client = self._stack.enter_context(Client5(broker.host, broker.port))
        client.send(v5.connect(client_id, **more))
        client.expect_connack(session_present=is_there)
        return client

    def prepare(self, broker) -> None:
        session = self._connect(broker, "who", session_expiry=EXPIRY_S, will=self._will)
        session.subscribe(("a/+", options(2)), subscription_id=7)
        session.subscribe(("a/#", options(1)), subscription_id=8)
        session.subscribe(("kept", options(1, as_published=True, handling=2)))
        session.subscribe(("own", options(1, no_local=True)), subscription_id=9)
        publisher = self._connect(broker, "publisher")
        for number, qos in enumerate((1, 2, 2)):
            publisher.publish_acknowledged("a/b", b"%d" % number, qos=qos, **PROPERTIES)
            self.in_flight.append(self._delivery(session, number, qos))
        session.send(v5.pubrec(self.in_flight[2].packet_id))
        session.expect_ack(v5.PUBREL, self.in_flight[2].packet_id)
        session.publish_acknowledged("own", b"mine", packet_id=5)
        session.send(v5.publish("elsewhere", b"m", qos=2, packet_id=6, **PROPERTIES))
        session.expect_accepted(v5.PUBREC, 6)
        session.abort()
        publisher.publish_acknowledged("a/b", b"waits", message_expiry=600, **PROPERTIES)
        publisher.publish_acknowledged("kept", b"kept", retain=True, message_expiry=600)
        publisher.ping()

    @staticmethod
    def _delivery(session: Client5, number: int, qos: int, *, dup: bool = False) -> Packet:
        return session.expect_publish(
            "a/b", b"%d" % number, qos=qos, dup=dup, subscription_id=[7, 8], **PROPERTIES
        )

    def claim(self, broker) -> Client5:
        """Resume, and find all of it; returns the client that did."""
        session = self._connect(
            broker, "who", is_there=True, clean=False, session_expiry=EXPIRY_S, keep_alive=0
        )
        one, two, three = self.in_flight
        repeated = {self._step(session.take()) for _ in self.in_flight}
        assert repeated == {
            (v5.PUBLISH, one.packet_id), (v5.PUBLISH, two.packet_id), (v5.PUBREL, three.packet_id)
        }  # fmt: skip
        session.send(
            v5.puback(one.packet_id), v5.pubrec(two.packet_id), v5.pubcomp(three.packet_id)
        )
        self._claim_what_waited(session, two.packet_id)
        self._claim_subscriptions(broker, session)
        return session

    @staticmethod
    def _step(received: Packet) -> tuple[int, int]:
        if received.kind == v5.PUBLISH:
            assert received.dup
            named = {k: v for k, v in received.properties.items() if k != "subscription_id"}
            assert named == {k: v if k == "user" else [v] for k, v in PROPERTIES.items()}
            assert sorted(received.properties["subscription_id"]) == [7, 8]
        return received.kind, received.packet_id

    @staticmethod
    def _claim_what_waited(session: Client5, released: int) -> None:
        """The two messages and the PUBREL that is due, in any order."""
        found = {}
        while len(found) < 3:
            received = session.take()
            found[received.topic or "release"] = received
        assert (found["release"].kind, found["release"].packet_id) == (v5.PUBREL, released)
        session.send(v5.pubcomp(released))
        assert found["a/b"].payload == b"waits"
        assert 0 < found["a/b"].value("message_expiry") <= 600
        assert found["a/b"].properties["user"] == PROPERTIES["user"]
        assert found["kept"].retain  # retain as published
        for received in (found["a/b"], found["kept"]):
            session.acknowledge(received)
        session.ping()

    def _claim_subscriptions(self, broker, session: Client5) -> None:
        session.publish_acknowledged("own", b"mine", packet_id=9)  # no local still holds
        session.send(v5.publish("elsewhere", b"m", qos=2, packet_id=6, dup=True))
        session.expect_accepted(v5.PUBREC, 6)
        session.send(v5.pubrel(6))
        session.expect_ack(v5.PUBCOMP, 6)  # the id was known: no 0x92
        other = self._connect(broker, "other")
        other.publish_acknowledged("own", b"theirs")
        theirs = session.expect_publish("own", b"theirs", qos=1, subscription_id=9)
        session.acknowledge(theirs)
        late = self._connect(broker, "late")
        late.subscribe(("kept", 0))
        kept = late.take()
        assert kept.payload == b"kept"
        assert 0 < kept.value("message_expiry") <= 600
        for client in (other, late):
            client.disconnect()
