"""Streams and PULL on topics that clients of the queue protocol use: one shared group.

What one protocol has taken no other hands out; what one gives back, another may get. Delays, TTLs
and priorities apply to all.
"""

import threading
from collections.abc import Iterator

import pytest
import redis

from penstock.client import QueueClient, connect
from penstock.client.errors import LeaseLostError
from penstock.testing import Broker
from tests.conformance.wire_client import wait_until


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def queue(broker: Broker) -> Iterator[QueueClient]:
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.create_group("jobs", "g")
        yield client


@pytest.fixture
def streams(broker: Broker) -> Iterator[redis.Redis]:
    with redis.Redis(port=broker.port, protocol=2, single_connection_client=True) as client:
        yield client


def read(streams, consumer="c", count=10, **options):
    """Offsets that XREADGROUP gives."""
    found = streams.xreadgroup("g", consumer, {"jobs": ">"}, count=count, **options)
    return [int(entry[0].split(b"-")[1]) for _, entries in found for entry in entries]


def produce(queue, *payloads, **settings):
    for payload in payloads:
        queue.produce("jobs", payload, **settings)


def offsets(jobs):
    return [job.offset for job in jobs]


# ── one group


def test_what_is_leased_is_not_handed_out_and_what_is_given_back_is(queue, streams):
    produce(queue, b"0", b"1", b"2")
    jobs = queue.poll("jobs", "g", max=2)
    assert read(streams) == [2]
    queue.nack(jobs[1])
    assert read(streams) == [1]
    assert read(streams) == []


def test_what_a_stream_has_taken_no_poll_gets(queue, streams):
    produce(queue, b"0", b"1", b"2")
    assert read(streams, count=2) == [0, 1]
    assert offsets(queue.poll("jobs", "g", max=10)) == [2]
    first, _ = streams.xrange("jobs")[0]
    assert streams.xack("jobs", "g", first) == 1
    assert queue.poll("jobs", "g", max=10) == []


def test_urgent_messages_that_a_poll_took_ahead_are_not_handed_out_again(queue, streams):
    produce(queue, b"0", b"1", b"2")
    produce(queue, b"3", b"4", priority=7)
    urgent = queue.poll("jobs", "g", max=2)
    assert offsets(urgent) == [3, 4]
    assert read(streams, count=2) == [0, 1]
    queue.ack(urgent)
    assert read(streams) == [2]
    assert read(streams) == []


def test_a_stream_alone_reads_in_order_of_ids_whatever_the_priorities(queue, streams):
    produce(queue, b"0")
    produce(queue, b"1", priority=7)
    produce(queue, b"2")
    assert read(streams, count=2) == [0, 1]
    assert read(streams) == [2]


def test_the_entries_of_one_answer_are_in_order_of_their_ids(queue, streams):
    produce(queue, b"0", b"1")
    produce(queue, b"2", priority=7)
    produce(queue, b"3")
    queue.poll("jobs", "g", max=1)
    assert read(streams) == [0, 1, 3]


def test_a_lease_that_ran_out_is_handed_out_to_who_asks_next(broker, queue, streams):
    produce(queue, b"0")
    queue.poll("jobs", "g", visibility_s=10)
    assert read(streams) == []
    broker.clock.advance(11)
    assert read(streams) == [0]


def test_what_was_read_stays_with_its_consumer_by_name(broker, queue, streams):
    """No lease ends it, nor a restart."""
    produce(queue, b"0", b"1")
    queue.poll("jobs", "g", max=1)
    assert read(streams, "own") == [1]
    broker.clock.advance(3600)
    broker.restart(kill=True)
    with redis.Redis(port=broker.port, protocol=2) as again:
        own = again.xreadgroup("g", "own", {"jobs": "0"})
        assert [entry[0].split(b"-")[1] for entry in own[0][1]] == [b"1"]
        assert again.xack("jobs", "g", own[0][1][0][0]) == 1


@pytest.mark.parametrize("is_worked_on", [False, True])
def test_without_acknowledgement_nothing_stays_pending(queue, streams, is_worked_on):
    produce(queue, b"0", b"1", b"2")
    leased = queue.poll("jobs", "g", max=1) if is_worked_on else []
    assert read(streams, noack=True) == [0, 1, 2][len(leased) :]
    queue.ack(leased)
    assert streams.xpending("jobs", "g")["pending"] == 0
    assert read(streams) == []


def test_a_consumer_that_waits_gets_what_is_given_back(broker, queue):
    produce(queue, b"0")
    jobs = queue.poll("jobs", "g")
    got: list[list[int]] = []

    def wait() -> None:
        with redis.Redis(port=broker.port, protocol=2) as streams:
            got.append(read(streams, block=10_000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    parts = broker.server.parts
    wait_until(lambda: broker.call(parts.dispatchers.workers, b"jobs", b"g") == 1)
    queue.nack(jobs)
    waiting.join(10)
    assert got == [[0]]


# ── times


def test_a_delayed_message_comes_when_it_is_due_and_holds_up_no_other(broker, queue, streams):
    produce(queue, b"0")
    produce(queue, b"1", delay_s=60)
    produce(queue, b"2")
    assert read(streams, count=1) == [0]
    assert read(streams) == [2]
    assert read(streams) == []
    broker.clock.advance(61)
    assert read(streams) == [1]


def test_a_message_whose_time_is_over_is_not_handed_out(broker, queue, streams):
    produce(queue, b"0", ttl_s=60)
    produce(queue, b"1")
    broker.clock.advance(61)
    assert read(streams) == [1]
    assert read(streams) == []


def test_a_delayed_message_cannot_be_claimed_and_is_not_pending(queue, streams):
    produce(queue, b"0", delay_s=60)
    produce(queue, b"1")
    assert read(streams) == [1]
    assert streams.xpending("jobs", "g")["pending"] == 1
    assert streams.xinfo_groups("jobs")[0]["pending"] == 1
    assert len(streams.xautoclaim("jobs", "g", "thief", 0)[1]) == 1
    assert streams.xclaim("jobs", "g", "thief", 0, ["0-0"]) == []


# ── looking


def test_what_is_under_a_lease_is_pending_without_a_name_and_can_be_claimed(queue, streams):
    produce(queue, b"0", b"1", b"2")
    leased = queue.poll("jobs", "g", max=2)
    assert read(streams, "named") == [2]
    summary = streams.xpending("jobs", "g")
    assert summary["pending"] == 3
    assert summary["consumers"] == [
        {"name": b"", "pending": 2},
        {"name": b"named", "pending": 1},
    ]
    long_form = ("XPENDING", "jobs", "g", "-", "+", 10, "")
    nameless = streams.execute_command(*long_form, parse_detail=True)
    assert [entry["consumer"] for entry in nameless] == [b"", b""]
    everyones = streams.xpending_range("jobs", "g", "-", "+", 10)
    assert [entry["consumer"] for entry in everyones] == [b"", b"", b"named"]
    claimed = streams.xclaim("jobs", "g", "named", 0, [everyones[0]["message_id"]])
    assert len(claimed) == 1
    with pytest.raises(LeaseLostError):
        queue.ack(leased[0])
    assert streams.xpending("jobs", "g")["pending"] == 3


def test_progress_counts_what_was_handed_out_ahead(queue, streams):
    produce(queue, b"0", b"1", b"2")
    produce(queue, b"3", priority=7)
    queue.poll("jobs", "g", max=1)
    (group,) = streams.xinfo_groups("jobs")
    assert (group["entries-read"], group["lag"], group["pending"]) == (1, 3, 1)


# ── PULL


def test_a_group_of_any_topic_can_be_pulled_from(queue, streams):
    produce(queue, b"0", b"1", b"2")
    queue.poll("jobs", "g", max=1)
    assert streams.execute_command("PULL", "jobs", "GROUP", "g") == [b"1"]
    ((sequence, job),) = streams.execute_command("PULL", "jobs", "GROUP", "g", "WITHACK")
    assert job == b"2"
    assert streams.execute_command("ACK", sequence) == b"OK"
    assert streams.execute_command("PULL", "jobs", "GROUP", "g") is None
    assert streams.xpending("jobs", "g")["pending"] == 1


def test_a_group_that_a_pull_makes_begins_with_the_oldest_message(queue, streams):
    produce(queue, b"0", b"1")
    pulled = streams.execute_command("PULL", "jobs", "COUNT", 5, "GROUP", "new")
    assert pulled == [b"0", b"1"]


def test_one_acknowledgement_is_for_all_groups_that_a_message_was_pulled_from(queue, streams):
    produce(queue, b"0")
    pulls = [streams.execute_command("PULL", "jobs", "GROUP", g, "WITHACK") for g in ("g", "h")]
    assert pulls[0] == pulls[1]
    assert streams.execute_command("ACK", pulls[0][0][0]) == b"OK"
    assert [streams.xpending("jobs", group)["pending"] for group in ("g", "h")] == [0, 0]


def test_a_queue_is_a_topic_with_a_prefix_and_its_workers_are_a_group(streams):
    streams.execute_command("PUSH", "images", "cat.png")
    assert streams.execute_command("PULL", "q:images", "GROUP", "workers") == [b"cat.png"]
    assert streams.execute_command("PULL", "images") is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["jobs", "GROUP"], "GROUP is a name of 1 to 256 bytes"),
        (["jobs", "GROUP", "g" * 257], "GROUP is a name of 1 to 256 bytes"),
        (["j" * 1_025, "GROUP", "g"], "topic_invalid"),
        (["", "GROUP", "g"], "topic_invalid"),
    ],
)
def test_a_pull_that_names_no_group_or_no_topic_is_refused(streams, arguments, error):
    with pytest.raises(redis.ResponseError, match=error):
        streams.execute_command("PULL", *arguments)
