"""A signed publish of a client that has not logged in counts as its key's, and nothing else does."""

import contextlib

import pytest

from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Role
from tests.access import LOGIN_REQUIRED
from tests.conformance.wire_client import publish
from tests.signing.kit import Binary, Signer, mqtt, not_authorized_text, register

PREFIX = b"$signed/"


@contextlib.contextmanager
def broker_with_users(**options):
    auth = {**LOGIN_REQUIRED, **options.pop("auth", {})}
    with Broker(auth=auth, **options) as broker:
        signer = register(broker, topics="plant/*")
        broker.add_user("root", "a secret of root", roles=("admin",))
        yield broker, signer


@pytest.fixture(scope="module")
def closed():
    """A broker where strangers must log in, and a key for ``plant/*``."""
    with broker_with_users() as found:
        yield found


def test_a_stranger_publishes_what_a_key_signs_to_the_topics_of_the_key(closed):
    broker, signer = closed
    with Binary(broker) as device:
        assert not device.publish(b"plant/1", b"x", signer.sign_1(b"plant/1", b"x"))
        elsewhere = device.publish(b"other/1", b"x", signer.sign_1(b"other/1", b"x"))
        assert elsewhere == not_authorized_text(b"other/1")


def test_a_stranger_publishes_nothing_else(closed):
    broker, signer = closed
    with Binary(broker) as device:
        assert not device.publish(b"plant/2", b"x", signer.sign_1(b"plant/2", b"x"))
        assert device.publish(b"plant/2", b"unsigned")
        forged = Signer(signer.key_id, bytes(32)).sign_1(b"plant/2", b"x")
        assert device.publish(b"plant/2", b"x", forged)


def test_a_user_needs_the_right_besides_the_signature(closed):
    broker, signer = closed
    broker.add_user("ann", "a secret of ann", rules=["allow publish other/#"])
    with mqtt(broker, username="ann", password=b"a secret of ann") as device:
        envelope = signer.envelope_1(b"plant/3", b"x")
        device.send(publish(PREFIX + b"plant/3", envelope, qos=1, packet_id=1))
        device.expect_close()


def test_nameless_mqtt_clients_without_rights_publish_envelopes():
    with broker_with_users(allow_anonymous=True) as (broker, signer):
        broker.change_access(put(Role("anonymous")))
        with mqtt(broker) as device:
            envelope = signer.envelope_1(b"plant/4", b"x")
            device.publish_acknowledged(PREFIX + b"plant/4", envelope, qos=1)


def test_it_can_be_turned_off():
    with (
        broker_with_users(auth={"signed_publish": False}) as (broker, signer),
        Binary(broker) as device,
    ):
        assert device.publish(b"plant/5", b"x", signer.sign_1(b"plant/5", b"x"))
