"""Retention as an operator configures it, seen from outside: what is kept, what is gone."""

import json
import urllib.request

import pytest

from penstock.client import connect
from penstock.testing import Broker


def topic(broker, name):
    with urllib.request.urlopen(f"http://{broker.host}:{broker.port}/topics/{name}") as answer:
        return json.load(answer)


def publish(broker, name, count, size=10):
    with connect(broker.host, broker.port) as client:
        for number in range(count):  # one by one: each in an entry of its own
            client.publish(name, b"%0*d" % (size, number), qos=1)


def turn_until(broker, condition):
    """Let time pass in small steps until retention has done its work."""
    for _ in range(200):
        if condition():
            return
        broker.clock.advance(1.1)
    raise AssertionError("retention did not come so far")


@pytest.mark.parametrize(
    ("limit", "kept"),
    [({"messages_max": 10, "age_s_max": 0}, 10), ({"bytes_max": 200, "age_s_max": 0}, 20)],
)
def test_a_topic_keeps_its_newest_messages_by_count_or_bytes(limit, kept):
    with Broker(retention=limit) as broker:
        publish(broker, "a/b", 100)
        turn_until(broker, lambda: topic(broker, "a/b")["first_offset"] == 100 - kept)
        found = topic(broker, "a/b?offset=0&limit=1000")["messages"]
        assert [m["offset"] for m in found] == list(range(100 - kept, 100))


def test_messages_go_when_they_are_too_old_and_rules_make_exceptions():
    rules = [{"filter": "keep/#", "age_s_max": 0}]
    with Broker(retention={"age_s_max": 3600, "rules": rules}) as broker:
        publish(broker, "a/b", 5)
        publish(broker, "keep/b", 5)
        broker.clock.advance(1800)
        publish(broker, "a/b", 5)
        broker.clock.advance(2400)
        turn_until(broker, lambda: topic(broker, "a/b")["first_offset"] == 5)
        assert topic(broker, "keep/b")["first_offset"] == 0


def test_what_a_session_waits_for_is_kept_until_it_had_it():
    with Broker(retention={"messages_max": 1, "age_s_max": 0}) as broker:
        with connect(broker.host, broker.port, "away", clean_session=False) as client:
            client.subscribe([("a/b", 1)])
        publish(broker, "a/b", 20)
        for _ in range(5):
            broker.clock.advance(1.1)
        with connect(broker.host, broker.port, "away", clean_session=False) as client:
            received = client.receive(20, timeout_s=5)
            while len(received) < 20:
                received += client.receive(20 - len(received), timeout_s=5)
        assert [int(m.payload) for m in received] == list(range(20))
        turn_until(broker, lambda: topic(broker, "a/b")["first_offset"] == 19)
