"""How a test of the queue protocol gets its broker and its clients."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.testing import Broker
from tests.conformance_queue.wire_client import QueueClient
from tests.e2e.process import BrokerProcess
from tests.virtual_loop import VirtualLoop


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for all tests of a file, which never reuse a name; its clock stands still."""
    with Broker() as own:
        yield own


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """Start a broker for this test alone: ``own_broker(limits={...})``."""
    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


@pytest.fixture(scope="module")
def ticking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of a file in which time must pass by itself."""
    with BrokerProcess(tmp_path_factory.mktemp("ticking") / "data") as process:
        yield process


class TimedBroker:
    """A broker of which leases, pauses and waits end when the test lets time pass."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.host, self.port = broker.host, broker.port
        parts, clock = broker.server.parts, broker.clock
        self._loop = parts.loop = VirtualLoop(parts.loop, clock.monotonic)
        broker.server.parts.queue_door.loop = self._loop

    def wait(self, seconds: float) -> None:
        """Let time pass; what becomes due is done and stored before time goes on."""
        clock = self._broker.clock
        end = clock.monotonic() + seconds
        while (due := self._broker.call(self._loop.due, end)) is not None:
            when, callback = due
            clock.advance(max(when - clock.monotonic(), 0))
            self._broker.call(callback)
        clock.advance(end - clock.monotonic())


@pytest.fixture
def timed(own_broker: Callable[..., Broker]) -> TimedBroker:
    """A broker for this test alone, whose time passes when the test says so."""
    return TimedBroker(own_broker())


@pytest.fixture
def dial(request: pytest.FixtureRequest) -> Iterator[Callable[..., QueueClient]]:
    """Open a connection; ``at=`` names a broker other than the file's."""
    with contextlib.ExitStack() as stack:

        def open_connection(*, at: Any = None) -> QueueClient:
            target = at or request.getfixturevalue("broker")
            return stack.enter_context(QueueClient(target.host, target.port))

        yield open_connection


@pytest.fixture
def client(dial: Callable[..., QueueClient]) -> QueueClient:
    """A connection to the file's broker."""
    return dial()


@pytest.fixture
def topic() -> str:
    """A name nobody else uses."""
    return f"t{uuid.uuid4().hex[:12]}"
