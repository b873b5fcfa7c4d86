"""Clients of the queue protocol as workers and producers: kills, leaders, users and TLS."""

import contextlib

import pytest

from penstock.client import connect
from penstock.testing import Broker
from tests.clients.driver_process import FailedError, encoded
from tests.clients.drivers import started
from tests.conformance.wire_client import wait_until
from tests.e2e.cluster_processes import nodes
from tests.tls.authority import Authority, needs_openssl

pytestmark = pytest.mark.slow

SECRET = "correct horse battery"
JOBS = 60
VISIBILITY_MS = 5_000  # a job that was on its way when the broker died comes again after this


@pytest.fixture
def drive(queue_kind, outlived):
    """Start a driver of this client."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(started(queue_kind))


def produce(driver, payload, topic="jobs", **fields):
    number = driver.begin("produce", topic=topic, payload_b64=encoded(payload), **fields)
    return driver.end(number)


def group(address):
    with connect([address], timeout_s=60) as client:
        (found,) = client.groups("jobs")
    return found


def work(driver, count, before=lambda _done: None):
    """Do so many jobs; ``before`` each, something may happen to the broker."""
    done = []
    while len(done) < count:
        [job] = driver.jobs(1)
        before(len(done))
        driver.do("ack", lease=job["lease"])
        done.append(int(job["offset"]))
    return done


@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.nightly)])
def test_a_worker_does_each_job_once_over_kill_9_of_the_broker(drive, start, kills):
    broker = start()
    listen = ("--listen", f"127.0.0.1:{broker.port}", "--http-listen", "127.0.0.1:0")
    producer, worker = drive(), drive()
    for driver in (producer, worker):
        driver.connect(broker.port)
    for number in range(JOBS):
        produce(producer, b"%d" % number)
    worker.do("consume", topic="jobs", group="g", prefetch=4, visibility_ms=VISIBILITY_MS)
    moments = {(kill + 1) * JOBS // (kills + 1) for kill in range(kills)}
    running = [broker]

    def maybe_kill(done):
        if done in moments:
            running[0].kill()
            running[0].wait_killed()
            running[0] = start(*listen, listen=False)

    done = work(worker, JOBS, maybe_kill)
    assert sorted(done) == list(range(JOBS))
    address = f"127.0.0.1:{broker.port}"
    produce(producer, b"last")
    assert work(worker, 1) == [JOBS]
    worker.do("close")
    assert group(address).dead_letters == 0


def test_the_more_urgent_job_comes_first(drive, broker):
    driver = drive()
    driver.connect(broker.port)
    for payload, priority in ((b"idle", 0), (b"urgent", 7), (b"usual", 4)):
        produce(driver, payload, priority=priority)
    driver.do("consume", topic="jobs", group="g", prefetch=1)
    found = []
    for _ in range(3):
        [job] = driver.jobs(1)
        found.append(job["payload"])
        driver.do("ack", lease=job["lease"])
    assert found == [b"urgent", b"usual", b"idle"]


def test_jobs_that_fail_too_often_become_dead_letters_with_the_reason(drive, broker):
    address = f"127.0.0.1:{broker.port}"
    driver = drive()
    driver.connect(broker.port)
    with connect([address]) as client:
        client.create_group("jobs", "g")
        client.configure_group("jobs", "g", max_deliveries=2, backoff_s=0)
        produce(driver, b"broken")
        driver.do("consume", topic="jobs", group="g")
        for attempt in range(2):
            [job] = driver.jobs(1)
            assert job["redeliveries"] == attempt
            driver.do("nack", lease=job["lease"], reason="no decoder")
        produce(driver, b"whole")
        [job] = driver.jobs(1)
        assert job["payload"] == b"whole"
        wait_until(lambda: group(address).dead_letters == 1)
        [letter] = client.dead_letters("jobs", "g")
        assert (letter.payload, dict(letter.headers)["dlq-reason"]) == (b"broken", b"no decoder")


def test_a_producer_goes_on_when_the_leader_is_killed_and_stores_each_once(drive, tmp_path):
    with nodes(tmp_path, 3) as cluster:
        options = [word for number in (1, 2, 3) for word in ("--node", cluster.as_option(number))]
        assert cluster.command(1, "init", *options)[0] == 0
        leader = cluster.leader()
        pairs = [cluster.address(number).rsplit(":", 1) for number in (1, 2, 3)]
        known = [[host, int(port)] for host, port in pairs]
        driver = drive()
        driver.connect(known[0][1], nodes=known)
        payloads = [b"%d" % number for number in range(60)]
        asked = [
            driver.begin("produce", topic="jobs", payload_b64=encoded(payload))
            for payload in payloads[:30]
        ]
        driver.wait_answers(asked, 10)
        cluster.kill(leader)
        asked += [
            driver.begin("produce", topic="jobs", payload_b64=encoded(payload))
            for payload in payloads[30:]
        ]
        for number in asked:
            driver.end(number)
        addresses = [cluster.address(number) for number in cluster.running]
        with connect(addresses, timeout_s=60) as client:
            stored = [record.payload for record in client.messages("jobs")]
    assert sorted(stored, key=int) == payloads


def test_a_user_works_where_the_rules_allow_it(drive):
    with Broker(auth={"anonymous": "deny"}) as broker:
        broker.add_user("ann", SECRET, rules=("allow publish jobs", "allow work jobs"))
        driver = drive()
        driver.connect(broker.port, user="ann", password=SECRET)
        produce(driver, b"a")
        with pytest.raises(FailedError, match="not_authorized"):
            produce(driver, b"a", topic="others")
        driver.do("consume", topic="jobs", group="g")
        assert [job["payload"] for job in driver.jobs(1)] == [b"a"]


def test_a_wrong_password_is_told(drive):
    with Broker(auth={"anonymous": "deny"}) as broker:
        broker.add_user("ann", SECRET)
        driver = drive()
        with pytest.raises(FailedError, match="user name"):
            driver.connect(broker.port, user="ann", password="wrong")


@needs_openssl
def test_a_client_with_tls_produces_and_works(drive, tmp_path):
    authority = Authority(tmp_path / "authority")
    with Broker(tls=authority.server()._asdict()) as broker:
        driver = drive()
        driver.connect(broker.port, ca=authority.cert)
        produce(driver, b"a")
        driver.do("consume", topic="jobs", group="g")
        assert [job["payload"] for job in driver.jobs(1)] == [b"a"]
