"""The keyword ``credentials=`` of the clients: who we are, and the proof of it.

A file is read anew for each connection, so that a changed secret is used from the next one on. A
secret never shows: not in ``repr``, not in an error, and such an object cannot be pickled. Files
that every user of the machine may read are refused.
"""

import stat
from os import PathLike, fspath
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeAlias

from penstock.client.binary.signing import SigningKey
from penstock.client.errors import ArgumentError, LoginFailedError
from penstock.errors import ConfigError

_FILE_BYTES_MAX: Final = 8 * 1024  # as much as the broker takes: a web token, at the most

FilePath: TypeAlias = str | PathLike[str]


class Credentials:
    """A user and its password, or a token, or the key of a device; as text or as a file.

    >>> Credentials("ann", password_file="ann.password")
    Credentials(user='ann', …)
    >>> Credentials(token_file="ann.token")
    Credentials(…)

    ``key`` is a file of ``penstock keys new`` or a ``SigningKey``; binary clients log in with it.
    """

    __slots__ = ("_file", "_key", "_secret", "user")

    def __init__(
        self,
        user: str = "",
        password: str | bytes | None = None,
        *,
        password_file: FilePath | None = None,
        token: str | None = None,
        token_file: FilePath | None = None,
        key: SigningKey | FilePath | None = None,
    ) -> None:
        proofs = (password, password_file, token, token_file, key)
        if sum(proof is not None for proof in proofs) != 1:
            raise ArgumentError(
                "credentials need exactly one proof",
                "give password, password_file, token, token_file or key",
            )
        has_password = password is not None or password_file is not None
        if has_password is not bool(user):
            raise ArgumentError("a password needs a user, a token or key has its own")
        secret = password if token is None else token
        self.user = user
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._file = token_file if password_file is None else password_file
        self._key = key

    def secret(self) -> bytes:
        """The password or token; empty with a key. Raises LoginFailedError about a file."""
        if self._file is not None:
            return read_secret(self._file)
        return self._secret or b""

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def signing_key(self) -> SigningKey | None:
        """The key; None with a password or token. Raises LoginFailedError about a file."""
        key = self._key
        if key is None or isinstance(key, SigningKey):
            return key
        try:
            return SigningKey.load(key)
        except ConfigError as error:
            raise LoginFailedError(error.message, error.advice) from error

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, …)" if self.user else "Credentials(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials are not pickled: make them where they are used, of a file")


def read_secret(path: FilePath) -> bytes:
    """Read a password or token from a file, without the end of its line.

    Raises LoginFailedError; the content is never part of it.
    """
    try:
        with Path(path).open("rb") as file:
            mode = Path(path).stat().st_mode
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LoginFailedError(f"cannot read {fspath(path)}: {error.strerror}") from error
    if mode & stat.S_IROTH and stat.S_ISREG(mode):
        what = f"{fspath(path)} is readable by all users of this machine"
        raise LoginFailedError(what, "chmod 600 it, and change the secret if others could log in")
    secret = content.rstrip(b"\r\n")
    if not secret or len(content) > _FILE_BYTES_MAX or b"\n" in secret:
        raise LoginFailedError(f"{fspath(path)} is not one line with a password or token")
    return secret


class Login(Protocol):
    """The first exchange of a connection, before anything else is sent."""

    def begin(self) -> bytes:
        """Return what to send."""

    def receive(self, data: bytes) -> bytes | None:
        """Return what to send next, None when we are logged in. Raises ClientError."""
