"""The clients of the binary protocol against a broker that restarts and is killed.

Scenarios run with blocking and with asynchronous clients, and where it matters with nothing, a
restart and a kill in the middle. No test waits for something not to happen: to check that nothing
more comes, it publishes ``END`` and expects it next.
"""

import threading

import pytest

from penstock.client import Message, RefusedError, TakenOverError
from penstock.client.binary import link
from penstock.testing import Broker
from penstock.wire.binary.events import ReceivedMessage
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


@pytest.fixture(params=["nothing", "restart", "kill"])
def trouble(request, broker):
    """What happens in the middle of a scenario."""
    return {
        "nothing": lambda: None,
        "restart": broker.restart,
        "kill": lambda: broker.restart(kill=True),
    }[request.param]


def numbered(name, count, start=0):
    return [b"%s-%d" % (name, number) for number in range(start, start + count)]


def take(subscriber, count):
    """Receive messages; the last one is not acknowledged unless more are requested."""
    taken = []
    while len(taken) < count:
        message = subscriber.receive(20)
        assert message is not None, f"only {len(taken)} of {count} came"
        taken.append(message)
    return taken


def payloads(messages):
    return [message.payload for message in messages]


def rest(clients, subscriber, topic):
    """Return everything that a subscriber still gets of a topic, up to now."""
    clients.publisher().publish(topic, END)
    found = []
    while (message := subscriber.receive(20)).payload != END:
        found.append(message.payload)
    return found


# ── The five scenarios, each with trouble in the middle


def test_each_message_comes_once_and_never_again_when_acknowledged(clients, trouble):
    publisher = clients.publisher()
    expected = numbered(b"Message", 10)
    with clients.make("Subscriber", "test-client-1", "test/ack") as subscriber:
        for payload in expected[:5]:
            publisher.publish("test/ack", payload)
        found = payloads(take(subscriber, 5))
        trouble()
        for payload in expected[5:]:
            publisher.publish("test/ack", payload)
        found += payloads(take(subscriber, 5))
        assert found == expected
        assert rest(clients, subscriber, "test/ack") == []
    again = clients.subscriber("test-client-1", "test/ack")
    assert rest(clients, again, "test/ack") == []


@pytest.mark.parametrize("auto_ack", [True, False])
@pytest.mark.parametrize("acknowledged", [24, 25])
def test_a_client_that_returns_gets_exactly_what_it_had_not_acknowledged(
    clients, trouble, auto_ack, acknowledged
):
    """Fifty messages, 25 of them handed out: 25 acknowledgements leave 25, and 24 leave 26."""
    expected = numbered(b"Msg", 50)
    clients.publisher().publish_many("test/reconnect", expected)
    first = clients.subscriber("test-client-2", "test/reconnect", auto_ack=auto_ack)
    taken = take(first, 25)
    assert payloads(taken) == expected[:25]
    if not auto_ack or acknowledged == 25:  # the last one handed out is acknowledged explicitly
        clients.ack(*taken[:acknowledged])
    first.flush()
    first.abandon()
    trouble()
    second = clients.subscriber("test-client-2", "test/reconnect")
    assert rest(clients, second, "test/reconnect") == expected[acknowledged:]


def test_clients_with_different_ids_get_everything_each(clients, trouble):
    publisher = clients.publisher()
    expected = numbered(b"Multi", 20)
    both = [clients.subscriber(name, "test/multi") for name in ("client-A", "client-B")]
    publisher.publish_many("test/multi", expected[:10])
    found = [payloads(take(subscriber, 10)) for subscriber in both]
    trouble()
    publisher.publish_many("test/multi", expected[10:])
    for subscriber, before in zip(both, found, strict=True):
        assert before + payloads(take(subscriber, 10)) == expected
        assert rest(clients, subscriber, "test/multi")[:-1] == []


def test_history_is_replayed_in_order_and_goes_over_into_what_comes(clients, trouble):
    expected = numbered(b"Seq", 100)
    publisher = clients.publisher()
    publisher.publish_many("test/sequential", expected)
    subscriber = clients.subscriber("test-client-seq", "test/sequential")
    found = payloads(take(subscriber, 40))
    trouble()
    more = numbered(b"Seq", 10, start=100)
    publisher.publish_many("test/sequential", more)
    assert found + payloads(take(subscriber, 70)) == expected + more
    assert rest(clients, subscriber, "test/sequential") == []


def test_filters_get_what_comes_and_nothing_of_what_was(clients, trouble):
    publisher = clients.publisher()
    publisher.publish_many("test/ack", numbered(b"old", 20))
    subscriber = clients.subscriber("test-client-wildcard")
    subscriber.subscribe("#")
    published = [
        ("sensors/temp", b"25.5"),
        ("sensors/humidity", b"60%"),
        ("alerts/critical", b"High temp!"),
        ("status/ok", b"All good"),
    ]
    for topic, payload in published[:2]:
        publisher.publish(topic, payload)
    found = take(subscriber, 2)
    trouble()
    subscriber.flush()  # it has reconnected and subscribed again
    for topic, payload in published[2:]:
        publisher.publish(topic, payload)
    found += take(subscriber, 2)
    assert [(message.topic, message.payload) for message in found] == published
    assert rest(clients, subscriber, "status/ok") == []


# ── Acknowledging


def test_what_was_not_acknowledged_by_hand_comes_again(clients, trouble):
    """Out of order, twice, with gaps: exactly the gaps are delivered again, ascending."""
    expected = numbered(b"m", 10)
    clients.publisher().publish_many("t", expected)
    first = clients.subscriber("c", "t", auto_ack=False)
    taken = take(first, 10)
    clients.ack(taken[9], taken[3], taken[3], taken[0], taken[3], taken[7])
    first.flush()
    first.abandon()
    trouble()
    second = clients.subscriber("c", "t", auto_ack=False)
    holes = [payload for number, payload in enumerate(expected) if number not in {0, 3, 7, 9}]
    assert rest(clients, second, "t") == holes


def test_acknowledgements_of_unknown_messages_are_harmless(clients):
    clients.publisher().publish_many("t", numbered(b"m", 3))
    first = clients.subscriber("c", "t", auto_ack=False)
    taken = take(first, 3)
    of_nothing = Message(ReceivedMessage(b"t", b"", 99_999, None), None, taken[0]._acks)
    clients.ack(of_nothing, taken[1])
    first.flush()
    first.abandon()
    again = clients.subscriber("c", "t", auto_ack=False)
    assert rest(clients, again, "t") == [b"m-0", b"m-2"]


def test_a_message_in_hand_when_the_connection_breaks_is_not_handed_out_twice(clients, broker):
    """Nor lost: it is acknowledged over the next connection, on which it was not delivered."""
    clients.publisher().publish_many("t", numbered(b"m", 3))
    subscriber = clients.subscriber("c", "t", auto_ack=False)
    taken = take(subscriber, 2)
    broker.restart(kill=True)
    taken += take(subscriber, 1)
    assert payloads(taken) == numbered(b"m", 3)
    clients.ack(*taken)
    subscriber.flush()
    subscriber.abandon()
    again = clients.subscriber("c", "t")
    assert rest(clients, again, "t") == []


def test_flush_holds_over_a_kill(clients, broker):
    """What it confirms is on disk, also over a later connection."""
    clients.publisher().publish_many("t", numbered(b"m", 2_000))
    subscriber = clients.subscriber("c", "t", auto_ack=False)
    taken = take(subscriber, 2_000)
    broker.restart(kill=True)
    clients.ack(*taken)
    subscriber.flush()
    subscriber.abandon()
    broker.restart(kill=True)
    again = clients.subscriber("c", "t")
    assert rest(clients, again, "t") == []


def test_flush_returns_although_much_waits_to_be_handed_out(clients):
    clients.publisher().publish_many("t", numbered(b"m", 5_000))
    subscriber = clients.subscriber("c", "t")
    subscriber.flush()
    assert payloads(take(subscriber, 5_000)) == numbered(b"m", 5_000)


def test_a_loop_left_by_an_exception_does_not_acknowledge_its_message(clients):
    clients.publisher().publish_many("t", numbered(b"m", 3))

    def fail_at_the_second():
        with clients.make("Subscriber", "c", "t") as subscriber:
            for message in subscriber.messages(20):
                if message.payload == b"m-1":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_the_second()
    again = clients.subscriber("c", "t")
    assert rest(clients, again, "t") == [b"m-1", b"m-2"]


def test_a_handler_that_raises_leaves_its_message_unacknowledged(clients):
    clients.publisher().publish_many("t", numbered(b"m", 3))
    handled = []

    def handler(message):
        handled.append(message.payload)
        if len(handled) == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), clients.make("Subscriber", "c", "t") as subscriber:
        subscriber.run(handler)
    again = clients.subscriber("c", "t")
    assert rest(clients, again, "t") == [b"m-1", b"m-2"]


# ── Lost connections


def test_a_stream_over_a_broker_that_is_killed_again_and_again_has_no_gap_and_no_repetition(
    clients, broker
):
    """The publisher may repeat a message (at least once); the subscriber repeats nothing."""
    count = 3_000
    subscriber = clients.subscriber("c", "t")
    publisher = clients.publisher()
    results = []

    def publish():
        for start in range(0, count, 100):
            results.extend(publisher.publish_many("t", numbered(b"m", 100, start)))

    thread = threading.Thread(target=publish)
    thread.start()
    found = take(subscriber, 500)
    for _ in range(3):
        broker.restart(kill=True)
        found += take(subscriber, 500)
    thread.join()
    while found[-1].payload != b"m-%d" % (count - 1):
        found += take(subscriber, 1)
    assert results == [None] * count
    sequences = [message.sequence for message in found]
    assert sequences == sorted(set(sequences))
    assert list(dict.fromkeys(payloads(found))) == numbered(b"m", count)


def test_a_client_id_taken_over_ends_the_older_client_for_good(clients):
    older = clients.subscriber("c", "t")
    older.flush()
    newer = clients.subscriber("c", "t")
    newer.flush()
    with pytest.raises(TakenOverError, match="client id c"):
        older.receive(20)
    clients.publisher().publish("t", b"m")
    assert payloads(take(newer, 1)) == [b"m"]
    with pytest.raises(TakenOverError):
        older.receive(20)


def test_a_busy_client_is_told_that_its_id_was_taken_over_and_leaves_it_to_the_newer(
    clients, monkeypatch
):
    """It sends acknowledgements to a closed connection before it reads why that was closed."""
    monkeypatch.setattr(link, "ACKNOWLEDGE_DELAY_S", 0)
    clients.publisher().publish_many("t", numbered(b"m", 20))
    older = clients.subscriber("c", "t")
    older.flush()  # it has all of them
    newer = clients.subscriber("c", "t")
    newer.flush()
    with pytest.raises(TakenOverError, match="client id c"):
        take(older, 21)
    newer.flush()


def test_a_subscription_that_the_broker_refuses_is_an_error(clients):
    subscriber = clients.subscriber("c", "a/#/b")
    with pytest.raises(RefusedError, match="Cannot subscribe to 'a/#/b'"):
        subscriber.receive(20)
    other = clients.subscriber("d")
    with pytest.raises(RefusedError, match="'#' must be"):
        other.subscribe("a/#/b")
    clients.publisher().publish("t", b"m")
    other.subscribe("t")
    assert payloads(take(other, 1)) == [b"m"]


def test_nothing_comes_of_a_topic_after_unsubscribe_also_after_a_reconnect(clients, trouble):
    publisher = clients.publisher()
    subscriber = clients.subscriber("c", "t", "u")
    subscriber.unsubscribe("t")
    trouble()
    subscriber.flush()
    publisher.publish("t", b"not this")
    publisher.publish("u", b"this")
    assert payloads(take(subscriber, 1)) == [b"this"]


# ── Publishing


def test_each_of_many_publishes_has_its_own_result(clients):
    publisher = clients.publisher()
    assert publisher.publish_many("t", []) == []
    too_large = bytes(16 << 20)
    results = publisher.publish_many("t", [b"0", too_large, b"2"])
    assert [result is None for result in results] == [True, False, True]
    refused = publisher.publish_many("secure/t", [b"0", b"1"])
    assert ["requires signed publish" in str(result) for result in refused] == [True, True]
    subscriber = clients.subscriber("c", "t")
    assert rest(clients, subscriber, "t") == [b"0", b"2"]


def test_a_refused_publish_tells_why_and_what_to_do_and_leaves_the_publisher_usable(clients):
    publisher = clients.publisher()
    with pytest.raises(RefusedError) as caught:
        publisher.publish("secure/door", b"open")
    assert str(caught.value) == (
        "the broker refused: Topic 'secure/door' requires signed publish (CMD_SIGNED_PUBLISH); "
        "give the publisher a signing_key whose version the topic accepts"
    )
    publisher.publish("door", b"open")
