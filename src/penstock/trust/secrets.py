"""Secrets that the broker generates: of devices, and of API tokens.

They have 160 random bits, so that nobody can guess them and a plain SHA-256 is all that has to be
kept. The text is shown once, when it is made. Random bytes are passed in.

==============================  ==============================================================
``psd_`` and 32 characters      a device's secret; presented as a password
``pst_ID_`` and 32 characters   an API token; the ID finds its row, so no user name is needed
==============================  ==============================================================

The prefixes let scanners find secrets that were committed by mistake.
"""

import re
from base64 import b32encode
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

SECRET_BYTES = 20
TOKEN_ID_BYTES = 10

DEVICE_PREFIX = "psd_"
TOKEN_PREFIX = "pst_"  # noqa: S105 - what tokens begin with
_TOKEN = re.compile(rb"pst_([a-z0-9]{8,32})_([a-z2-7]{32})")


class PresentedToken(NamedTuple):
    """A token as a client presents it."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"PresentedToken({self.id!r})"

    @property
    def digest(self) -> bytes:
        return digest_of(self.secret)


def device_secret(random: bytes) -> str:
    """The text of a device's secret, of 20 random bytes."""
    return DEVICE_PREFIX + _text(random, SECRET_BYTES)


def token_id(random: bytes) -> str:
    """The id of a new token, of 10 random bytes."""
    return _text(random, TOKEN_ID_BYTES)


def token_text(id_: str, random: bytes) -> str:
    """The text of a token, of its id and 20 random bytes."""
    return f"{TOKEN_PREFIX}{id_}_{_text(random, SECRET_BYTES)}"


def parse_token(secret: bytes) -> PresentedToken | None:
    """The token in what a client presents as its password; None if it is none."""
    found = _TOKEN.fullmatch(secret)
    return None if found is None else PresentedToken(found[1].decode(), found[2])


def digest_of(secret: bytes) -> bytes:
    """What is kept of a secret."""
    return sha256(secret).digest()


def matching(digests: tuple[bytes, ...], secret: bytes) -> bytes | None:
    """The digest that is of this secret. All are compared, whichever matches."""
    wanted, found = digest_of(secret), None
    for digest in digests:
        if compare_digest(wanted, digest):
            found = digest
    return found


def _text(random: bytes, length: int) -> str:
    if len(random) != length:
        raise ValueError(f"{length} random bytes are needed, not {len(random)}")
    return b32encode(random).decode().lower()
