"""AUTH and CHALLENGE: who gets in, and what happens to what is sent behind a login."""

import pytest

from penstock.testing import Broker
from tests.access import SECRET
from tests.conformance_binary.looks import disconnects
from tests.conformance_binary.wire_client import (
    BinaryClient,
    ack,
    frame,
    ping,
    pong,
    publish,
    subscribe,
)

AUTH, CHALLENGE = 0x14, 0x15
WRONG = "Login failed: wrong user name, password or token — connection closed"


SECRET_OF = {b"ann": SECRET.encode(), b"bob": b"bob-secret"}


def auth(name: bytes, secret: bytes = b"", sequence: int = 9) -> bytes:
    return frame(AUTH, sequence, name, secret)


@pytest.fixture(scope="module")
def broker():
    """A broker with users."""
    with Broker() as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET)
        own.add_user("bob", "bob-secret", rules=["allow publish,subscribe bob/#"])
        yield own


def logged_in(dial, name: bytes) -> BinaryClient:
    client = dial()
    client.send(auth(name, SECRET_OF[name]))
    client.expect(ack(9))
    return client


def test_a_right_secret_is_acknowledged_with_the_sequence_of_the_request(dial):
    client = dial()
    client.send(auth(b"ann", SECRET.encode(), 2**64 - 1), ping())
    client.expect(ack(2**64 - 1), pong())


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (b"ann", b"bob-secret"),
        (b"ann", SECRET.encode() + b" "),
        (b"nobody", b"nobody-secret"),
        (b"", SECRET.encode()),
        (b"\xff\xfe", SECRET.encode()),
        (b"ann\0", SECRET.encode()),
        (b"key:1", bytes(64)),
        (b"key:x", bytes(64)),
        (b"ann", bytes(10_000)),
    ],
)
def test_a_wrong_login_gets_one_text_whatever_is_wrong_and_the_connection_ends(dial, name, secret):
    client = dial()
    client.send(auth(name, secret))
    client.expect_error(WRONG)
    client.expect_close()


def test_a_wrong_login_is_counted(broker, dial):
    before = disconnects(broker, "bad_credentials")
    client = dial()
    client.send(auth(b"ann", b"wrong"))
    client.expect_error("Login failed")
    client.expect_close()
    assert disconnects(broker, "bad_credentials") == before + 1


def test_nothing_behind_a_wrong_login_is_handled(broker, dial, unique):
    client = dial()
    client.send(
        auth(b"ann", b"wrong"), publish(unique, b"m"), auth(b"ann", SECRET.encode()), ping()
    )
    client.expect_error(WRONG)
    client.expect_close()
    reader = logged_in(dial, b"ann")
    assert reader.subscribe(unique) == []


def test_what_is_sent_before_a_wrong_login_is_answered_first(dial, unique):
    client = logged_in(dial, b"ann")
    client.send(publish(unique, b"m", 1), auth(b"ann", b"wrong"))
    client.expect(ack(1))
    client.expect_error(WRONG)
    client.expect_close()


def test_what_is_sent_behind_a_login_has_its_rights(dial, unique):
    client = dial()
    client.send(auth(b"ann", SECRET.encode()), publish(unique, bytes(100_000), 3), ping())
    client.expect(ack(9), ack(3), pong())


def test_a_challenge_carries_the_sequence_and_another_nonce_each_time(dial):
    client = dial()
    client.send(auth(b"key:7", sequence=5), auth(b"key:7", sequence=6))
    first, second = client.receive(), client.receive()
    assert (first.command, first.sequence, first.topic) == (CHALLENGE, 5, b"")
    assert (second.command, second.sequence, second.topic) == (CHALLENGE, 6, b"")
    assert len(first.payload) == len(second.payload) == 32
    assert first.payload != second.payload


def test_another_user_on_the_same_connection_has_its_own_rights_and_no_subscriptions(dial, unique):
    client, publisher = logged_in(dial, b"ann"), logged_in(dial, b"ann")
    client.subscribe(unique, client_id=b"id-" + unique)
    client.send(auth(b"bob", b"bob-secret"))
    client.expect(ack(9))
    publisher.publish(unique, b"for ann alone")
    client.send(publish(unique, b"m"), publish(b"bob/" + unique, b"m", 4))
    client.expect_error(f"Not authorized for topic '{unique.decode()}'")
    client.expect(ack(4))
    client.expect_nothing()


def test_logging_in_again_as_the_same_user_keeps_the_subscriptions(dial, unique):
    client, publisher = logged_in(dial, b"ann"), logged_in(dial, b"ann")
    client.subscribe(unique)
    client.send(auth(b"ann", SECRET.encode()))
    client.expect(ack(9))
    publisher.publish(unique, b"m")
    assert client.receive_payloads(1) == [b"m"]


def test_without_users_a_login_is_not_looked_at(own_broker, dial, unique):
    client = dial(at=own_broker())
    client.send(
        auth(b"ann", b"anything", 5), publish(unique, b"m", 1), subscribe(unique, sequence=2)
    )
    client.expect(ack(5), ack(1))
    assert client.receive().payload == b"m"
    client.expect(ack(2))
