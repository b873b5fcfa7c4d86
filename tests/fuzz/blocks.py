"""Blocks with sound checksums and unsound content: what only a hostile writer makes."""

import struct
from zlib import crc32

from penstock.errors import PenstockError
from penstock.model import columns
from penstock.store.blocks.block import Block
from penstock.store.blocks.format import (
    FOOTER_BYTES,
    HEADER_BYTES,
    ZSTD,
    Directory,
    Extent,
    Footer,
    join_directory,
    pack_footer,
    read_footer,
    split_directory,
)
from penstock.store.raw import gather_raw
from penstock.store.slices import GroupRange, gather, gather_flags

_PLACES = struct.Struct("<4I5QII")  # of the footer, after nine numbers
_SEQUENCES_MAX = 64


def resealed(data: bytes) -> bytes:
    """The same with all checksums as they should be, as far as its extents can be found."""
    if len(data) < HEADER_BYTES + FOOTER_BYTES:
        return data
    found, footer = bytearray(data), len(data) - FOOTER_BYTES
    groups, _, parts, _, start, size, order, order_size, *_ = _PLACES.unpack_from(
        found, footer + 72
    )
    if start + size <= footer and parts < 100 and groups < 1_000:
        _reseal_parts(found, start, size, groups, parts)
        struct.pack_into("<I", found, footer + 128, crc32(found[start : start + size]))
    if order + order_size <= footer:
        end = order + order_size + -order_size % 8
        struct.pack_into("<I", found, footer + 132, crc32(found[order:end]))
    struct.pack_into("<I4s", found, len(found) - 8, crc32(found[footer:-8]), b"PSTB")
    return bytes(found)


def _reseal_parts(found: bytearray, start: int, size: int, groups: int, parts: int) -> None:
    try:
        with memoryview(found)[start : start + size] as content:
            directory = split_directory(content, groups, parts)
            for part in range(parts):
                extent = directory.extent(part)
                directory.checksums[part] = crc32(found[extent.start : extent.end])
            for column in directory:
                column.release()
    except (ValueError, TypeError, IndexError):
        return  # the directory does not fit: nothing to seal


def with_part(data: bytes, stored: bytes, raw_bytes: int) -> bytes:
    """A block of one part with that part replaced."""
    buffer = memoryview(data)
    footer = read_footer(buffer)
    extent = footer.directory
    directory = split_directory(
        buffer[extent.start : extent.start + extent.stored_bytes], footer.summary.group_count, 1
    )
    content = stored + bytes(-len(stored) % 8)
    numbers = (
        (0).to_bytes(4, "little"),
        (0).to_bytes(4, "little"),
        HEADER_BYTES.to_bytes(8, "little"),
        len(stored).to_bytes(4, "little"),
        raw_bytes.to_bytes(4, "little"),
        crc32(content).to_bytes(4, "little"),
        bytes([ZSTD]),
    )
    columns_ = [bytes(column) for column in Directory(*directory)[:5]]
    joined = join_directory([*columns_, *numbers])
    start = HEADER_BYTES + len(content)
    order = footer.order
    old = bytes(buffer[order.start : order.end])
    place = Extent(start, len(joined), len(joined), crc32(joined), 0)
    moved = Extent(place.end, order.stored_bytes, order.raw_bytes, crc32(old), order.codec)
    end, _ = pack_footer(Footer(footer.summary, footer.run_count, 1, place, moved))
    return b"".join((data[:HEADER_BYTES], content, joined, old, end))


def read_all(data: bytes) -> None:
    """Everything that a store does with a block; raises nothing but PenstockError."""
    block = Block(data)
    for fault in block.verify():
        assert isinstance(fault, PenstockError)
    for group in block.groups():
        block.find(group.topic_id, group.first_offset)
        entry, number = block.opened(group.number)
        span = GroupRange(entry, number, group.first_offset, group.next_offset)
        gather([span], 100, 1 << 20)
        gather_raw([span], 100, 1 << 20, columns.ALL)
        gather_flags([span], group.first_offset, 100)
    summary = block.summary
    end = min(summary.end_sequence, summary.base_sequence + _SEQUENCES_MAX)
    for sequence in range(summary.base_sequence, end):
        block.located(sequence)
