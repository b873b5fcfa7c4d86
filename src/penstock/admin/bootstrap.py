"""The bootstrap token: a file with which a container's first administrator is made.

``auth.bootstrap_token_file`` names it. Whoever presents its first line as a Bearer token is an
administrator while there is none; the journal notes the change as made by the bootstrap token. The
file is read for each such request, so that it can be mounted late and removed after its use. A file
that others can read is refused.
"""

import os
import stat
from collections.abc import Callable

from penstock.obs.log import ThrottledLogger, get_logger

TOKEN_CHARACTERS_MIN = 16
_READ_BYTES = 1_024

_log = ThrottledLogger(get_logger("admin"))


def bootstrap_token(path: str) -> Callable[[], str]:
    """A function that reads the token; it returns an empty text if there is none to be used."""

    def read() -> str:
        try:
            return _token(path)
        except (OSError, ValueError) as error:
            _log.warning("bootstrap_token_refused", file=path, why=str(error))
            return ""

    return read if path else lambda: ""


def _token(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the descriptor is looked at
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077 and not _is_mounted_secret(path):
            raise ValueError("others can read the file: chmod 600")
        token = file.readline(_READ_BYTES).strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise ValueError(f"a token has at least {TOKEN_CHARACTERS_MIN} characters")
    return token


def _is_mounted_secret(path: str) -> bool:
    """Container runtimes mount secrets for one container, with modes of their own choice."""
    return path.startswith(("/run/secrets/", "/var/run/secrets/"))
