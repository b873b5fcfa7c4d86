"""``durability = "interval"``: acknowledged before the disk, and read back all the same.

The interval is a minute: whatever waited for its end would not be seen in this test's time.
"""

from collections.abc import Iterator

import pytest
import redis

from penstock.client import connect
from penstock.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(durability="interval", durability_interval_ms=60_000) as own:
        yield own


@pytest.fixture
def client(broker: Broker) -> Iterator[redis.Redis]:
    with redis.Redis(port=broker.port, socket_timeout=10, single_connection_client=True) as own:
        yield own


def commits(broker: Broker) -> int:
    return broker.call(lambda: broker.server.counters.captured_total)


def test_an_entry_of_a_stream_is_acknowledged_before_the_disk_has_it(broker, client):
    ids = [client.xadd("s", {"n": number}) for number in range(5)]
    assert [int(entry.split(b"-")[1]) for entry in ids] == [0, 1, 2, 3, 4]
    assert commits(broker) == 0
    assert client.xlen("s") == 5
    assert commits(broker) == 5
    assert [entry for entry, _ in client.xrange("s")] == ids


def test_commands_that_look_at_a_stream_see_what_was_acknowledged(client):
    first = client.xadd("s", {"n": 0})
    assert client.xadd("s", {"n": 1}, nomkstream=True) is not None
    client.xgroup_create("s", "g", "$")
    client.xadd("s", {"n": 2})
    assert client.xdel("s", first) == 1
    client.xadd("s", {"n": 3})
    assert [fields for _, fields in client.xreadgroup("g", "c", {"s": ">"})[0][1]] == [
        {b"n": b"2"},
        {b"n": b"3"},
    ]
    client.xadd("s", {"n": 4}, maxlen=2, approximate=False)
    assert client.xlen("s") == 2


def test_jobs_are_acknowledged_before_the_disk_has_them_and_pulled_at_once(broker, client):
    assert [client.execute_command("PUSH", "jobs", job) for job in ("a", "b")] == [1, 2]
    assert commits(broker) == 0
    assert client.execute_command("PULL", "jobs", "COUNT", 2) == [b"a", b"b"]


def test_a_topic_that_was_deleted_begins_anew(client):
    client.xadd("s", {"n": 0})
    assert client.delete("s") == 1
    entry = client.xadd("s", {"n": 1})
    assert entry.endswith(b"-0")
    assert client.xrange("s") == [(entry, {b"n": b"1"})]


def test_messages_of_a_queue_are_produced_before_the_disk_has_them_and_polled_at_once(broker):
    with connect([f"{broker.host}:{broker.port}"]) as queue:
        assert [queue.produce("t", b"%d" % number) for number in range(3)] == [0, 1, 2]
        assert commits(broker) == 0
        assert [message.payload for message in queue.poll("t", "g", max=3)] == [
            b"0",
            b"1",
            b"2",
        ]


def test_a_message_that_is_sent_again_before_the_commit_is_stored_once(broker):
    with connect([f"{broker.host}:{broker.port}"], producer_id="p") as queue:
        offsets = [queue.produce("t", b"a", seq=7), queue.produce("t", b"a", seq=7)]
        assert offsets == [0, 0]
        assert commits(broker) == 0
        assert [job.payload for job in queue.poll("t", "g")] == [b"a"]
        assert queue.produce("t", b"a", seq=7) == 0
