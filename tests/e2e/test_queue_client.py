"""The client of work queues, blocking and asynchronous, against a broker that may be restarted.

Scenarios are written for the blocking client. No test waits for something not to happen: to check
that nothing is left, it asks the broker for the lag of the group.
"""

import threading
from datetime import UTC, datetime
from itertools import pairwise
from time import monotonic, sleep

import pytest

from penstock.client import Item, PayloadTooLargeError, RateLimitedError
from penstock.limits import MIB
from penstock.model.columns import PAYLOADS
from penstock.testing import Broker
from tests.unit.queue_client_broker import Blocking, Looped


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def client(clients, broker):
    with clients.connect(f"127.0.0.1:{broker.port}", timeout_s=20) as made:
        yield made


@pytest.fixture(params=["restart", "kill"])
def trouble(request, broker):
    """What happens in the middle of a scenario."""
    return lambda: broker.restart(kill=request.param == "kill")


def payloads(messages):
    return [message.payload for message in messages]


def numbered(count):
    return [b"%d" % number for number in range(count)]


def group(client, topic, name):
    (found,) = [one for one in client.groups(topic) if one.name == name]
    return found


def eventually(condition):
    """Requests on a closed connection, and the effects of a nack, are processed soon after."""
    deadline = monotonic() + 20
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


# ── Produce to ack ────────────────────────────────────────────────────────────────────────────


def test_what_is_produced_is_polled_acknowledged_and_gone(client):
    assert [client.produce("t", payload) for payload in (b"a", b"b")] == [0, 1]
    jobs = client.poll("t", "g")
    assert payloads(jobs) == [b"a", b"b"]
    assert client.poll("t", "g") == []
    client.ack(jobs)
    assert group(client, "t", "g").lag == 0


def test_all_that_was_said_of_a_message_comes_with_it(client):
    client.produce("t", b"{}", priority=7, content_type="json", headers={"to": b"ann"})
    (job,) = client.poll("t", "g")
    assert (job.priority, job.content_type, job.headers) == (7, "json", (("to", b"ann"),))
    assert (job.offset, job.redeliveries) == (0, 0)
    (record,) = client.messages("t")
    assert (record.priority, record.content_type, record.headers) == (7, "json", (("to", b"ann"),))


def test_a_poll_that_waits_gets_what_is_produced_meanwhile(client):
    found = []
    client.create_group("t", "g")
    waiting = threading.Thread(target=lambda: found.extend(client.poll("t", "g", wait_s=20)))
    waiting.start()
    client.produce("t", b"at last")
    waiting.join()
    assert payloads(found) == [b"at last"]


def test_what_is_given_back_comes_again(client):
    client.produce("t", b"a")
    (job,) = client.poll("t", "g")
    client.nack(job)
    (again,) = client.poll("t", "g", wait_s=20)
    assert (again.redeliveries, again.lease_id != job.lease_id) == (1, True)


def test_many_are_produced_and_told_their_offsets(client):
    large = b"x" * (MIB + 1)
    results = client.produce_many("t", [*numbered(1000), Item(large), Item(b"end", priority=3)])
    assert [result.offset for result in results[:1000]] == list(range(1000))
    assert isinstance(results[1000].error, PayloadTooLargeError)
    assert results[1001].offset == 1000
    assert payloads(client.messages("t", 998)) == [b"998", b"999", b"end"]


def test_a_rate_is_waited_for_or_told(client, broker):
    client.create_topic("t", rate_per_sec=20, burst=1)
    client.produce_many("t", numbered(3))
    assert len(client.poll("t", "g")) == 1
    with pytest.raises(RateLimitedError) as met:
        client.poll("t", "g")
    assert 0 < met.value.retry_after_s < 0.06
    found = []
    waiting = threading.Thread(target=lambda: found.extend(client.poll("t", "g", wait_s=20)))
    waiting.start()
    broker.clock.advance(0.06)
    waiting.join()
    assert len(found) == 1


# ── Topics and groups ─────────────────────────────────────────────────────────────────────────


def test_topics_are_made_listed_changed_and_deleted(client):
    client.create_topic("t/a", max_messages=10, keep=True)
    client.configure_topic("t/a", max_age_s=60)
    client.produce("t/b", b"")
    assert [topic.name for topic in client.topics("t/")] == ["t/a", "t/b"]
    found = client.topic("t/a")
    assert (found.max_messages, found.max_age_ms, found.keep) == (10, 60_000, True)
    client.delete_topic("t/a")
    assert client.topic("t/a") is None
    assert client.stats().is_leader


def test_groups_begin_where_they_are_told_and_are_moved(client):
    client.configure_topic("t", keep=True)
    client.produce_many("t", numbered(5))
    client.create_group("t", "late", start="latest")
    assert client.poll("t", "late") == []
    client.seek("t", "late", 3)
    assert payloads(client.poll("t", "late")) == [b"3", b"4"]
    client.commit("t", "late", 5)
    client.seek("t", "late", datetime(2000, 1, 1, tzinfo=UTC))
    assert payloads(client.poll("t", "late", max=2)) == [b"0", b"1"]
    client.delete_group("t", "late")
    assert client.groups("t") == []


def test_what_fails_too_often_is_a_dead_letter_until_it_is_put_back(client):
    client.configure_group("t", "g", max_deliveries=2)
    client.produce("t", b"bad")
    for _ in range(2):
        (job,) = client.poll("t", "g", wait_s=20)
        client.nack(job, reason="out of paper")
    eventually(lambda: group(client, "t", "g").dead_letters == 1)
    (letter,) = client.dead_letters("t", "g")
    headers = dict(letter.headers)
    assert (letter.payload, headers["dlq-reason"], headers["dlq-attempts"]) == (
        b"bad",
        b"out of paper",
        b"2",
    )
    assert client.redrive("t", "g") == 1
    assert payloads(client.poll("t", "g", wait_s=20)) == [b"bad"]


def test_a_topic_is_read_in_bulk(client):
    client.create_topic("t", keep=True)
    client.produce_many("t", numbered(5000))
    assert sum(part.count for part in client.fetch("t")) == 5000
    assert payloads(client.messages("t", 10, 13)) == [b"10", b"11", b"12"]
    assert list(client.messages("nothing")) == []


# ── Through restarts ──────────────────────────────────────────────────────────────────────────


def test_what_is_produced_through_a_restart_is_stored_once(client, trouble):
    """One by one from several threads, so that something is in flight at any time."""
    parts = [numbered(400)[start::4] for start in range(4)]
    done = threading.Semaphore(0)

    def produce(part):
        for payload in part:
            client.produce("t", payload)
            done.release()

    producers = [threading.Thread(target=produce, args=(part,)) for part in parts]
    for producer in producers:
        producer.start()
    for _ in range(100):
        assert done.acquire(timeout=20)
    trouble()
    for producer in producers:
        producer.join()
    found = payloads(client.messages("t"))
    assert sorted(found, key=int) == numbered(400)
    for part in parts:
        assert [payload for payload in found if payload in set(part)] == part


def test_batches_produced_through_a_restart_are_stored_once(client, trouble):
    results = []
    producer = threading.Thread(
        target=lambda: results.extend(client.produce_many("t", numbered(20_000)))
    )
    producer.start()
    trouble()
    producer.join()
    assert [result.offset for result in results] == list(range(20_000))
    assert payloads(client.messages("t")) == numbered(20_000)


def test_a_named_producer_is_known_over_its_own_restart(clients, broker):
    address = f"127.0.0.1:{broker.port}"
    offsets = []
    for _ in range(2):
        with clients.connect(address, producer_id="billing") as client:
            offsets.append([client.produce("t", b"%d" % seq, seq=seq) for seq in (7, 8)])
            results = client.produce_many("t", numbered(3), seq=9)
            offsets[-1] += [result.offset for result in results]
        broker.restart()
    assert offsets == [[0, 1, 2, 3, 4]] * 2


def test_a_subscription_goes_on_through_a_restart(client, broker, trouble):
    """What a killed broker had handed out is redelivered when its leases expire."""
    handled, half, all_done = [], threading.Event(), threading.Event()

    def handle(job):
        handled.append(job.payload)
        if len(handled) >= 100:
            half.set()
        if len(set(handled)) == 300:
            all_done.set()

    client.produce_many("t", numbered(200))
    with client.subscribe("t", "g", handle, on_error=lambda *_: None):
        assert half.wait(20)
        trouble()
        broker.clock.advance(31)
        client.produce_many("t", numbered(300)[200:])
        assert all_done.wait(30)
    assert set(handled) == set(numbered(300))
    eventually(lambda: group(client, "t", "g").lag == 0)


# ── in bulk, as the journal has it


def raw_payloads(client, topic, **bounds):
    """Read all payloads, answer by answer, with the next request in flight."""
    found, offset, end = [], 0, 1
    pending = client.begin_fetch(topic, offset, columns=PAYLOADS, **bounds)
    while offset < end:
        answer = client.finish(pending)
        offset, end = answer.next_offset, answer.end_offset
        pending = client.begin_fetch(topic, offset, columns=PAYLOADS, **bounds)
        for part in answer.slices:
            cuts = memoryview(part.bounds).cast("I").tolist()
            found += [part.payloads[a - cuts[0] : b - cuts[0]] for a, b in pairwise(cuts)]
    client.finish(pending)
    return found


def test_a_topic_is_read_as_the_journal_has_it_with_the_next_answer_under_way(client):
    client.produce_many("log", numbered(5000))
    assert raw_payloads(client, "log", max_messages=700) == numbered(5000)
    assert client.fetch_raw("log", 4990, 4995).next_offset == 4995


def test_what_was_begun_is_finished_through_trouble(client, trouble):
    client.produce_many("log", numbered(10))
    pending = client.begin_fetch("log", 4)
    trouble()
    assert client.finish(pending).next_offset == 10


def test_changes_are_waited_for_and_begun_again_after_a_restart(client, broker):
    client.produce("a/1", b"x")
    known = client.changes(["a/#"])
    assert [topic.name for topic in known.topics] == ["a/1"]
    threading.Timer(0.1, client.produce, ("a/2", b"x")).start()
    changed = client.changes(["a/#"], known.sequence, wait_s=20)
    assert [topic.name for topic in changed.topics] == ["a/2"]
    broker.restart()
    client.produce("a/3", b"x")
    assert client.changes(["a/#"], changed.sequence, wait_s=20).again
    assert len(client.changes(["a/#"]).topics) == 3


def test_a_reader_keeps_its_start_through_trouble_and_shows_how_far_it_is(client, trouble):
    client.produce_many("log", numbered(10))
    client.create_group("log", "spark", start=4, reader=True)
    client.commit("log", "spark", 7)
    trouble()
    found = group(client, "log", "spark")
    assert (found.reader, found.start, found.position, found.lag) == (True, 4, 7, 3)


def test_times_and_bytes_are_found_in_a_topic(client):
    client.produce_many("log", [b"1234"] * 10)
    located = client.locate("log", [0, 2**45], [(0, 11), (8, 100)])
    assert list(located.offsets) == [0, 10]
    assert list(located.reaches) == [2, 10]


def test_there_are_no_keys_where_none_was_registered(client):
    assert client.keys() == []
