"""Followers that do not read share one budget with all clients, and miss nothing."""

from concurrent.futures import ThreadPoolExecutor, wait

from tests.conformance_binary.wire_client import subscribe

FOLLOWERS, MESSAGES, PAYLOAD = 10, 400, bytes(25_000)
"""Ten million bytes for each: more than the system keeps for a socket."""


BUDGET = 4 << 20
LIMIT = BUDGET + BUDGET // 4
"""What is being read for followers when room becomes scarce is still sent."""


def outgoing(broker) -> int:
    return broker.call(lambda: broker.server.parts.connections.budget.used)


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
    with ThreadPoolExecutor(FOLLOWERS) as pool:  # concurrently: each waits for what others hold
        reading = [pool.submit(read_all, follower) for follower in followers]
        while wait(reading, timeout=0.01).not_done:
            assert outgoing(broker) <= LIMIT
    assert [read.result() for read in reading] == [list(range(MESSAGES))] * FOLLOWERS


def read_all(follower) -> list[int]:
    """The numbers of all messages, in the order in which they come."""
    numbers = []
    for _ in range(MESSAGES):
        (received,) = follower.receive_messages(1)
        numbers.append(int.from_bytes(received.payload[:2], "big"))
    return numbers
