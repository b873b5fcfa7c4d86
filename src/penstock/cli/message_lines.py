"""Messages as lines on standard output: for people, or as JSON for programs."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from penstock.client import Delivery

if TYPE_CHECKING:  # loads protobuf
    from penstock.client import Record


def delivery_text(delivery: Delivery) -> bytes:
    return _text(delivery.topic, delivery.payload)


def delivery_json(delivery: Delivery) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    flags = {"qos": delivery.qos, "retain": delivery.retain, "dup": delivery.dup}
    more = flags | {"time": now} | property_fields(delivery)
    return _json(delivery.topic, delivery.payload, more)


def property_fields(delivery: Delivery) -> dict[str, object]:
    """What MQTT 5 says about the message; nothing if it says nothing."""
    given = msgspec.structs.asdict(delivery.properties)
    properties = {name: value for name, value in given.items() if value not in {None, ()}}
    if "correlation_data" in properties:
        data: bytes = properties.pop("correlation_data")
        properties |= bytes_field("correlation_data", data)
    fields: dict[str, object] = {"properties": properties} if properties else {}
    if delivery.subscription_ids:
        fields["subscription_ids"] = delivery.subscription_ids
    return fields


def record_text(record: "Record") -> bytes:
    return _text(record.topic, record.payload)


def record_json(record: "Record") -> bytes:
    time = iso_time(record.ts_ms)
    position: dict[str, object] = {
        "offset": record.offset,
        "sequence": record.sequence,
        "time": time,
    }
    if record.expires_ms:
        position["expires"] = iso_time(record.expires_ms)
    return _json(record.topic, record.payload, position | header_field(record))


def iso_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def header_field(record: "Record") -> dict[str, object]:
    headers = [[name, value.decode("utf-8", "backslashreplace")] for name, value in record.headers]
    return {"headers": headers} if headers else {}


def payload_field(payload: bytes) -> dict[str, str]:
    return bytes_field("payload", payload)


def bytes_field(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _text(topic: str, payload: bytes) -> bytes:
    return _one_line(topic).encode() + b" " + one_line(payload)


def one_line(payload: bytes) -> bytes:
    """A payload that can neither end its line nor control a terminal."""
    try:
        return _one_line(payload.decode()).encode()
    except UnicodeDecodeError:
        return f"hex:{payload.hex()}".encode()


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def _json(topic: str, payload: bytes, more: dict[str, object]) -> bytes:
    return msgspec.json.encode({"topic": topic, **payload_field(payload), **more})
