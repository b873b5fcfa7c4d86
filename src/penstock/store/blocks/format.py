"""The layout of a block file: header, parts, directory, order, footer.

Numbers are little-endian and everything begins on a multiple of eight bytes, so the directory is
read in place, through a memory map. docs/reference/journal-format.md has it byte by byte. Every
byte lies under a checksum: a part with its padding, the directory, the order with its padding, the
footer; the header is compared with the footer.

Here is also what compresses. A frame names its own size, and a decompressor would believe it: the
size is compared with the directory's before anything is allocated.
"""

import struct
import threading
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import msgspec
import zstandard

from penstock.errors import StorageDamaged, StorageForeign
from penstock.store.checksum import crc32

MAGIC: Final = b"PSTB"
VERSION: Final = 1
RAW: Final = 0
ZSTD: Final = 1
PART_BYTES: Final = 256 * 1024  # raw; a part is decoded as a whole
U32_MAX: Final = 0xFFFF_FFFF

# magic, version, zeros, number of the block
_HEADER: Final = struct.Struct("<4sB3xQ")
# The summary's numbers; groups, runs, parts, codec of the order; where the rest is; version.
_FOOTER: Final = struct.Struct("<9Q4I5QIIQ")
_FOOTER_END: Final = struct.Struct("<I4s")  # checksum of all before it, magic
HEADER_BYTES: Final = _HEADER.size
FOOTER_BYTES: Final = _FOOTER.size + _FOOTER_END.size
_LEVEL: Final = 1  # the fastest that halves what lz4 leaves
_LOCAL: Final = threading.local()  # a compressor serves one thread at a time


class BlockSummary(msgspec.Struct, frozen=True):
    """What the store keeps about a block, and what a fold reports.

    The sequences, up to but not including ``end_sequence``, and entries are those that the block
    stands for; some of their messages may be gone. ``checksum`` is that of the footer, which has
    those of directory and order.
    """

    number: int
    base_sequence: int
    end_sequence: int
    first_index: int
    last_index: int
    count: int
    group_count: int
    payload_bytes: int
    file_bytes: int
    oldest_ms: int
    newest_ms: int
    checksum: int


class Extent(NamedTuple):
    """Where something lies in the file, without its padding, and its checksum with it."""

    start: int
    stored_bytes: int
    raw_bytes: int
    checksum: int
    codec: int

    @property
    def end(self) -> int:
        return padded(self.start + self.stored_bytes)


class Footer(NamedTuple):
    """A footer, checked against itself and against the size of the file."""

    summary: BlockSummary
    run_count: int
    part_count: int
    directory: Extent
    order: Extent


def padded(size: int) -> int:
    return size + -size % 8


def padding(size: int) -> bytes:
    return bytes(-size % 8)


def damaged(number: int | None, what: str) -> StorageDamaged:
    block = "a block" if number is None else f"block {number:016x}"
    return StorageDamaged(
        f"{block}: {what}",
        "Messages of other blocks are not affected. Restore the data directory from a backup; "
        "docs/operating/storage.md explains how to assess the damage.",
    )


def compressed(content: bytes, codec: int) -> tuple[bytes, int]:
    """The content as stored, and its codec: raw where compression would not shrink it."""
    if codec == ZSTD:
        try:
            compressor = _LOCAL.compressor
        except AttributeError:
            compressor = _LOCAL.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        found: bytes = compressor.compress(content)
        if len(found) < len(content):
            return found, ZSTD
    return content, RAW


def read_extent(buffer: memoryview, extent: Extent, number: int, what: str) -> memoryview:
    """The content of an extent, verified and decompressed."""
    check_extent(buffer, extent, number, what)
    stored = buffer[extent.start : extent.start + extent.stored_bytes]
    if extent.codec == RAW:
        if extent.raw_bytes != extent.stored_bytes:
            raise damaged(number, f"{what} has not the size that was noted")
        return stored
    if extent.codec != ZSTD:
        raise damaged(number, f"{what} is compressed in an unknown way ({extent.codec})")
    return memoryview(_decompressed(stored, extent.raw_bytes, number, what))


def check_extent(buffer: memoryview, extent: Extent, number: int, what: str) -> None:
    """Verify the bytes of an extent, as they are stored."""
    if extent.start < HEADER_BYTES or extent.end > len(buffer) - FOOTER_BYTES:
        raise damaged(number, f"{what} lies outside the file")
    if crc32(buffer[extent.start : extent.end]) != extent.checksum:
        raise damaged(number, f"{what} does not match its checksum")


def _decompressed(stored: memoryview, raw_bytes: int, number: int, what: str) -> bytes:
    try:
        if zstandard.frame_content_size(stored) != raw_bytes:
            raise damaged(number, f"{what} has not the size that was noted")
        try:
            decompressor = _LOCAL.decompressor
        except AttributeError:
            decompressor = _LOCAL.decompressor = zstandard.ZstdDecompressor()
        found: bytes = decompressor.decompress(
            stored, max_output_size=raw_bytes, allow_extra_data=False
        )
    except (zstandard.ZstdError, MemoryError) as error:
        raise damaged(number, f"{what} cannot be decompressed ({error})") from error
    if len(found) != raw_bytes:
        raise damaged(number, f"{what} has not the size that was noted")
    return found


def planes(column: bytes) -> bytes:
    """A column of u32 as four planes: all lowest bytes, then all second ones … They shrink best."""
    return b"".join([column[place::4] for place in range(4)])


def from_planes(content: memoryview) -> memoryview:
    """The column of u32 of which ``planes`` made this."""
    found, size = bytearray(len(content)), len(content) // 4
    for place in range(4):
        found[place::4] = content[place * size : (place + 1) * size]
    return memoryview(found).toreadonly().cast("I")


def pack_header(number: int) -> bytes:
    return _HEADER.pack(MAGIC, VERSION, number)


def pack_footer(footer: Footer) -> tuple[bytes, BlockSummary]:
    """The footer, and the summary completed with size of the file and checksum."""
    summary, directory, order = footer.summary, footer.directory, footer.order
    body = _FOOTER.pack(
        summary.number, summary.base_sequence, summary.end_sequence, summary.first_index,
        summary.last_index, summary.count, summary.payload_bytes, summary.oldest_ms,
        summary.newest_ms, summary.group_count, footer.run_count, footer.part_count, order.codec,
        directory.start, directory.stored_bytes, order.start, order.stored_bytes, order.raw_bytes,
        directory.checksum, order.checksum, VERSION,
    )  # fmt: skip
    checksum = crc32(body)
    file_bytes = order.end + FOOTER_BYTES
    complete = msgspec.structs.replace(summary, file_bytes=file_bytes, checksum=checksum)
    return body + _FOOTER_END.pack(checksum, MAGIC), complete


def read_footer(buffer: memoryview) -> Footer:
    """The footer at the end of a file; raises StorageDamaged."""
    size = len(buffer)
    if size < HEADER_BYTES + FOOTER_BYTES:
        raise damaged(None, f"a file of {size} bytes is shorter than header and footer")
    tail = buffer[size - FOOTER_BYTES :]
    checksum, magic = _FOOTER_END.unpack_from(tail, _FOOTER.size)
    if magic != MAGIC:
        raise damaged(None, "the file does not end with the footer of a block")
    if crc32(tail[: _FOOTER.size]) != checksum:
        raise damaged(None, "the footer does not match its checksum")
    return _unpacked(tail, size, checksum, buffer)


def _unpacked(tail: memoryview, size: int, checksum: int, buffer: memoryview) -> Footer:
    (
        number, base, end, first_index, last_index, count, payload_bytes, oldest_ms, newest_ms,
        groups, runs, parts, codec, directory_start, directory_bytes, order_start, order_bytes,
        order_raw, directory_checksum, order_checksum, version,
    ) = _FOOTER.unpack_from(tail)  # fmt: skip
    if version != VERSION:
        raise StorageForeign(
            f"block {number:016x} has version {version}; this program knows version {VERSION}",
            "Start the version of Penstock that wrote it, or a later one.",
        )
    summary = BlockSummary(
        number, base, end, first_index, last_index, count, groups, payload_bytes, size,
        oldest_ms, newest_ms, checksum,
    )  # fmt: skip
    directory = Extent(directory_start, directory_bytes, directory_bytes, directory_checksum, RAW)
    order = Extent(order_start, order_bytes, order_raw, order_checksum, codec)
    if buffer[:HEADER_BYTES] != pack_header(number):
        raise damaged(number, "the header does not fit the footer")
    if (
        directory_start < HEADER_BYTES
        or directory_start % 8
        or directory_bytes != directory_size(groups, parts)
        or order_start != directory.end
        or order.end != size - FOOTER_BYTES
        or order_raw != 8 * runs
        or not base <= end <= base + U32_MAX
        or not parts <= groups <= runs <= count <= end - base
        or first_index > last_index + 1
        or oldest_ms > newest_ms
    ):
        raise damaged(number, "the numbers in the footer do not fit each other")
    return Footer(summary, runs, parts, directory, order)


# The directory's columns: type and bytes of an item; per group, then per part.
_GROUP_COLUMNS: Final = (("I", 4), ("Q", 8), ("I", 4), ("I", 4), ("I", 4))
_PART_COLUMNS: Final = (
    ("I", 4), ("I", 4), ("Q", 8), ("I", 4), ("I", 4), ("I", 4), ("B", 1),
)  # fmt: skip


def directory_size(groups: int, parts: int) -> int:
    return sum(padded(groups * width) for _, width in _GROUP_COLUMNS) + sum(
        padded(parts * width) for _, width in _PART_COLUMNS
    )


class Directory(NamedTuple):
    """The directory's columns, read in place: five per group, then seven per part."""

    topic_ids: memoryview
    first_offsets: memoryview
    message_ends: memoryview
    payload_bytes: memoryview
    newest: memoryview
    first_groups: memoryview
    first_runs: memoryview
    starts: memoryview
    stored_bytes: memoryview
    raw_bytes: memoryview
    checksums: memoryview
    codecs: memoryview

    def extent(self, part: int) -> Extent:
        return Extent(
            self.starts[part],
            self.stored_bytes[part],
            self.raw_bytes[part],
            self.checksums[part],
            self.codecs[part],
        )


def split_directory(content: memoryview, groups: int, parts: int) -> Directory:
    """The columns of a directory of the size that ``directory_size`` tells."""
    sizes = [
        *[(code, groups * width) for code, width in _GROUP_COLUMNS],
        *[(code, parts * width) for code, width in _PART_COLUMNS],
    ]
    starts = accumulate((padded(size) for _, size in sizes), initial=0)
    return Directory(
        *[
            content[start : start + size].cast(code)  # type: ignore[call-overload]
            for (code, size), (start, _) in zip(sizes, pairwise(starts), strict=True)
        ]
    )


def join_directory(columns: list[bytes]) -> bytes:
    return b"".join([piece for column in columns for piece in (column, padding(len(column)))])
