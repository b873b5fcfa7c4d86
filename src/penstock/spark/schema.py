"""The columns of the source: names, types, and what to fetch for each.

Spark does not prune columns of a Python source, so the choice is an option (``columns``).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql import types as t

from penstock.model.columns import HEADERS, NUMBERS, PAYLOADS, PRODUCERS, SCHEDULES, SIGNATURES


class Column(NamedTuple):
    """A column of the source; ``needs`` is what to fetch for it besides the numbers."""

    name: str
    type: t.DataType
    is_nullable: bool = True
    needs: int = 0


HEADER_TYPE: Final = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
)

SIGNATURE_TYPE: Final = t.StructType(
    [
        t.StructField("version", t.IntegerType()),
        t.StructField("key_id", t.LongType()),
        t.StructField("signature", t.BinaryType()),
        t.StructField("signed_ms", t.LongType()),
        t.StructField("nonce", t.BinaryType()),
    ]
)

_ALL: Final = (
    Column("topic", t.StringType(), is_nullable=False),
    Column("offset", t.LongType(), is_nullable=False),
    Column("sequence", t.LongType(), is_nullable=False),
    Column("timestamp", t.TimestampType(), is_nullable=False),
    Column("payload", t.BinaryType(), needs=PAYLOADS),
    Column("content_type", t.StringType()),
    Column("priority", t.IntegerType()),
    Column("producer", t.StringType(), needs=PRODUCERS),
    Column("producer_seq", t.LongType(), needs=PRODUCERS),
    Column("signer", t.LongType(), needs=SIGNATURES),
    Column("signature_verdict", t.StringType(), needs=SIGNATURES),
    Column("headers", HEADER_TYPE, needs=HEADERS),
    Column("expires", t.TimestampType(), needs=SCHEDULES),
    Column("signature", SIGNATURE_TYPE, needs=SIGNATURES),
    Column("incarnation", t.LongType(), is_nullable=False),
)

COLUMNS: Final = {column.name: column for column in _ALL}  # all columns, in schema order
DEFAULT_COLUMNS: Final = tuple(column.name for column in _ALL[:11])


def mask_of(names: Iterable[str], *, verify: bool = False) -> int:
    """Return the columns to fetch; verifying signatures needs the payloads too."""
    mask = 0
    for name in names:
        mask |= COLUMNS[name].needs
    if verify:
        mask |= PAYLOADS | SIGNATURES
    return mask or NUMBERS


def struct_of(names: Iterable[str]) -> t.StructType:
    chosen = [COLUMNS[name] for name in names]
    return t.StructType([t.StructField(it.name, it.type, it.is_nullable) for it in chosen])
