"""What a subscriber is handed: verified where it must be, acknowledged when it is done."""

import json

import pytest

from penstock.client import SigningKey
from penstock.client.binary.ack_tracker import AckTracker
from penstock.client.binary.inbox import MessageInbox
from penstock.client.binary.session import Lost
from penstock.errors import ConfigError
from penstock.trust.signatures import key_pair
from penstock.wire.binary.events import ReceivedMessage

KEYS = {version: SigningKey(7, bytes(32), version=version) for version in (1, 2)}
RING = {7: key_pair(bytes(32)).public_key}


def received(sequence, topic=b"t", payload=b"x", signature=None):
    return ReceivedMessage(topic, payload, sequence, signature)


def inbox_of(*events, **options):
    acks = AckTracker()
    inbox = MessageInbox(acks, **options)
    for event in events:
        if not isinstance(event, Lost):
            acks.arrived(event.sequence)
        inbox.add(event)
    return inbox, acks


@pytest.mark.parametrize("version", [1, 2])
def test_a_signature_is_verified_for_its_topic_and_payload(version):
    signature = KEYS[version].sign(b"t", b"x")
    inbox, _ = inbox_of(
        received(1, signature=signature),
        received(2, signature=signature, payload=b"y"),
        received(3, signature=signature, topic=b"u"),
        received(4),
        keyring=RING,
    )
    assert [inbox.give().verified for _ in range(4)] == [True, False, False, None]


def test_version_2_notices_bytes_moved_from_topic_to_payload():
    moved = [received(v, b"to", b"px", KEYS[v].sign(b"top", b"x")) for v in (1, 2)]
    inbox, _ = inbox_of(*moved, keyring=RING)
    assert [inbox.give().verified for _ in moved] == [True, False]


def test_what_must_be_verified_and_is_not_is_withheld_reported_and_not_acknowledged():
    reported = []
    inbox, acks = inbox_of(
        received(1),
        received(2, signature=KEYS[2].sign(b"t", b"tampered")),
        received(3, signature=SigningKey(8, bytes(32)).sign(b"t", b"x")),  # no key of ours
        received(4, signature=KEYS[2].sign(b"t", b"x")),
        keyring=RING,
        require_signature=True,
        on_withheld=reported.append,
    )
    assert inbox.give().sequence == 4
    inbox.settle()
    assert (inbox.withheld, [message.sequence for message in reported]) == (3, [1, 2, 3])
    assert acks.take() == [4]


@pytest.mark.parametrize("form", ["digits", "path", "text of a path"])
def test_keys_of_a_ring_may_be_digits_or_files(tmp_path, form):
    file = tmp_path / "pump.key.json"
    file.write_text(json.dumps({"key_id": 7, "public_key": RING[7].hex(), "secret_key": ""}))
    key = {"digits": RING[7].hex(), "path": file, "text of a path": str(file)}[form]
    signed = received(1, signature=KEYS[2].sign(b"t", b"x"))
    inbox, _ = inbox_of(signed, keyring={7: key})
    assert inbox.give().verified


@pytest.mark.parametrize(
    ("keyring", "error", "text"),
    [
        (RING[7], TypeError, "must map key ids to public keys, not be bytes"),
        ({"7": RING[7]}, TypeError, "a key id in keyring is a number, not str"),
        ({7: 1}, TypeError, "key 7 in keyring .* 64 hexadecimal digits, .* not int"),
        ({7: RING[7][1:]}, ValueError, "not 31 bytes"),
        ({7: RING[7].hex()[2:]}, ValueError, "not 31 bytes"),
        ({7: "pump"}, ValueError, "not other text"),
        ({7: "no-such.key.json"}, ValueError, "cannot read no-such.key.json"),
    ],
)
def test_ring_with_what_is_no_key_is_refused_with_what_is_wanted(keyring, error, text):
    with pytest.raises(error, match=text):
        inbox_of(keyring=keyring)


@pytest.mark.parametrize(
    ("content", "text"), [("{}", "is not a key file"), ("other", "holds key 8, not key 7")]
)
def test_ring_with_a_wrong_file_is_refused(tmp_path, content, text):
    file = tmp_path / "pump.key.json"
    other = json.dumps({"key_id": 8, "public_key": RING[7].hex()})
    file.write_text(other if content == "other" else content)
    with pytest.raises(ValueError, match=text):
        inbox_of(keyring={7: file})


def test_without_a_ring_nothing_is_verified():
    signed = received(1, signature=KEYS[2].sign(b"t", b"x"))
    inbox, _ = inbox_of(signed)
    assert inbox.give().verified is None
    strict, _ = inbox_of(signed, require_signature=True)
    assert (strict.give(), strict.withheld) == (None, 1)


def test_reports_go_to_the_log_unless_somebody_wants_them(caplog):
    inbox_of(Lost("t", 5), received(1), require_signature=True)
    assert "5 messages of t were removed by retention unread" in caplog.text
    assert "withheld, as not verified: Message('t', b'x', sequence=1)" in caplog.text


def test_coming_back_acknowledges_and_leaving_does_not():
    inbox, acks = inbox_of(received(1), received(2), received(3))
    inbox.give()
    inbox.settle()
    inbox.give()
    inbox.leave()
    inbox.settle()
    assert acks.take() == [1]
    inbox.give().ack()
    inbox.settle()
    assert acks.take() == [3]


def test_without_auto_ack_only_ack_acknowledges():
    inbox, acks = inbox_of(received(1), received(2), auto_ack=False)
    inbox.give()
    inbox.settle()
    inbox.give().ack()
    assert acks.take() == [2]


def test_a_lost_connection_takes_waiting_jobs_along_but_no_messages():
    """The broker redelivers the jobs: to another worker, or to us, and we must accept them."""
    inbox, acks = inbox_of(received(1, b"q:a"), received(2, b"q:a"), received(3))
    job = inbox.give()
    inbox.connection_lost()
    assert [acks.arrived(sequence) for sequence in (1, 2, 3)] == [False, True, False]
    assert (job.sequence, inbox.give().sequence, inbox.give()) == (1, 3, None)


@pytest.mark.parametrize("content", [None, "", "{}", '{"key_id": 1, "secret_key": "zz"}'])
def test_what_is_no_key_file_is_an_error_of_the_configuration(tmp_path, content):
    path = tmp_path / "pump.key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"pump\.key\.json"):
        SigningKey.load(path)


def test_a_signing_key_does_not_show_its_secret():
    assert repr(KEYS[2]) == "SigningKey(key_id=7, version=2)"
    with pytest.raises(ConfigError, match="64"):
        SigningKey(7, bytes(31))
