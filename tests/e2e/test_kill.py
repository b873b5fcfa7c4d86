"""kill -9 under load: everything acknowledged is there afterwards, and QoS 2 exactly once.

Killing the process does not lose what the system has in its cache, so this proves the order of
steps within the broker; test_acknowledgement_order.py and, for the store, tests/anomaly prove that
acknowledgements also wait for the disk.
"""

import os
import random

import pytest

from tests.e2e.load import Load

ROOMY = ("--set", "limits.queue_messages_max=1000000")
"""The subscriber may be away while publishers are connected; nothing may be dropped meanwhile."""


def survive(start, rounds, seed):
    """Kill a broker under load, start the next on its data, repeatedly; then check the account."""
    print(f"PENSTOCK_TEST_SEED={seed}")
    dice = random.Random(seed)
    load = Load(publishers=4)
    broker = start(*ROOMY)
    load.subscribe(broker.port)
    for _ in range(rounds):
        load.after(dice.randint(1, 1_500), broker.kill)
        load.run(broker.port, subscribed=dice.random() < 0.7)
        load.pause()
        broker.wait_killed()
        broker = start(*ROOMY)
        load.check_retained(broker.port)
    load.finish(broker.port)
    load.check()
    broker.stop()


def seed():
    return int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))


def test_nothing_acknowledged_is_lost_and_qos_2_is_exactly_once(start):
    survive(start, rounds=2, seed=seed())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2))])
def test_nothing_acknowledged_is_lost_over_ten_crashes(start, run):
    survive(start, rounds=10, seed=seed() + run)


def test_the_account_would_notice():
    """The account itself: one lost, one doubled, two swapped."""
    for received, complaint in (
        ([0, 1, 3], "lost"),
        ([0, 1, 2, 3, 1], "more than once"),
        ([2, 1, 0, 3], "out of order"),
    ):
        load = Load(publishers=1)
        load.publishers[0].sent = 4
        load.publishers[0].acknowledged = {0, 1, 2}
        load.subscriber.received = [b"0/%d" % number for number in received]
        with pytest.raises(AssertionError, match=complaint):
            load.check()
