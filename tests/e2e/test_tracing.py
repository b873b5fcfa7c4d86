"""Spans of traced messages, as a collector receives them, and the parents that subscribers get.

The collector is a server in this test, which takes OTLP over HTTP and decodes it.
"""

import gzip
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from penstock.client import PublishProperties, connect
from penstock.errors import ConfigError
from penstock.testing import Broker
from tests.api_kit import ApiClient
from tests.e2e.cluster_processes import until

trace_service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra otel"
)
pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel")

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPANS = count(1)
WAIT_S = 30


def new_parent(flags="01"):
    """A traceparent, and the span in it."""
    span = f"{next(SPANS):016x}"
    return f"00-{TRACE}-{span}-{flags}", span


class Collector:
    """Takes spans on a port of its own; ``spans`` has them as they come."""

    def __init__(self, status=200):
        self.spans = queue.Queue()
        self.requests = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, path, body):
        request = trace_service.ExportTraceServiceRequest.FromString(body)
        self.requests.append((path, request))
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.put(span)

    def next(self, *names):
        """The next spans, by name; there must be no others among them."""
        found = {}
        for _ in names:
            span = self.spans.get(timeout=WAIT_S)
            assert span.name not in found
            found[span.name] = span
        assert set(found) == set(names)
        return found

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector():
    opened = Collector()
    yield opened
    opened.close()


@pytest.fixture
def broker(collector):
    with Broker(tracing={"endpoint": collector.url, "service_name": "plant"}) as running:
        yield running


def mqtt(broker, client_id, **options):
    return connect("127.0.0.1", broker.port, client_id, version=5, **options)


def traced(parent, **more):
    return PublishProperties(user_properties=(("a", "b"), ("traceparent", parent)), **more)


def parent_of(delivery):
    return dict(delivery.properties.user_properties)["traceparent"]


def attributes(span):
    return {one.key: one.value.string_value for one in span.attributes}


def check_chain(spans, producer):
    """The producer's span, ours, and the one that the subscriber gets."""
    received = spans["receive"]
    assert received.trace_id.hex() == TRACE
    assert received.parent_span_id.hex() == producer
    assert spans["commit"].parent_span_id == received.span_id
    assert spans["deliver"].parent_span_id == received.span_id
    for span in spans.values():
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert attributes(span)["messaging.destination.name"] == "t"


def journaled(broker):
    [message] = broker.server.store.read_topic(b"t", 0, 10, 1 << 20).messages()
    return dict(message.extras.headers)[b"traceparent"].decode()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_subscriber_gets_our_span_as_parent_and_the_journal_keeps_the_original(
    broker, collector, qos
):
    parent, producer = new_parent()
    with mqtt(broker, "sub") as subscriber, mqtt(broker, "pub") as publisher:
        subscriber.subscribe([("t", 2)])
        publisher.publish("t", b"x", qos=qos, properties=traced(parent))
        delivery = next(subscriber.messages(WAIT_S))
    spans = collector.next("receive", "commit", "deliver")
    check_chain(spans, producer)
    assert parent_of(delivery) == f"00-{TRACE}-{spans['deliver'].span_id.hex()}-01"
    assert dict(delivery.properties.user_properties)["a"] == "b"
    assert attributes(spans["deliver"])["messaging.client.id"] == "sub"
    assert journaled(broker) == parent
    path, request = collector.requests[0]
    assert path == "/v1/traces"
    resource = {one.key: one.value for one in request.resource_spans[0].resource.attributes}
    assert resource["service.name"].string_value == "plant"


def test_a_message_that_waited_over_a_restart_is_delivered_in_its_trace(broker, collector):
    parent, producer = new_parent()
    with mqtt(broker, "sub", clean_session=False) as subscriber:
        subscriber.subscribe([("t", 1)])
    with mqtt(broker, "pub") as publisher:
        publisher.publish("t", b"x", qos=1, properties=traced(parent))
    spans = collector.next("receive", "commit")
    broker.restart(kill=True)
    with mqtt(broker, "sub", clean_session=False) as subscriber:
        delivery = next(subscriber.messages(WAIT_S))
    spans |= collector.next("deliver")
    check_chain(spans, producer)
    assert parent_of(delivery).split("-")[2] == spans["deliver"].span_id.hex()


def test_each_subscriber_of_a_message_has_a_span_of_its_own(broker, collector):
    parent, _ = new_parent()
    with mqtt(broker, "one") as one, mqtt(broker, "two") as two, mqtt(broker, "pub") as publisher:
        one.subscribe([("t", 1)])
        two.subscribe([("t", 1)])
        publisher.publish("t", b"x", qos=1, properties=traced(parent))
        parents = {parent_of(next(client.messages(WAIT_S))) for client in (one, two)}
    assert len(parents) == 2
    found = [collector.spans.get(timeout=WAIT_S) for _ in range(4)]
    assert sorted(span.name for span in found) == ["commit", "deliver", "deliver", "receive"]


def test_qos_0_is_forwarded_with_our_span(broker, collector):
    parent, producer = new_parent()
    with mqtt(broker, "sub") as subscriber, mqtt(broker, "pub") as publisher:
        subscriber.subscribe([("t", 0)])
        publisher.publish("t", b"x", qos=0, properties=traced(parent, expiry_s=60))
        publisher.publish(
            "t", b"plain", qos=0, properties=PublishProperties(user_properties=(("a", "b"),))
        )
        arriving = subscriber.messages(WAIT_S)
        delivery, plain = next(arriving), next(arriving)
    spans = collector.next("receive", "commit", "deliver")
    assert spans["deliver"].parent_span_id.hex() == producer
    assert parent_of(delivery).split("-")[2] == spans["deliver"].span_id.hex()
    assert delivery.properties.expiry_s == 60
    assert plain.properties.user_properties == (("a", "b"),)


def test_many_messages_of_one_span_have_spans_of_their_own(broker, collector):
    parent, _ = new_parent()
    with mqtt(broker, "sub") as subscriber, mqtt(broker, "pub") as publisher:
        subscriber.subscribe([("t", 1)])
        for _ in range(20):
            publisher.publish("t", b"x", qos=1, properties=traced(parent))
        arriving = subscriber.messages(WAIT_S)
        parents = [parent_of(next(arriving)) for _ in range(20)]
    assert len(set(parents)) == 20
    ids = {collector.spans.get(timeout=WAIT_S).span_id for _ in range(60)}
    assert len(ids) == 60


def test_the_header_of_a_request_by_http_is_that_of_the_message(broker, collector):
    parent, producer = new_parent()
    headers = {"traceparent": parent, "tracestate": "rojo=1"}
    body = {"topic": "t", "text": "x"}
    answer = ApiClient(broker.port).ask("POST", "messages", body, headers)
    assert answer.status == 200, answer
    spans = collector.next("receive", "commit")
    assert spans["receive"].parent_span_id.hex() == producer
    assert journaled(broker) == parent


def test_a_worker_of_a_queue_gets_our_span(broker, collector):
    parent, producer = new_parent()
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.produce("t", b"x", headers={"traceparent": parent.encode()})
        [job] = client.poll("t", "g", wait_s=WAIT_S)
    spans = collector.next("receive", "commit", "deliver")
    check_chain(spans, producer)
    assert dict(job.headers)["traceparent"].decode().split("-")[2] == spans["deliver"].span_id.hex()


@pytest.mark.parametrize("parent", ["nonsense", new_parent("00")[0]])
def test_what_is_not_sampled_or_not_valid_passes_as_it_is(broker, collector, parent):
    with mqtt(broker, "sub") as subscriber, mqtt(broker, "pub") as publisher:
        subscriber.subscribe([("t", 1)])
        for qos in (1, 0):
            publisher.publish("t", b"x", qos=qos, properties=traced(parent))
        arriving = subscriber.messages(WAIT_S)
        assert [parent_of(next(arriving)) for _ in range(2)] == [parent, parent]
        publisher.publish("t", b"x", qos=1, properties=traced(new_parent()[0]))
        next(arriving)
    collector.next("receive", "commit", "deliver")


def test_without_an_endpoint_headers_pass_as_they_are():
    parent, _ = new_parent()
    with (
        Broker() as broker,
        mqtt(broker, "sub") as subscriber,
        mqtt(broker, "pub") as publisher,
    ):
        subscriber.subscribe([("t", 1)])
        publisher.publish("t", b"x", qos=1, properties=traced(parent))
        assert parent_of(next(subscriber.messages(WAIT_S))) == parent
        assert broker.server.parts.tracing is None


def test_a_collector_that_refuses_holds_up_nothing_and_is_counted():
    refusing = Collector(status=400)
    try:
        with Broker(tracing={"endpoint": refusing.url}) as broker:
            with mqtt(broker, "pub") as publisher:
                publisher.publish("t", b"x", qos=1, properties=traced(new_parent()[0]))
            refusing.next("receive", "commit")
            until(lambda: broker.metrics()['penstock_spans_total{result="failed"}'] == 2)
    finally:
        refusing.close()


def test_an_endpoint_that_is_no_address_is_refused():
    with pytest.raises(ConfigError, match="is no address of HTTP"):
        Broker(tracing={"endpoint": "localhost:4317"})
