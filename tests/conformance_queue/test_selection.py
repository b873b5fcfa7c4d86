"""Which messages a poll gets: mostly urgent ones, and some of the oldest, so that none starves."""

import pytest

from tests.conformance_queue.wire_client import GROUP, offsets_of, request

PRIORITIES_IN_TURN = [number % 8 for number in range(40)]

CASES = {
    "one at a time": (
        [0, 7, 7, 7, 7, 7],
        1,
        [[1], [2], [3], [0], [4], [5]],
    ),
    "more than there is": ([0, 5, 3], 10, [[1, 2, 0]]),
    "two at a time": (
        [0] * 4 + [7] * 12,
        2,
        [[4, 5], [6, 7], [8, 9], [10, 0], [11, 12], [13, 14], [15, 1], [2, 3]],
    ),
    "two rounds of all priorities": (
        PRIORITIES_IN_TURN[:16],
        8,
        [[7, 15, 6, 14, 5, 13, 1, 0], [4, 12, 3, 11, 2, 10, 9, 8]],
    ),
    "five rounds of all priorities": (
        PRIORITIES_IN_TURN,
        8,
        [
            [7, 15, 23, 31, 39, 6, 1, 0],
            [14, 22, 30, 38, 5, 13, 3, 2],
            [21, 29, 37, 4, 12, 20, 9, 8],
            [28, 36, 11, 19, 27, 10, 17, 16],
            [35, 18, 26, 34, 25, 33, 24, 32],
        ],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_successive_polls_mix_urgent_and_oldest_messages(client, topic, case):
    priorities, maximum, expected = case
    client.send(*(request(produce={"topic": topic, "priority": each}) for each in priorities))
    client.receive_many(len(priorities))
    for offsets in expected:
        items = client.poll(topic, maximum=maximum)
        assert offsets_of(items) == offsets
        leases = [item.lease_id for item in items]
        assert leases == list(range(leases[0], leases[0] + len(leases)))
        client.ack(topic, items)
    assert client.poll(topic, maximum=maximum) == []


def test_the_oldest_message_is_chosen_at_least_every_fourth_time(client, topic):
    [oldest] = client.produce(topic, b"patient")
    seen = []
    for _ in range(4):
        client.produce(topic, b"urgent", b"urgent", priority=7)
        seen += offsets_of(client.poll(topic, maximum=1))
    assert oldest in seen


def test_a_redelivery_goes_before_newer_messages_of_its_priority(client, topic):
    client.produce(topic, b"a", b"b", b"c")
    [first] = client.poll(topic, maximum=1)
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": first.lease_id})
    assert offsets_of(client.poll(topic, maximum=2)) == [0, 1]


def test_a_redelivery_goes_after_more_urgent_messages(client, topic):
    client.produce(topic, b"low")
    [low] = client.poll(topic)
    client.produce(topic, b"high", priority=3)
    client.ok(nack={"topic": topic, "group": GROUP, "lease_id": low.lease_id})
    assert offsets_of(client.poll(topic)) == [1, 0]


def test_each_group_counts_its_own_polls(client, topic):
    client.produce(topic, b"patient")
    client.produce(topic, *[b"urgent"] * 4, priority=7)
    for group in ("g", "h"):
        polls = [offsets_of(client.poll(topic, group, 1)) for _ in range(4)]
        assert polls == [[1], [2], [3], [0]]
