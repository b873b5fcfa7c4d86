"""Names and columns of an archive.

::

    ROOT/live/<segment>/topic_key=…/date=…/part-….parquet     written by Spark's file sink
    ROOT/live/<segment>/_spark_metadata/                      which of them count
    ROOT/compacted/<id>/topic_key=…/date=…/part-….parquet     written by compaction
    ROOT/manifest/<number>.json                               which of both are the archive
    ROOT/checkpoint/                                          progress of the archiving query

A topic may be too long for a directory name, not ASCII, or look like a number to Spark. So a
directory is named after a **key**, a readable prefix with a checksum; rows hold the exact topic.
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
    "expires": "timestamp",
}  # columns with Spark types; those that were not archived are null

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

# A batch writes a file per topic and day; with tens of thousands of topics, partition by day only.
PARTITIONINGS: Final = {"topic,date": ("topic_key", "date"), "date": ("date",)}
_KEY_CHARACTERS: Final = 80
KEY: Final = "topic_key"
KEY_SQL: Final = (  # computes topic_key in Spark
    f"concat(substring(regexp_replace(topic, '[^A-Za-z0-9_.-]', '_'), 1, {_KEY_CHARACTERS}), '-', "
    "lpad(lower(hex(crc32(cast(topic as binary)))), 8, '0'))"
)

# The UTC day of the broker's time, whatever the session's time zone.
DATE: Final = (
    "date_from_unix_date(cast(floor(unix_micros(timestamp) / 86400000000) as int)) as date"
)

_GLOB: Final = frozenset("*?[]{}\\")


def topic_key(topic: str) -> str:
    """Return the directory name for a topic's rows.

    >>> topic_key("plant/7/temperature")
    'plant_7_temperature-66c279fd'
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", topic)[:_KEY_CHARACTERS]
    return f"{readable}-{zlib.crc32(topic.encode()):08x}"


def key_of(path: str) -> str | None:
    """Return the topic key in a file's path; None if the archive is partitioned by day only."""
    return _part(path, f"{KEY}=")


def date_of(path: str) -> date | None:
    text = _part(path, "date=")
    return date.fromisoformat(text) if text else None


def _part(path: str, prefix: str) -> str | None:
    found = [part for part in path.split("/") if part.startswith(prefix)]
    return found[-1].removeprefix(prefix) if found else None


def day_of(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def root_of(path: str | Path) -> Path:
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ConfigError(
            f"an archive must be a directory, not {str(path)!r}",
            "Mount the storage on every worker and give its path; the manifest needs atomic links.",
        )
    if _GLOB & set(text):
        raise ConfigError(
            f"{text!r} has a character that Spark treats as a wildcard",
            "Choose a directory without * ? [ ] { } and backslash.",
        )
    return Path(text).absolute()
