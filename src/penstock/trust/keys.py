"""The keys that devices sign with, and the ring that holds them.

A **key** is valid from its registration until it is revoked or expires; changes replace it in the
ring and apply to the next frame. **Rotation** leaves no gap: the new key is valid at once, the old
one expires after the overlap. The ring follows from the journal: it only changes through ``put``
and ``remove``. A checkpoint takes changed keys as rows, in the order in which they became dirty.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import msgspec

from penstock.errors import StorageDamaged
from penstock.model.message import Signature
from penstock.trust.acl import Matcher, compile_acl, patterns_fault
from penstock.trust.faults import SignatureFault
from penstock.trust.signatures import is_valid, public_key_fault

KEY_ID_MAX = 2**32 - 1  # a key id is a u32 on the wire; 0 is none

KEYS_MAX = 100_000  # each costs about 1.5 KiB of memory, most of it compiled patterns

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)

_ROW_KEY = Struct(">I")


class Key(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A registered key, in the order of the row on disk. A time of 0 means never."""

    id: int
    public_key: bytes
    device: str
    topics: str
    created_ms: int
    expires_ms: int = 0
    revoked_ms: int = 0
    successor: int = 0

    def fault(self, now_ms: int) -> SignatureFault | None:
        """Why the key is not valid now; None if it is."""
        if self.revoked_ms:
            return SignatureFault.REVOKED_KEY
        if self.expires_ms and now_ms >= self.expires_ms:
            return SignatureFault.EXPIRED_KEY
        return None

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, row: bytes) -> "Key":
        """Raises StorageDamaged."""
        try:
            return msgspec.msgpack.decode(row, type=cls)
        except msgspec.DecodeError as error:
            raise StorageDamaged(f"a signing key's row cannot be read: {error}") from error


def key_fault(key: Key) -> str:
    """Why a key may not be registered; empty if it may. Ask before journaling it."""
    if not 1 <= key.id <= KEY_ID_MAX:
        return f"a key id is a number from 1 to {KEY_ID_MAX}"
    if not _DEVICE.fullmatch(key.device):
        return "a device name has 1 to 64 letters, digits, '.', '_' or '-', no sign first"
    if fault := patterns_fault(key.topics):
        return f"topics: {fault}"
    return public_key_fault(key.public_key)


def rotate(old: Key, new_id: int, public_key: bytes, now_ms: int, overlap_ms: int) -> list[Key]:
    """The new key, with the old lifetime from now on, and the changed old one, to be stored."""
    lifetime_ms = old.expires_ms - old.created_ms if old.expires_ms else 0
    new = Key(
        id=new_id,
        public_key=public_key,
        device=old.device,
        topics=old.topics,
        created_ms=now_ms,
        expires_ms=now_ms + lifetime_ms if lifetime_ms else 0,
    )
    ends_ms = min(now_ms + overlap_ms, old.expires_ms or now_ms + overlap_ms)
    return [new, msgspec.structs.replace(old, expires_ms=ends_ms, successor=new_id)]


class _Entry(NamedTuple):
    key: Key
    allows: Matcher


class KeyRing:
    """All registered keys, by id."""

    __slots__ = ("_dirty", "_entries")

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._dirty: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def dirty_count(self) -> int:
        return len(self._dirty)

    def put(self, key: Key) -> None:
        """Register a key, or replace the one with its id; ``key_fault`` was checked before."""
        self.restore(key)
        self._dirty[key.id] = None

    def restore(self, key: Key) -> None:
        """Load a key from a checkpoint, without making it dirty."""
        self._entries[key.id] = _Entry(key, compile_acl(key.topics))

    def remove(self, key_id: int) -> None:
        if self._entries.pop(key_id, None) is not None:
            self._dirty[key_id] = None

    def get(self, key_id: int) -> Key | None:
        entry = self._entries.get(key_id)
        return entry and entry.key

    def ids(self) -> list[int]:
        return list(self._entries)

    def all(self) -> list[Key]:
        return [self._entries[key_id].key for key_id in sorted(self._entries)]

    def next_id(self) -> int:
        """An id for a new key: above all others, or the lowest free one."""
        above = max(self._entries, default=0) + 1
        if above <= KEY_ID_MAX:
            return above
        return next(free for free in range(1, KEY_ID_MAX) if free not in self._entries)

    def judge(
        self, topic: bytes, payload: bytes, signature: Signature, now_ms: int
    ) -> SignatureFault | None:
        """Why a signature is refused, or None. Only the holder of a key learns what it may do."""
        entry = self._entries.get(signature.key_id)
        if entry is None:
            return SignatureFault.UNKNOWN_KEY
        if fault := entry.key.fault(now_ms):
            return fault
        if not is_valid(entry.key.public_key, topic, payload, signature):
            return SignatureFault.BAD_SIGNATURE
        return None if entry.allows(topic) else SignatureFault.NOT_AUTHORIZED

    def take_dirty(self, limit: int) -> list[tuple[bytes, Key | None]]:
        """Take changed keys (None: deleted), oldest first; ``mark_dirty`` them if writing fails."""
        taken = [self._dirty.popitem(last=False)[0] for _ in range(min(limit, len(self._dirty)))]
        return [(_ROW_KEY.pack(key_id), self.get(key_id)) for key_id in taken]

    def mark_dirty(self, row_keys: Iterable[bytes]) -> None:
        self._dirty.update((_ROW_KEY.unpack(row_key)[0], None) for row_key in row_keys)
