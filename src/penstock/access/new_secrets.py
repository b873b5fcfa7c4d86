"""New secrets and hashes, with the random bytes that ``trust`` is passed."""

import os
from typing import NamedTuple

from msgspec.structs import replace

from penstock.config.schema import Auth
from penstock.trust.passwords import SALT_BYTES, Cost, hash_password, is_weak, rehash_mark
from penstock.trust.rows import User
from penstock.trust.scram_verifier import (
    SALT_KEY_BYTES,
    new_verifier,
    read_verifier,
    salt_of,
    verifier_text,
)
from penstock.trust.secrets import (
    SECRET_BYTES,
    TOKEN_ID_BYTES,
    device_secret,
    digest_of,
    parse_token,
    token_id,
    token_text,
)


class NewSecret(NamedTuple):
    """A secret to be shown once, and what is kept of it."""

    text: str
    digest: bytes
    token_id: str = ""

    def __repr__(self) -> str:
        return "NewSecret(…)"


def new_secret() -> NewSecret:
    text = device_secret(os.urandom(SECRET_BYTES))
    return NewSecret(text, digest_of(text.encode()))


def new_token() -> NewSecret:
    name = token_id(os.urandom(TOKEN_ID_BYTES))
    text = token_text(name, os.urandom(SECRET_BYTES))
    presented = parse_token(text.encode())
    assert presented is not None
    return NewSecret(text, presented.digest, name)


class PasswordHashes(NamedTuple):
    """What is kept of a chosen password: its hash, and the verifier for SCRAM beside it."""

    password: str
    scram: str = ""

    def __repr__(self) -> str:
        return "PasswordHashes(…)"


NO_PASSWORD = PasswordHashes("")


def with_hashes(user: User, hashes: PasswordHashes) -> User:
    """The user with another password. Never replace one of the two alone."""
    return replace(user, password=hashes.password, scram=hashes.scram)


def cost_of(settings: Auth) -> Cost:
    iterations = settings.scram_iterations if settings.scram else 0
    return Cost(settings.argon2_memory_bytes, settings.argon2_passes, iterations)


def new_hashes(user: str, password: str, cost: Cost, salt_key: bytes) -> PasswordHashes:
    """Takes a third of a second, off the interpreter's lock.

    ``salt_key``: the book's, empty if there is none yet.
    """
    text = hash_password(password.encode(), os.urandom(SALT_BYTES), cost)
    return PasswordHashes(text, _verifier(user, password, text, cost, salt_key))


def _verifier(user: str, password: str, hash_text: str, cost: Cost, salt_key: bytes) -> str:
    if not cost.scram_iterations:
        return ""
    key = salt_key or os.urandom(SALT_KEY_BYTES)
    verifier = new_verifier(password, salt_of(key, user), cost.scram_iterations)
    return verifier_text(verifier, hash_text, key)


# ── a password that was right ─────────────────────────────────────────────────────────────────


def lacks_verifier(user: User, cost: Cost) -> bool:
    """Whether there is no verifier of the kind that would be made now."""
    found = read_verifier(user.scram, user.password)
    return cost.scram_iterations != (found.iterations if found else 0)


def hashes_anew(user: User, password: bytes, cost: Cost, salt_key: bytes) -> PasswordHashes:
    """What to keep of a password that was right, where the row has something weaker or less."""
    text = user.password
    if is_weak(text, cost):
        text = hash_password(password, os.urandom(SALT_BYTES), cost)
    try:
        characters = password.decode()
    except UnicodeDecodeError:
        return PasswordHashes(text)  # imported, and no text: it has no form to be prepared to
    return PasswordHashes(text, _verifier(user.name, characters, text, cost, salt_key))


def rehashed(user: User, before: str, hashes: PasswordHashes) -> User:
    """The row with new hashes of the same password: nobody has to log in again."""
    row = with_hashes(user, hashes)
    is_new = hashes.password != before
    return replace(row, rehashed=rehash_mark(before, hashes.password)) if is_new else row
