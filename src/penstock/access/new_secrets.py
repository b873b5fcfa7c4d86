"""New secrets: generated ones, which need no slow hash, and the hashes of chosen passwords.

A generated secret has 160 random bits. Nobody guesses it, so its SHA-256 is kept and compared in a
microsecond. A chosen password can be guessed, so it is hashed with argon2id: some 30 ms, off the
event loop.
"""

import base64
import secrets
from hashlib import sha256
from typing import NamedTuple

from nacl.pwhash import argon2id

from penstock.limits import KIB, MIB

SECRET_BYTES = 20  # 160 bits
PASSWORD_CHARACTERS_MIN = 12
PASSWORD_BYTES_MAX = KIB
ARGON2_MEMORY_BYTES = 19 * MIB  # OWASP's floor, with two passes and one lane
ARGON2_PASSES = 2

TOKEN_PREFIX = "pst"  # noqa: S105 - of tokens, so that scanners of repositories find them


class NewSecret(NamedTuple):
    """A secret to be shown once, and what is kept of it."""

    text: str
    digest: bytes

    def __repr__(self) -> str:
        return "NewSecret(…)"


def new_secret() -> NewSecret:
    """Lower-case letters and digits 2 to 7: safe in a URL, a shell and a firmware header."""
    text = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().lower()
    return NewSecret(text, sha256(text.encode()).digest())


def new_token_id() -> str:
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def token_text(token_id: str, secret: str) -> str:
    return f"{TOKEN_PREFIX}_{token_id}_{secret}"


def password_fault(password: str) -> str:
    """Why a password cannot be chosen; empty if it can."""
    if len(password) < PASSWORD_CHARACTERS_MIN:
        return f"a password has at least {PASSWORD_CHARACTERS_MIN} characters"
    if len(password.encode("utf-8", "surrogatepass")) > PASSWORD_BYTES_MAX:
        return f"a password has at most {PASSWORD_BYTES_MAX} bytes"
    return ""


def hash_password(password: str) -> str:
    """The PHC string of a password. Takes some 30 ms without the interpreter lock."""
    hashed = argon2id.str(password.encode(), opslimit=ARGON2_PASSES, memlimit=ARGON2_MEMORY_BYTES)
    return hashed.decode()
