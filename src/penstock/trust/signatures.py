"""What a signature covers, how to make one, and how to check one.

**Version 1** is Ed25519 over the topic followed by the payload. It covers neither the boundary
between the two nor the time, so frames can be replayed. It is accepted for devices that only know
this version. **Version 2** covers a header before them; big-endian, without padding::

    domain tag        20   bytes  "penstock-signature-2"
    key id             4   u32
    time of signing    8   u64, milliseconds since 1970
    nonce              8   bytes, never twice with the same time and key
    topic length       2   u16
    payload length     4   u32
    topic
    payload

The tag keeps a version 2 signature from being valid as version 1, or for another program. A login
signs a nonce of the broker, behind a tag of its own. libsodium
also refuses signatures that are not in canonical form and points of small order.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - the name says what it is; struct's does not
from typing import NamedTuple

from nacl.bindings import (
    crypto_core_ed25519_is_valid_point,
    crypto_sign,
    crypto_sign_open,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import BadSignatureError

from penstock.model.message import Signature

PUBLIC_KEY_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64
NONCE_BYTES = 8

_DOMAIN_2 = b"penstock-signature-2"
_DOMAIN_LOGIN = b"\0penstock-login-1"  # as version 1 covers it: no topic begins with NUL
_DOMAIN_TIMED_LOGIN = b"\0penstock-login-2"
_HEAD_2 = Struct(">20sIQ8sHI")


class KeyPair(NamedTuple):
    """A public key (32 bytes) and its secret key (64: the seed, then the public key again)."""

    public_key: bytes
    secret_key: bytes


def key_pair(seed: bytes) -> KeyPair:
    """The pair of a seed of 32 random bytes, or of a secret key, which begins with one.

    Only the seed of a secret key is used: signing with halves that do not match would reveal the
    seed.
    """
    return KeyPair(*crypto_sign_seed_keypair(seed[:SEED_BYTES]))


def public_key_fault(public_key: bytes) -> str:
    """Why a public key may not be registered; empty if it may. Small orders are forgeable."""
    if len(public_key) != PUBLIC_KEY_BYTES:
        return f"a public key has {PUBLIC_KEY_BYTES} bytes, not {len(public_key)}"
    if not crypto_core_ed25519_is_valid_point(public_key):
        return "not an Ed25519 public key: no point of the curve that is fit for signatures"
    return ""


def signed_bytes_1(topic: bytes, payload: bytes) -> bytes:
    return topic + payload


def signed_bytes_2(
    topic: bytes, payload: bytes, key_id: int, signed_ms: int, nonce: bytes
) -> bytes:
    """What a signature of version 2 covers; ValueError if a field does not fit."""
    if len(nonce) != NONCE_BYTES:  # struct would pad or cut it without a word
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    try:
        head = _HEAD_2.pack(_DOMAIN_2, key_id, signed_ms, nonce, len(topic), len(payload))
    except StructError as error:
        raise ValueError(f"does not fit a signature of version 2: {error}") from None
    return head + topic + payload


def sign_1(seed: bytes, key_id: int, topic: bytes, payload: bytes) -> Signature:
    """Sign with a seed of 32 bytes, or a secret key of 64."""
    return Signature(1, key_id, _sign(seed, signed_bytes_1(topic, payload)))


def sign_2(
    seed: bytes, key_id: int, topic: bytes, payload: bytes, *, signed_ms: int, nonce: bytes
) -> Signature:
    """Sign with a seed of 32 bytes, or a secret key of 64; never reuse a nonce."""
    covered = signed_bytes_2(topic, payload, key_id, signed_ms, nonce)
    return Signature(2, key_id, _sign(seed, covered), signed_ms, nonce)


def _sign(seed: bytes, covered: bytes) -> bytes:
    return bytes(crypto_sign(covered, key_pair(seed).secret_key)[:SIGNATURE_BYTES])


def sign_login(seed: bytes, nonce: bytes) -> bytes:
    """The answer to a broker's challenge: 64 bytes."""
    return _sign(seed, _DOMAIN_LOGIN + nonce)


def is_valid_login(public_key: bytes, nonce: bytes, proof: bytes) -> bool:
    return _is_signed(public_key, proof, _DOMAIN_LOGIN + nonce)


def sign_timed_login(seed: bytes, covered: bytes) -> bytes:
    """The proof of a login without a challenge (``trust.key_logins``): 64 bytes."""
    return _sign(seed, _DOMAIN_TIMED_LOGIN + covered)


def is_valid_timed_login(public_key: bytes, covered: bytes, proof: bytes) -> bool:
    return _is_signed(public_key, proof, _DOMAIN_TIMED_LOGIN + covered)


def is_valid(public_key: bytes, topic: bytes, payload: bytes, signature: Signature) -> bool:
    """Whether the holder of the key signed this payload for this topic."""
    try:
        covered = _covered(topic, payload, signature)
    except ValueError:
        return False
    return _is_signed(public_key, signature.signature, covered)


def _is_signed(public_key: bytes, proof: bytes, covered: bytes) -> bool:
    # A proof of another size would shift the boundary to what it covers, and a short key would
    # have the library read beyond its end.
    if len(proof) != SIGNATURE_BYTES or len(public_key) != PUBLIC_KEY_BYTES:
        return False
    try:
        crypto_sign_open(proof + covered, public_key)
    except (BadSignatureError, ValueError):
        return False
    return True


def _covered(topic: bytes, payload: bytes, signature: Signature) -> bytes:
    if signature.version == 1:
        return signed_bytes_1(topic, payload)
    if signature.version == 2:
        return signed_bytes_2(
            topic, payload, signature.key_id, signature.signed_ms, signature.nonce
        )
    raise ValueError(f"there is no version {signature.version} of signatures")
