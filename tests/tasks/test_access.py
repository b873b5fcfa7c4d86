"""Tasks with users: the rights that the documentation names are enough, and needed."""

import signal

import pytest

from penstock.client.errors import NotAuthorizedError
from penstock.testing import Broker
from tests.tasks.kit import Shop

pytestmark = pytest.mark.slow

SECRET = "correct horse battery"

OF_SENDERS = ("allow publish tasks/shop/#", "allow read results/shop/#")

OF_WORKERS = (
    "allow publish tasks/shop/#",
    "allow work tasks/shop/#",
    "allow manage tasks/shop/#",
    "allow publish results/shop/#",
    "allow manage results/shop/#",
)


@pytest.fixture
def broker():
    with Broker(users={"root": "another long secret"}) as running:
        yield running


@pytest.fixture
def shop(broker, tmp_path, monkeypatch):
    broker.add_user("ann", SECRET, rules=OF_WORKERS)
    made = Shop(f"127.0.0.1:{broker.port}", tmp_path, monkeypatch, SECRET)
    yield made
    made.close()


def test_the_rights_of_a_worker_are_enough(shop):
    worker = shop.ready_worker("--only", "resize", "--only", "tick")
    shop.module.tick.delay()
    assert shop.wait_notes("ticks", 1)
    assert worker.stop() == 0


def test_the_rights_of_a_sender_are_enough_and_do_not_make_a_worker(shop, broker):
    worker = shop.ready_worker("--only", "resize")
    broker.add_user("bob", SECRET, rules=OF_SENDERS)
    shop.module.app.credentials.user = "bob"
    assert shop.module.resize.delay("cat.png").result() == "cat.png is 200 wide"
    with pytest.raises(NotAuthorizedError):
        shop.app.client.poll("tasks/shop/resize", "workers")
    assert worker.stop(signal.SIGINT) == 0


def test_a_worker_with_a_wrong_password_says_so_and_ends(shop, broker):
    broker.add_user("ann", "changed meanwhile", rules=OF_WORKERS)
    worker = shop.worker("--only", "resize")
    assert worker.wait() == 1
    assert "wrong user name, password or token" in " ".join(worker.lines)
    assert SECRET not in " ".join(worker.lines)
