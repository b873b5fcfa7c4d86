"""Queues: each job to one worker, round-robin; kept while there is none; redelivered on death."""

import pytest

from tests.conformance_binary.wire_client import ack, ping, pong, subscribe, unsubscribe, wait_until

WINDOW = 64


def payloads(frames):
    return [received.payload for received in frames]


def numbered(count, start=0):
    return [b"%d" % number for number in range(start, start + count)]


@pytest.fixture(params=["stop", "kill"])
def restart(request):
    return lambda broker: broker.restart(kill=request.param == "kill")


def joined(dial, broker, count, queue=b"q:jobs", names=()):
    """Workers in the order in which they subscribed; those with a name must acknowledge."""
    workers = [dial(at=broker) for _ in range(count)]
    for worker, name in zip(workers, names or [None] * count, strict=True):
        assert worker.subscribe(queue, name) == []
    return workers


# ── round-robin


def test_jobs_go_round_in_the_order_of_subscription(own_broker, dial):
    broker = own_broker()
    workers = joined(dial, broker, 3)
    dial(at=broker).publish(b"q:jobs", *numbered(9))
    assert [payloads(worker.receive_messages(3)) for worker in workers] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


def test_jobs_that_come_one_by_one_go_round_too(own_broker, dial):
    broker = own_broker()
    workers, producer = joined(dial, broker, 3), dial(at=broker)
    for number in range(7):
        producer.publish(b"q:jobs", b"%d" % number)
        assert payloads(workers[number % 3].receive_messages(1)) == [b"%d" % number]
    for worker in workers:
        worker.expect_nothing()


def test_a_worker_that_left_is_passed_over(own_broker, dial):
    broker = own_broker()
    workers = joined(dial, broker, 3)
    workers[1].send(unsubscribe(b"q:jobs", 9))
    workers[1].expect(ack(9))
    dial(at=broker).publish(b"q:jobs", *numbered(4))
    assert payloads(workers[0].receive_messages(2)) == [b"0", b"2"]
    assert payloads(workers[2].receive_messages(2)) == [b"1", b"3"]
    workers[1].expect_nothing()


def test_every_job_goes_to_one_worker_of_any_kind(own_broker, dial):
    broker = own_broker()
    workers = joined(dial, broker, 4, names=[None, b"a", None, b"b"])
    dial(at=broker).publish(b"q:jobs", *numbered(40))
    got = [payloads(worker.receive_messages(10)) for worker in workers]
    assert sorted((job for jobs in got for job in jobs), key=int) == numbered(40)
    for worker in workers:
        worker.expect_nothing()


def test_queues_do_not_mix(own_broker, dial):
    broker = own_broker()
    (one,), (two,) = joined(dial, broker, 1, b"q:one"), joined(dial, broker, 1, b"q:two")
    producer = dial(at=broker)
    producer.publish(b"q:one", b"1")
    producer.publish(b"q:two", b"2")
    assert one.receive_payloads(1) == [b"1"]
    assert two.receive_payloads(1) == [b"2"]


# ── waiting and finished jobs


def test_jobs_are_held_while_there_is_no_worker(own_broker, dial, restart):
    broker = own_broker()
    dial(at=broker).publish(b"q:jobs", *numbered(200))
    restart(broker)
    (worker,) = joined(dial, broker, 1)
    assert payloads(worker.receive_messages(200)) == numbered(200)


def test_a_job_for_a_worker_without_a_name_is_done_when_it_is_delivered(own_broker, dial, restart):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1)
    dial(at=broker).publish(b"q:jobs", *numbered(100))
    assert payloads(worker.receive_messages(100)) == numbered(100)
    group = broker.server.broker.groups.get(b"q:jobs", b"workers")
    wait_until(lambda: not group.pending)
    restart(broker)
    (worker,) = joined(dial, broker, 1)
    dial(at=broker).publish(b"q:jobs", b"next")
    assert worker.receive_payloads(1) == [b"next"]


def test_a_job_that_was_acknowledged_does_not_come_again(own_broker, dial, restart):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(10))
    jobs = worker.receive_messages(10)
    worker.acknowledge(*jobs[:4], *jobs[6:])
    restart(broker)
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    assert worker.receive_messages(2) == jobs[4:6]
    worker.expect_nothing()


def test_kill_right_after_the_pong_and_the_job_is_done(start, dial):
    broker = start()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(20))
    jobs = worker.receive_messages(20)
    worker.acknowledge(*jobs[:10])
    broker.kill()
    broker.wait_killed()
    (worker,) = joined(dial, start(), 1, names=[b"w"])
    assert worker.receive_messages(10) == jobs[10:]


# ── redelivery


def test_jobs_of_a_worker_that_died_go_to_another_in_their_order(own_broker, dial):
    broker = own_broker()
    dying, living = joined(dial, broker, 2, names=[b"dying", b"living"])
    dial(at=broker).publish(b"q:jobs", *numbered(20))
    jobs = dying.receive_messages(10)
    living.acknowledge(*living.receive_messages(10))
    dying.acknowledge(*jobs[:3])
    dying.close()
    assert living.receive_messages(7) == jobs[3:]


def test_jobs_of_the_last_worker_wait_for_the_next(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(5))
    jobs = worker.receive_messages(5)
    worker.close()
    wait_until(lambda: not broker.server.parts.dispatchers.workers(b"q:jobs", b"workers"))
    dial(at=broker).publish(b"q:jobs", b"5")
    (worker,) = joined(dial, broker, 1)
    assert payloads(worker.receive_messages(6)) == [*payloads(jobs), b"5"]


def test_a_worker_that_is_taken_over_leaves_its_jobs_to_the_newer_one(own_broker, dial):
    broker = own_broker()
    (older,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(5))
    jobs = older.receive_messages(5)
    (newer,) = joined(dial, broker, 1, names=[b"w"])
    assert newer.receive_messages(5) == jobs
    older.expect_error("Another connection")
    older.expect_close()


def test_a_worker_that_comes_back_at_once_after_a_crash_gets_what_it_had(start, dial):
    """Its SUBSCRIBE may arrive before the broker has reclaimed the jobs."""
    broker = start()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(30))
    jobs = worker.receive_messages(30)
    for _ in range(3):
        broker.kill()
        broker.wait_killed()
        broker = start()
        (worker,) = joined(dial, broker, 1, names=[b"w"])
        assert worker.receive_messages(30) == jobs


def test_unsubscribing_gives_jobs_back(own_broker, dial):
    broker = own_broker()
    one, two = joined(dial, broker, 2, names=[b"one", b"two"])
    dial(at=broker).publish(b"q:jobs", *numbered(2))
    jobs = one.receive_messages(1)
    two.receive_messages(1)
    one.send(unsubscribe(b"q:jobs", 9))
    one.expect(ack(9))
    assert two.receive_messages(1) == jobs


def test_of_a_job_that_another_has_an_acknowledgement_means_nothing(own_broker, dial):
    broker = own_broker()
    honest, meddler = joined(dial, broker, 2, names=[b"honest", b"meddler"])
    dial(at=broker).publish(b"q:jobs", b"0", b"1")
    jobs = honest.receive_messages(1)
    meddler.acknowledge(*meddler.receive_messages(1), *jobs)
    honest.close()
    assert meddler.receive_messages(1) == jobs


# ── window


def test_a_worker_has_no_more_than_64_jobs_in_hand(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(200))
    jobs = worker.receive_messages(WINDOW)
    worker.expect_nothing()
    for done in range(0, 136, 8):
        worker.send(*(ack(job.sequence) for job in jobs[done : done + 8]), ping())
        jobs += [job for job in worker.receive_until(pong()) if job.payload]
        jobs += worker.receive_messages(WINDOW + done + 8 - len(jobs))
        worker.expect_nothing()
    assert payloads(jobs) == numbered(200)


def test_acknowledging_anything_else_does_not_widen_the_window(own_broker, dial):
    broker = own_broker()
    dial(at=broker).publish(b"t", *numbered(50))
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    history = worker.subscribe(b"t", b"w")
    worker.subscribe(b"#", b"w")
    dial(at=broker).publish(b"q:jobs", *numbered(200))
    worker.receive_messages(WINDOW + 200)
    worker.acknowledge(*history)
    worker.send(*(ack(number) for number in range(51 + WINDOW, 251)))
    worker.expect_nothing()


def test_a_worker_of_two_queues_is_given_jobs_of_the_one_when_done_with_the_other(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, b"q:one", names=[b"w"])
    worker.subscribe(b"q:two", b"w")
    producer = dial(at=broker)
    producer.publish(b"q:one", *numbered(WINDOW))
    jobs = worker.receive_messages(WINDOW)
    producer.publish(b"q:two", b"other")
    worker.expect_nothing()
    worker.send(ack(jobs[0].sequence))
    assert worker.receive_payloads(1) == [b"other"]


def test_leaving_one_queue_keeps_the_jobs_of_the_other_in_hand(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, b"q:one", names=[b"w"])
    worker.subscribe(b"q:two", b"w")
    producer = dial(at=broker)
    producer.publish(b"q:one", *numbered(WINDOW + 10))
    worker.receive_messages(WINDOW)
    worker.send(unsubscribe(b"q:two", 9))
    worker.expect(ack(9))
    producer.publish(b"q:one", b"more")
    worker.expect_nothing()


def test_a_full_worker_is_passed_over(own_broker, dial):
    broker = own_broker()
    full, free = joined(dial, broker, 2, names=[b"full", None])
    producer = dial(at=broker)
    producer.publish(b"q:jobs", *numbered(2 * WINDOW))
    full.receive_messages(WINDOW)
    free.receive_messages(WINDOW)
    producer.publish(b"q:jobs", *numbered(10))
    assert payloads(free.receive_messages(10)) == numbered(10)
    full.expect_nothing()


def test_a_worker_that_gives_a_name_later_goes_on_working_under_it(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1)
    worker.subscribe(b"t", b"w")
    producer = dial(at=broker)
    producer.publish(b"q:jobs", b"1")
    jobs = worker.receive_messages(1)
    worker.close()
    (other,) = joined(dial, broker, 1)
    assert other.receive_messages(1) == jobs  # it had a client id, so it had to acknowledge the job


# ── observers


def test_an_observer_of_everything_sees_copies_and_takes_none(own_broker, dial):
    broker = own_broker()
    observer = dial(at=broker)
    observer.subscribe(b"#", b"observer")
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    dial(at=broker).publish(b"q:jobs", *numbered(5))
    copies, jobs = observer.receive_messages(5), worker.receive_messages(5)
    assert copies == jobs
    observer.acknowledge(*copies)
    worker.close()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    assert worker.receive_messages(5) == jobs


def test_a_worker_that_subscribes_once_more_gets_each_job_once(own_broker, dial):
    broker = own_broker()
    (worker,) = joined(dial, broker, 1, names=[b"w"])
    worker.send(subscribe(b"q:jobs", b"w", 7) * 3)
    worker.expect(*[ack(7)] * 3)
    dial(at=broker).publish(b"q:jobs", *numbered(3))
    assert payloads(worker.receive_messages(3)) == numbered(3)
    worker.expect_nothing()


# ── slow workers


def test_a_worker_that_does_not_read_holds_up_nobody_and_loses_nothing(own_broker, dial):
    broker = own_broker(limits={"outbound_bytes_max": 1 << 20, "packet_bytes_max": 1 << 20})
    slow = dial(at=broker, receive_buffer_bytes=4096)
    slow.subscribe(b"q:jobs")
    producer = dial(at=broker)
    jobs = [b"%05d" % number + b"x" * 100_000 for number in range(300)]
    for start in range(0, 300, 20):
        producer.publish(b"q:jobs", *jobs[start : start + 20])
    assert slow.receive_payloads(300) == jobs
