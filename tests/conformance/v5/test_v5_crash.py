"""A crash between any two steps changes nothing that version 5 promises.

One story is told as many times as it has steps; each time the broker dies after another step, with
everything that it had only in memory, and is started again on what is on disk. Whoever was
connected resumes the session. What each step then sees is the same every time: subscriptions with
their options and identifiers, exchanges of QoS 1 and 2, properties, what is left of expiry, a will
that is due later, the end of a session.
"""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will, options

PROPERTIES = {
    "payload_format": 1, "content_type": "text/plain", "response_topic": "answer/here",
    "correlation_data": b"\0\xff", "user": [("b", "2"), ("a", "1"), ("b", "2")],
}  # fmt: skip


class Story:
    """The broker, and the clients of the story; a client is connected when it is needed."""

    def __init__(self, broker, connect):
        self.broker, self.connect = broker, connect
        self._clients, self._known = {}, set()

    def client(self, name, **more):
        """The client, and whether it had to connect again."""
        if name in self._clients:
            return self._clients[name], False
        client = self.connect(
            name, at=self.broker, clean=name not in self._known, session_expiry=600,
            session_present=name in self._known, keep_alive=0, **more,
        )  # fmt: skip
        self._clients[name] = client
        is_back = name in self._known
        self._known.add(name)
        return client, is_back

    def leave(self, name, *, expiry=None):
        client, _ = self.client(name)
        del self._clients[name]
        client.disconnect(0, **({} if expiry is None else {"session_expiry": expiry}))

    def vanish(self, name):
        self._clients.pop(name).abort()
        self._known.discard(name)

    def crash(self):
        self.broker.restart(kill=True)
        for client in self._clients.values():
            client.abort()
        self._clients.clear()


def subscribe(story):
    subscriber, _ = story.client("subscriber")
    subscriber.subscribe(("a/+", options(2, as_published=True)), subscription_id=7)
    subscriber.subscribe(("a/#", options(1, no_local=True)), subscription_id=8)
    watcher, _ = story.client("watcher")
    watcher.subscribe(("will", 1))


def leave(story):
    story.leave("subscriber")
    story.leave("watcher")


def publish_qos_1(story):
    publisher, _ = story.client("publisher")
    publisher.publish_acknowledged("a/b", b"one", retain=True, message_expiry=100, **PROPERTIES)


def publish_qos_2(story):
    publisher, _ = story.client("publisher")
    publisher.send(v5.publish("a/b", b"two", qos=2, packet_id=9, **PROPERTIES))
    publisher.expect_accepted(v5.PUBREC, 9)


def publish_qos_2_again(story):
    """The id is known: no second message, and its release is no surprise."""
    publisher, _ = story.client("publisher")
    publisher.send(v5.publish("a/b", b"two", qos=2, packet_id=9, dup=True, **PROPERTIES))
    publisher.expect_accepted(v5.PUBREC, 9)


def release(story):
    publisher, _ = story.client("publisher")
    publisher.send(v5.pubrel(9))
    publisher.expect_ack(v5.PUBCOMP, 9)


def die_with_a_will(story):
    will = v5.block(will_delay=50, message_expiry=30, **PROPERTIES)
    story.client("mortal", will=Will("will", b"gone", 1, properties=will))
    story.vanish("mortal")
    publisher, _ = story.client("publisher")
    publisher.ping()


def let_40_seconds_pass(story):
    story.broker.clock.advance(40)


def receive(story):
    """The first of the two is acknowledged, the second half so."""
    subscriber, _ = story.client("subscriber")
    ids = {"subscription_id": [7, 8]}
    one = subscriber.expect_publish(
        "a/b", b"one", qos=1, retain=True, message_expiry=60, **PROPERTIES, **ids
    )
    two = subscriber.expect_publish("a/b", b"two", qos=2, **PROPERTIES, **ids)
    subscriber.send(v5.puback(one.packet_id), v5.pubrec(two.packet_id))
    subscriber.expect_ack(v5.PUBREL, two.packet_id)
    story.half_done = two.packet_id


def complete(story):
    subscriber, is_back = story.client("subscriber")
    if is_back:
        subscriber.expect_ack(v5.PUBREL, story.half_done)
    subscriber.send(v5.pubcomp(story.half_done))
    subscriber.expect_nothing()


def subscribe_anew(story):
    """A retained message comes once more; the id is another now."""
    subscriber, _ = story.client("subscriber")
    subscriber.unsubscribe("a/#")
    subscriber.subscribe(("a/+", options(1)), subscription_id=9)
    kept = subscriber.expect_publish(
        "a/b", b"one", qos=1, retain=True, message_expiry=60, subscription_id=9, **PROPERTIES
    )
    subscriber.acknowledge(kept)
    subscriber.expect_nothing()


def see_the_will(story):
    watcher, _ = story.client("watcher")
    watcher.expect_nothing()
    story.broker.clock.advance(11)
    received = watcher.expect_publish("will", b"gone", qos=1, message_expiry=30, **PROPERTIES)
    watcher.acknowledge(received)
    watcher.expect_nothing()


def see_it_no_more(story):
    watcher, _ = story.client("watcher")
    story.broker.clock.advance(100)
    watcher.expect_nothing_from(story.client("publisher")[0])


def shorten_the_session(story):
    story.leave("subscriber", expiry=30)


def find_it_gone(story):
    story.broker.clock.advance(31)
    subscriber = story.connect("subscriber", at=story.broker, clean=False, session_present=False)
    publisher, _ = story.client("publisher")
    publisher.publish_acknowledged("a/b", b"three")
    subscriber.expect_nothing_from(publisher)


STEPS = [
    subscribe, leave, publish_qos_1, publish_qos_2, publish_qos_2_again, release, die_with_a_will,
    let_40_seconds_pass, receive, complete, subscribe_anew, see_the_will, see_it_no_more,
    shorten_the_session, find_it_gone,
]  # fmt: skip


@pytest.mark.proves5(
    "MQTT-3.1.2-23", "MQTT-4.1.0-1", "MQTT-4.1.0-2", "MQTT-4.4.0-1", "MQTT-4.3.3-10",
    "MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.3.2-5", "MQTT-3.3.2-6",
)  # fmt: skip
@pytest.mark.parametrize("last", [None, *STEPS[:-1]], ids=lambda s: s.__name__ if s else "never")
def test_a_crash_after_any_step_changes_nothing(own_broker, connect, last):
    story = Story(own_broker(), connect)
    for step in STEPS:
        step(story)
        if step is last:
            story.crash()


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-4.4.0-1")
def test_crashes_after_every_step_change_nothing(own_broker, connect):
    story = Story(own_broker(), connect)
    for step in STEPS:
        step(story)
        story.crash()
