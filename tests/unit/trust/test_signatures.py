"""Signatures: the seed's vector, those of RFC 8032, and every byte that must not change."""

import pytest
from msgspec.structs import replace
from nacl.bindings import crypto_sign
from tests.client_vectors import RFC_8032

from penstock.model.message import Signature
from penstock.trust.signatures import (
    is_valid,
    is_valid_login,
    key_pair,
    public_key_fault,
    sign_1,
    sign_2,
    sign_login,
    signed_bytes_1,
    signed_bytes_2,
)

SEED = bytes(range(32))
PUBLIC_KEY = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
TOPIC, PAYLOAD = b"secure/sensors/t", b"21.5"
SEED_SIGNATURE = bytes.fromhex(
    "26ba1c0ac8a952268058aa52efcff070d0c848840c77509c1276bd905a533fed"
    "67157272a33032d14aa921c49a46d306cc0b3ba11ab8f62501db2213faee1502"
)
NONCE = b"12345678"

# Points whose order divides eight: under them anyone can sign.
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]


def flipped(data: bytes):
    """Every string that differs from ``data`` in one bit of one byte, the bit changing along."""
    for position in range(len(data)):
        yield data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :]


@pytest.fixture(params=[1, 2], ids=["version_1", "version_2"])
def signature(request):
    if request.param == 1:
        return sign_1(SEED, 7, TOPIC, PAYLOAD)
    return sign_2(SEED, 7, TOPIC, PAYLOAD, signed_ms=1_700_000_000_000, nonce=NONCE)


def test_the_seeds_vector_is_made_and_verified():
    assert key_pair(SEED).public_key == PUBLIC_KEY
    assert sign_1(SEED, 7, TOPIC, PAYLOAD) == Signature(1, 7, SEED_SIGNATURE)
    assert is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, Signature(1, 7, SEED_SIGNATURE))


@pytest.mark.parametrize(("seed", "public_key", "message", "proof"), RFC_8032)
def test_vectors_of_rfc_8032(seed, public_key, message, proof):
    """Version 1 has no framing, so that it can be compared with the standard."""
    seed, public_key, message, proof = map(bytes.fromhex, (seed, public_key, message, proof))
    assert key_pair(seed) == (public_key, seed + public_key)
    assert sign_1(seed, 1, b"", message).signature == proof
    assert is_valid(public_key, b"", message, Signature(1, 1, proof))
    assert is_valid(public_key, message, b"", Signature(1, 1, proof))


def test_version_2_covers_these_bytes():
    covered = signed_bytes_2(b"a/b", b"xyz!", 0x01020304, 0x0102030405060708, b"NNNNNNNN")
    assert covered == (
        b"penstock-signature-2"
        b"\x01\x02\x03\x04"
        b"\x01\x02\x03\x04\x05\x06\x07\x08"
        b"NNNNNNNN"
        b"\x00\x03"
        b"\x00\x00\x00\x04"
        b"a/bxyz!"
    )
    signed = sign_2(
        SEED, 0x01020304, b"a/b", b"xyz!", signed_ms=0x0102030405060708, nonce=b"NNNNNNNN"
    )
    assert signed.signature == crypto_sign(covered, SEED + PUBLIC_KEY)[:64]


def test_a_signature_is_valid_for_what_it_was_made_for(signature):
    assert is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, signature)


def test_secret_key_signs_like_its_seed(signature):
    again = (
        sign_1(SEED + PUBLIC_KEY, 7, TOPIC, PAYLOAD)
        if signature.version == 1
        else sign_2(SEED + PUBLIC_KEY, 7, TOPIC, PAYLOAD, signed_ms=1_700_000_000_000, nonce=NONCE)
    )
    assert again == signature


def test_public_half_that_does_not_belong_to_the_seed_is_not_signed_with():
    """Two public keys for one nonce would give the secret away."""
    other = key_pair(bytes(32)).public_key
    assert sign_1(SEED + other, 7, TOPIC, PAYLOAD) == sign_1(SEED, 7, TOPIC, PAYLOAD)


def test_no_byte_of_topic_payload_proof_or_key_may_change(signature):
    assert not any(is_valid(PUBLIC_KEY, topic, PAYLOAD, signature) for topic in flipped(TOPIC))
    assert not any(is_valid(PUBLIC_KEY, TOPIC, load, signature) for load in flipped(PAYLOAD))
    assert not any(is_valid(key, TOPIC, PAYLOAD, signature) for key in flipped(PUBLIC_KEY))
    proofs = [replace(signature, signature=proof) for proof in flipped(signature.signature)]
    assert not any(is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, proof) for proof in proofs)


def test_version_2_binds_key_id_time_nonce_and_version():
    signature = sign_2(SEED, 7, TOPIC, PAYLOAD, signed_ms=1_700_000_000_000, nonce=NONCE)
    changed = [
        replace(signature, key_id=8),
        replace(signature, signed_ms=1_700_000_000_001),
        *(replace(signature, nonce=nonce) for nonce in flipped(NONCE)),
        replace(signature, version=1),
        replace(signature, version=3),
    ]
    assert not any(is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, each) for each in changed)


def test_boundary_of_topic_and_payload_moves_in_version_1_only():
    """The seed's weakness, kept for its devices, and what version 2 is for."""
    moved = b"secure/sensors/t2", b"1.5"
    assert is_valid(PUBLIC_KEY, *moved, sign_1(SEED, 7, TOPIC, PAYLOAD))
    assert not is_valid(
        PUBLIC_KEY, *moved, sign_2(SEED, 7, TOPIC, PAYLOAD, signed_ms=1, nonce=NONCE)
    )


def test_version_2_is_not_version_1_of_a_longer_topic():
    signature = sign_2(SEED, 7, TOPIC, PAYLOAD, signed_ms=1, nonce=NONCE)
    head = signed_bytes_2(TOPIC, PAYLOAD, 7, 1, NONCE)
    assert is_valid(PUBLIC_KEY, head, b"", replace(signature, version=1))
    assert b"\0" in head, "no MQTT topic holds this, so nobody can be made to accept it"


@pytest.mark.parametrize("size", [0, 32, 63, 65, 128])
def test_proof_of_another_size_is_not_valid(signature, size):
    """Else a short one would borrow its last bytes from the topic."""
    whole = (signature.signature + TOPIC + PAYLOAD)[:size].ljust(size, b"\0")
    rest = signature.signature[size:] + TOPIC
    shifted = replace(signature, signature=whole)
    assert not is_valid(PUBLIC_KEY, rest, PAYLOAD, shifted)
    assert not is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, shifted)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_public_key_of_another_size_verifies_nothing(signature, size):
    assert not is_valid((PUBLIC_KEY + b"\0")[:size], TOPIC, PAYLOAD, signature)


@pytest.mark.parametrize(
    "fields",
    [
        {"nonce": b"1234567"},
        {"nonce": b"123456789"},
        {"key_id": 2**32},
        {"key_id": -1},
        {"signed_ms": 2**64},
        {"signed_ms": -1},
    ],
)
def test_fields_that_do_not_fit_are_refused_and_never_valid(fields):
    parts = {"key_id": 7, "signed_ms": 1, "nonce": NONCE} | fields
    with pytest.raises(ValueError):
        signed_bytes_2(TOPIC, PAYLOAD, **parts)
    assert not is_valid(PUBLIC_KEY, TOPIC, PAYLOAD, Signature(2, signature=SEED_SIGNATURE, **parts))


def test_topic_too_long_for_its_length_field_is_refused():
    assert signed_bytes_2(b"t" * 65_535, b"", 7, 1, NONCE)
    with pytest.raises(ValueError):
        signed_bytes_2(b"t" * 65_536, b"", 7, 1, NONCE)


def test_version_1_is_topic_then_payload():
    assert signed_bytes_1(b"a/b", b"c") == b"a/bc"


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_key_of_small_order_may_not_be_registered(point):
    assert "not an Ed25519 public key" in public_key_fault(bytes.fromhex(point))


def test_all_zero_key_accepts_no_signature_either():
    assert not is_valid(bytes(32), TOPIC, PAYLOAD, Signature(1, 7, bytes(64)))


def test_key_off_the_curve_or_of_wrong_size_may_not_be_registered():
    assert "not an Ed25519 public key" in public_key_fault(b"\x02" + bytes(31))
    assert "32 bytes, not 31" in public_key_fault(bytes(31))
    assert not public_key_fault(PUBLIC_KEY)


def test_a_login_signs_the_nonce_and_nothing_else_passes_for_it():
    nonce, public_key = bytes(range(32)), key_pair(SEED).public_key
    proof = sign_login(SEED, nonce)
    assert is_valid_login(public_key, nonce, proof)
    assert not is_valid_login(public_key, bytes(32), proof)
    assert not is_valid_login(public_key, nonce, proof[:-1])
    assert not is_valid_login(key_pair(bytes(32)).public_key, nonce, proof)
    # A message for any topic, signed with version 1, is no login: the tag is no topic of a client.
    assert not is_valid_login(public_key, nonce, sign_1(SEED, 7, b"t", nonce).signature)
