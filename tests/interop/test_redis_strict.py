"""``penstock serve --redis-strict``: a subscriber gets what comes, and nothing of what was."""

from contextlib import closing

import pytest
import redis

from tests.e2e.process import BrokerProcess

TIMEOUT_S = 10


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["--redis-strict"], [1, b"after"]), ([], [1, b"before", b"after"])],
    ids=["strict", "by default"],
)
def test_strict_subscribers_are_not_told_of_the_past(tmp_path, arguments, expected):
    with BrokerProcess(tmp_path / "data", *arguments) as broker:
        client = redis.Redis(port=broker.port)
        with closing(client), closing(client.pubsub()) as pubsub:
            client.publish("t", "before")
            pubsub.subscribe("t")
            seen = [pubsub.get_message(timeout=TIMEOUT_S)["data"]]
            client.publish("t", "after")
            while seen[-1] != b"after":
                seen.append(pubsub.get_message(timeout=TIMEOUT_S)["data"])
        assert seen == expected
