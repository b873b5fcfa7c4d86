"""Names and columns of an archive.

::

    ROOT/live/<segment>/topic_key=…/date=…/part-….parquet   written by Spark's file sink
    ROOT/live/<segment>/_spark_metadata/                    which of them count
    ROOT/compacted/<id>/topic_key=…/date=…/part-….parquet   written by compaction
    ROOT/manifest/<number>.json                             which of both are the archive
    ROOT/checkpoint/                                        how far the archiving query is

A directory is named after a **key** of the topic, not after the topic itself. A topic may have
1,024 bytes of any characters, a directory's name 255 bytes; a Java that runs without a UTF-8
locale writes ``?`` for what is not ASCII; and Spark, reading names back, takes ``007`` for a
number. So the topic stands in the rows, exact (a column of one value costs a few bytes), and the
directory only gathers: a readable part, and a checksum that keeps look-alikes apart. Were two
topics ever to share a key, they would share a directory, and nothing else.

Paths are those of a file system that all workers see under the same name. Names in the manifest are
relative, so that an archive may be moved as a whole.
"""

import re
import zlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from penstock.errors import ConfigError

LIVE: Final = "live"
COMPACTED: Final = "compacted"
MANIFEST: Final = "manifest"
CHECKPOINT: Final = "checkpoint"

COLUMNS: Final = {
    "topic": "string",
    "incarnation": "bigint",
    "offset": "bigint",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "payload": "binary",
    "content_type": "string",
    "priority": "int",
    "producer": "string",
    "producer_seq": "bigint",
    "signer": "bigint",
    "signature_verdict": "string",
    "headers": "array<struct<key:string,value:binary>>",
    "signature": (
        "struct<version:int,key_id:bigint,signature:binary,signed_ms:bigint,nonce:binary>"
    ),
}
"""Columns of an archive's rows, with Spark's types; those that were not archived are null."""

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

PARTITIONINGS: Final = {"topic,date": ("topic_key", "date"), "date": ("date",)}
"""How rows may be divided into directories. Each batch makes a file for each topic and day in it:
with tens of thousands of topics that is as many files, and the day alone is the better choice."""

_KEY_CHARACTERS: Final = 80

KEY: Final = "topic_key"
KEY_SQL: Final = (
    f"concat(substring(regexp_replace(topic, '[^A-Za-z0-9_.-]', '_'), 1, {_KEY_CHARACTERS}), '-', "
    "lpad(lower(hex(crc32(cast(topic as binary)))), 8, '0'))"
)
"""``topic_key``, as Spark computes it."""

DATE: Final = (
    "date_from_unix_date(cast(floor(unix_micros(timestamp) / 86400000000) as int)) as date"
)
"""The day of the broker's time, in UTC whatever the session's time zone is."""

_GLOB: Final = frozenset("*?[]{}\\")


def topic_key(topic: str) -> str:
    """Return the name of the directory for a topic's rows.

    >>> topic_key("plant/7/temperature")
    'plant_7_temperature-66c279fd'
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", topic)[:_KEY_CHARACTERS]
    return f"{readable}-{zlib.crc32(topic.encode()):08x}"


def key_of(path: str) -> str | None:
    """Return the topic key that a file's path has; None where rows are divided by day alone."""
    return _part(path, f"{KEY}=")


def date_of(path: str) -> date | None:
    """Return the day that a file's path has."""
    text = _part(path, "date=")
    return date.fromisoformat(text) if text else None


def _part(path: str, prefix: str) -> str | None:
    found = [part for part in path.split("/") if part.startswith(prefix)]
    return found[-1].removeprefix(prefix) if found else None


def day_of(moment: datetime) -> date:
    """Return the day that a row of this time is stored under."""
    return moment.astimezone(UTC).date()


def root_of(path: str | Path) -> Path:
    """Return an archive's directory; ConfigError if Spark could not be given names below it."""
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ConfigError(
            f"an archive is a directory that every worker sees, not {str(path)!r}",
            "Mount the storage and give its path; the manifest needs a file system's atomic link.",
        )
    if _GLOB & set(text):
        raise ConfigError(
            f"{text!r} has a character that Spark takes for a wildcard",
            "Choose a directory without any of * ? [ ] { } and backslash.",
        )
    return Path(text).absolute()
