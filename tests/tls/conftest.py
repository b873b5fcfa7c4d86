"""One authority and one broker with a certificate, for all tests that do not change them."""

import ssl
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.tls.authority import Authority, Files, client_context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server_files(authority: Authority) -> Files:
    return authority.server()


@pytest.fixture(scope="module")
def broker(server_files: Files) -> Iterator[Broker]:
    with Broker(tls=server_files._asdict()) as running:
        yield running


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return client_context(authority)
