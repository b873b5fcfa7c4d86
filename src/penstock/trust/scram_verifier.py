"""What the broker keeps of a password so that its user can log in by SCRAM-SHA-256.

A verifier is of no use to log in with, but passwords can be tried on it, like on a hash. Hence its
iterations: checking a login takes two HMACs, trying a password all of them.

In a user's row it is one text, with a mark that names the hash beside it::

    SCRAM-SHA-256$600000:SALT$STOREDKEY:SERVERKEY$MARK$SALTKEY

Without the mark, whoever replaces the hash and leaves the verifier (an earlier version on another
node does) would leave the previous password valid.

**Salts tell nothing.** Anybody may ask for the salt of any name, so all salts are made alike: of a
secret key and the name. A name has the same salt whether there is such a user, and before and after
a password was set. The key is the same in all rows; so it is the same on all nodes, and stays
while there is any verifier to hide (``AccessBook.salt_key``).
"""

import re
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256
from hmac import compare_digest, digest
from typing import NamedTuple

from penstock.trust.saslprep import prepared

METHOD = "SCRAM-SHA-256"
KEY_BYTES = 32
SALT_BYTES = 16
SALT_KEY_BYTES = 24
ITERATIONS = 600_000  # what OWASP recommends for PBKDF2 with HMAC-SHA-256
ITERATIONS_MIN = 4_096  # RFC 7677
ITERATIONS_MAX = 2_000_000

_MARK_BYTES = 12
_BASE64 = r"[A-Za-z0-9+/]"
_TEXT = re.compile(
    rf"SCRAM-SHA-256\$([1-9][0-9]{{3,6}}):({_BASE64}{{22}}==)"
    rf"\$({_BASE64}{{43}}=):({_BASE64}{{43}}=)\$({_BASE64}{{16}})\$({_BASE64}{{32}})",
    re.ASCII,
)


class Verifier(NamedTuple):
    """What proofs of one password are checked with. Never shown."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "Verifier(…)"


class Keys(NamedTuple):
    """What follows from a salted password; only who knows the password has the client's key."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "Keys(…)"


def keys_of(password: str, salt: bytes, iterations: int) -> Keys:
    """Takes as long as the iterations do: a quarter of a second with the recommended number."""
    salted = pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)
    client_key = digest(salted, b"Client Key", "sha256")
    server_key = digest(salted, b"Server Key", "sha256")
    return Keys(client_key, sha256(client_key).digest(), server_key)


def new_verifier(password: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
    """As slow as ``keys_of``."""
    if len(salt) != SALT_BYTES or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"a salt has {SALT_BYTES} bytes; iterations are at least {ITERATIONS_MIN}")
    _, stored_key, server_key = keys_of(password, salt, iterations)
    return Verifier(iterations, salt, stored_key, server_key)


def salt_of(salt_key: bytes, user: str) -> bytes:
    """The salt of a name, whether there is such a user or not."""
    return _derived(salt_key, b"salt", user)[:SALT_BYTES]


def made_up_verifier(salt_key: bytes, user: str, iterations: int) -> Verifier:
    """The verifier of a user that has none: it looks like one, and no password fits it."""
    keys = (_derived(salt_key, word, user) for word in (b"stored", b"server"))
    return Verifier(iterations, salt_of(salt_key, user), *keys)


def _derived(salt_key: bytes, word: bytes, user: str) -> bytes:
    return digest(salt_key, b"penstock-scram %b %b" % (word, user.encode()), "sha256")


# ── in a user's row ───────────────────────────────────────────────────────────────────────────


def verifier_text(verifier: Verifier, password_hash: str, salt_key: bytes) -> str:
    """The text for a row that has this hash of the same password."""
    iterations, *parts = verifier
    salt, stored_key, server_key = (b64encode(part).decode() for part in parts)
    mark, key = (b64encode(part).decode() for part in (_mark(password_hash), salt_key))
    return f"{METHOD}${iterations}:{salt}${stored_key}:{server_key}${mark}${key}"


def verifier_fault(text: str) -> str:
    """Why the text of a verifier can not be used; empty if it can."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return f"not a verifier of {METHOD}"
    if not ITERATIONS_MIN <= int(found[1]) <= ITERATIONS_MAX:
        return f"{METHOD} takes {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations here"
    return ""


def read_verifier(text: str, password_hash: str) -> Verifier | None:
    """The verifier in a row; None if there is none, or it is not of this hash's password."""
    found = _TEXT.fullmatch(text)
    if found is None or verifier_fault(text):
        return None
    salt, stored_key, server_key, mark, _ = map(b64decode, found.groups()[1:])
    if not compare_digest(mark, _mark(password_hash)):
        return None
    return Verifier(int(found[1]), salt, stored_key, server_key)


def salt_key_of(text: str) -> bytes:
    """The key that the salt of a verifier was made of; empty if it is no verifier."""
    found = _TEXT.fullmatch(text)
    return b64decode(found[6]) if found else b""


def _mark(password_hash: str) -> bytes:
    return sha256(b"penstock-scram " + password_hash.encode()).digest()[:_MARK_BYTES]
