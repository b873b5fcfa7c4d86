r"""The log of Spark's file sink, ``_spark_metadata``: which files of a directory count.

A batch that is done has a file there, named by its number: a line ``v1``, then a line of JSON for
each Parquet file it added. Every tenth batch the log is compacted by Spark: ``19.compact`` has all
lines of all batches up to 19, in their order, and the older files go away some minutes later. So
the log is one growing list, however it is cut: the newest ``.compact`` and the batches after it.
That it only grows, always in the same order, is what compaction of an archive builds upon: it
remembers how many entries of the list it has taken. (Spark would drop entries only for the sink's
``retention`` option, which archives do not use.)

The names of files are absolute URIs, percent-encoded; here they are paths below the directory.
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
_INTERVAL: Final = 10  # of compactions, by Spark's default
_ATTEMPTS: Final = 5


class SinkLogEntry(msgspec.Struct, frozen=True, gc=False):
    """A file that a batch added: its path below the sink's directory, and its size."""

    path: str
    size: int


class SinkLog(msgspec.Struct, frozen=True):
    """What a directory holds; ``batch`` is the last that is done, -1 before the first."""

    batch: int
    entries: tuple[SinkLogEntry, ...]


class _LogLine(msgspec.Struct):
    path: str
    size: int
    action: str = "add"


EMPTY: Final = SinkLog(-1, ())

_decode = msgspec.json.Decoder(_LogLine).decode


def read(directory: Path) -> SinkLog:
    """Read the log of a sink's directory; nothing there is nothing written.

    Spark may compact the log and delete what it compacted while we read. Then a file that was
    listed is gone, and the list is made again.
    """
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
        return SinkLog(_number(names[-1]), tuple(entry for part in parsed for entry in part))
    raise StorageDamaged(
        f"the log of {directory} changes faster than it can be read",
        "Is something deleting files in it? Spark alone may.",
    )


def last(directory: Path) -> int:
    """Return the last batch of a sink's directory by the names in its log; -1 if there is none."""
    found = (_NAME.fullmatch(path.name) for path in (directory / DIRECTORY).glob("*"))
    return max((int(match[1]) for match in found if match), default=-1)


def _names(log: Path) -> list[str]:
    """Return the files that make up the list: the newest compact one, and those after it."""
    found = (
        [m for path in log.glob("*") if (m := _NAME.fullmatch(path.name))] if log.is_dir() else []
    )
    compact = max((int(m[1]) for m in found if m[2]), default=-1)
    plain = sorted(int(m[1]) for m in found if not m[2] and int(m[1]) > compact)
    if plain and plain != list(range(compact + 1, plain[-1] + 1)):
        missing = sorted(set(range(compact + 1, plain[-1])) - set(plain))[:5]
        raise StorageDamaged(
            f"{log} lacks batches {missing}",
            "Restore them: which of the files in the directory count can not be told without.",
        )
    return [f"{compact}.compact"] * (compact >= 0) + [str(number) for number in plain]


def _number(name: str) -> int:
    return int(name.removesuffix(".compact"))


def _parse(name: str, text: str, within: str) -> list[SinkLogEntry]:
    head, *lines = text.split("\n")
    if head != _HEAD:
        raise StorageDamaged(
            f"{DIRECTORY}/{name} begins with {head[:20]!r}, not with {_HEAD!r}",
            "It was written by another version of Spark, or is damaged.",
        )
    try:
        return [_entry(_decode(line), within) for line in lines if line]
    except msgspec.MsgspecError as error:
        raise StorageDamaged(f"{DIRECTORY}/{name} is damaged: {error}") from None


def _entry(line: _LogLine, within: str) -> SinkLogEntry:
    """Take the path from where the directory's own name ends: the archive may have been moved."""
    if line.action != "add":
        raise StorageDamaged(
            f"the sink's log says {line.action!r} of {line.path}; only 'add' is known here"
        )
    _, found, path = unquote(urlsplit(line.path, allow_fragments=False).path).rpartition(within)
    if not found:
        raise StorageDamaged(f"the sink's log names a file of another directory: {line.path}")
    return SinkLogEntry(path, line.size)


def seed(directory: Path, batch: int) -> None:
    """Make a sink's directory that has no rows, and takes ``batch`` and all before it for done.

    A query that goes on from its checkpoint writes there from the next batch on, and a batch that
    it repeats, because it was killed between the sink's commit and its own, is passed over as in
    the directory before. Spark compacts the log at its next tenth batch, and wants all files since
    the last: they are here, empty. It takes the interval from the distance of the last two.
    """
    log = directory / DIRECTORY
    log.mkdir(parents=True)
    last = (batch + 1) // _INTERVAL * _INTERVAL - 1
    for number in (last - _INTERVAL, last):
        if number >= 0:
            (log / f"{number}.compact").write_text(_HEAD)
    for number in range(last + 1, batch + 1):
        (log / str(number)).write_text(_HEAD)
