"""Push channels: what is pushed when, what acknowledgements do, and what happens at the end.

Nothing is answered on such a connection, so silence is shown by what comes next.
"""

import pytest

from penstock.wire.queue._generated.queue_pb2 import Response
from tests.conformance_queue.wire_client import (
    GROUP,
    frame,
    offsets_of,
    payloads_of,
    request,
    wait_until,
)


@pytest.fixture
def other(dial):
    """Another client."""
    return dial()


def numbers(count):
    return [b"%d" % number for number in range(count)]


# ── the beginning


def test_a_subscription_has_no_answer_and_each_frame_has_one_message(client, other, topic):
    client.subscribe(topic, prefetch=3)
    other.produce(topic, *numbers(3))
    responses = client.receive_many(3)
    assert [len(response.polled.items) for response in responses] == [1, 1, 1]


def test_a_subscription_creates_its_group(client, other, topic):
    client.subscribe(topic)
    wait_until(lambda: other.ask(list_groups={"topic": topic}).groups.groups)
    assert other.group(topic).consumers == 1


def test_a_subscription_to_an_invalid_topic_is_refused(client):
    """The connection then stays as it was."""
    assert client.refusal(subscribe={"topic": "a/#", "group": GROUP}) == "bad_request"
    client.expect_nothing()


def test_urgent_messages_are_pushed_first(client, other, topic):
    other.produce(topic, b"low")
    other.produce(topic, b"high", priority=7)
    client.subscribe(topic)
    assert payloads_of(client.pushed(2)) == [b"high", b"low"]


# ── acknowledging


def test_each_acknowledgement_frees_one_prefetch_slot(client, other, topic):
    other.produce(topic, *numbers(10))
    client.subscribe(topic, prefetch=2)
    items = client.pushed(2)
    for number in range(2, 10):
        client.settle(items.pop(0))
        items += client.pushed()
        assert items[-1].offset == number


def test_names_in_acknowledgements_are_ignored(client, other, topic):
    other.produce(topic, b"a", b"b")
    client.subscribe(topic, prefetch=1)
    [first] = client.pushed()
    client.send(request(ack={"topic": "x", "group": "y", "lease_id": first.lease_id}))
    assert payloads_of(client.pushed()) == [b"b"]


def test_a_nack_redelivers_the_message(client, other, topic):
    other.produce(topic, b"a")
    client.subscribe(topic, prefetch=1)
    [first] = client.pushed()
    client.send(request(nack={"lease_id": first.lease_id}))
    [again] = client.pushed()
    assert (again.offset, again.redeliveries) == (first.offset, 1)


def test_unknown_leases_free_no_prefetch_slot(client, other, topic):
    other.produce(topic, *numbers(3))
    client.subscribe(topic, prefetch=1)
    [first] = client.pushed()
    client.send(*[request(ack={"lease_id": first.lease_id + 100 + n}) for n in range(5)])
    client.settle(first)
    [second] = client.pushed()
    assert second.offset == 1
    client.settle(second)
    assert offsets_of(client.pushed()) == [2]


def test_a_lease_of_the_group_from_elsewhere_may_be_settled(client, other, topic):
    other.produce(topic, b"theirs", b"mine")
    theirs = other.poll(topic, maximum=1)
    client.subscribe(topic, prefetch=1)
    assert payloads_of(client.pushed()) == [b"mine"]
    client.settle(*theirs)
    wait_until(lambda: other.group(topic).position == 1)


def test_other_requests_on_a_push_channel_are_ignored(client, other, topic):
    other.produce(topic, b"a", b"b")
    client.subscribe(topic, prefetch=1)
    [first] = client.pushed()
    client.send(
        frame(b""),
        frame(b"\xff\xff"),
        request(stats={}),
        request(produce={"topic": topic, "payload": b"never"}),
        request(delete_topic={"topic": topic}),
        request(subscribe={"topic": "another", "group": GROUP}),
        request(poll={"topic": topic, "group": GROUP}),
    )
    client.settle(first)
    assert payloads_of(client.pushed()) == [b"b"]
    assert other.describe(topic).end_offset == 2


def test_many_leases_are_settled_at_once(client, other, topic):
    other.produce(topic, *numbers(8))
    client.subscribe(topic, prefetch=5)
    leases = [item.lease_id for item in client.pushed(5)]
    client.send(request(ack_many={"lease_ids": leases[:3]}))
    assert offsets_of(client.pushed(3)) == [5, 6, 7]
    client.send(request(nack_many={"lease_ids": leases[3:]}))
    assert offsets_of(client.pushed(2)) == [3, 4]


# ── auto mode


def test_in_auto_mode_prefetch_does_not_limit(client, other, topic):
    other.produce(topic, *numbers(300))
    client.subscribe(topic, prefetch=1, ack_mode="auto")
    assert payloads_of(client.pushed(300)) == numbers(300)
    wait_until(lambda: other.group(topic).in_flight == 0)
    assert other.group(topic).lag == 0


def test_in_auto_mode_input_is_ignored(client, other, topic):
    other.produce(topic, b"a")
    client.subscribe(topic, ack_mode="auto")
    [first] = client.pushed()
    client.send(request(nack={"lease_id": first.lease_id}))
    other.produce(topic, b"b")
    assert payloads_of(client.pushed()) == [b"b"]


def test_in_auto_mode_a_client_that_leaves_has_been_sent_all_that_is_settled(dial, other, topic):
    """Leases that are committed while the client half-closes the connection."""
    other.produce(topic, *numbers(3_000))
    handled = 0
    for _ in range(30):
        with dial() as leaving:
            leaving.subscribe(topic, prefetch=1, ack_mode="auto")
            leaving.pushed(5)
            leaving.close_own_side()
            handled += 5 + _items_until_the_end(leaving)
    wait_until(lambda: other.group(topic).in_flight == 0)
    assert handled + other.group(topic).lag == 3_000


def _items_until_the_end(client):
    count = 0
    while received := client.receive_bytes():
        count += len(Response.FromString(received[4:]).polled.items)
    return count


# ── sharing


def test_the_members_of_a_group_share_its_messages(dial, other, topic):
    members = [dial(), dial()]
    for member in members:
        member.subscribe(topic, prefetch=5)
    wait_until(lambda: _consumers(other, topic) == 2)
    other.produce(topic, *numbers(10))
    found = [offsets_of(member.pushed(5)) for member in members]
    assert sorted(found[0] + found[1]) == list(range(10))


def test_polls_and_pushes_share_one_group(client, other, topic):
    other.produce(topic, *numbers(3))
    client.subscribe(topic, prefetch=1)
    client.pushed()
    assert offsets_of(other.poll(topic)) == [1, 2]


def _consumers(client, topic):
    groups = client.ask(list_groups={"topic": topic}).groups.groups
    return groups[0].consumers if groups else 0


# ── the end


@pytest.mark.parametrize("end", ["close", "close_own_side"])
def test_messages_in_flight_go_to_others_when_the_connection_ends(client, other, topic, end):
    """In HermesMQ their leases must expire first. It counts as a delivery."""
    other.produce(topic, b"a", b"b")
    client.subscribe(topic, visibility_timeout_ms=10**9)
    client.pushed(2)
    getattr(client, end)()
    items = other.poll(topic, wait_ms=5_000, maximum=1) + other.poll(topic)
    assert payloads_of(items) == [b"a", b"b"]
    assert [item.redeliveries for item in items] == [1, 1]


def test_acknowledgements_sent_before_the_disconnect_count(client, other, topic):
    other.produce(topic, b"a", b"b")
    client.subscribe(topic)
    first, _ = client.pushed(2)
    client.settle(first)
    client.close()
    assert payloads_of(other.poll(topic, wait_ms=5_000)) == [b"b"]
    assert other.group(topic).lag == 1


def test_a_recreated_topic_is_pushed_from_its_beginning(client, other, topic):
    """HermesMQ would mistake recently acknowledged offsets for the new messages."""
    client.subscribe(topic, prefetch=2, visibility_timeout_ms=100)
    other.produce(topic, b"old 0", b"old 1", b"old 2")
    first, _ = client.pushed(2)
    client.settle(first)
    assert payloads_of(client.pushed()) == [b"old 2"]
    other.ok(delete_topic={"topic": topic})
    other.produce(topic, b"new 0", b"new 1")
    items = client.pushed(2)
    assert [(item.offset, item.payload) for item in items] == [(0, b"new 0"), (1, b"new 1")]


# ── time


def test_a_slow_handler_may_name_an_old_lease(dial, timed, topic):
    """After three times the visibility the message is redelivered; the first lease still counts."""
    client, other = dial(at=timed), dial(at=timed)
    other.produce(topic, b"slow", b"next")
    client.subscribe(topic, prefetch=1, visibility_timeout_ms=60)
    [first] = client.pushed()
    timed.wait(0.19)
    rest = client.pushed()
    while rest[-1].offset != first.offset:  # its place was free meanwhile
        client.settle(rest.pop())
        rest += client.pushed()
    client.settle(first)
    wait_until(lambda: other.group(topic).position > first.offset)


def test_pushes_respect_the_rate(dial, ticking, topic):
    """In HermesMQ a burst of one gives some five a second, whatever the rate. Here it is twenty."""
    client, other = dial(at=ticking), dial(at=ticking)
    other.ok(set_rate_limit={"topic": topic, "rate_per_sec": 20, "burst": 1})
    other.produce(topic, *numbers(11))
    client.subscribe(topic, ack_mode="auto")
    times = []
    for number in range(11):
        assert offsets_of(client.pushed()) == [number]
        times.append(_now_ms(other, topic))
    assert 350 <= times[-1] - times[0] <= 3_000


def _now_ms(client, topic):
    """Return the broker's clock, read from the time of a message."""
    marker = f"{topic}/now"
    client.produce(marker, b"")
    [item] = client.poll(marker, ack_mode="auto")
    return item.ts_ms


def test_a_waiting_poll_gets_a_message_whose_lease_expires(dial, ticking, topic):
    client, other = dial(at=ticking), dial(at=ticking)
    client.produce(topic, b"x")
    client.poll(topic, visibility_timeout_ms=100)
    [again] = other.poll(topic, wait_ms=5_000)
    assert again.redeliveries == 1


def test_a_waiting_poll_gets_a_message_that_is_given_back(dial, client, topic):
    client.produce(topic, b"x")
    [item] = client.poll(topic)
    waiting = dial()
    waiting.send(request(poll={"topic": topic, "group": GROUP, "wait_ms": 30_000}))
    wait_until(lambda: client.group(topic).consumers == 1)
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": item.lease_id})
    assert offsets_of(waiting.receive().polled.items) == [0]


def test_a_poll_waits_as_long_as_it_asked_to(dial, ticking, topic):
    client = dial(at=ticking)
    before = _now_ms(client, topic)
    assert client.poll(topic, wait_ms=200) == []
    assert _now_ms(client, topic) - before >= 195
