"""The files of the console: read once, compressed once, served from memory.

Every file but the first page has the version in its path, so that browsers keep it for good and
never mix the files of two versions. The version is a hash of all files. The first page names the
files that it needs, so that the browser fetches them at once and not one after the other.

There is no build step: what the package has is what the browser gets.
"""

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FIRST_PAGE = "index.html"
_LATE = ("vendor/uplot.js",)  # fetched by the first chart
_VERSION_CHARS = 12


class File(NamedTuple):
    """One file, as it is sent."""

    body: bytes
    gzipped: bytes
    media_type: str


class Files(NamedTuple):
    """All files of the console by path, and the version that they are."""

    version: str
    by_path: dict[str, File]


@cache
def load() -> Files:
    """Read and compress the files; takes some 30 ms, once."""
    found = dict(sorted(_found(files("penstock.console") / "static")))
    version = _version_of(found)
    found[FIRST_PAGE] = _with_version(found[FIRST_PAGE], version, list(found))
    return Files(version, {path: _file(path, body) for path, body in found.items()})


def _found(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _found(entry, f"{prefix}{entry.name}/")
        elif _suffix(entry.name) in MEDIA_TYPES:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _version_of(found: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, body in found.items():
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:_VERSION_CHARS]


def _with_version(page: bytes, version: str, paths: list[str]) -> bytes:
    scripts = [path for path in paths if _suffix(path) == ".js" and path not in _LATE]
    links = "\n".join(
        f'<link rel="modulepreload" href="/console/{version}/{path}">' for path in scripts
    )
    return page.replace(b"<!-- modules -->", links.encode()).replace(b"VERSION", version.encode())


def _file(path: str, body: bytes) -> File:
    return File(body, gzip.compress(body, 9, mtime=0), MEDIA_TYPES[_suffix(path)])


def _suffix(path: str) -> str:
    return "." + path.rpartition(".")[2]
