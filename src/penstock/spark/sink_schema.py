"""The columns of a table to write, checked when the query is planned."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
from pyspark.sql import types as t

from penstock.errors import ConfigError


class Layout(msgspec.Struct, frozen=True):
    """The index of each column; None if the table lacks it."""

    payload: int
    topic: int | None = None
    headers: int | None = None
    priority: int | None = None
    content_type: int | None = None
    timestamp: int | None = None
    expires: int | None = None


class _Role(NamedTuple):
    """The types that a column of some name may have, as code and as text, and advice."""

    fits: Callable[[t.DataType], bool]
    types: str
    advice: str


def _is_text(kind: t.DataType) -> bool:
    return isinstance(kind, t.StringType)


def _is_bytes(kind: t.DataType) -> bool:
    return isinstance(kind, t.BinaryType | t.StringType)


def _is_headers(kind: t.DataType) -> bool:
    if isinstance(kind, t.MapType):
        return _is_text(kind.keyType) and _is_bytes(kind.valueType)
    pair = kind.elementType if isinstance(kind, t.ArrayType) else None
    return (
        isinstance(pair, t.StructType)
        and pair.fieldNames() == ["key", "value"]
        and _is_text(pair["key"].dataType)
        and _is_bytes(pair["value"].dataType)
    )


def _is_timestamp(kind: t.DataType) -> bool:
    return isinstance(kind, t.TimestampType)


_ROLES: Final[Mapping[str, _Role]] = {
    "topic": _Role(_is_text, "string", 'cast it: col("topic").cast("string")'),
    "payload": _Role(
        _is_bytes,
        "binary or string",
        'convert it: to_json(struct("*")) for rows, col(...).cast("string") for a number',
    ),
    "headers": _Role(
        _is_headers,
        "array<struct<key:string,value:binary>> or map<string,binary>",
        "a header's value may also be a string",
    ),
    "priority": _Role(
        lambda kind: isinstance(kind, t.IntegralType), "int", 'cast it: col("priority").cast("int")'
    ),
    "content_type": _Role(_is_text, "string", "one of raw, text, json, msgpack"),
    "timestamp": _Role(
        _is_timestamp,
        "timestamp",
        'cast it: col("timestamp").cast("timestamp"), or timestamp_millis(...) of a number',
    ),
    "expires": _Role(
        _is_timestamp,
        "timestamp",
        'cast it, or add an interval: current_timestamp() + expr("INTERVAL 1 HOUR")',
    ),
}

_ALIASES: Final = {"value": "payload"}  # the name in Kafka's sink


def layout_of(schema: t.StructType, *, has_topic: bool) -> Layout:
    """Find the columns. ``has_topic``: the topic is an option, so no column is needed."""
    indexes: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        role = _role_of(field)
        if role in indexes:
            raise ConfigError(
                f'columns "{schema.fields[indexes[role]].name}" and "{field.name}" are both the'
                f" {role}",
                "drop one of them",
            )
        indexes[role] = index
    _check_complete(indexes, has_topic)
    if has_topic:
        indexes.pop("topic", None)  # as in Kafka's sink, the option wins
    return Layout(**indexes)


def _role_of(field: t.StructField) -> str:
    name = field.name.lower()
    name = _ALIASES.get(name, name)
    role = _ROLES.get(name)
    if role is None:
        raise ConfigError(
            f'unknown column "{field.name}"',
            f"a message has {', '.join(_ROLES)}; put everything else into the payload, for example"
            " with to_json(struct(...))",
        )
    if not role.fits(field.dataType):
        raise ConfigError(
            f'the column "{field.name}" is {field.dataType.simpleString()}, but must be'
            f" {role.types}",
            role.advice,
        )
    return name


def _check_complete(indexes: Mapping[str, int], has_topic: bool) -> None:
    if "payload" not in indexes:
        raise ConfigError(
            'no column "payload"', 'name one, as in selectExpr("to_json(struct(*)) AS payload")'
        )
    if not has_topic and "topic" not in indexes:
        raise ConfigError("no topic given", 'set option("topic", ...), or add a column "topic"')
