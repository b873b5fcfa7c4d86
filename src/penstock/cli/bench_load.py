"""The measurements of ``penstock bench``: real clients against a real broker.

Each one takes about as long as the plan says and ends early when ``stop`` can be read; what was
measured until then is in its figure. Publishers that need a core of their own are forked: they get
the credentials with the memory of this process, never by a pipe or a file.
"""

import multiprocessing
import select
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from time import monotonic, process_time
from typing import Final, NamedTuple

from penstock.cli.admin_client import AdminClient
from penstock.cli.bench_figures import (
    IN_FLIGHT,
    JOBS,
    Drops,
    Figure,
    Latency,
    Plan,
    number_of,
)
from penstock.cli.connection import BrokerTarget
from penstock.cli.paged import PAGE, first_page
from penstock.client import Client, ConnectionLostError, QueueClient
from penstock.errors import PenstockError

DRAIN_S: Final = 2.0  # without a delivery for so long, what is missing is lost
ANSWER_S: Final = 30.0  # longest wait for a process of ours beyond its time
LOOK_EVERY: Final = 64  # messages between two looks at the clock and at ``stop``
GROUP: Final = "bench"

Tell = Callable[[int], None]


def is_stopped(stop: int) -> bool:
    return bool(select.select([stop], [], [], 0)[0])


class Bench(NamedTuple):
    """What every measurement needs."""

    plan: Plan
    target: BrokerTarget
    stop: int  # readable once it shall end
    tell: Callable[[float], None]  # the seconds that a measurement has run

    def is_stopped(self) -> bool:
        return is_stopped(self.stop)

    def goes_on(self, began: float) -> bool:
        took_s = monotonic() - began
        self.tell(took_s)
        return took_s < self.plan.seconds and not self.is_stopped()


class _Told(NamedTuple):
    """What a forked publisher reports."""

    sent: int
    took_s: float
    cpu_s: float
    error: str = ""


Measurement = tuple[str, Callable[[Plan], str], Callable[[Bench, Figure], None]]


def measure(bench: Bench, measurement: Measurement) -> Figure:
    """Make one measurement; an error of it is in its figure."""
    name, title, run = measurement
    figure = Figure(name=name, title=title(bench.plan))
    try:
        run(bench, figure)
        figure.finished = not bench.is_stopped()
    except PenstockError as error:
        figure.error = str(error).replace("\n", ";")
    return figure


# ── Durable publishes ─────────────────────────────────────────────────────────────────────────


def _durable_one_by_one(bench: Bench, figure: Figure) -> None:
    taken: list[float] = []
    topic, payloads = bench.plan.topic("durable_single"), bench.plan.payloads(1)
    with bench.target.mqtt() as client, _own_cores(figure):
        began = monotonic()
        while bench.goes_on(began):
            payload = next(payloads)
            before = monotonic()
            client.publish(topic, payload, 1)
            taken.append(monotonic() - before)
        figure.count(len(taken), monotonic() - began)
    figure.latency = Latency.of(taken)


def _durable_by_many(bench: Bench, figure: Figure) -> None:
    with _publishers(bench, bench.plan.clients, _publish_durably) as pipes:
        told = _reports(bench, pipes)
    _sum_up(figure, told)


def _publish_durably(bench: Bench, number: int, client: Client) -> int:
    topic = bench.plan.client_topic(number)
    messages = _until_the_end(bench, topic, 100 + number)
    return client.publish_many(messages, 1, window=IN_FLIGHT)


def _until_the_end(bench: Bench, topic: str, seed: int) -> Iterator[tuple[str, bytes]]:
    began = monotonic()
    for number, payload in enumerate(bench.plan.payloads(seed)):
        if not number % LOOK_EVERY and not bench.goes_on(began):
            return
        yield topic, payload


# ── QoS 0 ─────────────────────────────────────────────────────────────────────────────────────


def _delivery_at_a_rate(bench: Bench, figure: Figure) -> None:
    """Publish when a message is due, whatever became of those before; latency is from then on."""
    plan, topic = bench.plan, bench.plan.topic("qos0_paced")
    payloads, taken, sent = plan.payloads(2), list[float](), 0
    with bench.target.mqtt() as subscriber, bench.target.mqtt() as publisher:
        subscriber.subscribe([(topic, 0)])
        with _own_cores(figure):
            began = last = monotonic()

            def receive(timeout_s: float, *wake: int) -> bool:
                arrived = subscriber.receive(None, timeout_s, wake)
                now = monotonic()
                taken.extend(now - began - plan.due_s(number_of(one.payload)) for one in arrived)
                return bool(arrived)

            while sent < plan.paced_messages and not bench.is_stopped():
                due_s = plan.due_s(sent) - (monotonic() - began)
                if due_s > 0:
                    receive(due_s, bench.stop)
                    continue
                publisher.publish(topic, next(payloads))
                sent += 1
                bench.tell(monotonic() - began)
            publisher.ping()
            last = monotonic()
            while len(taken) < sent and receive(DRAIN_S):
                last = monotonic()
            figure.count(len(taken), last - began)
            _note_losses(bench, figure, subscriber, sent - len(taken))
    figure.latency, figure.sent = Latency.of(taken), sent


def _delivery_flat_out(bench: Bench, figure: Figure) -> None:
    with bench.target.mqtt() as subscriber:
        subscriber.subscribe([(bench.plan.topic("qos0_flat_out"), 0)])
        with _publishers(bench, 1, _publish_flat_out) as pipes:
            arrived, took_s, cpu_s = _count_deliveries(bench, subscriber, pipes[0])
            (told,) = _reports(bench, pipes)
        while arrived < told.sent:
            began = monotonic()
            new = len(subscriber.receive(None, DRAIN_S))
            if not new:
                break
            arrived, took_s = arrived + new, took_s + monotonic() - began
        _note_losses(bench, figure, subscriber, told.sent - arrived)
    _sum_up(figure, [told])
    figure.count(arrived, took_s)
    figure.sent = told.sent
    figure.client_cores = round((cpu_s + told.cpu_s) / max(took_s, 1e-9), 2)
    figure.client_processes = 2


def _note_losses(bench: Bench, figure: Figure, subscriber: Client, lost: int) -> None:
    """Ask the broker why, which records each drop; not everybody may see that."""
    figure.lost = lost
    if not lost:
        return
    with suppress(PenstockError):
        asked = {"client_id": subscriber.client_id, "kind": "dropped"}
        found = first_page(AdminClient(bench.target), "events", PAGE, **asked).items
        advice = {one["reason"]: one.get("advice", "") for one in found}
        counts = Counter[str]()
        for one in found:
            counts[one["reason"]] += one.get("count", 1)
        figure.lost_because = [
            Drops(reason, count, advice[reason]) for reason, count in counts.most_common()
        ]


def _count_deliveries(
    bench: Bench, subscriber: Client, pipe: Connection
) -> tuple[int, float, float]:
    """Until the publisher is done: how many came, in which time, and the processor time of it."""
    arrived, began, cpu = 0, monotonic(), process_time()
    while not pipe.poll():
        arrived += len(subscriber.receive(None, 1.0, (pipe.fileno(), bench.stop)))
        bench.tell(monotonic() - began)
        if bench.is_stopped():
            break
    return arrived, monotonic() - began, process_time() - cpu


def _publish_flat_out(bench: Bench, _number: int, client: Client) -> int:
    sent = client.publish_many(_until_the_end(bench, bench.plan.topic("qos0_flat_out"), 3))
    client.ping()  # the broker has taken them all
    return sent


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────


def _jobs(bench: Bench, figure: Figure) -> None:
    done = 0
    if bench.target.way.websocket is not None:
        raise PenstockError("jobs are not carried by a WebSocket: use mqtt://")
    with bench.target.queue() as client, _own_cores(figure):
        began = monotonic()
        payloads = bench.plan.payloads(4)
        while bench.goes_on(began):
            done += _work_off(client, bench.plan.topic("jobs"), payloads)
        figure.count(done, monotonic() - began)


def _work_off(client: QueueClient, topic: str, payloads: Iterator[bytes]) -> int:
    results = client.produce_many(topic, [next(payloads) for _ in range(JOBS)])
    for result in results:
        if result.error is not None:
            raise result.error
    jobs = client.poll(topic, GROUP, max=JOBS, wait_s=1.0)
    client.ack(jobs)
    return len(jobs)


# ── Processes of our own ──────────────────────────────────────────────────────────────────────

Publish = Callable[[Bench, int, Client], int]


@contextmanager
def _publishers(bench: Bench, count: int, publish: Publish) -> Iterator[list[Connection]]:
    """Fork publishers; when all are connected they begin. Each reports by its pipe."""
    bench.target.credentials  # noqa: B018 - asks for a password here, not in each of them
    forked = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        pipes = []
        for number in range(count):
            ours, theirs = forked.Pipe()
            child = forked.Process(
                target=_publisher, args=(bench, number, publish, theirs), daemon=True
            )
            child.start()
            stack.callback(child.join, ANSWER_S)
            theirs.close()
            pipes.append(stack.enter_context(ours))
        for pipe in pipes:
            _answer(pipe)
        for pipe in pipes:
            with suppress(OSError):  # one that could not connect has gone
                pipe.send(None)
        yield pipes


def _publisher(bench: Bench, number: int, publish: Publish, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's ``stop`` ends us, too
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    quiet = bench._replace(tell=lambda _took_s: None)
    sent, began, cpu = 0, monotonic(), process_time()
    try:
        with bench.target.mqtt() as client:
            pipe.send(None)
            pipe.recv()
            began, cpu = monotonic(), process_time()
            sent = publish(quiet, number, client)
        told = _Told(sent, monotonic() - began, process_time() - cpu)
    except PenstockError as error:
        told = _Told(sent, 0.0, 0.0, str(error))
    except EOFError:  # the parent gave up before the beginning
        return
    with suppress(OSError):  # it may have given up since
        pipe.send(told)


def _reports(bench: Bench, pipes: list[Connection]) -> list[_Told]:
    """What the publishers report, once each has ended. Raises the first error."""
    began, waiting = monotonic(), set(pipes)
    while waiting and monotonic() - began < bench.plan.seconds + ANSWER_S:
        ready = wait(list(waiting), 0.1)
        waiting = {pipe for pipe in waiting if pipe not in ready}
        bench.tell(monotonic() - began)
    return [told for told in map(_answer, pipes) if told is not None]


def _answer(pipe: Connection) -> _Told | None:
    """What a publisher said. Raises PenstockError if it went, or says nothing for long."""
    try:
        if not pipe.poll(ANSWER_S):
            raise PenstockError("a publisher of this measurement did not answer in time")
        said: _Told | None = pipe.recv()
    except (EOFError, OSError):
        raise ConnectionLostError("a publisher of this measurement ended early") from None
    if said is not None and said.error:
        raise PenstockError(said.error)
    return said


def _sum_up(figure: Figure, told: list[_Told]) -> None:
    took_s = max(one.took_s for one in told)
    figure.count(sum(one.sent for one in told), took_s)
    figure.client_cores = round(sum(one.cpu_s for one in told) / max(took_s, 1e-9), 2)
    figure.client_processes = len(told)


@contextmanager
def _own_cores(figure: Figure) -> Iterator[None]:
    """Note how busy this process was."""
    began, cpu = monotonic(), process_time()
    yield
    figure.client_cores = round((process_time() - cpu) / max(monotonic() - began, 1e-9), 2)


MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    (
        "durable_single",
        lambda _plan: "QoS 1, one at a time (the disk's flush)",
        _durable_one_by_one,
    ),
    (
        "durable_many",
        lambda plan: f"QoS 1, {plan.clients} x {IN_FLIGHT} in flight",
        _durable_by_many,
    ),
    (
        "qos0_paced",
        lambda plan: f"QoS 0, {plan.rate:,}/s, until delivered",
        _delivery_at_a_rate,
    ),
    ("qos0_flat_out", lambda _plan: "QoS 0, flat out, delivered", _delivery_flat_out),
    ("jobs", lambda _plan: "jobs produced, polled, acknowledged", _jobs),
)
