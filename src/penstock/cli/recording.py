"""Recordings of live traffic: files that ``sub --record`` writes and ``pub --replay`` publishes.

JSON lines, compressed by gzip if the name ends in ``.gz``. The first is the **head**, the last the
**foot**, each other one a message::

    {"penstock_recording":1,"recorded":"2026-01-31T14:03:04.118Z","filters":["plant/#"]}
    {"t":0,"topic":"plant/p7","payload":"4.2","qos":1,"retain":false}
    {"t":1004,"topic":"plant/p7","payload_base64":"/w==","qos":0,"retain":false,"properties":{…}}
    {"messages":2,"sha256":"…"}

``t`` is in milliseconds since the recording began. The checksum is that of all lines before the
foot, line ends included. A recording that was cut off has no foot; what it has is whole lines, and
can be replayed.
"""

import gzip
import hashlib
import os
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar, cast

import msgspec

from penstock.cli.message_lines import iso_time, payload_field, property_fields
from penstock.client import Delivery, PublishProperties
from penstock.errors import PenstockError

_Kind = TypeVar("_Kind")

VERSION: Final = 1
LINE_BYTES_MAX: Final = 512 * 1024 * 1024  # a message of 256 MiB, which MQTT allows, in base64


class Head(msgspec.Struct, frozen=True):
    """What was recorded, and when."""

    penstock_recording: int
    recorded: str = ""
    filters: list[str] = []


class Foot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages there are, and the checksum of all lines before."""

    messages: int
    sha256: str


class _Properties(msgspec.Struct, frozen=True, omit_defaults=True):
    expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    correlation_data_base64: str | None = None
    user_properties: list[tuple[str, str]] = []
    payload_format: int | None = None


class _Line(msgspec.Struct, frozen=True):
    t: int
    topic: str
    qos: int = 0
    retain: bool = False
    payload: str | None = None
    payload_base64: str | None = None
    properties: _Properties | None = None


class Recorded(NamedTuple):
    """One message of a recording."""

    t_ms: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: PublishProperties | None


class Recorder:
    """Writes a recording; what ``write`` was given is on disk when it returns."""

    def __init__(self, path: Path, filters: Iterable[str], wall_ms: int) -> None:
        self.count = 0
        self._began_ms = wall_ms
        self._hash = hashlib.sha256()
        try:
            self._file = path.open("xb")
        except FileExistsError:
            raise PenstockError(
                f"{path} exists", "a recording is never overwritten: choose another name"
            ) from None
        except OSError as error:
            raise PenstockError(f"cannot write {path}: {error.strerror}") from error
        self._packed = gzip.GzipFile(fileobj=self._file, mode="wb") if _is_packed(path) else None
        self._append([msgspec.json.encode(Head(VERSION, iso_time(wall_ms), list(filters)))])

    def write(self, deliveries: Iterable[Delivery], wall_ms: int) -> None:
        t_ms = max(0, wall_ms - self._began_ms)
        lines = [_line(t_ms, delivery) for delivery in deliveries]
        self._append(lines)
        self.count += len(lines)

    def finish(self) -> None:
        self._append([msgspec.json.encode(Foot(self.count, self._hash.hexdigest()))])
        if self._packed is not None:
            self._packed.close()
        self._file.close()

    def _append(self, lines: Iterable[bytes]) -> None:
        data = b"".join([line + b"\n" for line in lines])
        self._hash.update(data)
        if self._packed is not None:
            self._packed.write(data)
            self._packed.flush(zlib.Z_SYNC_FLUSH)  # what was written can be read after a crash
        else:
            self._file.write(data)
        self._file.flush()
        os.fdatasync(self._file.fileno())


def _line(t_ms: int, delivery: Delivery) -> bytes:
    return msgspec.json.encode(
        {
            "t": t_ms,
            "topic": delivery.topic,
            **payload_field(delivery.payload),
            "qos": delivery.qos,
            "retain": delivery.retain,
            **property_fields(delivery),
        }
    )


# ── Reading ───────────────────────────────────────────────────────────────────────────────────


class Recording:
    """Reads a recording, as often as needed; every pass checks it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._opened() as file:
            self.head = self._decoded(self._line(file, 1), Head, 1)
        if self.head.penstock_recording != VERSION:
            raise self._fault(1, f"version {self.head.penstock_recording} is not known")
        self.is_cut_off = False  # known after a whole pass: it has no foot

    def messages(self) -> Iterator[Recorded]:
        """All messages in order. Raises PenstockError where the file is damaged."""
        count, checksum = 0, hashlib.sha256()
        with self._opened() as file:
            checksum.update(self._line(file, 1))
            number = 2
            while line := self._line(file, number):
                if line.startswith(b'{"messages":'):
                    self._check_foot(line, number, count, checksum.hexdigest())
                    return
                if not line.endswith(b"\n"):
                    break  # the recorder was killed while it wrote
                checksum.update(line)
                yield self._message(line, number)
                count += 1
                number += 1
        self.is_cut_off = True

    def _opened(self) -> BinaryIO:
        try:
            if _is_packed(self._path):
                return cast("BinaryIO", gzip.open(self._path))
            return self._path.open("rb")
        except OSError as error:
            raise PenstockError(f"cannot read {self._path}: {error.strerror}") from error

    def _line(self, file: BinaryIO, number: int) -> bytes:
        try:
            line = file.readline(LINE_BYTES_MAX)
        except EOFError:  # gzip's end is missing: cut off between two lines
            return b""
        except (OSError, zlib.error) as error:
            raise self._fault(number, str(error)) from error
        if len(line) == LINE_BYTES_MAX:
            raise self._fault(number, "the line is longer than any message")
        return line

    def _message(self, line: bytes, number: int) -> Recorded:
        read = self._decoded(line, _Line, number)
        payload = _bytes(read.payload, read.payload_base64)
        properties = None
        if (given := read.properties) is not None:
            data = _bytes(given.correlation_data, given.correlation_data_base64)
            properties = PublishProperties(
                expiry_s=given.expiry_s,
                content_type=given.content_type,
                response_topic=given.response_topic,
                correlation_data=data or None,
                user_properties=given.user_properties,
                payload_format=given.payload_format,
            )
        return Recorded(read.t, read.topic, payload, read.qos, read.retain, properties)

    def _check_foot(self, line: bytes, number: int, count: int, checksum: str) -> None:
        foot = self._decoded(line, Foot, number)
        if foot.messages != count:
            raise self._fault(number, f"it names {foot.messages:,} messages, {count:,} are there")
        if foot.sha256 != checksum:
            raise self._fault(number, "the checksum differs: a line was changed")

    def _decoded(self, line: bytes, kind: type[_Kind], number: int) -> _Kind:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise self._fault(number, str(error)) from error

    def _fault(self, number: int, what: str) -> PenstockError:
        return PenstockError(
            f"{self._path}, line {number:,}: {what}", "is it a recording of penstock sub --record?"
        )


def _bytes(text: str | None, base64: str | None) -> bytes:
    return b64decode(base64) if base64 is not None else (text or "").encode()


def _is_packed(path: Path) -> bool:
    return path.suffix == ".gz"
