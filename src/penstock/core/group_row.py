"""A group as rows of the checkpoint: one for the group, one for each chunk of pending messages.

Rows of former versions are shorter. A new field goes to the end, with the default that holds where
it is missing.
"""

import msgspec

from penstock.core.group import CHUNK_BITS, Group
from penstock.core.pending import Consumer, Pending


class GroupRow(msgspec.Struct, array_like=True):
    """What is durable of a group, except its pending messages."""

    topic: bytes
    name: bytes
    next: int
    applied: int
    pending: list[tuple[int, Pending]]  # former versions wrote them here
    consumers: list[tuple[bytes, int, int]]
    heads: list[int] = []
    ahead: int = 0
    polls: int = 0
    version: int = 0
    max_deliveries: int = 0
    backoff_ms: int = 0
    backoff_max_ms: int = 0
    dead_letters: int = 0
    redeliveries: int = 0
    start: int = 0
    reader: bool = False
    generation: int = 0
    since: int = 0
    is_backoff_chosen: bool = True
    is_share: bool = False


_SHARED_FIELDS = GroupRow.__struct_fields__[GroupRow.__struct_fields__.index("heads") :]
"""Fields that a group has by the same name."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(GroupRow)
_chunk_decoder = msgspec.msgpack.Decoder(list[tuple[int, Pending]])


def encode_group(group: Group, applied: int) -> bytes:
    """The row of a group that contains all journal entries up to ``applied``."""
    group.applied = applied
    consumers = [(name, c.seen_ms, c.active_ms) for name, c in group.consumers.items()]
    row = GroupRow(group.topic, group.name, group.next, applied, [], consumers)
    for field in _SHARED_FIELDS:
        setattr(row, field, getattr(group, field))
    return _encoder.encode(row)


def decode_group(row: bytes) -> Group:
    """The group of a row; ``load_chunk`` follows for each of its chunks, then ``end_loading``."""
    data = _decoder.decode(row)
    group = Group(data.topic, data.name, data.next)
    data.heads = data.heads or group.heads
    group.applied = data.applied
    for field in _SHARED_FIELDS:
        setattr(group, field, getattr(data, field))
    for name, seen_ms, active_ms in data.consumers:
        group.consumers[name] = Consumer(seen_ms, active_ms, set())
    group.pending.update(data.pending)
    group.changed = {offset >> CHUNK_BITS for offset, _ in data.pending}
    return group


def encode_chunk(group: Group, chunk: int) -> bytes | None:
    start = chunk << CHUNK_BITS
    offsets = range(start, start + (1 << CHUNK_BITS))
    found = [(offset, group.pending[offset]) for offset in offsets if offset in group.pending]
    return _encoder.encode(found) if found else None


def load_chunk(group: Group, row: bytes) -> None:
    group.pending.update(_chunk_decoder.decode(row))
