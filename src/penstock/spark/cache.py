"""The folder for what we make on a machine for Spark: it may be deleted at any time.

``$XDG_CACHE_HOME/penstock``, or ``~/.cache/penstock``. Files are put in place whole, for any number
of processes may want the same one at the same time.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the folder is; it need not exist. A relative path is ignored, as XDG says."""
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen / "penstock"
    return Path(environ.get("HOME") or "/tmp", ".cache", "penstock")  # noqa: S108 - a user without a home


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Have a file with this text at ``path``, in the cache; nobody ever sees half of it."""
    try:
        if _is_so(path, text, mode):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(mode)
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}",
            "set XDG_CACHE_HOME to a directory that you may write to",
        ) from error


def _is_so(path: Path, text: str, mode: int) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == mode
    except FileNotFoundError:
        return False
