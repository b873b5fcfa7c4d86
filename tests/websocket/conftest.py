"""One broker for the tests of a file; a test that changes something starts its own."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from penstock.testing import Broker
from tests.tls.authority import Authority, Files


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server_files(authority: Authority) -> Files:
    return authority.server()
