"""Logins with signing keys: whose signature it is, and what its holder may do.

A signature is of the broker's nonce where it sent one; else it is a password that is valid once,
for a short time, over TLS (``trust.key_logins``).
"""

from penstock.cluster.consensus import Consensus
from penstock.trust.book import AccessBook
from penstock.trust.key_logins import (
    LOGINS_REMEMBERED_MAX,
    WINDOW_MS,
    KeyRights,
    is_proof_of_key,
    key_id_of,
    parse_key_password,
)
from penstock.trust.keys import Key, KeyRing
from penstock.trust.replay import ReplayWindow
from penstock.trust.rights import Rights
from penstock.trust.signatures import is_valid_login


class KeyLogins:
    """Judges signatures."""

    def __init__(
        self, keys: KeyRing, book: AccessBook, cluster: Consensus, started_ms: int
    ) -> None:
        self._keys = keys
        self._book = book
        self._cluster = cluster
        self._used = ReplayWindow(WINDOW_MS, LOGINS_REMEMBERED_MAX, started_ms)

    def valid_key(self, user: str, now_ms: int) -> Key | None:
        """The key that a user name means, if it may be used now."""
        key = self._keys.get(key_id_of(user))
        return None if key is None or key.fault(now_ms) else key

    def is_signed(
        self,
        key: Key,
        signature: bytes,
        now_ms: int,
        *,
        client_id: bytes,
        nonce: bytes,
        is_encrypted: bool,
    ) -> bool:
        if nonce:
            return is_valid_login(key.public_key, nonce, signature)
        proof = parse_key_password(signature)
        if proof is None or not is_encrypted:
            return False  # somebody could read it and be faster at another node
        cluster_id = bytes.fromhex(self._cluster.status().cluster_id)
        if not is_proof_of_key(key, proof, client_id, cluster_id):
            return False
        return self._used.check(key.id, proof.nonce, proof.signed_ms, now_ms) is None

    def rights_of(self, key: Key, client_id: str) -> Rights:
        return KeyRights(key, self._book.rights_of_roles(("keys",)).rules(), client_id)
