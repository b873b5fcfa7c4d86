"""Fixtures for brokers and clients of the binary protocol."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.testing import Broker
from tests.conformance_binary.wire_client import BinaryClient
from tests.e2e.process import BrokerProcess


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for all tests of a file, which therefore never reuse a name."""
    with Broker() as own:
        yield own


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """Start a broker for this test alone: ``own_broker(limits={...})``."""
    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


@pytest.fixture
def start(tmp_path: Any) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker as a process, on the test's directory."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(BrokerProcess(tmp_path / "data", *arguments))


@pytest.fixture
def dial(request: pytest.FixtureRequest) -> Iterator[Callable[..., BinaryClient]]:
    """Open a connection; ``at=`` names a broker other than the file's."""
    with contextlib.ExitStack() as stack:

        def open_connection(*, at: Any = None, receive_buffer_bytes: int = 0) -> BinaryClient:
            target = at or request.getfixturevalue("broker")
            client = BinaryClient(
                target.host, target.port, receive_buffer_bytes=receive_buffer_bytes
            )
            return stack.enter_context(client)

        yield open_connection


@pytest.fixture
def unique() -> bytes:
    """A unique name: the root of this test's topics and client ids."""
    return f"u{uuid.uuid4().hex[:12]}".encode()
