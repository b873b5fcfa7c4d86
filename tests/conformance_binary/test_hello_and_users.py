"""HELLO where there are users and signatures: whose numbers they are, and who may have a client id."""

import pytest

from penstock.testing import Broker
from penstock.wire.binary import client as frames
from tests.access import SECRET
from tests.conformance_binary.wire_client import (
    CODES,
    NUMBERS,
    ack,
    coded,
    frame,
    hello,
    publish,
)
from tests.signing.kit import now_ms, register

EPOCH = bytes(range(8))
AUTH = 0x14


@pytest.fixture(scope="module")
def broker():
    """A broker with users."""
    with Broker() as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET)
        own.add_user("bob", SECRET, rules=["allow publish %c/#"])
        yield own


def logged_in(dial, name, client_id, **asked):
    client = dial()
    client.send(frame(AUTH, 9, name, SECRET.encode()))
    client.expect(ack(9))
    client.greet(client_id, **asked)
    return client


def test_two_users_with_the_same_client_id_have_numbers_of_their_own(dial, unique):
    for name in (b"ann", b"root"):
        client = logged_in(dial, name, unique, features=NUMBERS, epoch=EPOCH)
        client.send(publish(unique, name, 1), publish(unique, name, 1))
        client.expect(ack(1), ack(1))
    reader = logged_in(dial, b"ann", b"")
    assert [found.payload for found in reader.subscribe(unique)] == [b"ann", b"root"]


def test_a_client_id_of_hello_stands_for_c_in_rules(dial, unique):
    client = logged_in(dial, b"bob", unique, features=CODES)
    client.send(publish(unique + b"/x", b"m", 1), publish(b"other/x", b"m", 2))
    text = "Not authorized for topic 'other/x'"
    client.expect(ack(1), coded(b"not_authorized", 2, text))


def test_a_login_as_another_user_ends_the_numbers(dial, unique):
    client = logged_in(dial, b"ann", unique, features=NUMBERS, epoch=EPOCH)
    client.send(frame(AUTH, 3, b"root", SECRET.encode()))
    client.expect(ack(3))
    client.send(publish(unique, b"m", 1), publish(unique, b"m", 1))
    client.expect(ack(1), ack(1))
    assert len(client.subscribe(unique)) == 2


def test_a_signed_publish_that_is_signed_anew_is_stored_once(own_broker, dial):
    broker = own_broker()
    key, other = register(broker), register(broker)
    client = dial(at=broker)
    client.greet(b"pump", features=NUMBERS, epoch=EPOCH)
    for signer in (key, key, other):
        signature = signer.sign_2(b"secure/pump", b"m", now_ms(broker))
        client.send(frames.signed_publish(b"secure/pump", b"m", 1, signature))
        client.expect(ack(1))
    reader = dial(at=broker)
    assert len(reader.subscribe(b"secure/pump")) == 2, "once of each key"


def test_a_repetition_is_recognised_after_kill_9(start, dial):
    broker = start()
    with_numbers = {"features": NUMBERS, "epoch": EPOCH}
    client = dial(at=broker)
    client.greet(b"c", **with_numbers)
    client.send(*(publish(b"t", b"%d" % n, n) for n in range(100)))
    client.expect(*map(ack, range(100)))
    broker.kill()
    broker.wait_killed()
    again = start()
    client = dial(at=again)
    client.send(hello(b"c", 0, **with_numbers))
    assert client.receive().command == 0x21
    client.send(*(publish(b"t", b"%d" % n, n) for n in range(50, 150)))
    client.expect(*map(ack, range(50, 150)))
    reader = dial(at=again)
    assert [found.payload for found in reader.subscribe(b"t")] == [b"%d" % n for n in range(150)]


def test_signed_publishes_of_several_keys_in_one_piece_are_numbered_by_key(own_broker, dial):
    broker = own_broker()
    keys = [register(broker), register(broker)]

    def signed(signer, sequence):
        signature = signer.sign_2(b"secure/pump", b"m", now_ms(broker))
        return frames.signed_publish(b"secure/pump", b"m", sequence, signature)

    client = dial(at=broker)
    client.greet(b"gateway", features=NUMBERS, epoch=EPOCH)
    client.send(*(signed(key, sequence) for sequence, key in enumerate(keys)))
    client.expect(ack(0), ack(1))
    again = dial(at=broker)
    again.greet(b"gateway", features=NUMBERS, epoch=EPOCH)
    again.send(signed(keys[1], 1))
    again.expect(ack(1))
    assert len(dial(at=broker).subscribe(b"secure/pump")) == 2
