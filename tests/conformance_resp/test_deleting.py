"""XDEL removes only the entry whose whole id was given."""

import redis

from penstock.testing import Broker


def test_an_id_with_another_time_deletes_nothing():
    with Broker() as broker, redis.Redis(port=broker.port) as client:
        first, second = client.xadd("s", {"a": "1"}), client.xadd("s", {"a": "2"})
        assert client.xdel("s", "1-0", "99-1") == 0
        assert client.xlen("s") == 2
        assert client.xdel("s", first, first, "5-5") == 1
        assert [entry for entry, _ in client.xrange("s")] == [second]
