"""A Redis subscriber gets new messages; with ``--redis-replay`` stored ones first."""

from contextlib import closing

import pytest
import redis

from tests.e2e.process import BrokerProcess

TIMEOUT_S = 10


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], [1, b"after"]), (["--redis-replay"], [1, b"before", b"after"])],
    ids=["by default", "replay"],
)
def test_subscribers_are_told_of_the_past_only_if_that_was_asked_for(tmp_path, arguments, expected):
    with BrokerProcess(tmp_path / "data", *arguments) as broker:
        client = redis.Redis(port=broker.port)
        with closing(client), closing(client.pubsub()) as pubsub:
            client.publish("t", "before")
            pubsub.subscribe("t")
            seen: list[object] = [pubsub.get_message(timeout=TIMEOUT_S)["data"]]
            client.publish("t", "after")
            while seen[1:][-1:] != [b"after"]:
                seen.append(pubsub.get_message(timeout=TIMEOUT_S)["data"])
        assert seen == expected


def test_a_subscriber_that_reconnects_gets_nothing_twice(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        client = redis.Redis(port=broker.port)
        with closing(client), closing(client.pubsub()) as pubsub:
            pubsub.subscribe("t")
            assert pubsub.get_message(timeout=TIMEOUT_S)["type"] == "subscribe"
            client.publish("t", "first")
            assert pubsub.get_message(timeout=TIMEOUT_S)["data"] == b"first"
            pubsub.connection.disconnect()
            while pubsub.get_message(timeout=TIMEOUT_S)["type"] != "subscribe":
                pass
            client.publish("t", "second")
            assert pubsub.get_message(timeout=TIMEOUT_S)["data"] == b"second"
