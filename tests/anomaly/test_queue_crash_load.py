"""kill -9 of a broker under the load of a work queue: no job is lost, none is stored twice.

Killing the process does not lose what the system has in its cache, so this proves the order of steps
within the broker; the tests of the store prove that answers wait for the disk.
"""

import os
import random
from collections import Counter

import pytest

from tests.anomaly.queue_load import Account, Load
from tests.e2e.process import BrokerProcess


def survive(data, rounds, messages, seed):
    """Kill a broker under load, start the next on its data, and so on; then settle accounts."""
    print(f"PENSTOCK_TEST_SEED={seed}")
    dice = random.Random(seed)
    with BrokerProcess(data) as first:
        port = first.port
        load = Load(port, seed, messages)
        load.start()
        try:
            broker = first
            for number in range(rounds):
                share = (number + dice.random()) / rounds
                load.wait_until(lambda share=share: load.produced >= load.total * share)
                broker.kill()
                broker.wait_killed()
                addresses = ("--listen", f"127.0.0.1:{port}", "--http-listen", "127.0.0.1:0")
                broker = BrokerProcess(data, *addresses, listen=False)
            load.finish()
            broker.stop()
        finally:
            load.stop()
            broker._close()


def seed():
    return int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))


def test_no_job_is_lost_or_stored_twice_over_three_crashes(tmp_path):
    survive(tmp_path / "data", rounds=3, messages=1_000, seed=seed())


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", range(3))
def test_no_job_is_lost_or_stored_twice_over_ten_crashes(tmp_path, run):
    survive(tmp_path / "data", rounds=10, messages=3_000, seed=seed() + run)


def account():
    """One of three messages, of which the second is poison for one group."""
    made = Account()
    for seq, offset in ((1, 0), (40, 1), (2, 2)):
        made.produced("p", seq, offset)
    payloads = [b"p/1", b"p/40", b"p/2"]
    made.delivered["polled"] = Counter(payloads)
    made.done("failing", [b"p/1", b"p/2"])
    return made, list(enumerate(payloads)), [b"p/40"]


def lose_one(made, stored, letters):
    stored.pop()


def store_one_twice(made, stored, letters):
    stored.append((3, b"p/1"))


def move_one(made, stored, letters):
    stored[0] = (7, b"p/1")


def deliver_not(made, stored, letters):
    del made.delivered["polled"][b"p/2"]


def deliver_after_it_was_done(made, stored, letters):
    class Item:
        payload = b"p/1"

    made.received("failing", [Item])


def tell_another_offset(made, stored, letters):
    made.produced("p", 1, 9)


def bury_twice(made, stored, letters):
    letters.append(b"p/40")


def bury_what_is_done(made, stored, letters):
    letters.append(b"p/1")


def bury_not(made, stored, letters):
    letters.clear()


CHANGES = {
    lose_one: "lost or moved",
    store_one_twice: "stored more than once",
    move_one: "lost or moved",
    deliver_not: "never came",
    deliver_after_it_was_done: "after it was done",
    tell_another_offset: "is at 0 and at 9",
    bury_twice: "died twice",
    bury_what_is_done: "done and dead",
    bury_not: "neither done nor dead",
}


@pytest.mark.parametrize(("change", "complaint"), CHANGES.items())
def test_the_account_would_notice(change, complaint):
    made, stored, letters = account()
    made.check(stored, letters)
    change(made, stored, letters)
    with pytest.raises(AssertionError, match=complaint):
        made.check(stored, letters)
