"""The journal over HTTP: what MQTT published, curl reads."""

import base64
import http.client
import json
from urllib.parse import quote

import pytest

from penstock.admin.topics import _show
from penstock.client import connect
from penstock.model.message import Extras, Message, Signature
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        with connect(running.host, running.port) as client:
            for number in range(15):
                client.publish("plant/pump 1", b"reading %d" % number, qos=1)
            client.publish("plant/raw", b"\xff\x00", qos=1, retain=True)
        yield running


def get(broker, path, host=None):
    connection = http.client.HTTPConnection(broker.host, broker.port, timeout=5)
    connection.request("GET", path, headers={"host": host} if host else {})
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    return answer.status, document


def test_a_message_published_by_mqtt_is_read_by_http_on_the_same_port(broker):
    status, document = get(broker, f"/topics/{quote('plant/pump 1')}")
    assert status == 200
    assert document["next_offset"] == 15
    assert [m["payload"] for m in document["messages"]] == [f"reading {n}" for n in range(5, 15)]
    assert document["messages"][0]["qos"] == 1


def test_offset_and_limit_choose_the_messages(broker):
    _, document = get(broker, f"/topics/{quote('plant/pump 1')}?offset=3&limit=2")
    assert [(m["offset"], m["sequence"]) for m in document["messages"]] == [(3, 4), (4, 5)]


def test_bytes_that_are_no_text_come_as_base64(broker):
    _, document = get(broker, "/topics/plant/raw")
    (message,) = document["messages"]
    assert base64.b64decode(message["payload_base64"]) == b"\xff\x00"
    assert message["retain"]


def test_signature_and_headers_are_shown_of_those_that_have_them():
    """A name may occur twice, and neither names nor values need be text."""
    signed = Extras(signature=Signature(2, 41, bytes(64), 1_000, bytes(16)))
    headed = Extras(headers=((b"unit", b"bar"), (b"unit", b"\xff")))
    shown = [
        _show(Message(b"t", b"x", 1, 0, 1_000, 1, extras)) for extras in (None, signed, headed)
    ]
    added = [{name: each[name] for name in each.keys() - shown[0].keys()} for each in shown]
    assert added == [
        {},
        {"key_id": 41, "signature_version": 2},
        {"headers": [["unit", "bar"], ["unit", "\\xff"]]},
    ]


def test_topics_are_listed_by_prefix(broker):
    _, document = get(broker, "/topics?prefix=plant/")
    assert [(t["topic"], t["next_offset"]) for t in document["topics"]] == [
        ("plant/pump 1", 15),
        ("plant/raw", 1),
    ]
    assert get(broker, "/topics?prefix=plant/&limit=1")[1]["topics"] == document["topics"][:1]


def test_a_topic_that_never_was_is_not_found(broker):
    status, document = get(broker, "/topics/no/such")
    assert status == 404
    assert "no/such" in document["error"]


@pytest.mark.parametrize("query", ["offset=-1", "limit=x", "limit=1001", "offset=%C2%B2"])
def test_a_bad_number_is_refused_by_name(broker, query):
    status, document = get(broker, f"/topics/plant/raw?{query}")
    assert status == 400
    assert query.split("=")[0] in document["error"]


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/topics/plant/raw", "offset, limit, stale"),
        ("/topics", "prefix, limit, stale"),
        ("/metrics", "topics, groups"),
        ("/clients", "prefix, away, limit"),
        ("/queues", "prefix, after, limit, stale"),
        ("/groups", "topic, group, after_topic, after_group, limit, stale"),
        ("/dlq", "after, limit, stale"),
        ("/dlq/letters", "topic, group, offset, limit, stale"),
        ("/keys", "stale"),
        ("/cluster/digests", "index, log_first"),
    ],
)
def test_an_unknown_parameter_is_refused_with_those_that_the_page_has(broker, path, known):
    status, document = get(broker, f"{path}?from=3")
    assert (status, document["error"]) == (400, "unknown parameter from")
    assert document["advice"] == f"this page takes {known}"


def test_a_name_of_redis_that_no_topic_has_is_hinted_at_by_its_topic(broker):
    status, document = get(broker, "/topics/user%2342")
    assert (status, document["error"]) == (404, "topic 'user#42' has no messages in the journal")
    assert "the topic user%2342, in a URL /topics/user%252342" in document["advice"]


@pytest.mark.parametrize("path", ["/topics/no/such", "/no-such-page", "/health", "/topics"])
def test_every_answer_ends_with_a_newline(broker, path):
    connection = http.client.HTTPConnection(broker.host, broker.port, timeout=20)
    connection.request("GET", path)
    assert connection.getresponse().read().endswith(b"}\n")
    connection.close()


def test_a_web_page_that_renamed_itself_to_us_learns_nothing(broker):
    assert get(broker, "/topics", host="evil.example")[0] == 403
    assert get(broker, "/topics/plant/raw", host="evil.example:80")[0] == 403
    assert get(broker, "/topics", host="localhost:1883")[0] == 200
    assert get(broker, "/topics", host="[::1]:1883")[0] == 200
