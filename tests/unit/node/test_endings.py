"""How connections end in order, and what is said when the journal cannot be read."""

import socket

import pytest
import redis

from penstock.errors import StorageDamaged
from penstock.testing import Broker
from penstock.wire.binary import client as binary

HELLOS = {
    "resp": b"PING\r\n",
    "binary": binary.ping(),
    "mqtt": bytes.fromhex("100d00044d51545404020000000161"),
}
GOODBYES = {"resp": "client_disconnect", "binary": "client_disconnect", "mqtt": "connection_lost"}


@pytest.mark.parametrize("protocol", HELLOS)
def test_closing_the_socket_is_a_goodbye_where_the_protocol_has_no_other(protocol):
    with Broker() as broker:
        with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
            client.sendall(HELLOS[protocol])
            assert client.recv(100)
        name = f'penstock_disconnects_total{{reason="{GOODBYES[protocol]}"}}'
        while not broker.metrics()[name]:
            pass
        others = [
            value
            for sample, value in broker.metrics().items()
            if sample.startswith("penstock_disconnects_total") and sample != name
        ]
        assert sum(others) == 0


def test_a_journal_that_cannot_be_read_is_counted_and_the_client_told(monkeypatch):
    with Broker() as broker, redis.Redis(port=broker.port) as client:
        client.xadd("s", {"payload": "x"})

        def damaged(*_arguments):
            raise StorageDamaged("entry 1: checksum 1 where 2 was written")

        monkeypatch.setattr(type(broker.server.store), "read_topic", damaged)
        with pytest.raises(redis.ResponseError, match="checksum"):
            client.xrange("s")
        assert broker.metrics()["penstock_read_failures_total"] == 1
