"""SHA-512 and Ed25519 of the Arduino library, against the RFC's vectors and another library."""

import hashlib
import random
from collections.abc import Iterator

import nacl.exceptions
import nacl.signing
import pytest

from tests.clients.arduino.parts import Parts
from tests.clients.arduino.vectors import VECTORS

ORDER = 2**252 + 27742317777372353535851937790883648493  # of the group of Ed25519
PAIRS = 1_000


@pytest.fixture
def parts(built: None) -> Iterator[Parts]:
    with Parts() as parts:
        yield parts


def signed(parts: Parts, seed: bytes, *pieces: bytes) -> tuple[bytes, bytes]:
    public, signature = parts.ask("sign", seed, *pieces).split()
    return bytes.fromhex(public), bytes.fromhex(signature)


@pytest.mark.parametrize("vector", VECTORS["signatures"]["rfc8032"], ids=lambda v: v["message"])
def test_the_vectors_of_rfc_8032(parts: Parts, vector: dict[str, str]) -> None:
    seed, message = bytes.fromhex(vector["seed"]), bytes.fromhex(vector["message"])
    public, signature = signed(parts, seed, message)
    assert public.hex() == vector["public_key"]
    assert signature.hex() == vector["signature"]
    assert parts.ask("check", public, signature, message) == "good"


@pytest.mark.parametrize("step", [1, 7, 64, 127, 128, 129, 1000])
def test_a_digest_does_not_depend_on_the_pieces(parts: Parts, step: int) -> None:
    for size in [0, 1, 111, 112, 113, 127, 128, 129, 239, 240, 255, 256, 1000]:
        text = random.Random(size).randbytes(size)
        assert parts.ask("sha512", text, step) == hashlib.sha512(text).hexdigest()


def test_signatures_are_those_of_another_library_and_verify_both_ways(parts: Parts) -> None:
    chance = random.Random(8032)
    for _ in range(PAIRS):
        seed, message = chance.randbytes(32), chance.randbytes(chance.randrange(400))
        cut = chance.randrange(len(message) + 1)
        other = nacl.signing.SigningKey(seed)
        public, signature = signed(parts, seed, message[:cut], message[cut:])
        assert public == bytes(other.verify_key)
        assert signature == other.sign(message).signature
        assert parts.ask("check", public, signature, message) == "good"


def test_a_flipped_bit_is_refused(parts: Parts) -> None:
    chance = random.Random(1)
    for _ in range(100):
        seed, message = chance.randbytes(32), chance.randbytes(40)
        public, signature = signed(parts, seed, message)
        flipped = [public, signature, message]
        part = chance.randrange(3)
        flipped[part] = flip(flipped[part], chance.randrange(8 * len(flipped[part])))
        assert parts.ask("check", *flipped) == "bad"
        with pytest.raises((nacl.exceptions.BadSignatureError, ValueError)):
            nacl.signing.VerifyKey(flipped[0]).verify(flipped[2], flipped[1])


def flip(text: bytes, bit: int) -> bytes:
    number = int.from_bytes(text, "little") ^ (1 << bit)
    return number.to_bytes(len(text), "little")


def test_a_signature_has_one_form_only(parts: Parts) -> None:
    """S + L solves the same equation; whoever accepts it lets strangers vary signatures."""
    chance = random.Random(2)
    for _ in range(50):
        seed, message = chance.randbytes(32), chance.randbytes(40)
        public, signature = signed(parts, seed, message)
        scalar = int.from_bytes(signature[32:], "little") + ORDER
        twin = signature[:32] + scalar.to_bytes(32, "little")
        assert parts.ask("check", public, signature, message) == "good"
        assert parts.ask("check", public, twin, message) == "bad"


def test_what_signatures_cover(parts: Parts) -> None:
    signatures = VECTORS["signatures"]
    for name in ["version_1", "version_2"]:
        vector = signatures[name]
        topic, payload = bytes.fromhex(vector["topic"]), bytes.fromhex(vector["payload"])
        attributes = b""
        if name == "version_2":
            attributes = signatures["key_id"].to_bytes(4, "big")
            attributes += vector["signed_ms"].to_bytes(8, "big") + bytes.fromhex(vector["nonce"])
        covered = parts.ask("covered", topic, payload, attributes)
        assert covered == vector["covered"]
        seed = bytes.fromhex(signatures["seed"])
        assert signed(parts, seed, bytes.fromhex(covered))[1].hex() == vector["signature"]


def test_what_a_login_signs(parts: Parts) -> None:
    login = VECTORS["signatures"]["login"]
    assert parts.ask("login", bytes.fromhex(login["nonce"])) == login["covered"]
