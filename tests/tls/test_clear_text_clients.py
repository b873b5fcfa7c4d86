"""Clients of ours that speak clear text where TLS is required are told to encrypt."""

import pytest

from penstock.client import ConnectionLostError, Credentials, connect
from penstock.testing import Broker
from tests.tls.authority import needs_openssl

pytestmark = needs_openssl
LOGIN = Credentials("ann", "a password of ann")


@pytest.fixture(scope="module")
def port(server_files):
    encrypted = {"address": "127.0.0.1:0", "tls": "required"}
    with Broker(tls=server_files._asdict(), listeners=[encrypted]) as broker:
        yield broker.server.addresses[-1].port


@pytest.mark.parametrize("login", [None, LOGIN], ids=["anonymous", "login"])
def test_an_mqtt_client_is_told_to_use_tls(port, login):
    with pytest.raises(ConnectionLostError, match="--tls"):
        connect("127.0.0.1", port, credentials=login)


@pytest.mark.parametrize("login", [None, LOGIN], ids=["anonymous", "login"])
def test_a_queue_client_is_told_to_use_tls(port, login):
    with (
        pytest.raises(ConnectionLostError, match="--tls"),
        connect([f"127.0.0.1:{port}"], credentials=login, timeout_s=1) as client,
    ):
        client.stats()
