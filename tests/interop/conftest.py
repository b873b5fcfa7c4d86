"""One broker per file, and clients that are gone when their test is."""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from penstock.testing import Broker
from tests.interop.clients import Client, Library, Options
from tests.interop.libraries import FIVE, LIBRARIES, parameters, skip_if_missing


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Shared by the tests of a file, which therefore never reuse a name."""
    with Broker() as own:
        yield own


@pytest.fixture
def unique() -> str:
    """A unique name: the root of this test's topics and client ids."""
    return f"u{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=parameters(LIBRARIES))
def library(request: pytest.FixtureRequest) -> Library:
    """Each library in turn, with each version of MQTT that it speaks."""
    skip_if_missing(request.param)
    return request.param


@pytest.fixture(params=parameters(FIVE))
def library5(request: pytest.FixtureRequest) -> Library:
    """Each library that speaks MQTT 5 in turn."""
    skip_if_missing(request.param)
    return request.param


class Connector:
    """Connects through a library, ``await connect(library, "name", clean=False)``, and cleans up."""

    def __init__(self, port: int, prefix: str) -> None:
        self._port = port
        self._prefix = prefix
        self._open: list[Client] = []

    async def __call__(self, library: Library, name: str, **options: Any) -> Client:
        asked = Options(library.version, **options)
        client = library.client(self._port, f"{self._prefix}-{name}", asked)
        await client.connect()
        self._open.append(client)
        return client

    async def leave(self, client: Client) -> None:
        """Let a client disconnect before its test ends."""
        self._open.remove(client)
        await client.disconnect()

    async def vanish(self, client: Client) -> None:
        """Let a client vanish."""
        self._open.remove(client)
        await client.vanish()

    async def leave_all(self) -> None:
        while self._open:
            await self.leave(self._open[0])


@pytest_asyncio.fixture
async def connect(broker: Broker, unique: str) -> AsyncIterator[Connector]:
    connector = Connector(broker.port, unique)
    yield connector
    await connector.leave_all()
