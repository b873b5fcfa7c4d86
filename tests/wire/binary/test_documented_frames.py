"""The bytes on the page of the binary protocol are correct: client authors rely on them."""

import re
from pathlib import Path

import pytest

from penstock.model.message import Signature
from penstock.trust.signatures import is_valid, is_valid_login, key_pair
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine
from penstock.wire.binary.events import (
    Acked,
    BinaryAcks,
    BinaryAuth,
    BinaryChallenge,
    BinaryPublishRun,
    BinarySubscribe,
    Failed,
    ReceivedMessage,
    SignedPublish,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "binary-protocol.md"

TOPIC, SIGNED_TOPIC, PAYLOAD = b"pump/7/bar", b"secure/pump7/bar", b"4.2"


def documented():
    """Return the examples by name; a line that begins with spaces continues the previous one."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Examples\n")
    block = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1]
    rows = re.findall(r"^(\S.*?) {2,}(.*(?:\n +.*)*)", block, re.MULTILINE)
    return {name: bytes.fromhex(digits) for name, digits in rows}


EXAMPLES = documented()


@pytest.mark.parametrize(
    ("name", "machine", "event"),
    [
        ("PUBLISH", BinaryServerMachine, BinaryPublishRun(TOPIC, [PAYLOAD], [7])),
        ("ACK", BinaryClientMachine, Acked([7])),
        (
            "SUBSCRIBE",
            BinaryServerMachine,
            BinarySubscribe(1, b"billing", TOPIC, accepts_version_2=False),
        ),
        ("MESSAGE", BinaryClientMachine, ReceivedMessage(TOPIC, PAYLOAD, 42, None)),
        ("ACK of it", BinaryServerMachine, BinaryAcks([42])),
        ("AUTH", BinaryServerMachine, BinaryAuth(3, b"ann", b"s3cret")),
        ("CHALLENGE", BinaryClientMachine, BinaryChallenge(4, bytes(range(32)))),
        ("ERROR", BinaryClientMachine, Failed("Unknown command")),
    ],
)
def test_a_documented_frame_means_what_the_page_says(name, machine, event):
    assert machine().receive(EXAMPLES[name]) == [event]


@pytest.mark.parametrize(
    ("name", "sequence", "version", "signed_ms", "nonce"),
    [
        ("SIGNED_PUBLISH", 8, 1, 0, ""),
        ("SIGNED_PUBLISH_2", 9, 2, 1_800_000_000_000, "a1b2c3d4e5f60718"),
    ],
)
def test_a_documented_signature_is_valid(name, sequence, version, signed_ms, nonce):
    (event,) = BinaryServerMachine().receive(EXAMPLES[name])
    proof = event.signature.signature
    signature = Signature(version, 7, proof, signed_ms, bytes.fromhex(nonce))
    assert event == SignedPublish(sequence, SIGNED_TOPIC, PAYLOAD, signature)
    assert is_valid(EXAMPLES["public key"], SIGNED_TOPIC, PAYLOAD, event.signature)


def test_the_documented_answer_to_a_challenge_is_valid():
    (challenge,) = BinaryClientMachine().receive(EXAMPLES["CHALLENGE"])
    (login,) = BinaryServerMachine().receive(EXAMPLES["AUTH, signed"])
    assert (login.sequence, login.user) == (5, b"key:7")
    assert is_valid_login(EXAMPLES["public key"], challenge.nonce, login.secret)


def test_the_documented_public_key_is_that_of_the_seed():
    assert key_pair(EXAMPLES["seed"]).public_key == EXAMPLES["public key"]
