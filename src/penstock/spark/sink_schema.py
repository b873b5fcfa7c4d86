"""The columns of a table that is written: which there are, where, and of what type.

Looked at when the query is planned, so that a wrong column is told of at once and not by the first
task. What is not known is refused: a column that was meant to go along and did not is a loss that
nobody would notice.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import ConfigError


class Layout(msgspec.Struct, frozen=True):
    """Where each column is; None: the table has none of it."""

    payload: int
    topic: int | None = None
    headers: int | None = None
    priority: int | None = None
    content_type: int | None = None
    timestamp: int | None = None


class _Role(NamedTuple):
    """What a column of some name may be, in code and in words, and how to make it so."""

    fits: Callable[[DataType], bool]
    types: str
    advice: str


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return _is_text(kind.keyType) and _is_bytes(kind.valueType)
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(pair, StructType)
        and pair.fieldNames() == ["key", "value"]
        and _is_text(pair["key"].dataType)
        and _is_bytes(pair["value"].dataType)
    )


_ROLES: Final[Mapping[str, _Role]] = {
    "topic": _Role(_is_text, "string", 'cast it: col("topic").cast("string")'),
    "payload": _Role(
        _is_bytes,
        "binary or string",
        'make it one: to_json(struct("*")) for rows, col(...).cast("string") for a number',
    ),
    "headers": _Role(
        _is_headers,
        "array<struct<key:string,value:binary>> or map<string,binary>",
        "the value of a header may be a string too",
    ),
    "priority": _Role(
        lambda kind: isinstance(kind, IntegralType), "int", 'cast it: col("priority").cast("int")'
    ),
    "content_type": _Role(_is_text, "string", "one of raw, text, json, msgpack"),
    "timestamp": _Role(
        lambda kind: isinstance(kind, TimestampType),
        "timestamp",
        'cast it: col("timestamp").cast("timestamp"), or timestamp_millis(...) of a number',
    ),
}

_ALIASES: Final = {"value": "payload"}
"""As Kafka's sink calls it."""


def layout_of(schema: StructType, *, has_topic: bool) -> Layout:
    """Find the columns; ``has_topic``: an option names the topic, and no column need do so."""
    places: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        role = _role_of(field)
        if role in places:
            raise ConfigError(
                f'columns "{schema.fields[places[role]].name}" and "{field.name}" are both the'
                f" {role}",
                "drop one of them",
            )
        places[role] = index
    _check_complete(places, has_topic)
    if has_topic:
        places.pop("topic", None)  # the option wins, as with Kafka's sink
    return Layout(**places)


def _role_of(field: StructField) -> str:
    """What a column is for; raises if that is nothing, or if it cannot be of its type."""
    name = field.name.lower()
    name = _ALIASES.get(name, name)
    role = _ROLES.get(name)
    if role is None:
        raise ConfigError(
            f'there is no use for the column "{field.name}"',
            f"select those that a message has: {', '.join(_ROLES)}; everything else goes into the"
            " payload, as by to_json(struct(...))",
        )
    if not role.fits(field.dataType):
        raise ConfigError(
            f'the column "{field.name}" is {field.dataType.simpleString()}, and must be'
            f" {role.types}",
            role.advice,
        )
    return name


def _check_complete(places: Mapping[str, int], has_topic: bool) -> None:
    if "payload" not in places:
        raise ConfigError(
            'there is no column "payload"',
            'name one so, as in selectExpr("to_json(struct(*)) AS payload")',
        )
    if not has_topic and "topic" not in places:
        raise ConfigError(
            "nothing says which topic the rows are for",
            'give option("topic", ...), or a column "topic"',
        )
