"""Workers that outlive their broker, a process that is killed with SIGKILL."""

import threading
from time import monotonic, sleep

import pytest

from tests.unit.queue_client_broker import Blocking, Looped

JOBS = 4


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


class Handler:
    """Handles jobs; the second one blocks until it is released."""

    def __init__(self):
        self.handled = []
        self.is_busy, self.go = threading.Event(), threading.Event()

    def __call__(self, job):
        self.handled.append((job.offset, job.redeliveries))
        if job.offset == 1:
            self.is_busy.set()
            assert self.go.wait(30)


def group(client):
    (found,) = client.groups("t")
    return found


def eventually(condition):
    deadline = monotonic() + 20
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)


@pytest.mark.parametrize("ends", ["while it is down", "when it is back"])
def test_a_job_that_outlasts_its_broker_is_done_once(clients, start, ends):
    """Leases of a minute, so that none has to expire during the test."""
    broker, handler = start(), Handler()
    listen = ("--listen", f"127.0.0.1:{broker.port}", "--http-listen", "127.0.0.1:0")
    with clients.connect(f"127.0.0.1:{broker.port}", timeout_s=20) as client:
        client.produce_many("t", [b"%d" % number for number in range(JOBS)])
        settings = {"concurrency": 1, "visibility_s": 60, "on_error": lambda *_: None}
        with client.subscribe("t", "g", handler, **settings):
            assert handler.is_busy.wait(20)
            broker.kill()
            broker.wait_killed()
            if ends == "while it is down":
                handler.go.set()
            start(*listen, listen=False)
            eventually(lambda: group(client).consumers == 1)
            handler.go.set()
            eventually(lambda: group(client).lag == 0)
    assert handler.handled == [(offset, 0) for offset in range(JOBS)]
