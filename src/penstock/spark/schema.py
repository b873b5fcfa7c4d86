"""The columns of the source: names, types, and what to fetch for each.

Spark does not prune columns of a Python source, so the choice is an option (``columns``). It
determines the schema, what is fetched from the broker, and what is sent to Spark.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.model.columns import HEADERS, NUMBERS, PAYLOADS, PRODUCERS, SIGNATURES


class Column(NamedTuple):
    """A column of the source; ``needs`` is what to fetch for it besides the numbers."""

    name: str
    type: DataType
    is_nullable: bool = True
    needs: int = 0


HEADER_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

SIGNATURE_TYPE: Final = StructType(
    [
        StructField("version", IntegerType()),
        StructField("key_id", LongType()),
        StructField("signature", BinaryType()),
        StructField("signed_ms", LongType()),
        StructField("nonce", BinaryType()),
    ]
)

_ALL: Final = (
    Column("topic", StringType(), is_nullable=False),
    Column("offset", LongType(), is_nullable=False),
    Column("sequence", LongType(), is_nullable=False),
    Column("timestamp", TimestampType(), is_nullable=False),
    Column("payload", BinaryType(), needs=PAYLOADS),
    Column("content_type", StringType()),
    Column("priority", IntegerType()),
    Column("producer", StringType(), needs=PRODUCERS),
    Column("producer_seq", LongType(), needs=PRODUCERS),
    Column("signer", LongType(), needs=SIGNATURES),
    Column("signature_verdict", StringType(), needs=SIGNATURES),
    Column("headers", HEADER_TYPE, needs=HEADERS),
    Column("signature", SIGNATURE_TYPE, needs=SIGNATURES),
    Column("incarnation", LongType(), is_nullable=False),
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


def struct_of(names: Iterable[str]) -> StructType:
    chosen = [COLUMNS[name] for name in names]
    return StructType([StructField(it.name, it.type, it.is_nullable) for it in chosen])
