"""What every client of the binary protocol must do, each client in turn, against a real broker."""

import secrets

import pytest

from penstock.client import Publisher, Subscriber, connect
from penstock.trust.signatures import key_pair
from tests.clients.driver_process import FailedError, encoded
from tests.conformance.wire_client import wait_until
from tests.signing.kit import ask

pytestmark = pytest.mark.slow


def journal(broker, topic):
    """What the broker has stored."""
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        if client.topic(topic) is None:
            return []
        return [record.payload for record in client.messages(topic)]


def numbered(count, first=0):
    return [b"%d" % number for number in range(first, first + count)]


def publish(broker, topic, payloads):
    with Publisher(port=broker.port) as publisher:
        assert publisher.publish_many(topic, payloads) == [None] * len(payloads)


# ── Publishing ────────────────────────────────────────────────────────────────────────────────


def test_a_publish_is_answered_when_the_journal_has_it(drive, broker):
    driver = drive("publish")
    driver.connect(broker.port)
    for count, payload in enumerate(numbered(5), 1):
        driver.publish("plant/pump7", payload)
        assert journal(broker, "plant/pump7") == numbered(count)


def test_publishes_under_way_keep_their_order(drive, broker):
    driver = drive("publish")
    driver.connect(broker.port)
    for first in range(0, 60, 6):
        for request in [driver.begin_publish("t", payload) for payload in numbered(6, first)]:
            driver.end(request)
    assert journal(broker, "t") == numbered(60)


def test_a_payload_of_any_bytes_and_of_none_arrives_as_it_is(drive, broker):
    driver = drive("publish")
    driver.connect(broker.port)
    payloads = [b"", bytes(range(200)), "grün".encode(), b"\0"]
    for payload in payloads:
        driver.publish("t/ü", payload)
    assert journal(broker, "t/ü") == payloads


def test_an_invalid_topic_is_refused_and_the_next_publish_is_not(drive, broker):
    driver = drive("publish")
    driver.connect(broker.port)
    with pytest.raises(FailedError):
        driver.publish("a/+", b"lost")
    driver.publish("a/b", b"kept")
    assert journal(broker, "a/b") == [b"kept"]


# ── Subscribing ───────────────────────────────────────────────────────────────────────────────


def test_history_comes_first_then_what_is_new_and_each_once(drive, broker):
    publish(broker, "t", numbered(100))
    driver = drive("subscribe")
    driver.connect(broker.port, client_id="reader")
    driver.do("subscribe", topic="t")
    assert driver.payloads(100) == numbered(100)
    publish(broker, "t", numbered(100, 100))
    assert driver.payloads(100) == numbered(100, 100)
    driver.flush()
    assert driver.waiting("message") == 0


def test_what_was_acknowledged_does_not_come_again_to_the_next_process(drive, broker):
    publish(broker, "t", numbered(10))
    first = drive("subscribe")
    first.connect(broker.port, client_id="reader")
    first.do("subscribe", topic="t")
    assert first.payloads(10) == numbered(10)
    first.flush()
    first.do("close")
    publish(broker, "t", numbered(1, 10))
    second = drive("subscribe")
    second.connect(broker.port, client_id="reader")
    second.do("subscribe", topic="t")
    assert second.payloads(1) == numbered(1, 10)


def test_what_was_not_acknowledged_comes_again_to_the_next_process(drive, broker):
    publish(broker, "t", numbered(3))
    first = drive("subscribe")
    first.connect(broker.port, client_id="reader")
    first.do("auto_ack", on=False)
    first.do("subscribe", topic="t")
    messages = list(first.messages(3))
    first.do("ack", sequence=messages[1]["sequence"])
    first.flush()
    first.kill()
    second = drive("subscribe")
    second.connect(broker.port, client_id="reader")
    second.do("subscribe", topic="t")
    assert second.payloads(2) == [b"0", b"2"]


def test_a_client_whose_name_is_taken_over_stops_for_good(drive, broker):
    first, second = drive("subscribe"), drive("subscribe")
    for driver in (first, second):
        driver.connect(broker.port, client_id="same")
        driver.subscribe("t")
    first.state("taken_over")
    publish(broker, "t", numbered(3))
    assert second.payloads(3) == numbered(3)
    assert first.waiting("message") == 0


def test_a_subscriber_is_told_how_much_retention_took_from_it(drive, broker):
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.configure_topic("t", max_messages=10, keep=True)
    publish(broker, "t", numbered(5))
    first = drive("subscribe")
    first.connect(broker.port, client_id="reader")
    first.do("subscribe", topic="t")
    first.payloads(5)
    first.flush()
    first.do("close")
    publish(broker, "t", numbered(25, 5))
    wait_until(lambda: is_removed(broker, 20))
    second = drive("subscribe")
    second.connect(broker.port, client_id="reader")
    second.do("subscribe", topic="t")
    lost = second.event("lost")
    assert "t" in lost["text"]
    assert lost.get("count", 15) == 15
    assert second.payloads(10) == numbered(10, 20)


def is_removed(broker, first_offset):
    broker.clock.advance(1.1)
    return broker.server.store.topic(b"t").first_offset >= first_offset


def test_a_message_that_is_too_large_is_told_and_the_next_ones_come(drive, broker):
    """It may come whole, or in pieces; what must not happen is that it vanishes in silence."""
    large = secrets.token_bytes(200_000)
    driver = drive("subscribe")
    driver.connect(broker.port, client_id="reader")
    driver.do("subscribe", topic="t")
    publish(broker, "t", [b"before", large, b"after"])
    assert driver.payloads(1) == [b"before"]
    [second] = driver.payloads(1)
    if second != b"after":
        assert second == large
        assert driver.payloads(1) == [b"after"]
        return
    driver.event("lost")


def test_a_subscriber_may_leave_the_history_to_others(drive, broker):
    publish(broker, "t", numbered(3))
    driver = drive("hello", "subscribe")
    driver.connect(broker.port, client_id="reader")
    driver.subscribe("t", start="latest")
    publish(broker, "t", numbered(2, 3))
    assert driver.payloads(2) == numbered(2, 3)


# ── Signatures ────────────────────────────────────────────────────────────────────────────────


class Device:
    """A key that is registered with the broker."""

    def __init__(self, broker):
        self.seed = secrets.token_bytes(32)
        self.public_key = key_pair(self.seed).public_key
        hexadecimal = self.public_key.hex()
        options = {"device": "tester", "topics": "*", "public_key": hexadecimal}
        self.id = ask(broker.port, "POST", "/keys", **options)["id"]

    @property
    def fields(self):
        return {"key": {"id": self.id, "seed_b64": encoded(self.seed)}}


@pytest.mark.parametrize("version", [1, 2])
def test_a_signed_publish_is_accepted_where_signatures_are_required(drive, broker, version):
    driver, device = drive("signed"), Device(broker)
    driver.connect(broker.port, clock_ms=broker.clock.wall_ms() + 1_000, **device.fields)
    with pytest.raises(FailedError):
        driver.publish("secure/pump7", b"unsigned")
    for payload in (b"4.2", b"", b"4.3"):
        driver.publish("secure/pump7", payload, signed=version)
    keyring = {device.id: device.public_key}
    with Subscriber("reader", "secure/pump7", port=broker.port, keyring=keyring) as reader:
        found = [(message.payload, message.verified) for message in reader.messages(1)]
    assert found == [(b"4.2", True), (b"", True), (b"4.3", True)]


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_clock_stores_nothing_and_a_clock_put_right_helps(drive, broker, hours):
    driver, device = drive("signed"), Device(broker)
    now_ms = broker.clock.wall_ms() + 1_000
    driver.connect(broker.port, clock_ms=now_ms + hours * 3_600_000, **device.fields)
    request = driver.begin_publish("secure/pump7", b"early or late", signed=2)
    refused = broker_refused(broker, driver, request)
    assert journal(broker, "secure/pump7") == []
    driver.do("clock", ms=now_ms)
    if not refused:
        driver.end(request)
    driver.publish("secure/pump7", b"in time", signed=2)
    assert journal(broker, "secure/pump7")[-1:] == [b"in time"]


def broker_refused(broker, driver, request):
    """Whether the client gave up; else it signs again until the clock is right."""

    def is_known():
        failures = [
            value
            for name, value in broker.metrics().items()
            if name.startswith("penstock_signature_failures_total")
        ]
        return driver.is_answered(request) or sum(failures) > 0

    wait_until(is_known)
    if not driver.is_answered(request):
        return False
    with pytest.raises(FailedError):
        driver.end(request)
    return True


def test_a_subscriber_verifies_for_itself(drive, broker):
    driver, device, stranger = drive("verify", "signed"), Device(broker), Device(broker)
    for sender in (device, stranger):
        another = drive("signed")
        another.connect(broker.port, clock_ms=broker.clock.wall_ms() + 1_000, **sender.fields)
        another.publish("t", b"signed", signed=2)
    publish(broker, "t", [b"plain"])
    driver.do("verify", key_id=device.id, public_b64=encoded(device.public_key), require=False)
    driver.connect(broker.port, client_id="reader")
    driver.do("subscribe", topic="t")
    signers = [message["signer"] for message in driver.messages(3)]
    assert signers == ["verified", "unknown", "none"]


def test_a_subscriber_that_requires_signatures_gets_nothing_else(drive, broker):
    driver, device = drive("verify", "signed"), Device(broker)
    publish(broker, "t", [b"plain"])
    another = drive("signed")
    another.connect(broker.port, clock_ms=broker.clock.wall_ms() + 1_000, **device.fields)
    another.publish("t", b"signed", signed=2)
    driver.do("verify", key_id=device.id, public_b64=encoded(device.public_key), require=True)
    driver.connect(broker.port, client_id="reader")
    driver.do("subscribe", topic="t")
    assert driver.payloads(1) == [b"signed"]
    driver.flush()
    assert driver.waiting("message") == 0


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────


def test_the_jobs_of_a_worker_that_dies_go_to_another(drive, broker):
    publish(broker, "q:images", numbered(6))
    first = drive("worker")
    first.connect(broker.port, client_id="first")
    first.do("auto_ack", on=False)
    first.do("subscribe", topic="q:images")
    done = list(first.messages(2))
    first.do("ack", sequence=done[0]["sequence"])
    first.flush()
    first.kill()
    second = drive("worker")
    second.connect(broker.port, client_id="second")
    second.do("subscribe", topic="q:images")
    rest = sorted(set(numbered(6)) - {done[0]["payload"]})
    assert sorted(second.payloads(5)) == rest
    second.flush()
    assert second.waiting("message") == 0


def test_a_worker_gets_no_more_jobs_ahead_than_it_asked_for(drive, broker):
    publish(broker, "q:images", numbered(3))
    driver = drive("hello", "worker")
    driver.connect(broker.port, client_id="slow")
    driver.do("auto_ack", on=False)
    driver.do("subscribe", topic="q:images", prefetch=1)
    for payload in numbered(3):
        [job] = driver.messages(1)
        driver.flush()
        assert (job["payload"], driver.waiting("message")) == (payload, 0)
        driver.do("ack", sequence=job["sequence"])


# ── Without a broker ──────────────────────────────────────────────────────────────────────────


def test_what_is_published_while_the_broker_is_away_arrives_when_it_is_back(drive, broker):
    driver = drive("publish")
    driver.connect(broker.port)
    driver.publish("t", b"0")
    broker.stop(kill=True)
    requests = [driver.begin_publish("t", payload) for payload in numbered(4, 1)]
    broker.start()
    for request in requests:
        driver.end(request)
    assert list(dict.fromkeys(journal(broker, "t"))) == numbered(5)


def test_a_full_buffer_refuses_and_what_it_took_arrives(drive, broker):
    driver = drive("offline")
    driver.connect(broker.port, client_id="device")
    driver.publish("t", b"0")
    broker.stop(kill=True)
    driver.state("down")
    taken = {}
    for number in range(1, 200):
        payload = b"%d" % number + b"." * 90
        request = driver.begin_publish("t", payload, wait=False)
        driver.do("stats")  # whatever is answered at once is answered by now
        if driver.is_refused(request):
            break
        taken[request] = payload
    assert 0 < len(taken) < 199, "it never fills"
    with pytest.raises(FailedError, match="full"):
        driver.end(request)
    broker.start()
    for one in taken:
        driver.end(one)
    wait_until(lambda: list(dict.fromkeys(journal(broker, "t"))) == [b"0", *taken.values()])
