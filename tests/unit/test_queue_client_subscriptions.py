"""Subscriptions of both queue clients over real sockets, with scripted brokers at the other end."""

import asyncio
import contextlib
import logging
import queue
import threading

import pytest
from tests.unit.queue_client_broker import (
    Blocking,
    Looped,
    be_there,
    broker,
    polled,
    refused,
)

from penstock.client import QueueRefusedError, connect, connect_async
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2 as wire


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


class Pushing:
    """A broker that pushes, and notes what is said of the leases."""

    def __init__(self, *items, until):
        self._items = items
        self._until = until
        """How many leases must have been settled before it hangs up."""
        self.subscribed = None
        self.acked = []
        self.nacked = []
        self.frames = 0

    def __call__(self, peer):
        self.subscribed = peer.read().subscribe
        for item in self._items:
            peer.say(**polled(item))
        while len(self.acked) + len(self.nacked) < self._until:
            self.note(peer.read())

    def note(self, request):
        self.frames += 1
        self.acked += request.ack_many.lease_ids
        self.nacked += [(lease, request.nack_many.reason) for lease in request.nack_many.lease_ids]


@pytest.fixture
def subscribe(clients):
    """Subscribe at a broker that has these conversations; close when all of them are over."""

    def play(*conversations, handler=lambda job: None, **settings):
        over = threading.Event()

        def end(peer):
            over.set()
            while peer.read() is not None:
                pass

        # The first connection is the client's own, as ``connect`` makes it.
        with (
            broker(be_there, *conversations, end) as address,
            clients.connect(address) as client,
            client.subscribe("t", "g", handler, **settings),
        ):
            assert over.wait(20)

    return play


def test_a_job_is_acknowledged_when_its_handler_returns(subscribe):
    pushing = Pushing((0, b"a"), (1, b"b"), (2, b"c"), until=3)
    handled = []
    subscribe(pushing, handler=lambda job: handled.append((job.topic, job.group, job.payload)))
    assert sorted(handled) == [("t", "g", payload) for payload in (b"a", b"b", b"c")]
    assert sorted(pushing.acked) == [0, 1, 2]


def test_a_job_is_given_back_with_a_reason_when_its_handler_raises(subscribe):
    pushing = Pushing((0, b"good"), (1, b"bad"), (2, b"worse"), until=3)
    reported = []

    def handle(job):
        if job.payload == b"bad":
            raise ValueError("too bad")
        if job.payload == b"worse":
            raise KeyError

    subscribe(pushing, handler=handle, on_error=lambda error, job: reported.append((job, error)))
    assert pushing.acked == [0]
    assert sorted(pushing.nacked) == [(1, "too bad"), (2, "KeyError")]
    assert {type(error) for job, error in reported if job is not None} == {ValueError, KeyError}


def test_what_was_asked_for_is_what_is_subscribed_to(subscribe):
    pushing = Pushing((0, b""), until=1)
    subscribe(pushing, concurrency=3, visibility_s=1.5, start=17)
    asked = pushing.subscribed
    assert (asked.topic, asked.group, asked.prefetch) == ("t", "g", 3)
    assert (asked.visibility_timeout_ms, asked.ack_mode) == (1500, "manual")
    assert (asked.start, asked.start_value) == (wire.OFFSET, 17)


def test_with_auto_nothing_is_acknowledged_and_all_is_handled(clients):
    """What the broker sent before it noticed our leaving went to no one else, and is handled."""
    handled, said = [], []
    first = threading.Event()

    def push(peer):
        assert peer.read().subscribe.ack_mode == "auto"
        for lease in range(10):
            peer.say(**polled((lease, b"%d" % lease)))
        said.extend(peer.requests())

    def handle(job):
        first.set()
        handled.append(job.payload)

    with broker(be_there, push) as address, clients.connect(address) as client:
        subscription = client.subscribe("t", "g", handle, ack_mode="auto", concurrency=2)
        assert first.wait(20)
        subscription.close()
    assert said == []
    assert sorted(handled) == [b"%d" % lease for lease in range(10)]


def test_handlers_run_side_by_side_as_many_as_allowed(subscribe):
    meeting = threading.Barrier(3)
    pushing = Pushing((0, b""), (1, b""), (2, b""), until=3)
    subscribe(pushing, handler=lambda _: meeting.wait(20), concurrency=3)
    assert sorted(pushing.acked) == [0, 1, 2]


def test_a_subscription_comes_back_for_ever_and_says_why(subscribe):
    first, second = Pushing((0, b"a"), until=1), Pushing((1, b"b"), until=2)
    reported = []

    def garbage(peer):
        peer.read()
        peer.send(b"\xff" * 100)

    def refuse(peer):
        peer.read()
        peer.say(**refused("internal"))

    subscribe(
        first,
        garbage,
        refuse,
        lambda peer: peer.read(),
        second,
        on_error=lambda error, job: reported.append((error, job)),
    )
    assert (first.acked, second.acked) == ([0], [0, 1]), "what was told last is told again"
    kinds = [type(error).__name__ for error, job in reported if job is None]
    assert kinds == [
        "ConnectionLostError",
        "BrokerProtocolError",
        "BrokerFailedError",
        "ConnectionLostError",
        "ConnectionLostError",
    ]


@pytest.mark.parametrize("code", ["bad_request", "forbidden", "limit"])
def test_what_is_refused_for_good_is_the_end(clients, code):
    """There is no broker for a second attempt, which would fail visibly."""
    reported = []

    def refuse(peer):
        peer.read()
        peer.say(**refused(code))

    with (
        broker(be_there, refuse) as address,
        clients.connect(address) as client,
        client.subscribe("t", "g", print, on_error=lambda *told: reported.append(told)) as work,
    ):
        for _ in range(2):
            with pytest.raises(QueueRefusedError, match="said the broker") as met:
                work.wait(20)
            assert met.value.code == code
    ((error, job),) = reported
    assert (error.code, job) == (code, None)


def test_the_end_of_a_subscription_is_logged_when_nobody_else_is_told(clients, caplog):
    def refuse(peer):
        peer.read()
        peer.say(**refused("forbidden"))

    with (
        caplog.at_level(logging.WARNING, "penstock.client"),
        broker(be_there, refuse) as address,
        clients.connect(address) as client,
        client.subscribe("t", "g", print) as work,
        pytest.raises(QueueRefusedError),
    ):
        work.wait(20)
    (record,) = caplog.records
    assert record.getMessage().startswith("subscription ended: the broker refused (forbidden)")


def test_a_handler_that_runs_when_the_end_comes_is_seen_out(clients):
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"")))
        assert entered.wait(20)
        peer.say(**refused("forbidden"))

    def handle(_job):
        entered.set()
        assert leave.wait(20)
        left.set()

    with (
        broker(be_there, push) as address,
        clients.connect(address) as client,
        client.subscribe("t", "g", handle, on_error=lambda *_: leave.set()) as work,
    ):
        with pytest.raises(QueueRefusedError):
            work.wait(20)
        assert left.is_set()


def test_a_node_that_does_not_lead_is_left_in_silence(subscribe):
    pushing = Pushing((0, b""), until=1)
    reported = []

    def point(peer):
        peer.read()
        peer.say(**refused("not_leader"))

    subscribe(point, pushing, on_error=lambda *told: reported.append(told))
    assert pushing.acked == [0]
    assert len(reported) <= 1, "only that the conversation after it ended"


def test_a_job_in_hand_is_not_handled_twice_when_it_comes_again(subscribe):
    """The lease that came last is the one that is acknowledged."""
    again = threading.Event()
    handled = []

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"slow")))
        assert started.wait(20)

    def push_again(peer):
        peer.read()
        item = wire.Delivered(lease_id=50, offset=100, payload=b"slow", ts_ms=5)
        peer.say(polled=wire.Polled(items=[item]))
        peer.say(**polled((1, b"other")))
        leases = []
        while len(leases) < 2:
            leases += peer.read().ack_many.lease_ids
        assert sorted(leases) == [1, 50]

    started = threading.Event()

    def handle(job):
        handled.append(job.payload)
        if job.payload == b"slow":
            started.set()
            assert again.wait(20)
        else:
            again.set()  # what came after the repetition is here, so that is past

    subscribe(push, push_again, handler=handle)
    assert handled == [b"slow", b"other"]


def test_closing_waits_for_handlers_and_tells_the_broker(clients):
    entered, leave = threading.Event(), threading.Event()
    acked = []

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"")))
        for request in peer.requests():
            acked.extend(request.ack_many.lease_ids)

    def handle(_job):
        entered.set()
        assert leave.wait(20)

    with broker(be_there, push) as address, clients.connect(address) as client:
        subscription = client.subscribe("t", "g", handle)
        assert entered.wait(20)
        assert subscription.wait(0) is False
        closing = threading.Thread(target=subscription.close)
        closing.start()
        leave.set()
        closing.join(20)
        assert subscription.wait(20) is True
    assert acked == [0]


def test_no_more_handlers_run_at_once_than_were_asked_for(clients):
    """Not even when the broker pushes more, as it does with ``auto``."""
    running, most = [], []
    entered, finished = threading.Semaphore(0), threading.Semaphore(0)
    go = threading.Event()

    def push(peer):
        peer.read()
        for lease in range(20):
            peer.say(**polled((lease, b"")))
        assert peer.read() is None

    def handle(job):
        running.append(job)
        entered.release()
        assert go.wait(20)
        most.append(len(running))
        running.remove(job)
        finished.release()

    with (
        broker(be_there, push) as address,
        clients.connect(address) as client,
        client.subscribe("t", "g", handle, ack_mode="auto", concurrency=2),
    ):
        for _ in range(2):
            assert entered.acquire(timeout=20)
        go.set()
        for _ in range(20):
            assert finished.acquire(timeout=20)
    assert max(most) <= 2


@contextlib.contextmanager
def pushing(count):
    """A broker that pushes jobs and records the acknowledged leases until the client leaves."""
    acked = []

    def push(peer):
        peer.read()
        peer.send(encode.pushed([(n, n, 0, 0, b"", 1, 0, ()) for n in range(count)]))
        for request in peer.requests():
            acked.extend(request.ack_many.lease_ids)

    with broker(be_there, push) as address:
        yield address, acked


@pytest.fixture
def pushing_one():
    with pushing(1) as made:
        yield made


@pytest.fixture
def pushing_three():
    with pushing(3) as made:
        yield made


def test_a_handler_may_close_its_subscription_and_leave_the_rest_to_the_broker(pushing_three):
    address, acked = pushing_three
    box = queue.Queue()
    with connect([address]) as client:

        def handle(_job):
            box.get(timeout=20).close()

        subscription = client.subscribe("t", "g", handle, concurrency=1)
        box.put(subscription)
        assert subscription.wait(20) is True
    assert acked == [0]


def test_a_handler_in_a_loop_may_close_its_subscription_too(pushing_three):
    address, acked = pushing_three

    async def main():
        made = asyncio.get_running_loop().create_future()

        async def handle(_job):
            await (await made).close()

        async with connect_async([address]) as client:
            subscription = client.subscribe("t", "g", handle, concurrency=1)
            made.set_result(subscription)
            assert await subscription.wait(20) is True

    asyncio.run(main())
    assert acked == [0]


def test_the_last_acknowledgement_is_sent_when_all_other_handlers_are_gone(pushing_one):
    """There is nothing else to batch it with."""
    address, acked = pushing_one
    box = queue.Queue()

    def handle(_job):
        box.get(timeout=20).close()
        for thread in threading.enumerate():
            is_other = thread is not threading.current_thread()
            if is_other and thread.name.startswith("penstock-handler"):
                thread.join(20)

    with connect([address]) as client:
        subscription = client.subscribe("t", "g", handle, concurrency=16)
        box.put(subscription)
        assert subscription.wait(20) is True
    assert acked == [0]


def test_with_auto_what_is_pushed_while_we_leave_is_handled():
    """The broker counts it as done; it goes on until it learns that we leave."""
    leaving, pushed = threading.Event(), threading.Event()
    handled = []
    box = queue.Queue()

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"")))
        assert leaving.wait(20)
        for lease in range(1, 6):
            peer.say(**polled((lease, b"")))
        pushed.set()
        assert peer.read() is None

    def handle(job):
        handled.append(job.lease_id)
        if job.lease_id == 0:
            box.get(timeout=20).close()
            leaving.set()
            assert pushed.wait(20)

    with broker(be_there, push) as address, connect([address]) as client:
        subscription = client.subscribe("t", "g", handle, ack_mode="auto", concurrency=1)
        box.put(subscription)
        assert subscription.wait(20) is True
    assert handled == [0, 1, 2, 3, 4, 5]


def test_with_auto_a_handler_in_a_loop_may_end_when_our_direction_is_closed():
    """There is nothing to say for it, and even nothing must not be written then."""
    left, ended = threading.Event(), threading.Event()
    complaints = []

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"")))
        assert peer.read() is None
        left.set()
        assert ended.wait(20)

    async def main(address):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        made = loop.create_future()

        async def handle(_job):
            await (await made).close()
            assert await asyncio.to_thread(left.wait, 20)
            ended.set()

        async with connect_async([address]) as client:
            subscription = client.subscribe("t", "g", handle, ack_mode="auto")
            made.set_result(subscription)
            assert await subscription.wait(20) is True

    with broker(be_there, push) as address:
        asyncio.run(main(address))
    assert complaints == []


def test_acknowledgements_of_a_burst_leave_together(subscribe):
    count = 64
    pushing = Pushing(*((lease, b"") for lease in range(count)), until=count)
    subscribe(pushing, concurrency=count)
    assert sorted(pushing.acked) == list(range(count))
    assert pushing.frames < count


def test_trouble_is_logged_when_nobody_else_is_told(subscribe, caplog):
    pushing = Pushing((0, b"bad"), until=1)

    def handle(_job):
        raise ValueError("too bad")

    with caplog.at_level(logging.WARNING, "penstock.client"):
        subscribe(pushing, handler=handle)
    assert "job failed (delivery 1, reported to the broker): t[100]: too bad" in caplog.text


def test_of_a_job_that_is_not_given_back_that_is_not_said(subscribe, caplog):
    def handle(_job):
        raise ValueError("too bad")

    def push(peer):
        peer.read()
        peer.say(**polled((0, b"bad")))
        assert reported.wait(20)

    reported = threading.Event()
    with caplog.at_level(logging.ERROR, "penstock.client"):
        caplog.handler.addFilter(lambda record: reported.set() or True)
        subscribe(push, handler=handle, ack_mode="auto")
    assert "job failed (delivery 1, not returned: ack_mode is auto)" in caplog.text


def test_an_error_of_on_error_changes_nothing(subscribe, caplog):
    pushing = Pushing((0, b"bad"), (1, b"good"), until=2)

    def handle(job):
        if job.payload == b"bad":
            raise ValueError

    def fail(_error, _job):
        raise RuntimeError("on_error itself")

    subscribe(pushing, handler=handle, on_error=fail)
    assert (pushing.acked, pushing.nacked) == ([1], [(0, "ValueError")])
    assert "on_error itself" in caplog.text
