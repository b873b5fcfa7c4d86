"""New secrets and hashes, with the random bytes that ``trust`` is passed."""

import os
from typing import NamedTuple

from penstock.trust.passwords import SALT_BYTES, Cost, hash_password
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


def new_hash(password: str, cost: Cost) -> str:
    """The hash of a chosen password. Takes tens of milliseconds, off the interpreter's lock."""
    return hash_password(password.encode(), os.urandom(SALT_BYTES), cost)
