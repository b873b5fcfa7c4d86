"""Streams and groups survive a clean stop and a kill of the broker."""

import threading
from contextlib import suppress

import pytest
import redis

from penstock.testing import Broker

EVERYTHING = ("-", "+", 1_000)


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


def connected(broker):
    """A client that gives bytes as they are."""
    return redis.Redis(port=broker.port, protocol=2)


def state(client):
    """Everything visible of the stream and its group, except for idle times."""
    pending = [
        {name: value for name, value in found.items() if name != "time_since_delivered"}
        for found in client.xpending_range("s", "g", *EVERYTHING)
    ]
    consumers = [(c["name"], c["pending"]) for c in client.xinfo_consumers("s", "g")]
    return client.xrange("s"), pending, consumers, client.xinfo_groups("s")


def work(client):
    """Something of everything: taken, acknowledged, claimed, deleted, trimmed."""
    added = [client.xadd("s", {"n": number, "odd": b"\xff"}) for number in range(12)]
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "ann", {"s": ">"}, count=4)
    client.xreadgroup("g", "bob", {"s": ">"}, count=3)
    client.xreadgroup("g", "ann", {"s": ">"}, count=1, noack=True)
    client.xack("s", "g", added[0], added[5])
    client.xclaim("s", "g", "carl", 0, [added[1], added[6]])
    client.xgroup_createconsumer("s", "g", "idle")
    client.xgroup_create("s", "gone", "0")
    client.xgroup_destroy("s", "gone")
    client.xdel("s", added[2], added[9])
    client.xtrim("s", maxlen=8, approximate=False)
    return added


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_keeps_streams_groups_and_what_is_pending(broker, kill):
    with connected(broker) as client:
        work(client)
        before = state(client)
    broker.restart(kill=kill)
    with connected(broker) as client:
        assert state(client) == before
        answer = client.xreadgroup("g", "dora", {"s": ">"})
        assert [fields[b"n"] for _, fields in answer[0][1]] == [b"8", b"10", b"11"]
        assert [group["name"] for group in client.xinfo_groups("s")] == [b"g"]


def test_after_a_checkpoint_rows_and_entries_give_the_same(broker):
    """Some of the history is in the row of the group, some comes from the entries behind it."""
    with connected(broker) as client:
        added = work(client)
        broker.clock.advance(5)  # a checkpoint is due, and taken with the commits that follow
        client.xadd("s", {"n": 12})
        broker.clock.advance(5)
        client.xack("s", "g", added[3])
        client.xreadgroup("g", "bob", {"s": ">"}, count=1)
        before = state(client)
    broker.restart(kill=True)
    with connected(broker) as client:
        assert state(client) == before


def test_every_acknowledged_entry_survives_a_kill_and_is_worked_on_once(broker):
    """Producers and workers at full speed, then the broker dies: nothing lost, nothing twice."""
    with connected(broker) as client:
        client.xgroup_create("s", "g", mkstream=True)
    stored: list[bytes] = []
    acknowledged: list[bytes] = []
    taken: list[bytes] = []
    threads = [
        threading.Thread(target=_produce, args=(broker, stored)),
        threading.Thread(target=_consume, args=(broker, "ann", taken, acknowledged)),
        threading.Thread(target=_consume, args=(broker, "bob", taken, acknowledged)),
    ]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 50:
        threads[0].join(timeout=0.01)
    broker.restart(kill=True)
    for thread in threads:
        thread.join()
    with connected(broker) as client:
        present = [entry for entry, _ in client.xrange("s")]
        pending = {found["message_id"] for found in client.xpending_range("s", "g", *EVERYTHING)}
        fresh = client.xreadgroup("g", "carl", {"s": ">"})
        untouched = {entry for entry, _ in fresh[0][1]} if fresh else set()
    assert set(stored) <= set(present)
    assert len(taken) == len(set(taken)), "no entry was handed out twice"
    assert not pending & set(acknowledged)
    assert not untouched & set(taken)
    done = set(present) - pending - untouched
    assert set(acknowledged) <= done
    assert done <= set(taken), "what nobody got is still to be had"


def _produce(broker, stored):
    with suppress(redis.ConnectionError), _impatient(broker) as client:
        while True:
            stored.append(client.xadd("s", {"n": len(stored)}))


def _consume(broker, name, taken, acknowledged):
    with suppress(redis.ConnectionError), _impatient(broker) as client:
        while True:
            answer = client.xreadgroup("g", name, {"s": ">"}, count=5, block=1_000)
            ids = [entry for entry, _ in answer[0][1]] if answer else []
            taken += ids
            for entry in ids:
                client.xack("s", "g", entry)
                acknowledged.append(entry)


def _impatient(broker):
    """A client that gives up when the connection breaks."""
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    return redis.Redis(port=broker.port, protocol=2, retry=retry)
