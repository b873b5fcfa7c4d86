"""Columns of rare properties of messages: headers, signatures, schedules.

They are *sparse*: one column has the numbers of the messages that have the property, ascending, the
others its values. A signature is a record of fixed size, a schedule is two times; headers are a
list of lists of pairs, laid out as in Arrow.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import TypeAlias

from penstock.model.message import Extras, Signature

SIGNATURE_BYTES = 64  # an Ed25519 signature
NONCE_BYTES_MAX = 8
KEY_ID_MAX = 0xFFFF_FFFF
TIME_MS_MAX = 0xFFFF_FFFF_FFFF_FFFF
SCHEDULE_BYTES = 20  # a message number and two times

# signature, time of signing, nonce, key id, version, length of the nonce, zero
_SIGNATURE = struct.Struct(f"<{SIGNATURE_BYTES}sQ{NONCE_BYTES_MAX}sIBBH")

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
# message numbers, header bounds, text bounds (u32 each), texts
HeaderColumns: TypeAlias = tuple[memoryview, memoryview, memoryview, memoryview]

Schedule: TypeAlias = tuple[int, int]  # when a message is due and when it expires, in ms; 0: never
# message numbers (u32), times due and times of expiry (u64 each)
ScheduleColumns: TypeAlias = tuple[memoryview, memoryview, memoryview]


def extras_bytes(extras: Extras) -> int:
    size = sum(map(len, chain.from_iterable(extras.headers)))
    if extras.due_ms or extras.expires_ms:
        assert 0 <= extras.due_ms <= TIME_MS_MAX
        assert 0 <= extras.expires_ms <= TIME_MS_MAX
        size += SCHEDULE_BYTES
    signature = extras.signature
    if signature is None:
        return size
    assert len(signature.signature) == SIGNATURE_BYTES
    assert len(signature.nonce) <= NONCE_BYTES_MAX
    assert 0 <= signature.key_id <= KEY_ID_MAX
    return size + _SIGNATURE.size


def pack_signatures(found: Iterable[tuple[int, Signature]]) -> tuple[bytes, bytes]:
    """Numbers and records, from ascending message numbers and their signatures."""
    numbers = array("I")
    records = bytearray()
    for number, signature in found:
        nonce = signature.nonce
        numbers.append(number)
        records += _SIGNATURE.pack(
            signature.signature,
            signature.signed_ms,
            nonce,
            signature.key_id,
            signature.version,
            len(nonce),
            0,
        )
    return numbers.tobytes(), bytes(records)


def signatures_between(
    numbers: memoryview, records: memoryview, start: int, end: int
) -> Iterator[tuple[int, Signature]]:
    first, last = bisect_left(numbers, start), bisect_left(numbers, end)
    stretch = records[first * _SIGNATURE.size : last * _SIGNATURE.size]
    for number, fields in zip(numbers[first:last], _SIGNATURE.iter_unpack(stretch), strict=True):
        signature, signed_ms, nonce, key_id, version, nonce_bytes, _ = fields
        yield number, Signature(version, key_id, signature, signed_ms, nonce[:nonce_bytes])


def pack_headers(found: list[tuple[int, Headers]]) -> tuple[bytes, bytes, bytes, bytes]:
    """Numbers, header bounds, text bounds, texts; from ascending message numbers and headers."""
    texts = [text for _, headers in found for text in chain.from_iterable(headers)]
    return (
        array("I", [number for number, _ in found]).tobytes(),
        array("I", accumulate((len(headers) for _, headers in found), initial=0)).tobytes(),
        array("I", accumulate(map(len, texts), initial=0)).tobytes(),
        b"".join(texts),
    )


def headers_between(columns: HeaderColumns, start: int, end: int) -> Iterator[tuple[int, Headers]]:
    numbers, header_bounds, text_bounds, content = columns
    for place in range(bisect_left(numbers, start), bisect_left(numbers, end)):
        yield (
            numbers[place],
            tuple(
                (
                    bytes(content[text_bounds[text] : text_bounds[text + 1]]),
                    bytes(content[text_bounds[text + 1] : text_bounds[text + 2]]),
                )
                for text in range(2 * header_bounds[place], 2 * header_bounds[place + 1], 2)
            ),
        )


def pack_schedule(found: list[tuple[int, Schedule]]) -> tuple[bytes, bytes, bytes]:
    """Numbers, times due, times of expiry; from ascending message numbers and schedules."""
    return (
        array("I", [number for number, _ in found]).tobytes(),
        array("Q", [due_ms for _, (due_ms, _) in found]).tobytes(),
        array("Q", [expires_ms for _, (_, expires_ms) in found]).tobytes(),
    )


def schedule_between(
    columns: ScheduleColumns, start: int, end: int
) -> Iterator[tuple[int, Schedule]]:
    numbers, due, expiry = columns
    for place in range(bisect_left(numbers, start), bisect_left(numbers, end)):
        yield numbers[place], (due[place], expiry[place])
