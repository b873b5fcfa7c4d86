"""Which broker is tested, and how a test gets its clients.

By default each test file gets its own broker, in this process. With
``PENSTOCK_TEST_TARGET=host:port`` the same claims are tested against any broker that listens there;
tests that need its internals (clock, restart, limits, metrics) are then skipped.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.conformance.translated import Translated
from tests.conformance.wire_client import TARGET, WireClient, connack, connect_packet


class Target(NamedTuple):
    """An external broker: the suite did not start it and cannot control it."""

    host: str
    port: int


@pytest.fixture(scope="module")
def broker() -> Iterator[Any]:
    """The broker under test: one for all tests of a file, which therefore never reuse a name."""
    if TARGET:
        host, port = TARGET.rsplit(":", 1)
        yield Target(host, int(port))
        return
    from penstock.testing import Broker

    with Broker() as own:
        yield own


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Any]]:
    """Start a broker for this test alone: ``own_broker(limits={...})``."""
    if TARGET:
        pytest.skip("needs a broker that the test controls")
    from penstock.testing import Broker

    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


both_versions = pytest.mark.parametrize("version", [4, 5], ids=["3.1.1", "5.0"], indirect=True)
"""For tests whose claims hold for both: they are run for each (``tests/conformance/translated.py``)."""


@pytest.fixture
def version(request: pytest.FixtureRequest) -> int:
    """The protocol level that the clients of a test speak."""
    return getattr(request, "param", 4)


@pytest.fixture
def dial(request: pytest.FixtureRequest, version: int) -> Iterator[Callable[..., WireClient]]:
    """Open a bare connection; ``at=`` names a broker other than the file's."""
    kind = Translated if version == 5 else WireClient
    with contextlib.ExitStack() as stack:

        def open_connection(*, at: Any = None) -> WireClient:
            target = at or request.getfixturevalue("broker")
            return stack.enter_context(kind(target.host, target.port))

        yield open_connection


@pytest.fixture
def connect(dial: Callable[..., WireClient]) -> Callable[..., WireClient]:
    """Open a connection and be accepted: ``connect("id", clean=False, session_present=True)``."""

    def open_session(
        client_id: str | bytes = "",
        *,
        at: Any = None,
        session_present: bool = False,
        **options: Any,
    ) -> WireClient:
        client = dial(at=at)
        client.send(connect_packet(client_id, **options))
        client.expect(connack(session_present=session_present))
        return client

    return open_session


@pytest.fixture
def unique() -> str:
    """A unique name: the root of this test's topics and client ids."""
    return f"u{uuid.uuid4().hex[:12]}"
