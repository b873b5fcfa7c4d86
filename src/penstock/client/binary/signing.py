"""Signing of publishes, and verification of messages against one's own keys.

The broker verifies signatures. A subscriber that does not want to trust the broker, or the network
between, verifies them itself: signatures travel with their messages unchanged.

The signing library is loaded when it is first needed, not with this module.
"""

import secrets
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from time import time_ns
from typing import Final, TypeAlias

import msgspec

from penstock.errors import ConfigError
from penstock.model.message import Signature

# 32 bytes, 64 hexadecimal digits, or the path of a key file (``*.key.json``)
PublicKey: TypeAlias = bytes | str | PathLike[str]

PUBLIC_KEY_BYTES: Final = 32

_KEYS_NEW = "`penstock keys new` makes one: DEVICE.key.json"


class _KeyFile(msgspec.Struct):
    """The part of a file of ``penstock keys new`` that signs."""

    key_id: int
    secret_key: str


class _PublicPart(msgspec.Struct):
    """The part of the same file that verifies."""

    key_id: int
    public_key: str


class SigningKey:
    """The secret key of a device. Prefer version 2; the broker's policy may accept either."""

    __slots__ = ("_secret_key", "key_id", "version")

    def __init__(self, key_id: int, secret_key: bytes, *, version: int = 2) -> None:
        if len(secret_key) not in {32, 64} or version not in {1, 2}:
            raise ConfigError(
                "a signing key is a seed of 32 bytes or a secret key of 64, for version 1 or 2",
                _KEYS_NEW,
            )
        self.key_id = key_id
        self.version = version
        self._secret_key = secret_key

    @classmethod
    def load(cls, path: str | PathLike[str], *, version: int = 2) -> "SigningKey":
        """Read a key file; raise ``ConfigError`` if it is invalid."""
        try:
            content = msgspec.json.decode(Path(path).read_bytes(), type=_KeyFile)
            return cls(content.key_id, bytes.fromhex(content.secret_key), version=version)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"cannot read the key file {fspath(path)}: {reason}") from error
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise ConfigError(f"{fspath(path)} is not a key file", _KEYS_NEW) from error

    def __repr__(self) -> str:
        """Keep the secret out of tracebacks."""
        return f"SigningKey(key_id={self.key_id}, version={self.version})"

    def sign(self, topic: bytes, payload: bytes) -> Signature:
        """Sign with the present time; a signature of version 2 is valid for one publish."""
        from penstock.trust import signatures  # noqa: PLC0415 - see the module

        if self.version == 1:
            return signatures.sign_1(self._secret_key, self.key_id, topic, payload)
        return signatures.sign_2(
            self._secret_key,
            self.key_id,
            topic,
            payload,
            signed_ms=time_ns() // 1_000_000,
            nonce=secrets.token_bytes(signatures.NONCE_BYTES),
        )

    def sign_login(self, nonce: bytes) -> bytes:
        """Answer a broker's challenge."""
        from penstock.trust import signatures  # noqa: PLC0415 - see the module

        return signatures.sign_login(self._secret_key, nonce)


def signer(
    key: SigningKey | str | PathLike[str] | None,
) -> Callable[[bytes, bytes], Signature] | None:
    """Return the function that signs with a key or a key file; None without a key."""
    if key is None:
        return None
    return (key if isinstance(key, SigningKey) else SigningKey.load(key)).sign


def is_verified(
    keyring: Mapping[int, bytes], topic: bytes, payload: bytes, signature: Signature
) -> bool:
    from penstock.trust import signatures  # noqa: PLC0415 - see the module

    public_key = keyring.get(signature.key_id)
    return public_key is not None and signatures.is_valid(public_key, topic, payload, signature)


def public_keys(keyring: Mapping[int, PublicKey]) -> dict[int, bytes]:
    """Return a keyring with every key as bytes; raise TypeError or ValueError for invalid ones.

    An invalid key would verify nothing, and so withhold everything silently.
    """
    if not isinstance(keyring, Mapping):
        raise TypeError(f"keyring must map key ids to public keys, not be {_kind(keyring)}")
    return {key_id: _public_key(key_id, key) for key_id, key in keyring.items()}


def _public_key(key_id: int, key: PublicKey) -> bytes:
    if not isinstance(key_id, int):
        raise TypeError(f"a key id in keyring is a number, not {_kind(key_id)}")
    if isinstance(key, PathLike) or (isinstance(key, str) and key.endswith(".json")):
        key = _public_part(key_id, key)
    if isinstance(key, str):
        key = _from_digits(key_id, key)
    if not isinstance(key, bytes):
        raise TypeError(_wanted(key_id, _kind(key)))
    if len(key) != PUBLIC_KEY_BYTES:
        raise ValueError(_wanted(key_id, f"{len(key)} bytes"))
    return key


def _from_digits(key_id: int, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ValueError(_wanted(key_id, "other text")) from None


def _public_part(key_id: int, path: str | PathLike[str]) -> str:
    try:
        content = msgspec.json.decode(Path(path).read_bytes(), type=_PublicPart)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"keyring: cannot read {fspath(path)}: {reason}") from error
    except ValueError as error:
        raise ValueError(f"keyring: {fspath(path)} is not a key file; {_KEYS_NEW}") from error
    if content.key_id != key_id:
        raise ValueError(f"keyring: {fspath(path)} holds key {content.key_id}, not key {key_id}")
    return content.public_key


def _wanted(key_id: int, given: str) -> str:
    return (
        f"key {key_id} in keyring must be a public key of {PUBLIC_KEY_BYTES} bytes, the same as"
        f" {2 * PUBLIC_KEY_BYTES} hexadecimal digits, or the path of a *.key.json, not {given}"
    )


def _kind(value: object) -> str:
    return type(value).__name__
