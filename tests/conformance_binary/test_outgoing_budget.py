"""Followers that do not read share one budget with everybody else, and miss nothing by it."""

from tests.conformance_binary.wire_client import subscribe

FOLLOWERS, MESSAGES, PAYLOAD = 10, 400, bytes(25_000)
"""Ten million bytes for each: more than the system keeps for a socket."""


BUDGET = 4 << 20
LIMIT = BUDGET + FOLLOWERS * (len(PAYLOAD) + 100)
"""Whoever finds the budget not used up may be sent one more message, whatever its size."""


def outgoing(broker) -> int:
    return broker.call(lambda: broker.server.hub.budget.used)


def test_followers_that_do_not_read_stay_within_the_budget_and_get_all_later(own_broker, dial):
    broker = own_broker(limits={"outgoing_bytes_max": "4MiB"})
    publisher = dial(at=broker)
    for number in range(MESSAGES):
        publisher.publish(b"news", number.to_bytes(2, "big") + PAYLOAD)
    followers = [dial(at=broker) for _ in range(FOLLOWERS)]
    for follower in followers:
        follower.send(subscribe(b"news"))
    for _ in range(200):
        publisher.expect_nothing()
        assert outgoing(broker) <= LIMIT
    for follower in followers:
        for number in range(MESSAGES):
            (received,) = follower.receive_messages(1)
            assert received.payload[:2] == number.to_bytes(2, "big")
            assert outgoing(broker) <= LIMIT
