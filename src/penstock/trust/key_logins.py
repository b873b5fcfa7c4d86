"""Logging in with a signing key: user ``key:ID``, and a signature instead of a password.

Where the broker can send a challenge, the client signs that (``signatures.sign_login``). MQTT 3.1.1
has no room for one, so the password is a text with a signature of the time, a nonce, the client id
and the id of the cluster::

    MILLISECONDS.NONCE.SIGNATURE     decimal, 16 hexadecimal digits, 86 characters of base64url

It is valid for 30 seconds, once at each node, over TLS, in this cluster, with this client id.

A key may publish to its topics. Whatever else its holder may do is in the role ``keys``, where
``%u`` is the name of the device.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from penstock.trust.acl import compile_acl
from penstock.trust.keys import KEY_ID_MAX, Key
from penstock.trust.rights import NamedRule, Rights
from penstock.trust.rules import Action
from penstock.trust.signatures import is_valid_timed_login, sign_timed_login

USER_PREFIX = "key:"
WINDOW_MS = 30_000
LOGINS_REMEMBERED_MAX = 100_000  # within the window; further ones are refused

_HEAD = Struct(">IQ8sHH")
_PASSWORD = re.compile(rb"([0-9]{1,15})\.([0-9a-f]{16})\.([A-Za-z0-9_-]{86})")


class TimedProof(NamedTuple):
    """A password that is a signature."""

    signed_ms: int
    nonce: bytes
    signature: bytes


def key_user(key_id: int) -> str:
    return f"{USER_PREFIX}{key_id}"


def key_id_of(user: str) -> int:
    """The key that a user name means; 0 if it is none."""
    digits = user.removeprefix(USER_PREFIX)
    is_number = user.startswith(USER_PREFIX) and digits.isascii() and digits.isdigit()
    if not is_number or len(digits) > 10 or digits.startswith("0"):
        return 0
    key_id = int(digits)
    return key_id if key_id <= KEY_ID_MAX else 0


def key_password(
    seed: bytes, key_id: int, *, client_id: bytes, cluster_id: bytes, signed_ms: int, nonce: bytes
) -> str:
    """The password that a device makes of its secret key; 8 random bytes are the nonce."""
    proof = sign_timed_login(seed, _covered(key_id, signed_ms, nonce, client_id, cluster_id))
    return f"{signed_ms}.{nonce.hex()}.{urlsafe_b64encode(proof).decode().rstrip('=')}"


def parse_key_password(password: bytes) -> TimedProof | None:
    found = _PASSWORD.fullmatch(password)
    if found is None:
        return None
    signature = urlsafe_b64decode(found[3] + b"==")
    return TimedProof(int(found[1]), bytes.fromhex(found[2].decode()), signature)


def is_proof_of_key(key: Key, proof: TimedProof, client_id: bytes, cluster_id: bytes) -> bool:
    covered = _covered(key.id, proof.signed_ms, proof.nonce, client_id, cluster_id)
    return is_valid_timed_login(key.public_key, covered, proof.signature)


def _covered(
    key_id: int, signed_ms: int, nonce: bytes, client_id: bytes, cluster_id: bytes
) -> bytes:
    head = _HEAD.pack(key_id, signed_ms, nonce, len(client_id), len(cluster_id))
    return head + client_id + cluster_id


class KeyRights(Rights):
    """Publishes to the topics of a key; the rest is up to rules."""

    __slots__ = ("_is_of_key",)

    def __init__(self, key: Key, rules: Iterable[NamedRule] = (), client_id: str = "") -> None:
        super().__init__(rules, key.device, client_id)
        self._is_of_key = compile_acl(key.topics)

    def _judge(self, action: Action, topic: bytes) -> bool:
        if action is Action.PUBLISH and self._is_of_key(topic):
            return not self._denied[action].matches(topic)
        return super()._judge(action, topic)
