"""Messages to complete frames; the frequent ones are written by hand, as the library would.

Consecutive numbers share all but their lowest seven bits, which are one byte. So the frames of 128
offsets are that byte, 128 times, with the same bytes in between: without ids, ``produced_run`` is
one ``join`` per 128 frames.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock import kernel
from penstock.errors import LocalProtocolError
from penstock.wire.queue._generated.queue_pb2 import Error, Ok, Request, Response
from penstock.wire.queue.fields import BYTES, LOWEST, REQUEST_ID, blob, number, tag, varint
from penstock.wire.queue.machine import BODY_BYTES_MAX, LENGTH

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
# lease, offset, priority, content type, payload, ts_ms, redeliveries, headers
Item: TypeAlias = tuple[int, int, int, int, bytes, int, int, Headers]

# Plain numbers: a call for each tag would cost as much as the field.
_NUMBERS: Final = [tag(field) for field in range(16)]
_BYTES: Final = [tag(field, BYTES) for field in range(16)]

_LEASE_TAG, _OFFSET_TAG = bytes((_NUMBERS[1],)), bytes((_NUMBERS[2],))
_PRODUCED, _POLLED, _OK = _BYTES[1], _BYTES[2], _BYTES[3]
_PRODUCE, _ACK = _BYTES[1], _BYTES[3]


def produced(offset: int, request_id: int = 0) -> bytes:
    return _frame(_PRODUCED, number(_NUMBERS[1], offset), request_id)


def produced_run(first_offset: int, count: int, request_ids: Sequence[int] | None = None) -> bytes:
    assert count > 0
    end = first_offset + count
    ids = None if request_ids is None else [number(REQUEST_ID, value) for value in request_ids]
    frames = []
    for start in range(first_offset & ~127, end, 128):
        first, stop = max(start, first_offset), min(start + 128, end)
        if ids is None:
            frames.append(_produced_alike(first, stop))
        else:
            frames += _produced_with(first, ids[first - first_offset : stop - first_offset])
    return b"".join(frames)


def _produced_alike(first: int, end: int) -> bytes:
    if first < 128:  # a single byte, or none for offset 0
        return b"".join(map(produced, range(first, end)))
    upper = varint(first >> 7)
    before = produced(first)[: -1 - len(upper)]
    place = first & 127
    return before + (upper + before).join(LOWEST[place : place + end - first]) + upper


def _produced_with(first: int, ids: list[bytes]) -> list[bytes]:
    if first < 128:
        bodies = [produced(offset)[LENGTH.size :] for offset in range(first, first + len(ids))]
        return list(map(_framed, map(bytes.__add__, bodies, ids)))
    upper = varint(first >> 7)
    before = produced(first)[LENGTH.size : -1 - len(upper)]
    bare_bytes = len(before) + 1 + len(upper)
    befores = [LENGTH.pack(bare_bytes + id_bytes) + before for id_bytes in range(12)]
    lowest = LOWEST[first & 127 :]
    return [befores[len(id_)] + low + upper + id_ for low, id_ in zip(lowest, ids, strict=False)]


def ok_run(count: int, request_ids: Sequence[int] | None = None) -> bytes:
    if request_ids is None:
        return _frame(_OK, b"", 0) * count
    assert len(request_ids) == count
    return b"".join([_frame(_OK, b"", request_id) for request_id in request_ids])


def ok(lapsed: Sequence[int], request_id: int = 0) -> bytes:
    return response(Response(ok=Ok(lapsed=lapsed), request_id=request_id))


def error(
    code: str, message: str, *, leader_addr: str = "", retry_after_ms: int = 0, request_id: int = 0
) -> bytes:
    what = Error(code=code, message=message, leader_addr=leader_addr, retry_after_ms=retry_after_ms)
    return response(Response(error=what, request_id=request_id))


def polled(items: list[Item], request_id: int = 0) -> bytes:
    return _frame(_POLLED, encode_deliveries(items, False, _delivered), request_id)


def pushed(items: list[Item]) -> bytes:
    return encode_deliveries(items, True, _delivered)


def response(message: Response) -> bytes:
    return _framed(message.SerializeToString())


def encode_deliveries(items: list[Item], is_framed: bool, whole: Callable[[Item], bytes]) -> bytes:
    """Items, each behind a head for its size; neighbours share four of their seven pieces.

    ``is_framed``: each in a frame of its own. ``whole`` encodes the message of an item alone.
    """
    head_of = _frame_head if is_framed else _item_head
    pieces: list[bytes] = []
    last: tuple[int, ...] = ()
    for item in items:
        lease, offset, priority, content_type, payload, ts_ms, redeliveries, headers = item
        if headers or lease < 128 or offset < 128:
            message = whole(item)
            pieces += (head_of(len(message)), message)
            continue
        size = len(payload)
        alike = (lease >> 7, offset >> 7, priority, content_type, ts_ms, redeliveries, size)
        if alike != last:
            last = alike
            behind_lease = varint(lease >> 7) + _OFFSET_TAG
            marks = _marks(priority, content_type)
            behind_offset = varint(offset >> 7) + marks + _payload_head(size)
            end = _circumstances(ts_ms, redeliveries)
            rest_bytes = len(behind_lease) + len(behind_offset) + len(end)
            head = head_of(3 + rest_bytes + size) + _LEASE_TAG
        low, high = LOWEST[lease & 127], LOWEST[offset & 127]
        pieces += (head, low, behind_lease, high, behind_offset, payload, end)
    return b"".join(pieces)


@lru_cache(maxsize=1024)
def _item_head(size: int) -> bytes:
    return bytes((_BYTES[1],)) + varint(size)


@lru_cache(maxsize=1024)
def _frame_head(size: int) -> bytes:
    item_head = _item_head(size)
    polled_bytes = len(item_head) + size
    polled_head = bytes((_POLLED,)) + varint(polled_bytes)
    return LENGTH.pack(len(polled_head) + polled_bytes) + polled_head + item_head


def _delivered(item: Item) -> bytes:
    lease, offset, priority, content_type, payload, ts_ms, redeliveries, headers = item
    return b"".join(
        (
            number(_NUMBERS[1], lease),
            number(_NUMBERS[2], offset),
            _marks(priority, content_type),
            blob(_BYTES[5], payload),
            _circumstances(ts_ms, redeliveries),
            b"".join(map(_header, headers)),
        )
    )


@lru_cache(maxsize=1024)
def _payload_head(size: int) -> bytes:
    return bytes((_BYTES[5],)) + varint(size) if size else b""


@lru_cache(maxsize=64)
def _marks(priority: int, content_type: int) -> bytes:
    return number(_NUMBERS[3], priority) + number(_NUMBERS[4], content_type)


@lru_cache(maxsize=1024)
def _circumstances(ts_ms: int, redeliveries: int) -> bytes:
    return number(_NUMBERS[6], ts_ms) + number(_NUMBERS[7], redeliveries)


def _header(header: tuple[bytes, bytes]) -> bytes:
    """An invalid UTF-8 name is replaced: otherwise the whole response would be unreadable."""
    name, value = header
    text = name.decode(errors="replace").encode()
    return _message(_BYTES[8], blob(_BYTES[1], text) + blob(_BYTES[2], value))


def request(message: Request) -> bytes:
    return _sound(_framed(message.SerializeToString()))


def produce(
    topic: bytes,
    payload: bytes,
    *,
    priority: int = 0,
    content_type: int = 0,
    producer: bytes = b"",
    seq: int = 0,
    request_id: int = 0,
) -> bytes:
    """Produce without delay, ttl and headers; names are UTF-8."""
    _check_numbers(priority, content_type, seq, request_id)
    message = b"".join(
        (
            blob(_BYTES[1], topic),
            number(_NUMBERS[2], priority),
            number(_NUMBERS[3], content_type),
            blob(_BYTES[4], payload),
            blob(_BYTES[5], producer),
            number(_NUMBERS[6], seq),
        )
    )
    return _sound(_frame(_PRODUCE, message, request_id))


def ack(topic: bytes, group: bytes, lease: int, *, request_id: int = 0) -> bytes:
    _check_numbers(lease, request_id)
    names = blob(_BYTES[1], topic) + blob(_BYTES[2], group)
    return _sound(_frame(_ACK, names + number(_NUMBERS[3], lease), request_id))


def _check_numbers(*numbers: int) -> None:
    for value in numbers:
        if not 0 <= value < 2**64:
            raise LocalProtocolError(f"number out of range: {value}")


def _sound(frame: bytes) -> bytes:
    """Refuse what would make the broker close the connection."""
    body_bytes = len(frame) - LENGTH.size
    if body_bytes > BODY_BYTES_MAX:
        what = f"frame of {body_bytes} bytes exceeds"
        raise LocalProtocolError(f"{what} the limit of {BODY_BYTES_MAX}")
    return frame


def _frame(kind: int, message: bytes, request_id: int) -> bytes:
    """A frame with one message, which may be large and is copied once."""
    head = bytes((kind,)) + varint(len(message))
    end = number(REQUEST_ID, request_id)
    length = LENGTH.pack(len(head) + len(message) + len(end))
    return b"".join((length, head, message, end))


def _message(tag: int, message: bytes) -> bytes:
    """A field with a message; unlike bytes, it is written even if it is empty."""
    return blob(tag, message) or bytes((tag, 0))


def _framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.jobs import encode_deliveries
