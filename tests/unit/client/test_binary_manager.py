"""From connection to connection: what must be the same for both drivers of the binary clients."""

import pytest

from penstock.client import Backoff, ConnectionLostError
from penstock.client.binary.settings import publisher_manager, subscriber_manager
from penstock.errors import LocalProtocolError
from penstock.model.history_start import HistoryStart
from penstock.wire.binary import encode
from penstock.wire.binary.client import ping
from penstock.wire.binary.fields import SubscribeFields, WelcomeFields
from penstock.wire.binary.frame import BinaryCommand
from penstock.wire.binary.server import BinaryServerMachine

DOUBLING = Backoff(first_s=1, longest_s=100, give_up_s=50)
WELCOME = encode.welcome(0, WelcomeFields())
STOPPING = encode.error("The broker is stopping")


def test_a_broker_that_only_says_farewell_is_left_alone_for_longer_and_longer():
    manager = publisher_manager(backoff=DOUBLING)
    pauses = []
    for now in (0, 1, 2, 3):
        manager.opened(now)
        manager.heard(STOPPING, now)
        pauses.append(manager.ended(now, 0) - now)
    assert pauses == [1, 2, 4, 8]
    manager.opened(10)
    manager.session.barrier()
    manager.turn(10)
    manager.heard(WELCOME + encode.pongs(1), 10)
    assert manager.ended(10, 0) == 11


def test_after_too_long_it_gives_up_with_the_brokers_last_words():
    manager = publisher_manager(backoff=DOUBLING)
    manager.opened(0)
    manager.heard(STOPPING, 0)
    manager.ended(0, 0)
    with pytest.raises(ConnectionLostError, match="The broker is stopping"):
        manager.ended(49, 0)


def test_jobs_that_wait_when_the_connection_ends_are_not_handed_out():
    manager = subscriber_manager("c", ["q:jobs", "t"])
    manager.opened(0)
    manager.heard(encode.message(b"q:jobs", b"job", 1) + encode.message(b"t", b"message", 2), 0)
    manager.ended(0, 0)
    assert [manager.inbox.give().payload, manager.inbox.give()] == [b"message", None]


def test_who_leaves_takes_nothing_more():
    manager = subscriber_manager("c", ["t"])
    manager.opened(0)
    manager.is_leaving = True
    manager.heard(encode.message(b"t", b"", 1), 0)
    assert len(manager.inbox.arrived) == 0


def test_a_ping_leaves_when_it_is_due():
    manager = publisher_manager(keep_alive_s=60)
    manager.opened(0)
    assert manager.turn(0)[1] == BinaryCommand.HELLO
    assert (manager.turn(59), manager.turn(60), manager.next_at) == (b"", ping(), 120)
    assert (manager.is_silent(179), manager.is_silent(180)) == (False, True)


def test_the_window_counts_publishes_and_their_bytes():
    manager = publisher_manager()
    assert manager.has_room
    for _ in range(1_000):
        assert not manager.is_crowded
        manager.session.publish("t", b"")
    assert manager.is_crowded
    manager.opened(0)
    manager.turn(0)
    manager.heard(WELCOME + encode.acks(range(1, 500)), 0)
    assert not manager.has_room
    manager.heard(encode.ack(500), 0)
    assert manager.has_room
    manager.session.publish("t", bytes(1 << 20))
    assert manager.is_crowded


def test_a_callback_that_raises_does_not_cost_what_came_with_it():
    def fail(_lost):
        raise ZeroDivisionError

    manager = subscriber_manager("c", ["t"], on_lost=fail)
    manager.opened(0)
    lost = encode.error("7 messages of 't' were removed by retention unread")
    messages = [encode.message(b"t", b"%d" % number, number) for number in (1, 2, 3)]
    with pytest.raises(ZeroDivisionError):
        manager.heard(b"".join([messages[0], lost, *messages[1:]]), 0)
    assert [manager.inbox.give().payload for _ in range(3)] == [b"1", b"2", b"3"]


def test_nodes_take_turns():
    manager = publisher_manager(nodes=["a:1", "[::1]:2"], host="ignored", port=9)
    assert [manager.next_address() for _ in range(3)] == [("a", 1), ("::1", 2), ("a", 1)]
    with pytest.raises(LocalProtocolError, match="no port"):
        publisher_manager(nodes=["a"])


@pytest.mark.parametrize(
    ("start", "fields"),
    [
        ("earliest", SubscribeFields()),
        ("latest", SubscribeFields(is_from_now=True)),
        ("last=3", SubscribeFields(HistoryStart(last=3))),
        ("since=5", SubscribeFields(HistoryStart(since_ms=5))),
    ],
)
def test_a_subscriber_says_where_it_begins(start, fields):
    manager = subscriber_manager("c", ["t"], start=start)
    manager.opened(0)
    hello, subscribe = BinaryServerMachine().receive(manager.turn(0))
    assert (hello.client_id, subscribe.client_id, subscribe.fields) == (b"c", b"c", fields)


@pytest.mark.parametrize("keywords", [{"start": "offset=3"}, {"start": "x"}, {"prefetch": 70_000}])
def test_what_no_broker_understands_is_refused(keywords):
    with pytest.raises(LocalProtocolError):
        subscriber_manager("c", ["t"], **keywords)
