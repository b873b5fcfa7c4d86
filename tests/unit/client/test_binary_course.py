"""From connection to connection: what must be the same for both drivers of the binary clients."""

import pytest

from penstock.client import Backoff, ConnectionLostError
from penstock.client.edge.settings import publisher_course, subscriber_course
from penstock.wire.binary import encode
from penstock.wire.binary.client import ping

DOUBLING = Backoff(first_s=1, longest_s=100, give_up_s=50)
STOPPING = encode.error("The broker is stopping")


def test_a_broker_that_only_says_farewell_is_left_alone_for_longer_and_longer():
    course = publisher_course({"backoff": DOUBLING})
    pauses = []
    for now in (0, 1, 2, 3):
        course.opened(now)
        course.heard(STOPPING, now)
        pauses.append(course.ended(now, 0) - now)
    assert pauses == [1, 2, 4, 8]
    course.opened(10)
    course.session.barrier()
    course.turn(10)
    course.heard(encode.pongs(1), 10)
    assert course.ended(10, 0) == 11


def test_after_too_long_it_gives_up_with_the_brokers_last_words():
    course = publisher_course({"backoff": DOUBLING})
    course.opened(0)
    course.heard(STOPPING, 0)
    course.ended(0, 0)
    with pytest.raises(ConnectionLostError, match="The broker is stopping"):
        course.ended(49, 0)


def test_jobs_that_wait_when_the_connection_ends_are_not_handed_out():
    course = subscriber_course("c", ["q:jobs", "t"], {})
    course.opened(0)
    course.heard(encode.message(b"q:jobs", b"job", 1) + encode.message(b"t", b"message", 2), 0)
    course.ended(0, 0)
    assert [course.inbox.give().payload, course.inbox.give()] == [b"message", None]


def test_who_leaves_takes_nothing_more():
    course = subscriber_course("c", ["t"], {})
    course.opened(0)
    course.is_leaving = True
    course.heard(encode.message(b"t", b"", 1), 0)
    assert len(course.inbox) == 0


def test_a_ping_leaves_when_it_is_due():
    course = publisher_course({"keep_alive_s": 60})
    course.opened(0)
    assert (course.turn(59), course.turn(60), course.next_at) == (b"", ping(), 120)
    assert (course.is_silent(179), course.is_silent(180)) == (False, True)


def test_the_window_counts_publishes_and_their_bytes():
    course = publisher_course({})
    assert course.has_room
    for _ in range(1_000):
        assert not course.is_crowded
        course.session.publish("t", b"")
    assert course.is_crowded
    course.opened(0)
    course.turn(0)
    course.heard(encode.acks(range(1, 500)), 0)
    assert not course.has_room
    course.heard(encode.ack(500), 0)
    assert course.has_room
    course.session.publish("t", bytes(1 << 20))
    assert course.is_crowded


def test_a_callback_that_raises_does_not_cost_what_came_with_it():
    def fail(_lost):
        raise ZeroDivisionError

    course = subscriber_course("c", ["t"], {"on_lost": fail})
    course.opened(0)
    lost = encode.error("7 messages of 't' were removed by retention unread")
    messages = [encode.message(b"t", b"%d" % number, number) for number in (1, 2, 3)]
    with pytest.raises(ZeroDivisionError):
        course.heard(b"".join([messages[0], lost, *messages[1:]]), 0)
    assert [course.inbox.give().payload for _ in range(3)] == [b"1", b"2", b"3"]
