"""Handlers of the wrong kind, that end the program, or that run at Ctrl-C.

Clients and broker are real. A worker that is interrupted is a separate process: it prints a line
when a handler begins, and its handlers wait for a line of input.
"""

import asyncio
import signal
import subprocess
import sys
import threading
from time import monotonic, sleep

import pytest

from penstock.client import (
    AsyncQueueProducer,
    AsyncWorker,
    QueueProducer,
    Worker,
    connect,
    connect_async,
)
from penstock.client.handlers import HandlerMismatchError
from penstock.testing import Broker

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        yield own


@pytest.fixture
def address(broker):
    return f"127.0.0.1:{broker.port}"


@pytest.fixture
def client(address):
    with connect([address], timeout_s=TIMEOUT_S) as made:
        yield made


@pytest.fixture
def topic(request, client):
    name = request.node.name
    client.produce_many(name, [b"0", b"1", b"2"])
    return name


def group(client, topic):
    (found,) = client.groups(topic)
    return found


def eventually(condition):
    """The broker notices a closed connection soon after."""
    deadline = monotonic() + TIMEOUT_S
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


def is_back(client, topic, lag):
    """Whether this much is left to do, and none of it is in flight."""
    found = group(client, topic)
    return (found.lag, found.in_flight) == (lag, 0)


async def awaited(job, more=None):
    await asyncio.sleep(0)


# ── Of the wrong kind ─────────────────────────────────────────────────────────────────────────


def test_an_async_handler_is_refused_by_the_blocking_client_at_once(client, topic):
    with pytest.raises(HandlerMismatchError, match="connect_async"):
        client.subscribe(topic, "g", awaited)
    assert client.groups(topic) == []


def test_a_plain_handler_is_refused_by_the_asynchronous_client_at_once(client, address, topic):
    async def main():
        async with connect_async([address]) as own:
            with pytest.raises(HandlerMismatchError, match="async def"):
                own.subscribe(topic, "g", lambda job: None)

    asyncio.run(main())
    assert client.groups(topic) == []


def test_a_job_whose_handler_returns_a_coroutine_is_not_acknowledged(client, topic):
    with (
        client.subscribe(topic, "g", lambda job: awaited(job, more=1)) as work,
        pytest.raises(HandlerMismatchError, match="its work has not begun"),
    ):
        work.wait(TIMEOUT_S)
    eventually(lambda: is_back(client, topic, 3))


def test_a_handler_that_returns_nothing_to_await_is_called_once_per_job(client, address, topic):
    called = []

    async def main():
        async with (
            connect_async([address]) as own,
            # What append returns is not known before it is called.
            own.subscribe(topic, "g", lambda job: called.append(job.payload)) as work,
        ):
            with pytest.raises(HandlerMismatchError, match="cannot be awaited"):
                await work.wait(TIMEOUT_S)

    asyncio.run(main())
    assert len(called) == len(set(called))
    eventually(lambda: is_back(client, topic, 3))


def test_a_plain_handler_that_returns_an_awaitable_is_fine(client, address, topic):
    async def main():
        done = asyncio.Queue()

        async def handle(job, note):
            note(job.payload)

        async with (
            connect_async([address]) as own,
            own.subscribe(topic, "g", lambda job: handle(job, done.put_nowait)),
        ):
            return {await asyncio.wait_for(done.get(), TIMEOUT_S) for _ in range(3)}

    assert asyncio.run(main()) == {b"0", b"1", b"2"}
    eventually(lambda: is_back(client, topic, 0))


# ── That end the program ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_ends_the_program_ends_the_subscription_and_gives_the_job_back(
    client, topic, end, caplog
):
    entered, leave = threading.Event(), threading.Event()

    def handle(job):
        if job.payload == b"0":
            assert entered.wait(TIMEOUT_S)
            leave.set()
            raise end
        if job.payload == b"1":
            entered.set()
            assert leave.wait(TIMEOUT_S)  # it runs when the program ends, and finishes

    with client.subscribe(topic, "g", handle) as work, pytest.raises(type(end)) as met:
        work.wait(TIMEOUT_S)
    assert met.value is end
    (line,) = [record for record in caplog.records if "subscription ended" in record.message]
    assert bool(line.exc_info) == isinstance(end, GeneratorExit), "no fault to find otherwise"
    eventually(lambda: group(client, topic).in_flight == 0)
    left = {job.payload for job in client.poll(topic, "g", wait_s=TIMEOUT_S)}
    assert b"0" in left
    assert b"1" not in left


def test_in_a_loop_too(client, address, topic):
    async def handle(job):
        if job.payload == b"0":
            sys.exit(3)

    async def main():
        async with connect_async([address]) as own, own.subscribe(topic, "g", handle) as work:
            with pytest.raises(SystemExit) as met:
                await work.wait(TIMEOUT_S)
            assert met.value.code == 3

    asyncio.run(main())
    eventually(lambda: group(client, topic).in_flight == 0)
    assert b"0" in {job.payload for job in client.poll(topic, "g", wait_s=TIMEOUT_S)}


def test_what_on_error_raises_to_end_the_program_ends_the_subscription(client, topic):
    def handle(_job):
        raise ValueError

    with (
        client.subscribe(topic, "g", handle, on_error=lambda *_: sys.exit(3)) as work,
        pytest.raises(SystemExit),
    ):
        work.wait(TIMEOUT_S)
    eventually(lambda: group(client, topic).in_flight == 0)


def test_a_handler_in_a_loop_that_is_cancelled_has_failed(client, address, topic):
    async def main():
        failed = asyncio.Queue()

        async def handle(_job):
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        def report(error, job):
            failed.put_nowait((str(error), job.redeliveries))

        async with (
            connect_async([address]) as own,
            own.subscribe(topic, "g", handle, on_error=report),
        ):
            while (await asyncio.wait_for(failed.get(), TIMEOUT_S))[1] == 0:
                pass  # until one was given back and redelivered

    asyncio.run(main())


# ── Ctrl-C ────────────────────────────────────────────────────────────────────────────────────

BLOCKING = """
import sys
from penstock.client import connect

def handle(job):
    print("begun", flush=True)
    print(f"{sys.stdin.readline().strip()} {job.payload.decode()}", flush=True)

address, topic, lease = sys.argv[1:]
with connect([address]) as client:
    with client.subscribe(topic, "g", handle, concurrency=1, visibility_s=float(lease)) as work:
        work.wait()
"""

LOOPED = """
import asyncio, sys
from penstock.client import connect_async

async def handle(job):
    print("begun", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    print(f"{line.strip()} {job.payload.decode()}", flush=True)

async def main():
    address, topic, lease = sys.argv[1:]
    async with connect_async([address]) as client:
        async with client.subscribe(
            topic, "g", handle, concurrency=1, visibility_s=float(lease)
        ) as work:
            await work.wait()

asyncio.run(main())
"""


class Program:
    """A program of the documented form, as a process."""

    def __init__(self, program, address, topic, lease_s=30.0):
        self._child = subprocess.Popen(
            [sys.executable, "-c", program, address, topic, str(lease_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begun(self):
        assert self._child.stdout.readline() == "begun\n"
        return self

    def interrupt(self):
        self._child.send_signal(signal.SIGINT)

    def ends(self, line=""):
        """Give its handler a line; return the program's output and errors."""
        output, errors = self._child.communicate(line, timeout=TIMEOUT_S)
        assert self._child.returncode != 0
        return output, errors

    def is_running(self):
        return self._child.poll() is None


@pytest.fixture(params=[BLOCKING, LOOPED], ids=["blocking", "async"])
def work(request, address, topic):
    made = []

    def begin(**settings):
        made.append(Program(request.param, address, topic, **settings))
        return made[0].begun()

    yield begin
    for worker in made:
        worker._child.kill()
        worker._child.communicate()


def test_a_handler_that_runs_when_ctrl_c_comes_finishes_and_is_acknowledged(work, client, topic):
    worker = work()
    worker.interrupt()
    output, errors = worker.ends("finished\n")
    assert output == "finished 0\n", "and no other job was begun"
    assert "KeyboardInterrupt" in errors
    eventually(lambda: is_back(client, topic, 2))


def test_ctrl_c_does_not_wait_for_a_stuck_handler_beyond_its_lease(work, client, topic):
    worker = work(lease_s=1.0)
    worker.interrupt()
    eventually(lambda: is_back(client, topic, 3))
    _, errors = worker.ends("unstuck\n")
    assert "handlers still run after 1 s" in errors
    assert "KeyboardInterrupt" in errors


def test_a_second_ctrl_c_abandons_the_handler(address, client, topic):
    worker = Program(BLOCKING, address, topic)
    worker.begun()
    while worker.is_running():
        worker.interrupt()
        sleep(0.05)  # two signals at once are one
    output, _ = worker.ends()
    assert output == ""
    eventually(lambda: is_back(client, topic, 3))


# ── The same for clients of the binary protocol ─────────────────────────────────────────────────


def test_workers_and_subscribers_of_the_binary_protocol_refuse_an_async_handler(broker):
    with QueueProducer("binary", port=broker.port) as producer:
        producer.push(b"job")
    with Worker("binary", "w", port=broker.port) as worker:
        with pytest.raises(HandlerMismatchError, match="AsyncWorker"):
            worker.run(awaited)
        with pytest.raises(HandlerMismatchError, match="its work has not begun"):
            worker.run(lambda job: awaited(job, more=1))
    with Worker("binary", "v", port=broker.port) as worker:
        assert worker.receive(TIMEOUT_S).payload == b"job", "it was not acknowledged"


def test_those_for_a_loop_refuse_a_plain_handler(broker):
    called = []

    async def main():
        async with AsyncQueueProducer("plain", port=broker.port) as producer:
            await producer.push(b"job")
        async with AsyncWorker("plain", "w", port=broker.port) as worker:
            with pytest.raises(HandlerMismatchError, match="async def"):
                await worker.run(lambda job: None)
            with pytest.raises(HandlerMismatchError, match="cannot be awaited"):
                await worker.run(lambda job: called.append(job.payload))

    asyncio.run(main())
    assert len(called) == 1
