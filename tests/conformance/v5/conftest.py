"""The fixtures of the suite in version 5: ``dial`` and ``connect`` give ``Client5``."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.conformance.wire_client import TARGET, TIMEOUT_S
from tests.websocket.framed_socket import FramedSocket

both_transports = pytest.mark.parametrize("transport", ["tcp", "ws"], indirect=True)
"""For a sample of the tests: their claims hold by WebSocket as well."""


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    asked = getattr(request, "param", "tcp")
    if asked == "ws" and TARGET:
        pytest.skip("another broker has its WebSocket at another port")
    return asked


@pytest.fixture
def dial(request: pytest.FixtureRequest, transport: str) -> Iterator[Callable[..., Client5]]:
    """Open a bare connection; ``at=`` names a broker other than the file's."""
    with contextlib.ExitStack() as stack:

        def open_connection(*, at: Any = None) -> Client5:
            target = at or request.getfixturevalue("broker")
            client = stack.enter_context(Client5(target.host, target.port))
            if transport == "ws":
                client.socket.close()
                client.socket = FramedSocket(target.host, target.port, TIMEOUT_S)
            return client

        yield open_connection


@pytest.fixture
def connect(dial: Callable[..., Client5]) -> Callable[..., Client5]:
    """Open a connection and be accepted; options as for ``packets5.connect``."""

    def open_session(
        client_id: str | bytes = "",
        *,
        at: Any = None,
        session_present: bool = False,
        **options: Any,
    ) -> Client5:
        client = dial(at=at)
        client.send(v5.connect(client_id, **options))
        client.expect_connack(session_present=session_present)
        return client

    return open_session
