"""Values and the tail as a stream of events, of a real broker with real publishers."""

import json

import paho.mqtt.client as paho
import pytest

from penstock.node.live_tap import KEPT_MAX
from penstock.testing import Broker
from tests.api_kit import ApiClient, Events


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


def publish(api, topic, text="x"):
    answer = api.post("messages", {"topic": topic, "text": text})
    assert answer.status == 200, answer


def texts(event):
    return [(item["topic"], item["payload"]["text"]) for item in event["items"]]


def tick(broker, events, name):
    """What the next second brings."""
    broker.clock.advance(1)
    return events.until(name)


def test_values_come_at_once_and_then_when_they_move(broker, api):
    publish(api, "a", "1")
    publish(api, "b", "1")
    with Events(api, of="topics", topic=["a", "b", "never"]) as events:
        assert texts(events.until("topics")) == [("a", "1"), ("b", "1")]
        publish(api, "b", "2")
        publish(api, "b", "3")
        publish(api, "elsewhere", "1")
        assert texts(tick(broker, events, "topics")) == [("b", "3")]
        assert api.delete("topics", {"name": "a"}).status == 200
        assert tick(broker, events, "topics") == {"items": [], "gone": ["a"]}


def test_a_tail_has_what_comes_under_its_filter_and_goes_on_where_it_was(broker, api):
    publish(api, "plant/1", "before")
    with Events(api, of="tail", filter="plant/#") as events:
        assert events.until("started")["resumed"]
        publish(api, "plant/1", "one")
        publish(api, "elsewhere", "no")
        publish(api, "plant/2", "two")
        event = tick(broker, events, "tail")
        assert texts(event) == [("plant/1", "one"), ("plant/2", "two")]
        assert (event["skipped"], event["unseen"], event["source"]) == (0, 0, "journal")
        last = events.last_id
    publish(api, "plant/3", "meanwhile")
    with Events(api, of="tail", filter="plant/#", after=last) as events:
        assert events.until("started")["resumed"]
        assert texts(events.until("tail")) == [("plant/3", "meanwhile")]


def test_a_tail_counts_what_it_skips(broker, api):
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "fast")
    with Events(api, of="tail") as events:
        events.until("started")
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        sent = [client.publish("t", f"{number}", 1) for number in range(500)]
        for one in sent:
            one.wait_for_publish()
        event = tick(broker, events, "tail")
        assert texts(event)[-1] == ("t", "499")
        assert (len(event["items"]), event["skipped"]) == (200, 300)
    client.disconnect()
    client.loop_stop()


def test_large_messages_do_not_make_large_events(broker, api):
    headers = [["h", "x" * 15_000]]
    with Events(api, of="tail") as events:
        events.until("started")
        for number in range(20):
            api.post("messages", {"topic": "t", "text": f"{number}" * 1_000, "headers": headers})
        event = tick(broker, events, "tail")
    assert len(json.dumps(event)) < 250_000
    assert len(event["items"]) + event["skipped"] == 20
    assert event["items"][-1]["cut"]


def published(broker, topic, count):
    """QoS 0 messages that the broker has taken."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "sensor")
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for number in range(count):
        client.publish(topic, f"{number}")
    client.publish("done", "", 1).wait_for_publish()  # behind them
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("journal", [{"capture_exclude": ["vib/#"]}, {"capture": False}])
def test_a_tail_has_what_the_journal_does_not_keep(journal):
    with Broker(journal=journal) as broker:
        api = ApiClient(broker.port)
        with Events(api, of="tail", filter="vib/+") as events:
            events.until("started")
            published(broker, "vib/1", KEPT_MAX + 7)
            event = tick(broker, events, "tail")
            assert (len(event["items"]), event["skipped"]) == (KEPT_MAX, 7)
            assert (event["source"], event["items"][0]["offset"]) == ("live", None)
            assert broker.server.broker.routes.subscription_count > 0
        with Events(api, of="tail", filter="other") as events:
            events.until("started")
            published(broker, "vib/1", 1)
            publish(api, "other", "seen")
            assert texts(tick(broker, events, "tail")) == [("other", "seen")]
        while broker.call(lambda: broker.server.broker.routes.subscription_count):
            pass  # the broker notices that the readers are gone


def test_watching_everything_subscribes_to_nothing_that_is_journaled(broker, api):
    with Events(api, of="tail") as events:
        events.until("started")
        assert broker.server.broker.routes.subscription_count == 0


def test_streams_show_what_their_reader_may_read(broker):
    broker.add_user("root", "root-secret", roles=("admin",))
    rules = ("allow read plant/#", "deny read plant/secret")
    broker.add_user("reader", "reader-secret", rules=rules)
    root = ApiClient(broker.port, "root", "root-secret")
    reader = ApiClient(broker.port, "reader", "reader-secret")
    with Events(reader, of="topics", topic="plant/secret") as refused:
        assert refused.status == 403
    with Events(reader, of="tail") as events:
        events.until("started")
        for topic in ("plant/secret", "plant/1", "elsewhere"):
            publish(root, topic)
        event = tick(broker, events, "tail")
        assert (texts(event), event["skipped"]) == ([("plant/1", "x")], 0)
