"""Publishing with nothing but ``curl``: what HTTP posts, every other door reads."""

import http.client
import json

import pytest

from penstock.client import connect
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(admin={"hosts": ["broker.example"]}) as running:
        yield running


def ask(broker, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(broker.host, broker.port, timeout=20)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    return answer.status, document


def post(broker, path, body=b"4.2", **headers):
    return ask(broker, "POST", path, body, **headers)


def test_what_is_posted_is_answered_with_its_place_and_read_there(broker):
    for offset in (0, 1):
        status, place = post(broker, "/topics/plant/pump%201", b"\xff%d" % offset)
        assert (status, place["topic"], place["offset"]) == (200, "plant/pump 1", offset)
        _, found = ask(broker, "GET", f"/topics/plant/pump%201?offset={offset}")
        message = found["messages"][0]
        assert (message["sequence"], message["time"]) == (place["sequence"], place["time"])
        assert message["qos"] == 1


def test_what_is_posted_reaches_subscribers(broker):
    with connect(broker.host, broker.port) as client:
        client.subscribe([("live", 1)])
        post(broker, "/topics/live", b"")
        delivery = next(client.messages(timeout_s=20))
    assert (delivery.payload, delivery.qos, delivery.retain) == (b"", 1, False)


def test_a_message_is_retained_if_that_is_asked_for(broker):
    post(broker, "/topics/kept?retain=true", b"on")
    with connect(broker.host, broker.port) as client:
        client.subscribe([("kept", 1)])
        delivery = next(client.messages(timeout_s=20))
    assert (delivery.payload, delivery.retain) == (b"on", True)


def test_an_answer_means_the_disk_has_it():
    with Broker() as own:
        _, place = post(own, "/topics/durable", b"still here")
        own.restart(kill=True)
        _, found = ask(own, "GET", "/topics/durable")
    assert [message["offset"] for message in found["messages"]] == [place["offset"]]


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/topics/secure/pump", 403, "requires signed messages"),
        ("/topics/$SYS/mine", 403, "$SYS"),
        ("/topics/a/%23", 400, "wildcard in a topic name"),
        ("/topics/" + "x" * 2_000, 400, "topic"),
    ],
)
def test_what_no_door_admits_is_refused_here_too(broker, path, status, error):
    got, document = post(broker, path)
    assert got == status
    assert error in document["error"]
    assert document["advice"]


@pytest.mark.parametrize(
    ("path", "error", "advice"),
    [
        ("/topics/", "the topic is missing", "POST /topics/plant/a"),
        ("/topics/user%2342", "wildcard in a topic name", "the topic user%2342"),
        ("/topics/x?retian=true", "unknown parameter retian", "this page takes retain"),
    ],
)
def test_advice_fits_what_is_wrong(broker, path, error, advice):
    status, document = post(broker, path)
    assert status == 400
    assert error in document["error"]
    assert advice in document["advice"]


def test_a_web_page_cannot_publish_through_a_browser(broker):
    status, document = post(broker, "/topics/x", origin="http://evil.example")
    assert (status, document["error"]) == (403, "requests from web pages are not accepted")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_is_taken_only_if_it_is_configured(broker, method):
    post(broker, "/topics/named")
    for name in ("broker.example", "Broker.Example:1883", "127.0.0.1"):
        assert ask(broker, method, "/topics/named", b"x", host=name)[0] == 200
    status, document = ask(broker, method, "/topics/named", b"x", host="evil.example")
    assert status == 403
    assert "admin.hosts" in document["advice"]


def test_a_message_that_is_too_large_is_refused(broker):
    status, document = post(broker, "/topics/large", bytes(300_000))
    assert (status, "too large" in document["error"]) == (413, True)
    assert post(broker, "/topics/large", bytes(200_000))[0] == 200
