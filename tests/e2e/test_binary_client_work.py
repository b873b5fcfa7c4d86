"""Queues, signatures and losses with the clients of the binary protocol."""

import json
import threading
import time

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.client import FailedJobsError, RefusedError, SigningKey
from penstock.testing import Broker
from penstock.trust.signatures import key_pair
from tests.e2e.binary_client_flavours import Blocking, Looped

END = b"end"


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request, broker):
    made = request.param(broker)
    yield made
    made.close()


class LeaveNow(BaseException):
    """Ends a worker's ``run``, which no error of a handler does."""


def jobs(count, start=0):
    return [b"job-%d" % number for number in range(start, start + count)]


def take(worker, count):
    taken = []
    while len(taken) < count:
        message = worker.receive(20)
        assert message is not None, f"only {len(taken)} of {count} came"
        taken.append(message)
    return taken


def payloads(messages):
    return [message.payload for message in messages]


# ── Queues


@pytest.mark.parametrize("kill", [False, True])
def test_each_job_goes_to_one_worker_and_waits_while_there_is_none(clients, broker, kill):
    producer = clients.producer("jobs")
    producer.push(b"job-0")
    assert producer.push_many(jobs(9, start=1)) == [None] * 9
    broker.restart(kill=kill)
    done = []
    with clients.make("Worker", "jobs", "worker-1") as worker:
        for job in worker.messages(20):
            done.append(job.payload)
            if len(done) == 10:
                break
    assert done == jobs(10)
    producer.push(END)
    assert payloads(take(clients.worker("jobs", "worker-2"), 1)) == [END]


def test_workers_share_the_jobs(clients):
    workers = [clients.worker("jobs", f"worker-{number}") for number in range(2)]
    for worker in workers:
        worker.flush()
    clients.producer("jobs").push_many(jobs(10))
    shares = [payloads(take(worker, 5)) for worker in workers]
    assert sorted(shares[0] + shares[1]) == jobs(10)


@pytest.mark.parametrize("kill", [False, True])
def test_the_jobs_of_a_worker_that_dies_go_to_another(clients, broker, kill):
    clients.producer("jobs").push_many(jobs(5))
    doomed = clients.worker("jobs", "worker-1", auto_ack=False)
    taken = take(doomed, 3)
    clients.ack(taken[0], taken[2])
    doomed.flush()
    doomed.abandon()
    if kill:
        broker.restart(kill=True)
    heir = clients.worker("jobs", "worker-2")
    assert payloads(take(heir, 3)) == [b"job-1", b"job-3", b"job-4"]
    clients.producer("jobs").push(END)
    assert payloads(take(heir, 1)) == [END]


def test_a_job_in_hand_when_the_connection_breaks_is_done_once(clients, broker):
    clients.producer("jobs").push_many(jobs(5))
    worker = clients.worker("jobs", "worker-1", auto_ack=False)
    taken = take(worker, 2)
    clients.ack(taken[0])
    broker.restart(kill=True)
    clients.ack(taken[1])
    taken += take(worker, 3)
    clients.ack(*taken)
    worker.flush()
    clients.producer("jobs").push(END)
    taken += take(worker, 1)
    assert payloads(taken) == [*jobs(5), END]


def test_a_job_whose_handler_raises_is_reported_and_dealt_anew_when_the_worker_leaves(clients):
    clients.producer("jobs").push_many([*jobs(3), END])
    reports = []

    def handler(job):
        if job.payload == END:
            raise LeaveNow
        if job.payload == b"job-1":
            raise ValueError(job.payload)

    def report(job, error):
        reports.append((job.payload, error.args))

    worker = clients.worker("jobs", "worker-1")
    with pytest.raises(LeaveNow):
        worker.run(handler, 20, report)
    assert (reports, worker.failed) == ([(b"job-1", (b"job-1",))], 1)
    worker.close()
    assert payloads(take(clients.worker("jobs", "worker-2"), 2)) == [b"job-1", END]


def test_a_worker_that_fails_at_everything_leaves_before_it_gets_no_more(clients):
    clients.producer("jobs").push_many(jobs(100))
    tried = []

    def handler(job):
        tried.append(job.payload)
        raise ZeroDivisionError

    worker = clients.worker("jobs", "worker-1")
    with pytest.raises(FailedJobsError, match="32 jobs failed"):
        worker.run(handler, 20, lambda job, error: None)
    assert tried == jobs(32)


# ── Signatures


@pytest.fixture
def key_file(broker, tmp_path):
    """The file that ``penstock keys new`` writes; the broker's clock is set to ours."""
    broker.clock.advance(time.time() - broker.clock.wall_ms() / 1000)
    arguments = ["keys", "new", "pump", "--topics", "secure/pump/#", "--out", str(tmp_path)]
    server = ["--server", f"{broker.host}:{broker.port}"]
    done = CliRunner().invoke(penstock, [*arguments, *server])
    assert done.exit_code == 0, done.output
    return tmp_path / "pump.key.json"


def ring(key_file, **changes):
    document = json.loads(key_file.read_text())
    return {document["key_id"]: bytes.fromhex(document["public_key"]), **changes}


@pytest.mark.parametrize("version", [1, 2])
def test_signed_messages_are_verified_against_the_subscribers_own_keys(clients, key_file, version):
    key = SigningKey.load(key_file, version=version)
    publisher = clients.publisher(signing_key=key)
    publisher.publish("secure/pump/a", b"on")
    assert publisher.publish_many("secure/pump/a", [b"off"] * 3) == [None] * 3
    subscriber = clients.subscriber(
        "c", "secure/pump/a", keyring=ring(key_file), require_signature=True
    )
    found = take(subscriber, 4)
    assert payloads(found) == [b"on", b"off", b"off", b"off"]
    assert {message.verified for message in found} == {True}
    assert {message.signature.version for message in found} == {version}
    assert {message.signature.key_id for message in found} == {key.key_id}


def test_a_key_file_is_enough_to_sign_and_signs_version_2(clients, key_file):
    clients.publisher(signing_key=key_file).publish("secure/pump/a", b"on")
    (message,) = take(clients.subscriber("c", "secure/pump/a"), 1)
    assert (message.verified, message.signature.version) == (None, 2)


def test_a_signed_publish_beyond_the_keys_topics_is_refused(clients, key_file):
    publisher = clients.publisher(signing_key=str(key_file))
    with pytest.raises(RefusedError, match="Key not authorized"):
        publisher.publish("secure/door", b"open")


def test_a_signed_stream_goes_on_over_a_restart(clients, key_file, broker):
    """Unconfirmed messages are signed again: the broker accepts no signature twice."""
    publisher = clients.publisher(signing_key=key_file)
    results = []

    def publish():
        for number in range(10):
            results.extend(publisher.publish_many("secure/pump/a", [b"%d" % number] * 20))

    thread = threading.Thread(target=publish)
    thread.start()
    subscriber = clients.subscriber("c", "secure/pump/a")
    found = take(subscriber, 20)
    broker.clock.advance(1)
    broker.restart(kill=True)
    thread.join()
    refusals = [result for result in results if result is not None]
    assert not [refusal for refusal in refusals if "before the broker started" not in str(refusal)]
    found += take(subscriber, 180 - len(refusals))
    sequences = [message.sequence for message in found]
    assert sequences == sorted(set(sequences))


def test_what_is_not_verified_is_withheld_reported_and_kept_by_the_broker(clients, key_file):
    clients.publisher(signing_key=key_file).publish("secure/pump/a", b"on")
    stranger = key_pair(bytes(32)).public_key
    wrong = dict.fromkeys(ring(key_file), stranger)
    reported = []
    suspicious = clients.subscriber(
        "c",
        "secure/pump/a",
        "t",
        keyring=wrong,
        require_signature=True,
        on_withheld=reported.append,
    )
    clients.publisher().publish("t", b"unsigned")
    while suspicious.withheld < 2:
        assert suspicious.receive(0.05) is None
    assert [(message.payload, message.verified) for message in reported] == [
        (b"on", False),
        (b"unsigned", None),
    ]
    suspicious.close()
    trusting = clients.subscriber("c", "secure/pump/a", keyring=wrong)
    (message,) = take(trusting, 1)
    assert (message.payload, message.verified) == (b"on", False)


# ── Losses


def wait_for_retention(broker, topic, first_offset):
    """Advance the broker's clock; its writer thread needs real time to follow."""
    deadline = time.monotonic() + 20
    while broker.call(lambda: broker.server.store.topic(topic).first_offset) < first_offset:
        assert time.monotonic() < deadline
        broker.clock.advance(1.1)
        time.sleep(0.005)


@pytest.mark.parametrize("flavour", [Blocking, Looped], ids=["blocking", "async"])
def test_what_retention_took_is_reported_and_the_rest_goes_on(flavour):
    with Broker(retention={"messages_max": 5, "age_s_max": 0}) as broker:
        clients = flavour(broker)
        try:
            publisher, notices = clients.publisher(), []
            publisher.publish_many("t", jobs(3))
            with clients.make("Subscriber", "c", "t") as subscriber:
                take(subscriber, 3)
            for job in jobs(30, start=3):  # one by one: each in its own entry
                publisher.publish("t", job)
            wait_for_retention(broker, b"t", first_offset=28)
            returned = clients.subscriber("c", "t", on_lost=notices.append)
            assert payloads(take(returned, 5)) == jobs(5, start=28)
            assert [(notice.topic, notice.count) for notice in notices] == [("t", 25)]
            assert returned.lost == 25
        finally:
            clients.close()


@pytest.mark.parametrize("flavour", [Blocking, Looped], ids=["blocking", "async"])
def test_a_publish_beyond_the_brokers_limit_is_refused_and_the_others_are_not(flavour):
    """The broker closes the connection; the publisher reconnects without it."""
    with Broker(limits={"frame_bytes_max": "64KiB"}) as broker:
        clients = flavour(broker)
        try:
            results = clients.publisher().publish_many("t", [b"0", bytes(100_000), b"2"])
            assert [result is None for result in results] == [True, False, True]
            assert "frame_bytes_max" in str(results[1])
        finally:
            clients.close()
