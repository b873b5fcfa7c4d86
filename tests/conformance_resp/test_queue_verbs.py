"""PUSH, PULL and ACK: each job to one worker, by whichever protocol it was published."""

import contextlib
import threading

import pytest
import redis

from penstock.client import connect
from penstock.doors.resp import queue
from penstock.errors import StorageFull
from penstock.testing import Broker
from penstock.wire.binary import client as binary
from penstock.wire.binary import encode
from penstock.wire.binary.events import Acked
from tests.crossing.doors import BinaryClient

TIMEOUT_S = 10.0


@pytest.fixture(params=[2, 3], ids=["RESP 2", "RESP 3"])
def dial(request):
    """Connections to a broker of their own; closed at the end."""
    opened = []
    with Broker() as broker:

        def open_one() -> redis.Redis:
            client = redis.Redis(
                port=broker.port,
                protocol=request.param,
                socket_timeout=TIMEOUT_S,
                single_connection_client=True,
            )
            opened.append(client)
            return client

        open_one.broker = broker
        yield open_one
        for client in opened:
            client.close()


@contextlib.contextmanager
def slow_commits(broker: Broker):
    """Return the requests that were answered before the commit."""
    store, commit, ended = broker.server.store.whole, broker.server.store.whole.commit, []

    def slowly(batch: object) -> object:
        for _ in range(10):  # loop turns, each of which would send pending answers
            broker.call(int)
        ended.append(commit(batch))
        return ended[-1]

    store.commit = slowly
    yield ended
    store.commit = commit


@contextlib.contextmanager
def full_disk(broker: Broker):
    def refuse(_batch: object) -> None:
        raise StorageFull("no room")

    store, commit = broker.server.store.whole, broker.server.store.whole.commit
    store.commit = refuse
    yield
    store.commit = commit


def push(client: redis.Redis, *jobs: str) -> list[int]:
    pipeline = client.pipeline(transaction=False)
    for job in jobs:
        pipeline.execute_command("PUSH", "jobs", job)
    return pipeline.execute()


def test_push_answers_with_the_number_of_the_job_in_its_queue(dial):
    assert push(dial(), "a", "b") == [1, 2]
    assert push(dial(), "c") == [3]


def test_pull_takes_the_oldest_jobs_and_says_null_when_there_are_none(dial):
    client = dial()
    push(client, "a", "b", "c")
    assert client.execute_command("PULL", "jobs") == [b"a"]
    assert client.execute_command("PULL", "jobs", "COUNT", 10) == [b"b", b"c"]
    assert client.execute_command("PULL", "jobs") is None
    assert client.execute_command("PULL", "never heard of") is None


def test_a_blocked_pull_gets_the_job_that_comes(dial):
    client, other = dial(), dial()
    timer = threading.Timer(0.05, push, (other, "late"))
    timer.start()
    assert client.execute_command("PULL", "jobs", "BLOCK", 5_000) == [b"late"]
    timer.join()


def test_a_blocked_pull_ends_with_null_when_its_time_is_over(dial):
    assert dial().execute_command("PULL", "jobs", "BLOCK", 20) is None


def test_blocked_pulls_are_served_in_the_order_in_which_they_came(dial):
    got: dict[int, object] = {}
    threads = []
    for number in range(3):
        client = dial()
        ready = threading.Event()

        def pull(number=number, client=client, ready=ready):
            client.ping()
            ready.set()
            got[number] = client.execute_command("PULL", "jobs", "BLOCK", 5_000)

        threads.append(threading.Thread(target=pull))
        threads[-1].start()
        assert ready.wait(TIMEOUT_S)
        _until(lambda number=number: _waiting(dial.broker) == number + 1)
    push(dial(), "a", "b", "c")
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert got == {0: [b"a"], 1: [b"b"], 2: [b"c"]}


def test_an_ack_of_a_deleted_queues_job_does_not_finish_one_of_the_next(dial):
    """Their offsets are the same, but another client has the new one."""
    late, worker = dial(), dial()
    push(late, "old")
    ((sequence, _),) = late.execute_command("PULL", "jobs", "WITHACK")
    with connect([f"{dial.broker.host}:{dial.broker.port}"]) as client:
        client.delete_topic("q:jobs")
    push(late, "new")
    ((_, job),) = worker.execute_command("PULL", "jobs", "WITHACK")
    assert job == b"new"
    assert late.execute_command("ACK", sequence) == b"OK"
    worker.connection_pool.disconnect()
    assert late.execute_command("PULL", "jobs", "BLOCK", 5_000) == [b"new"]


def _waiting(broker: Broker) -> int:
    return broker.call(broker.server.parts.dispatchers.workers, b"q:jobs", b"workers")


def _until(condition) -> None:
    deadline = threading.Event()
    for _ in range(1_000):
        if condition():
            return
        deadline.wait(0.005)
    pytest.fail("it did not come to that")


def test_a_job_pulled_with_ack_is_done_when_the_client_says_so(dial):
    client, other = dial(), dial()
    push(client, "a", "b")
    jobs = client.execute_command("PULL", "jobs", "COUNT", 2, "WITHACK")
    assert [job for _, job in jobs] == [b"a", b"b"]
    assert client.execute_command("ACK", jobs[0][0]) == b"OK"
    client.close()
    assert other.execute_command("PULL", "jobs", "COUNT", 2, "BLOCK", 5_000) == [b"b"]
    assert other.execute_command("PULL", "jobs") is None


def test_what_was_not_acknowledged_comes_back_after_a_kill_of_the_broker(dial):
    client = dial()
    push(client, "a", "b")
    jobs = client.execute_command("PULL", "jobs", "COUNT", 2, "WITHACK")
    client.execute_command("ACK", jobs[0][0])
    push(client, "c")
    client.close()
    dial.broker.restart(kill=True)
    again, got = dial(), []
    while len(got) < 2:  # a redelivery may come one commit later than waiting jobs
        got += again.execute_command("PULL", "jobs", "COUNT", 9, "BLOCK", 5_000)
    assert sorted(got) == [b"b", b"c"]


def test_an_ack_is_answered_when_the_disk_has_it(dial):
    client = dial()
    push(client, "a", "b")
    jobs = client.execute_command("PULL", "jobs", "COUNT", 2, "WITHACK")
    with slow_commits(dial.broker) as ended:
        client.execute_command("ACK", jobs[0][0])
        assert ended
    client.close()
    dial.broker.restart(kill=True)
    assert dial().execute_command("PULL", "jobs", "COUNT", 9, "BLOCK", 5_000) == [b"b"]


def test_an_ack_that_the_disk_refuses_can_be_given_again(dial):
    client, other = dial(), dial()
    push(client, "a", "b")
    jobs = client.execute_command("PULL", "jobs", "COUNT", 2, "WITHACK")
    with full_disk(dial.broker), pytest.raises(redis.ResponseError, match="storage_full"):
        client.execute_command("ACK", jobs[0][0])
    assert client.execute_command("ACK", jobs[0][0]) == b"OK"
    with full_disk(dial.broker), pytest.raises(redis.ResponseError, match="storage_full"):
        client.execute_command("ACK", jobs[1][0])
    client.close()
    assert other.execute_command("PULL", "jobs", "BLOCK", 5_000) == [b"b"]


def test_jobs_without_an_ack_are_bounded(dial, monkeypatch):
    monkeypatch.setattr(queue, "PENDING_MAX", 2)
    client = dial()
    push(client, "a", "b", "c")
    jobs = client.execute_command("PULL", "jobs", "COUNT", 2, "WITHACK")
    with pytest.raises(redis.ResponseError, match="2 jobs of this queue wait for an ACK"):
        client.execute_command("PULL", "jobs", "WITHACK")
    assert client.execute_command("PULL", "jobs") == [b"c"]
    client.execute_command("ACK", jobs[0][0])
    assert client.execute_command("PULL", "jobs", "WITHACK") is None


def test_a_pull_without_ack_is_done_even_if_the_broker_is_stopped_next(dial):
    client = dial()
    push(client, "a", "b")
    assert client.execute_command("PULL", "jobs") == [b"a"]
    client.close()
    dial.broker.restart()
    assert dial().execute_command("PULL", "jobs", "COUNT", 9) == [b"b"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["PULL", "jobs", "COUNT", "0"], "COUNT is a number from 1 to 1024"),
        (["PULL", "jobs", "COUNT"], "COUNT is a number from 1 to 1024"),
        (["PULL", "jobs", "BLOCK", "-1"], "timeout is not an integer or out of range"),
        (["PULL", "jobs", "SOON"], "syntax error"),
        (["PULL"], "wrong number of arguments for 'pull' command"),
        (["PUSH", "jobs"], "wrong number of arguments for 'push' command"),
        (["ACK", "x"], "value is not an integer or out of range"),
    ],
)
def test_what_is_wrong_is_said(dial, command, text):
    with pytest.raises(redis.ResponseError) as refusal:
        dial().execute_command(*command)
    assert str(refusal.value) == text


def test_acknowledging_what_one_has_not_is_harmless(dial):
    client, other = dial(), dial()
    push(client, "a")
    ((sequence, _),) = client.execute_command("PULL", "jobs", "WITHACK")
    other.execute_command("ACK", sequence)  # another connection's job
    other.execute_command("ACK", 12_345)
    client.close()
    assert other.execute_command("PULL", "jobs", "BLOCK", 5_000) == [b"a"]


def test_workers_of_both_protocols_stand_in_one_circle(dial):
    with BinaryClient(dial.broker) as worker:
        worker.send(binary.subscribe(1, b"q:jobs", b"worker-1"))
        assert worker.next() == Acked([1])
        client = dial()
        got: list[object] = []
        thread = threading.Thread(
            target=lambda: got.append(client.execute_command("PULL", "jobs", "BLOCK", 5_000))
        )
        thread.start()
        _until(lambda: _waiting(dial.broker) == 2)
        push(dial(), "a", "b")
        first = worker.next()
        thread.join(TIMEOUT_S)
        assert sorted([first.payload, *got[0]]) == [b"a", b"b"]
        worker.send(encode.ack(first.sequence))


def test_a_connection_that_ends_while_it_waits_takes_no_job_with_it(dial):
    waiting = dial()
    waiting.connection.send_command("PULL", "jobs", "BLOCK", 0)
    _until(lambda: _waiting(dial.broker) == 1)
    waiting.connection.disconnect()
    _until(lambda: _waiting(dial.broker) == 0)
    client = dial()
    push(client, "a")
    assert client.execute_command("PULL", "jobs", "BLOCK", 5_000) == [b"a"]
    _until(lambda: _waiting(dial.broker) == 0)


def test_pulls_leave_nothing_behind(dial):
    """Each is a worker of its own name; a million of them must not be a million names."""
    client = dial()
    push(client, *map(str, range(20)))
    for _ in range(10):
        client.execute_command("PULL", "jobs")
    for _ in range(10):
        ((sequence, _),) = client.execute_command("PULL", "jobs", "WITHACK")
        client.execute_command("ACK", sequence)
    client.execute_command("PULL", "jobs")
    groups = dial.broker.server.broker.groups
    _until(lambda: not groups.get(b"q:jobs", b"workers").consumers)
    assert not groups.get(b"q:jobs", b"workers").pending
