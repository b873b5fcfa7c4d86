"""Scraped metrics match what happened to the clients, for every protocol."""

import contextlib
import socket
import urllib.request
from http.client import HTTPConnection

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import RateLimitedError, connect
from penstock.model.message import Signature
from penstock.testing import Broker
from penstock.wire.binary import client as binary
from penstock.wire.binary import encode
from penstock.wire.binary.events import Acked, BinaryPong, Failed, ReceivedMessage
from tests.conformance.wire_client import wait_until

TOPIC = b"plant/valve"

UNKNOWN_KEY = Signature(1, 7, bytes(64))


class BinaryClient:
    """A connection of the binary protocol that waits for its replies."""

    def __init__(self, broker):
        self._socket = socket.create_connection((broker.host, broker.port), timeout=10)
        self._machine = binary.BinaryClientMachine()
        self._events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data):
        self._socket.sendall(data)

    def expect(self, kind):
        """Return the next event of a kind, skipping others."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if isinstance(event, kind):
                    return event
            data = self._socket.recv(65536)
            assert data, "the broker hung up"
            self._events += self._machine.receive(data)

    def ask(self, data, kind=Acked):
        self.send(data)
        return self.expect(kind)


class Subscribers:
    """Subscribers of one topic, one for each protocol that is named."""

    def __init__(self, broker):
        self._broker = broker
        self._stack = contextlib.ExitStack()
        self._waits = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def add(self, protocol):
        getattr(self, f"_add_{protocol}")()

    def wait(self):
        """Wait until each has received the message."""
        for wait in self._waits:
            wait()

    def _add_binary(self):
        client = self._stack.enter_context(BinaryClient(self._broker))
        client.ask(binary.subscribe(1, TOPIC))
        self._waits.append(lambda: client.expect(ReceivedMessage))

    def _add_resp(self):
        client = self._stack.enter_context(resp(self._broker))
        pubsub = self._stack.enter_context(client.pubsub())
        pubsub.subscribe(TOPIC)
        assert pubsub.get_message(timeout=10)["type"] == "subscribe"
        self._waits.append(lambda: pubsub.get_message(timeout=10)["data"])

    def _add_mqtt(self):
        client = self._stack.enter_context(mqtt(self._broker))
        assert client.subscribe([(TOPIC.decode(), 1)]) == [1]
        self._waits.append(lambda: next(client.messages(10)))


def resp(broker):
    return redis.Redis(broker.host, broker.port)


def mqtt(broker):
    return connect(broker.host, broker.port)


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


def scrape(broker, path="/metrics"):
    """``{(series, label value …): number}``, read as Prometheus reads it."""
    with urllib.request.urlopen(f"http://{broker.host}:{broker.port}{path}", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def publish(broker, topic=TOPIC):
    with BinaryClient(broker) as publisher:
        publisher.ask(binary.publish(topic, b"21.5", 1))


@pytest.mark.parametrize(
    "protocols",
    [[], ["binary"], ["resp"], ["mqtt"], ["binary", "resp", "mqtt", "mqtt", "resp", "binary"]],
    ids=lambda protocols: "+".join(protocols) or "nobody",
)
def test_delivered_counts_each_subscriber_that_got_the_message(broker, protocols):
    with Subscribers(broker) as subscribers:
        for protocol in protocols:
            subscribers.add(protocol)
        publish(broker)
        subscribers.wait()
        shown = scrape(broker)
    assert shown["metricmq_messages_published_total",] == 1
    assert shown["metricmq_messages_delivered_total",] == len(protocols)
    sent = sum(shown["penstock_messages_sent_total", str(qos)] for qos in range(3))
    assert sent == len(protocols)


@pytest.mark.parametrize("protocols", [[], ["binary"], ["mqtt", "binary", "resp"]])
@pytest.mark.parametrize("durability", ["sync", "interval"])
def test_the_way_of_every_delivery_is_measured(protocols, durability):
    with Broker(durability=durability) as broker, Subscribers(broker) as subscribers:
        for protocol in protocols:
            subscribers.add(protocol)
        publish(broker)
        subscribers.wait()
        wait_until(
            lambda: scrape(broker)["penstock_delivery_seconds_count",] == len(protocols),
        )
        shown = scrape(broker)
    assert shown["metricmq_publish_latency_seconds_count",] == 1
    assert shown["metricmq_delivery_latency_seconds_count",] == len(protocols)
    assert shown["metricmq_delivery_latency_seconds_bucket", "+Inf"] == len(protocols)


def test_gauges_fall_when_clients_leave(broker):
    with Subscribers(broker) as subscribers, resp(broker) as client, client.pubsub() as pubsub:
        for protocol in ("binary", "resp", "mqtt"):
            subscribers.add(protocol)
        pubsub.psubscribe("plant/*")
        assert pubsub.get_message(timeout=10)["type"] == "psubscribe"
        publish(broker)
        wait_until(lambda: scrape(broker)["metricmq_active_connections",] == 4)
        shown = scrape(broker, "/metrics?topics=1")
        assert shown["metricmq_active_subscribers",] == 4
        assert shown["penstock_subscriptions",] == 4
        assert shown["penstock_followers",] == 1
        assert shown["metricmq_topics",] == shown["metricmq_active_topics",] == 2
        assert shown["metricmq_topic_subscribers", "plant/valve"] == 3
    wait_until(lambda: scrape(broker)["metricmq_active_connections",] == 0)
    shown = scrape(broker, "/metrics?topics=1")
    assert shown["metricmq_connections_total",] == shown["metricmq_disconnections_total",] == 5
    assert shown["metricmq_active_subscribers",] == 0
    assert shown["penstock_clients_connected",] == 0
    assert shown["penstock_followers",] == 0
    assert shown["metricmq_topics",] == 0
    assert shown["metricmq_topic_subscribers", "plant/valve"] == 0


def test_a_follower_of_what_the_journal_does_not_keep_counts_once():
    """It then subscribes twice: to the journal and to live messages."""
    exclude = {"capture_exclude": ["noise/#"]}
    with Broker(journal=exclude) as broker, BinaryClient(broker) as client:
        client.ask(binary.subscribe(1, b"noise/a"))
        client.ask(binary.subscribe(1, b"noise/a"))
        shown = scrape(broker, "/metrics?topics=1")
        assert shown["metricmq_active_subscribers",] == 1
        assert shown["metricmq_topics",] == 1
        assert shown["metricmq_topic_subscribers", "noise/a"] == 1
        client.ask(binary.unsubscribe(2, b"noise/a"))
        assert scrape(broker)["metricmq_active_subscribers",] == 0


def test_every_subscription_and_its_end_is_counted(broker):
    with BinaryClient(broker) as client, mqtt(broker) as other:
        for topic in (b"a", b"b/#", b"q:jobs"):
            client.ask(binary.subscribe(1, topic))
        client.ask(binary.unsubscribe(2, b"a"))
        assert other.subscribe([("c", 0), ("d/+", 2)]) == [0, 2]
        shown = scrape(broker)
    assert shown["metricmq_subscriptions_total",] == 5
    assert shown["metricmq_unsubscriptions_total",] == 1
    assert shown["metricmq_active_subscribers",] == 4


def test_workers_are_subscribers_until_they_leave(broker):
    with BinaryClient(broker) as client:
        for topic in (b"q:jobs", b"q:jobs", b"q:more"):
            client.ask(binary.subscribe(1, topic))
        assert scrape(broker)["metricmq_active_subscribers",] == 2
        client.ask(binary.unsubscribe(2, b"q:more"))
        assert scrape(broker)["metricmq_active_subscribers",] == 1
    wait_until(lambda: scrape(broker)["metricmq_active_subscribers",] == 0)


def test_a_refused_signature_is_counted_by_its_fault(broker):
    with BinaryClient(broker) as client:
        client.ask(binary.signed_publish(b"secure/a", b"x", 1, UNKNOWN_KEY), Failed)
        client.ask(binary.publish(b"secure/a", b"x", 2), Failed)
        shown = scrape(broker)
    assert shown["penstock_signature_verifications_total",] == 1
    assert shown["penstock_signature_failures_total", "unknown_key"] == 1
    assert shown["penstock_signature_failures_total", "unsigned"] == 1
    assert shown["metricmq_signature_verifications_total",] == 1
    assert shown["metricmq_signature_failures_total",] == 2
    assert shown["metricmq_errors_total",] == 2
    assert shown["metricmq_messages_published_total",] == 0


def test_protocol_errors_are_errors(broker):
    with BinaryClient(broker) as client:
        client.ask(b"\x01\x63" + bytes(14), Failed)  # a command that does not exist
        client.ask(b"\x02\x06" + bytes(14), Failed)  # a version that does not exist
    wait_until(lambda: scrape(broker)["metricmq_active_connections",] == 0)
    assert scrape(broker)["metricmq_errors_total",] == 2


def test_acknowledgements_of_durable_subscribers_are_counted(broker):
    publish(broker)
    with BinaryClient(broker) as client:
        client.send(binary.subscribe(1, TOPIC, b"device-7"))
        message = client.expect(ReceivedMessage)
        client.ask(encode.acks([message.sequence]) + binary.ping(), BinaryPong)
        shown = scrape(broker)
    assert shown["penstock_acknowledgements_total",] == shown["metricmq_acks_total",] == 1
    assert shown["penstock_durable_subscribers",] == 1


def test_jobs_are_pending_until_they_are_done_whether_or_not_a_worker_ever_came(broker):
    for _ in range(3):
        publish(broker, b"q:jobs")
    assert scrape(broker)["penstock_queue_pending",] == 3
    with resp(broker) as client:
        jobs = client.execute_command("PULL", "jobs", "COUNT", "2", "WITHACK")
        shown = scrape(broker)
        assert shown["penstock_queue_pending",] == shown["metricmq_queue_pending",] == 3
        assert (shown["penstock_groups",], shown["penstock_group_pending",]) == (1, 2)
        for sequence, _job in jobs:
            client.execute_command("ACK", sequence)
        wait_until(lambda: scrape(broker)["penstock_queue_pending",] == 1)
        assert scrape(broker)["penstock_group_pending",] == 0


def test_a_topics_messages_are_counted_for_ever(broker):
    name = 'room "7" \\ attic'
    publish(broker, name.encode())
    publish(broker, name.encode())
    broker.restart()
    publish(broker, name.encode())
    shown = scrape(broker, "/metrics?topics=1")
    assert shown["metricmq_topic_messages_total", name] == 3
    assert shown["metricmq_topics_left_out",] == 0


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
@pytest.mark.parametrize(
    ("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 405), ("DELETE", 405)]
)
def test_the_page_has_two_spellings_and_answers_only_who_reads(broker, path, method, status):
    with contextlib.closing(HTTPConnection(broker.host, broker.port, timeout=10)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == status
        assert (b"penstock_ready 1.0" in answer.read()) == (method == "GET")


def test_what_the_test_kit_shows_is_what_is_scraped(broker):
    publish(broker)
    shown = broker.metrics()
    assert shown["metricmq_messages_published_total"] == 1
    assert 'metricmq_topic_messages_total{topic="plant/valve"}' not in shown


def test_what_redis_clients_ask_for_counts_too():
    with Broker() as broker, redis.Redis(port=broker.port) as client:
        pubsub = client.pubsub()
        pubsub.subscribe("a", "b")
        pubsub.psubscribe("c*")
        for _ in range(3):
            pubsub.get_message(timeout=5)
        pubsub.unsubscribe("a")
        pubsub.get_message(timeout=5)
        client.ping()
        before = broker.metrics()[
            "metricmq_errors_total"
        ]  # the library requests more than there is
        with pytest.raises(redis.ResponseError):
            client.execute_command("NONSENSE")
        metrics = broker.metrics()
        pubsub.close()
    assert metrics["metricmq_subscriptions_total"] == 3
    assert metrics["metricmq_unsubscriptions_total"] == 1
    assert metrics["metricmq_errors_total"] == before + 1


def test_queues_and_their_groups_are_measured(broker):
    with connect([f"{broker.host}:{broker.port}"]) as client:
        client.create_topic("mail", rate_per_sec=0.001, burst=4)
        client.create_group("mail", "send")
        client.configure_group("mail", "send", max_deliveries=1)
        client.produce_many("mail", [b"x"] * 10)
        jobs = client.poll("mail", "send", max=4)
        client.ack(jobs[0])
        client.nack(jobs[1], reason="no paper")
        with pytest.raises(RateLimitedError):
            client.poll("mail", "send")
        wait_until(lambda: scrape(broker)["penstock_groups_lag",] == 8)
        stats = client.stats()
    shown = scrape(broker)
    assert shown["penstock_queue_topics",] == shown["hermesmq_topics", "1"] == 1
    assert shown["penstock_queue_messages",] == shown["hermesmq_messages", "1"] == 8
    assert shown["penstock_groups_in_flight",] == shown["hermesmq_in_flight", "1"] == 2
    assert shown["penstock_group_lag", "send", "mail"] == 8
    assert ("penstock_group_lag", "send", "mail") not in scrape(broker, "/metrics?groups=0")
    assert shown["penstock_dead_letters_total",] == shown["penstock_returned_total",] == 1
    assert shown["penstock_rate_limited_total",] > 0
    assert shown["hermesmq_raft_last_log_index", "1"] == stats.last_log_index
