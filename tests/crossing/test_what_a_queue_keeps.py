"""A queue keeps a job until an entitled group has finished it, whatever protocol created them.

A group that starts later leaves what waits alone. When a group is deleted, what it did stays done,
and what it did not do waits for the next group that starts at the beginning.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest
import redis

from penstock.client import QueueClient, connect, connect_async
from penstock.testing import Broker
from tests.conformance.wire_client import WireClient, connack, connect_packet
from tests.signing.kit import ask

TIMEOUT_S = 10.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as own:
        yield own


@pytest.fixture
def client(broker: Broker) -> Iterator[QueueClient]:
    with _client(broker) as own:
        yield own


def _client(broker: Broker) -> QueueClient:
    return connect([f"127.0.0.1:{broker.port}"])


def reclaim(broker: Broker) -> None:
    """Run retention to completion."""
    for _ in range(4):
        broker.clock.advance(2)


def take_all(client: QueueClient, group: str, topic: str = "jobs/x") -> list[bytes]:
    """Do all jobs that a group is given."""
    found = []
    while jobs := client.poll(topic, group, max=100):
        found += [job.payload for job in jobs]
        client.ack(jobs)
    return found


def bury(broker: Broker, client: QueueClient, payload: bytes, topic: str = "jobs/x") -> None:
    """Dead-letter a job; without a payload, the waiting one."""
    if payload:
        client.produce(topic, payload)
    client.configure_group(topic, "g", max_deliveries=1)
    before = len(list(client.dead_letters(topic, "g")))
    client.nack(client.poll(topic, "g"))
    while len(list(client.dead_letters(topic, "g"))) == before:
        broker.clock.advance(0)


# ── ways to make a group that starts at the end ───────────────────────────────────────────────


def _by_http(broker: Broker) -> None:
    ask(broker.port, "PUT", "/groups", topic="jobs/x", group="later", start="latest")


def _by_request(broker: Broker) -> None:
    with _client(broker) as client:
        client.create_group("jobs/x", "later", start="latest")


def _by_poll(broker: Broker) -> None:
    with _client(broker) as client:
        assert client.poll("jobs/x", "later", start="latest") == []


def _by_reader(broker: Broker) -> None:
    with _client(broker) as client:
        client.create_group("jobs/x", "later", start="latest", reader=True)


def _by_xgroup(broker: Broker) -> None:
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        client.xgroup_create("jobs/x", "later", "$")


def _by_share(topic_filter: bytes) -> Callable[[Broker], None]:
    def subscribe(broker: Broker) -> None:
        with WireClient("127.0.0.1", broker.port) as client:
            client.send(connect_packet("dashboard"))
            client.expect(connack())
            client.subscribe((b"$share/later/" + topic_filter, 1))
            group = b"later/jobs/#" if topic_filter == b"jobs/#" else b"later"
            assert broker.server.broker.groups.get(b"jobs/x", group) is not None

    return subscribe


WAYS = {
    "http": _by_http,
    "create_group": _by_request,
    "poll": _by_poll,
    "reader": _by_reader,
    "xgroup": _by_xgroup,
    "share": _by_share(b"jobs/x"),
    "share of many topics": _by_share(b"jobs/#"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_group_that_starts_at_the_end_leaves_waiting_jobs_alone(broker, client, way):
    client.produce_many("jobs/x", [b"a", b"b", b"c"])
    WAYS[way](broker)
    reclaim(broker)
    assert take_all(client, "workers") == [b"a", b"b", b"c"]


@pytest.mark.parametrize("way", ["http", "xgroup", "share"])
def test_jobs_wait_also_while_the_later_group_works(broker, client, way):
    client.produce_many("jobs/x", [b"a", b"b", b"c"])
    WAYS[way](broker)
    client.produce("jobs/x", b"d")
    assert take_all(client, "later") == [b"d"]
    reclaim(broker)
    assert take_all(client, "workers") == [b"a", b"b", b"c", b"d"]
    reclaim(broker)
    assert client.topic("jobs/x").messages == 0


@pytest.mark.parametrize("way", ["queue", "http", "xgroup"])
def test_deleting_the_last_group_revives_nothing_that_is_done(broker, client, way):
    client.produce_many("jobs/x", [b"%d" % n for n in range(100)])
    jobs = client.poll("jobs/x", "g", max=100)
    client.ack([job for job in jobs if job.payload not in {b"7", b"50"}])
    _delete(broker, client, way)
    reclaim(broker)
    client.produce("jobs/x", b"new")
    assert take_all(client, "h") == [b"7", b"50", b"new"]
    assert client.topic("jobs/x").messages == 0


def _delete(broker: Broker, client: QueueClient, way: str) -> None:
    if way == "queue":
        client.delete_group("jobs/x", "g")
    elif way == "http":
        ask(broker.port, "DELETE", "/groups?topic=jobs/x&group=g")
    else:
        with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as other:
            other.xgroup_destroy("jobs/x", "g")


@pytest.mark.parametrize("kill", [False, True])
def test_what_is_done_is_remembered_over_a_restart(broker, client, kill):
    client.produce_many("jobs/x", [b"a", b"b", b"c"])
    jobs = client.poll("jobs/x", "g", max=3)
    client.ack([jobs[0], jobs[2]])
    client.delete_group("jobs/x", "g")
    WAYS["xgroup"](broker)
    broker.restart(kill=kill)
    reclaim(broker)
    assert take_all(client, "h") == [b"b"]


def test_a_group_of_streams_from_the_beginning_takes_what_has_waited(broker, client):
    client.produce_many("jobs/x", [b"a", b"b"])
    WAYS["poll"](broker)
    reclaim(broker)
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as other:
        other.xgroup_create("jobs/x", "g", "0")
        [[_, entries]] = other.xreadgroup("g", "c", {"jobs/x": ">"})
        assert [fields[b"payload"] for _, fields in entries] == [b"a", b"b"]


def test_pull_by_group_takes_what_has_waited(broker, client):
    client.produce("jobs/x", b"a")
    WAYS["share of many topics"](broker)
    reclaim(broker)
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as other:
        assert other.execute_command("PULL", "jobs/x", "GROUP", "g") is not None


def test_mqtt_workers_of_a_queue_by_name_get_the_jobs_that_waited_for_them(broker):
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as other:
        other.execute_command("PUSH", "mail", "a")
    with WireClient("127.0.0.1", broker.port) as worker:
        worker.send(connect_packet("worker"))
        worker.expect(connack())
        worker.subscribe((b"$share/workers/q:mail", 0))
        assert worker.receive().endswith(b"a")


def test_a_dashboard_over_many_queues_empties_none(broker, client):
    for number in range(50):
        client.produce_many(f"jobs/{number}", [b"a", b"b"])
    client.produce("jobs/x", b"last")
    WAYS["share of many topics"](broker)
    reclaim(broker)
    for number in range(50):
        assert take_all(client, "workers", f"jobs/{number}") == [b"a", b"b"]


def test_dead_letters_stay_whoever_looks_at_them(broker, client):
    bury(broker, client, b"a")
    assert take_all(client, "curious", "$dlq/jobs/x/g") == [b"a"]
    reclaim(broker)
    assert client.redrive("jobs/x", "g") == 1
    assert take_all(client, "g") == [b"a"]


def test_letters_that_were_sent_back_stay_so_when_their_group_is_deleted(broker, client):
    bury(broker, client, b"a")
    assert client.redrive("jobs/x", "g") == 1
    client.delete_group("$dlq/jobs/x/g", "redrive")
    assert client.redrive("jobs/x", "g") == 0


# ── letters that are sent back ────────────────────────────────────────────────────────────────


def test_letters_that_were_sent_back_or_dropped_are_not_listed(broker, client):
    for payload in (b"a", b"b", b"c"):
        bury(broker, client, payload)
    assert client.redrive("jobs/x", "g", max=1) == 1
    assert [letter.payload for letter in client.dead_letters("jobs/x", "g")] == [b"b", b"c"]
    assert asyncio.run(_letters(broker)) == [b"b", b"c"]
    ask(broker.port, "DELETE", "/dlq?topic=jobs/x&group=g")
    assert list(client.dead_letters("jobs/x", "g")) == []


async def _letters(broker: Broker) -> list[bytes]:
    async with connect_async([f"127.0.0.1:{broker.port}"]) as client:
        return [letter.payload async for letter in client.dead_letters("jobs/x", "g")]


def test_a_letter_sent_back_to_a_deleted_topic_makes_a_queue_again(broker, client):
    bury(broker, client, b"a")
    client.delete_topic("jobs/x")
    assert client.redrive("jobs/x", "g") == 1
    assert not client.topic("jobs/x").keep
    assert take_all(client, "g") == [b"a"]
    reclaim(broker)
    assert client.topic("jobs/x").messages == 0


def test_a_letter_sent_back_to_a_log_leaves_it_one(broker, client):
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as other:
        other.xadd("log", {"unit": "C"})
        bury(broker, client, b"", "log")
        assert client.redrive("log", "g") == 1
        entries = [fields for _, fields in other.xrange("log")]
    assert entries == [{b"unit": b"C"}] * 2, "a stream's entry is one again"
    take_all(client, "g", "log")
    reclaim(broker)
    assert client.topic("log").messages == 2
