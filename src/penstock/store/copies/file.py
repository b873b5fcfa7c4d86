"""The format of a backup: one file, in which every byte is covered by a digest.

::

    header     8 bytes: magic and version
    sections   marker, database, blocks, one after the other (each has a digest in the index)
    index      MessagePack: ``BackupIndex``
    trailer    length of the index (8 bytes, little-endian), its SHA-256 (32), magic (8)

The digest of the index identifies the backup: since the index has the digests of all sections, it
covers everything. The index lists every block of the store, with the backup that holds its section:
this one, or one of its predecessors. So an incremental backup has only blocks that were not there
before, and a restore needs just the predecessors that are named.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from penstock.errors import StorageDamaged, StorageError, StorageForeign
from penstock.limits import GIB
from penstock.store.blocks.format import RAW, ZSTD, BlockSummary

HEADER: Final = b"PSTBK\x00\x00\x01"
MAGIC: Final = b"PSTBKEND"
PIECE_BYTES: Final = 1 << 20
INDEX_BYTES_MAX: Final = GIB  # some two hundred bytes per block
DIGEST_BYTES: Final = 32
OWN: Final = b""  # the backup itself, where one is named

_TRAILER: Final = struct.Struct("<Q32s8s")


class Section(msgspec.Struct, frozen=True, array_like=True):
    """Something in the file; ``digest`` is the SHA-256 of the bytes as stored."""

    start: int
    stored_bytes: int
    raw_bytes: int
    digest: bytes
    codec: int = RAW


class BackedUpBlock(msgspec.Struct, frozen=True, array_like=True):
    """A block, and its section in this backup or in the predecessor with the digest ``holder``.

    A block without a section was lost when the backup was made; one that is damaged was copied as
    it was, for the parts that are sound.
    """

    summary: BlockSummary
    section: Section | None
    holder: bytes = OWN
    is_damaged: bool = False


class Predecessor(msgspec.Struct, frozen=True, array_like=True):
    """A backup that holds blocks of a later one; the name is the one it had then."""

    digest: bytes
    name: str
    created_ms: int


class BackupIndex(msgspec.Struct, frozen=True, array_like=True):
    """What is in a backup, and in its predecessors. ``previous`` is empty for a full one."""

    store: str  # identity of the store, as its marker has it
    created_ms: int
    marker: Section
    database: Section
    blocks: list[BackedUpBlock]
    previous: bytes = OWN
    predecessors: list[Predecessor] = []  # those that hold blocks of this one

    @property
    def section_bytes(self) -> int:
        """Bytes that a restore reads, from predecessors too."""
        return sum(section.stored_bytes for section in self._sections())

    @property
    def raw_bytes(self) -> int:
        """Bytes that a restore writes."""
        return sum(section.raw_bytes for section in self._sections())

    def _sections(self) -> Iterator[Section]:
        blocks = (block.section for block in self.blocks)
        return filter(None, (self.marker, self.database, *blocks))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BackupIndex).decode


class BackupReader:
    """An open backup whose index was verified; sections are verified as they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise unreadable(path, error) from error
        try:
            self.index, self.digest = self._read_index()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def _read_index(self) -> tuple[BackupIndex, bytes]:
        size = os.fstat(self._file.fileno()).st_size
        if self._at(0, len(HEADER)) != HEADER:
            raise StorageForeign(
                f"{self.path} is not a backup that this version of Penstock can read",
                "Name a file that `penstock backup` of this version or an earlier one has written.",
            )
        end = size - _TRAILER.size
        length, digest, magic = _TRAILER.unpack(self._at(end, _TRAILER.size))
        if magic != MAGIC or not 0 < length <= min(end - len(HEADER), INDEX_BYTES_MAX):
            raise self.damaged("its end is missing")
        content = self._at(end - length, length)
        if sha256(content).digest() != digest:
            raise self.damaged("its index does not match its checksum")
        try:
            index = _decode(content)
        except msgspec.MsgspecError as error:
            raise self.damaged(f"its index cannot be read ({error})") from error
        self._check_sections(index, end - length)
        return index, digest

    def _check_sections(self, index: BackupIndex, end: int) -> None:
        """Sections follow one another without gaps, so no byte is without a digest."""
        at = len(HEADER)
        own = [block.section for block in index.blocks if block.holder == OWN]
        for section in filter(None, (index.marker, index.database, *own)):
            if section.start != at or section.stored_bytes < 0 or section.raw_bytes < 0:
                raise self.damaged("its index does not fit its content")
            at += section.stored_bytes
        if at != end:
            raise self.damaged("its index does not fit its content")

    def _at(self, start: int, length: int) -> bytes:
        if start < 0:
            raise self.damaged("it is too short")
        try:
            self._file.seek(start)
            found = self._file.read(length)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if len(found) != length:
            raise self.damaged("it is too short")
        return found

    def pieces(self, section: Section, what: str) -> Iterator[bytes]:
        """The bytes of a section as stored; raises StorageDamaged after the last if they differ."""
        digest, at, end = sha256(), section.start, section.start + section.stored_bytes
        while at < end:
            piece = self._at(at, min(PIECE_BYTES, end - at))
            digest.update(piece)
            at += len(piece)
            yield piece
        if digest.digest() != section.digest:
            raise self.damaged(f"{what} does not match its checksum")

    def damaged(self, what: str) -> StorageDamaged:
        return StorageDamaged(
            f"the backup {self.path} is damaged: {what}",
            "Use another copy of this file, or another backup.",
        )


class BackupWriter:
    """Writes the sections of a backup, one after the other, and its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._file.write(HEADER)
        self._at = len(HEADER)

    @contextmanager
    def section(self) -> Iterator["SectionWriter"]:
        writer = SectionWriter(self._file, self._at)
        yield writer
        self._at += writer.stored_bytes

    def finish(self, index: BackupIndex) -> bytes:
        """Write index and trailer; return the digest that identifies the backup."""
        content = _encode(index)
        digest = sha256(content).digest()
        self._file.write(content)
        self._file.write(_TRAILER.pack(len(content), digest, MAGIC))
        return digest


class SectionWriter:
    """Writes the bytes of one section."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._start = start
        self._digest = sha256()
        self.stored_bytes = 0

    def write(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._file.write(piece)
        self.stored_bytes += len(piece)

    def written(self, raw_bytes: int | None = None) -> Section:
        """The section; ``raw_bytes`` if it is compressed."""
        size, digest = self.stored_bytes, self._digest.digest()
        if raw_bytes is None:
            return Section(self._start, size, size, digest)
        return Section(self._start, size, raw_bytes, digest, ZSTD)


def find_backups(folder: Path, wanted: set[bytes]) -> dict[bytes, Path]:
    """Which files in a folder are the backups with these digests. Only their ends are read."""
    found: dict[bytes, Path] = {}
    for path in sorted(folder.iterdir()):
        if len(found) == len(wanted):
            break
        digest = _digest_of(path)
        if digest in wanted:
            found.setdefault(digest, path)
    return found


def _digest_of(path: Path) -> bytes:
    """The digest at the end of a backup, not verified; empty for any other file."""
    try:
        if path.name.startswith(".") or not path.is_file():
            return b""
        with path.open("rb") as file:
            if file.read(len(HEADER)) != HEADER:
                return b""
            file.seek(-_TRAILER.size, os.SEEK_END)
            _, digest, magic = _TRAILER.unpack(file.read(_TRAILER.size))
    except (OSError, struct.error):
        return b""
    return bytes(digest) if magic == MAGIC else b""


def unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be read ({error.strerror or error})",
        "Name a file that `penstock backup` has written, and that this user may read.",
    )
