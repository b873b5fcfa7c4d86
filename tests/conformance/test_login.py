"""CONNECT with credentials: which code each login gets, and what waits behind it."""

import queue

import pytest

from penstock.access.logins import LoginFault, LoginRefusal
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance.wire_client import (
    PINGREQ,
    PINGRESP,
    connack,
    connect_packet,
    puback,
    publish,
    suback,
    subscribe,
    wait_until,
)

SERVER_UNAVAILABLE, BAD_CREDENTIALS, NOT_AUTHORIZED = 3, 4, 5


@pytest.fixture(scope="module")
def broker():
    """A broker with users, where clients of this machine must log in, too."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET)
        own.add_user("bob", SECRET, rules=["allow publish,subscribe pump/#"])
        yield own


def login(client_id: str, name: str, secret: str = SECRET, **options) -> bytes:
    return connect_packet(client_id, username=name, password=secret.encode(), **options)


def disconnects(broker: Broker, reason: str) -> float:
    return broker.metrics()[f'penstock_disconnects_total{{reason="{reason}"}}']


@pytest.mark.parametrize("head", [b"\x10\xff\xff\xff\x7f", b"\x10\x80\x80\x08"])
def test_a_connect_that_announces_too_much_is_closed_before_it_is_sent(broker, dial, head):
    before = disconnects(broker, "packet_too_large")
    client = dial()
    client.send(head)
    client.expect_close()
    wait_until(lambda: disconnects(broker, "packet_too_large") == before + 1)


def test_a_right_password_is_accepted(dial, unique):
    client = dial()
    client.send(login(unique, "ann"))
    client.expect(connack())
    client.ping()


@pytest.mark.proves("MQTT-3.2.2-4", "MQTT-3.2.2-5")
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ann", "wrong"),
        ("ann", ""),
        ("nobody", SECRET),
        ("ann", SECRET + " "),
        ("ANN", SECRET),
        ("", SECRET),
        ("key:1", SECRET),
        ("ann", "x" * 5_000),
    ],
)
def test_wrong_credentials_get_code_4_whatever_is_wrong_and_the_connection_ends(
    broker, dial, unique, name, secret
):
    before = disconnects(broker, "bad_credentials")
    client = dial()
    client.send(login(unique, name, secret))
    client.expect(connack(code=BAD_CREDENTIALS))
    client.expect_close()
    assert disconnects(broker, "bad_credentials") == before + 1


def test_a_user_name_without_a_password_is_a_wrong_login(dial, unique):
    client = dial()
    client.send(connect_packet(unique, username="ann"))
    client.expect(connack(code=BAD_CREDENTIALS))
    client.expect_close()


@pytest.mark.proves("MQTT-3.2.2-4", "MQTT-3.2.2-5")
@pytest.mark.parametrize("options", [{}, {"username": ""}, {"username": "", "password": b""}])
def test_who_must_log_in_and_does_not_gets_code_5(broker, dial, unique, options):
    before = disconnects(broker, "login_required")
    client = dial()
    client.send(connect_packet(unique, **options))
    client.expect(connack(code=NOT_AUTHORIZED))
    client.expect_close()
    assert disconnects(broker, "login_required") == before + 1


@pytest.mark.proves("MQTT-3.1.4-5")
def test_nothing_behind_a_refused_connect_is_handled(broker, dial, connect, unique):
    reader = connect(unique + "r", username="ann", password=SECRET.encode())
    reader.send(subscribe(1, (f"{unique}/#", 1)))
    reader.expect(suback(1, 1))
    for refused in (login(unique, "ann", "wrong"), connect_packet(unique)):
        client = dial()
        client.send(refused, publish(f"{unique}/a", b"m", qos=1, packet_id=1), PINGREQ)
        assert client.receive()[0] == 0x20
        client.expect_close()
    last = connect(unique + "p", username="ann", password=SECRET.encode())
    last.send(publish(f"{unique}/b", b"last", qos=1, packet_id=1))
    last.expect(puback(1))
    reader.expect(publish(f"{unique}/b", b"last", qos=1, packet_id=1))


def test_what_is_sent_behind_a_login_is_handled_after_it(dial, unique):
    client = dial()
    client.send(login(unique, "ann"), publish(unique, b"m", qos=1, packet_id=7), PINGREQ)
    client.expect(connack())
    assert {client.receive(), client.receive()} == {puback(7), PINGRESP}


def test_a_login_that_takes_its_time_holds_what_is_sent_behind_it(broker, dial, unique):
    held = hold_logins(broker)
    client = dial()
    client.send(login(unique, "ann"), subscribe(1, (unique, 0)), PINGREQ)
    finish = held.get(timeout=30)
    assert unique.encode() not in broker.call(lambda: set(broker.server.broker.sessions))
    broker.call(finish)
    client.expect(connack())
    assert {client.receive(), client.receive()} == {suback(1, 0), PINGRESP}


def test_a_client_that_is_cut_off_while_its_login_is_judged_gets_no_session(broker, dial, unique):
    held = hold_logins(broker)
    client = dial()
    client.send(login(unique, "ann", clean=False))
    finish = held.get(timeout=30)

    def cut_off():
        for connection in list(broker.server.parts.connections.clients):
            if connection.name == unique.encode():
                connection.close(DisconnectReason.CLIENT_KILLED)

    broker.call(cut_off)
    broker.call(finish)
    client.expect_close()
    assert unique.encode() not in broker.call(lambda: set(broker.server.broker.sessions))


def hold_logins(broker: Broker):
    """Let logins wait; the queue gets what finishes each of them."""
    logins = broker.server.parts.logins
    real, held = type(logins).log_in, queue.SimpleQueue()

    def log_in(origin, door, credentials, done):
        held.put(lambda: real(logins, origin, door, credentials, done))

    broker.call(lambda: setattr(logins, "log_in", log_in))
    return held


@pytest.fixture(autouse=True)
def _logins_as_they_are(broker):
    yield
    broker.call(lambda: vars(broker.server.parts.logins).pop("log_in", None))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (LoginFault.WRONG, BAD_CREDENTIALS),
        (LoginFault.BUSY, SERVER_UNAVAILABLE),
        (LoginFault.UNAVAILABLE, SERVER_UNAVAILABLE),
        (LoginFault.BANNED, NOT_AUTHORIZED),
        (LoginFault.NOT_ALLOWED, NOT_AUTHORIZED),
    ],
)
def test_every_fault_of_a_login_has_its_code(broker, dial, unique, fault, code):
    refusal = LoginRefusal(fault, DisconnectReason.LOGIN_BUSY, "for a reason")
    logins = broker.server.parts.logins
    broker.call(lambda: setattr(logins, "log_in", lambda *arguments: arguments[-1](refusal)))
    client = dial()
    client.send(login(unique, "ann"))
    client.expect(connack(code=code))
    client.expect_close()


def test_a_will_to_a_denied_topic_is_refused_at_connect(broker, dial, unique):
    before = disconnects(broker, "not_authorized")
    client = dial()
    client.send(login(unique, "bob", will=("plant/x", b"gone", 1, False)))
    client.expect(connack(code=NOT_AUTHORIZED))
    client.expect_close()
    assert disconnects(broker, "not_authorized") == before + 1
    client = dial()
    client.send(login(unique, "bob", will=("pump/x", b"gone", 1, False)))
    client.expect(connack())


def test_without_users_credentials_are_not_looked_at(own_broker, connect, unique):
    connect(unique, at=own_broker(), username="anybody", password=b"anything").ping()
