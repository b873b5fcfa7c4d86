"""The log of Spark's file sink, ``_spark_metadata``: which files of a directory count.

A finished batch has a file there, named by its number: a line ``v1``, then a line of JSON per
Parquet file. Every tenth batch Spark compacts: ``19.compact`` has the lines of all batches up to
19, in order. So the log is one growing list, and compaction remembers how many entries it took.
File names are absolute, percent-encoded URIs; here they are paths relative to the directory.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.errors import StorageDamaged

DIRECTORY: Final = "_spark_metadata"
_NAME: Final = re.compile(r"(\d+)(\.compact)?")
_HEAD: Final = "v1"
_INTERVAL: Final = 10  # between compactions, Spark's default
_ATTEMPTS: Final = 5


class SinkLogEntry(msgspec.Struct, frozen=True, gc=False):
    """A file that a batch added: its relative path, and its size."""

    path: str
    size: int


class SinkLog(msgspec.Struct, frozen=True):
    """The entries of a directory; ``batch`` is the last finished one, -1 if none."""

    batch: int
    entries: tuple[SinkLogEntry, ...]


class _LogLine(msgspec.Struct):
    path: str
    size: int
    action: str = "add"


EMPTY: Final = SinkLog(-1, ())
_decode = msgspec.json.Decoder(_LogLine).decode


def read(directory: Path) -> SinkLog:
    for _ in range(_ATTEMPTS):
        names = _names(directory / DIRECTORY)
        if not names:
            return EMPTY
        try:
            texts = [(directory / DIRECTORY / name).read_text() for name in names]
        except FileNotFoundError:
            continue
        within = f"/{directory.parent.name}/{directory.name}/"
        parsed = [_parse(name, text, within) for name, text in zip(names, texts, strict=True)]
        entries = tuple(entry for part in parsed for entry in part)
        return SinkLog(int(names[-1].removesuffix(".compact")), entries)
    raise StorageDamaged(
        f"the log of {directory} changes faster than it can be read",
        "Make sure that only Spark deletes files in it.",
    )


def last(directory: Path) -> int:
    found = (_NAME.fullmatch(path.name) for path in (directory / DIRECTORY).glob("*"))
    return max((int(match[1]) for match in found if match), default=-1)


def _names(log: Path) -> list[str]:
    found = (
        [m for path in log.glob("*") if (m := _NAME.fullmatch(path.name))] if log.is_dir() else []
    )
    compact = max((int(m[1]) for m in found if m[2]), default=-1)
    plain = sorted(int(m[1]) for m in found if not m[2] and int(m[1]) > compact)
    if plain and plain != list(range(compact + 1, plain[-1] + 1)):
        missing = sorted(set(range(compact + 1, plain[-1])) - set(plain))[:5]
        raise StorageDamaged(
            f"{log} lacks batches {missing}",
            "Restore them: without them it is unknown which files count.",
        )
    return [f"{compact}.compact"] * (compact >= 0) + [str(number) for number in plain]


def _parse(name: str, text: str, within: str) -> list[SinkLogEntry]:
    head, *lines = text.split("\n")
    if head != _HEAD:
        raise StorageDamaged(
            f"{DIRECTORY}/{name} starts with {head[:20]!r}, not {_HEAD!r}",
            "It was written by another version of Spark, or is damaged.",
        )
    try:
        return [_entry(_decode(line), within) for line in lines if line]
    except msgspec.MsgspecError as error:
        raise StorageDamaged(f"{DIRECTORY}/{name} is damaged: {error}") from None


def _entry(line: _LogLine, within: str) -> SinkLogEntry:
    """Take the path after the directory's own name: the archive may have been moved."""
    if line.action != "add":
        raise StorageDamaged(
            f"the sink's log has an unknown action {line.action!r} for {line.path}"
        )
    _, found, path = unquote(urlsplit(line.path, allow_fragments=False).path).rpartition(within)
    if not found:
        raise StorageDamaged(f"the sink's log names a file of another directory: {line.path}")
    return SinkLogEntry(path, line.size)


def seed(directory: Path, batch: int) -> None:
    """Create an empty sink directory that counts all batches up to ``batch`` as done.

    Spark expects all files since the last compaction when it compacts the log next.
    """
    log = directory / DIRECTORY
    log.mkdir(parents=True)
    last = (batch + 1) // _INTERVAL * _INTERVAL - 1
    for number in (last - _INTERVAL, last):
        if number >= 0:
            (log / f"{number}.compact").write_text(_HEAD)
    for number in range(last + 1, batch + 1):
        (log / str(number)).write_text(_HEAD)
