"""The cache directory for files that we generate for Spark; it may be deleted at any time."""

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory, which may not exist. As XDG demands, a relative path is ignored."""
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen / "penstock"
    return Path(environ.get("HOME") or "/tmp", ".cache", "penstock")  # noqa: S108 - a user without a home


def put(path: Path, text: str, mode: int = 0o644) -> None:
    try:
        if _is_current(path, text, mode):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(mode)
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", "set XDG_CACHE_HOME to a writable directory"
        ) from error


def _is_current(path: Path, text: str, mode: int) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == mode
    except FileNotFoundError:
        return False
