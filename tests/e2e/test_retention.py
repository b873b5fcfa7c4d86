"""Retention as an operator configures it: what is kept, what is removed."""

import json
import urllib.request

import pytest
import redis

from penstock.client import connect
from penstock.obs.reasons import DropReason
from penstock.testing import Broker


def topic(broker, name):
    with urllib.request.urlopen(f"http://{broker.host}:{broker.port}/topics/{name}") as answer:
        return json.load(answer)


def publish(broker, name, count, size=10):
    with connect(broker.host, broker.port) as client:
        for number in range(count):  # one by one: each in its own entry
            client.publish(name, b"%0*d" % (size, number), qos=1)


def turn_until(broker, condition):
    """Advance the clock in small steps until retention has finished."""
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


# ── queues and groups ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dial():
    """Connections of Redis clients; closed at the end."""
    opened = []

    def open_one(broker):
        client = redis.Redis(port=broker.port, socket_timeout=10, single_connection_client=True)
        opened.append(client)
        return client

    yield open_one
    for client in opened:
        client.close()


def push(client, count=10):
    """One by one: each in its own entry."""
    jobs = [b"j%d" % number for number in range(count)]
    for job in jobs:
        client.execute_command("PUSH", "jobs", job)
    return jobs


def missed(broker):
    return broker.call(lambda: broker.server.counters.drops[DropReason.RETENTION])


LIMITS = [
    {"messages_max": 3, "age_s_max": 0},
    {"bytes_max": 6, "age_s_max": 0},
    {"age_s_max": 1},
]


@pytest.mark.parametrize("limits", LIMITS, ids=["count", "bytes", "age"])
def test_jobs_that_no_worker_has_done_are_kept_beyond_the_limits(dial, limits):
    with Broker(retention=limits) as broker:
        client = dial(broker)
        jobs = push(client)
        publish(broker, "other", 10)  # shows the progress of retention
        broker.clock.advance(5)
        turn_until(broker, lambda: topic(broker, "other")["first_offset"] >= 7)
        assert client.execute_command("PULL", "jobs", "COUNT", 4) == jobs[:4]
        turn_until(broker, lambda: topic(broker, "q:jobs")["first_offset"] == 4)
        assert client.execute_command("PULL", "jobs", "COUNT", 10) == jobs[4:]
        assert missed(broker) == 0


def test_a_job_that_a_worker_has_in_hand_is_kept_for_the_next(dial):
    with Broker(retention={"messages_max": 1, "age_s_max": 0}) as broker:
        worker, other = dial(broker), dial(broker)
        jobs = push(worker)
        taken = worker.execute_command("PULL", "jobs", "COUNT", 10, "WITHACK")
        for number, _ in taken[:4]:
            worker.execute_command("ACK", number)
        turn_until(broker, lambda: topic(broker, "q:jobs")["first_offset"] == 4)
        worker.close()
        assert other.execute_command("PULL", "jobs", "COUNT", 10, "BLOCK", 5_000) == jobs[4:]
        assert missed(broker) == 0


def test_a_rule_for_a_queue_takes_jobs_that_were_not_done_and_counts_them(dial):
    rules = [{"filter": "q:jobs", "messages_max": 3, "age_s_max": 0}]
    with Broker(retention={"age_s_max": 0, "rules": rules}) as broker:
        client = dial(broker)
        jobs = push(client)
        turn_until(broker, lambda: topic(broker, "q:jobs")["first_offset"] == 7)
        assert missed(broker) == 7
        assert client.execute_command("PULL", "jobs", "COUNT", 10) == jobs[7:]
        push(client, 4)
        turn_until(broker, lambda: topic(broker, "q:jobs")["first_offset"] == 11)
        assert missed(broker) == 7 + 1


def test_entries_that_a_group_did_not_get_are_counted_unless_a_client_removed_them(dial):
    with Broker(retention={"messages_max": 3, "age_s_max": 0}) as broker:
        client = dial(broker)
        ids = [client.xadd("s", {"payload": number}) for number in range(10)]
        client.xgroup_create("s", "g", 0)
        client.xreadgroup("g", "c", {"s": ">"}, count=4)
        client.xack("s", "g", ids[0], ids[1])
        client.xdel("s", ids[3], ids[4])
        turn_until(broker, lambda: topic(broker, "s")["first_offset"] == 7)
        assert missed(broker) == 1 + 2  # 2 was pending; 5 and 6 were not handed out
        client.xgroup_create("s", "late", 0)
        assert len(client.xreadgroup("late", "c", {"s": ">"})[0][1]) == 3
        assert missed(broker) == 3
