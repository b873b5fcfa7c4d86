"""Clients that log in, and that encrypt: what they may do, and what they are told."""

import pytest

from penstock.testing import Broker
from tests.clients.driver_process import FailedError
from tests.conformance.wire_client import wait_until
from tests.tls.authority import Authority, needs_openssl

pytestmark = pytest.mark.slow

SECRET = "correct horse battery"
RULES = ("allow publish plant/#", "allow subscribe plant/#", "allow read plant/#")


@pytest.fixture
def broker():
    with Broker(auth={"anonymous": "deny"}) as own:
        own.add_user("device", SECRET, rules=RULES)
        own.add_user("reader", SECRET)
        yield own


def login(secret=SECRET):
    return {"user": "device", "password": secret}


def test_a_user_publishes_and_subscribes_where_the_rules_allow_it(drive, broker):
    driver = drive("users", "subscribe")
    driver.connect(broker.port, client_id="reader", **login())
    driver.publish("plant/pump7", b"4.2")
    with pytest.raises(FailedError):
        driver.publish("office/door", b"open")
    driver.do("subscribe", topic="plant/pump7")
    assert driver.payloads(1) == [b"4.2"]


def test_a_wrong_password_is_told_and_not_tried_again_and_again(drive, broker):
    driver = drive("login")
    with pytest.raises(FailedError):
        driver.connect(broker.port, client_id="reader", **login("wrong"))
    with pytest.raises(FailedError):
        driver.publish("plant/pump7", b"4.2")
    logins = 'penstock_logins_total{door="binary",outcome="bad_credentials"}'
    assert broker.metrics()[logins] <= 3, "one for each time that the scenario asked"


@needs_openssl
def test_a_client_with_tls_publishes_and_subscribes(drive, tmp_path):
    authority = Authority(tmp_path / "authority")
    with Broker(tls=authority.server()._asdict()) as broker:
        driver = drive("tls", "subscribe")
        driver.connect(broker.port, client_id="reader", ca=authority.cert)
        driver.publish("plant/pump7", b"4.2")
        driver.do("subscribe", topic="plant/pump7")
        assert driver.payloads(1) == [b"4.2"]


@needs_openssl
def test_a_history_in_many_records_of_tls_comes_once_and_in_order(drive, tmp_path):
    """Records end within messages, and a read of the client within a record."""
    authority = Authority(tmp_path / "authority")
    with Broker(tls=authority.server()._asdict()) as broker:
        driver = drive("tls", "subscribe")
        driver.connect(broker.port, client_id="reader", ca=authority.cert)
        sent = [b"%d" % number * (number % 70 + 1) for number in range(150)]
        for payload in sent:
            driver.publish("plant/pump7", payload)
        driver.do("subscribe", topic="plant/pump7")
        assert driver.payloads(len(sent)) == sent
        broker.restart()
        driver.publish("plant/pump7", b"behind a new handshake")
        assert driver.payloads(1) == [b"behind a new handshake"]


@needs_openssl
def test_a_broker_with_a_strangers_certificate_gets_nothing(drive, tmp_path):
    own, stranger = Authority(tmp_path / "own"), Authority(tmp_path / "stranger", "stranger")
    with Broker(tls=stranger.server()._asdict()) as broker:
        driver = drive("tls")
        driver.connect(broker.port, client_id="reader", ca=own.cert, wait=False)
        driver.begin_publish("plant/pump7", b"secret")
        # some clients end the handshake, others complete it and look then
        wait_until(lambda: disconnects(broker) > 0)
        assert broker.server.store.topic(b"plant/pump7") is None


def disconnects(broker):
    counts = broker.metrics().items()
    return sum(count for name, count in counts if name.startswith("penstock_disconnects_total"))
