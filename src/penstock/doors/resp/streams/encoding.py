"""Messages of a topic as entries of a stream, encoded for a client: an array of id and fields.

Reads are by the thousand, so ``encode_entries`` encodes all messages of a slice in one call.
``kernel/entries.pyx`` is its compiled form, which makes no object per message but the results.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock import kernel
from penstock.commit.feed import CommittedMessages
from penstock.doors.resp.streams.fields import fields_of
from penstock.doors.resp.streams.ids import entry_id
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.store.store import TopicSlice
from penstock.wire.resp import encode

COMMITTED_MAX = 64
COMMITTED_BYTES_MAX = 64 * KIB
"""Messages of a commit, and their bytes, that are encoded on the loop; more is read in a thread."""


class EncodedEntries(NamedTuple):
    """Entries of consecutive offsets, and their ids."""

    first: int
    ids: list[bytes]
    entries: list[bytes]

    @property
    def end(self) -> int:
        return self.first + len(self.ids)


def encoded(message: Message) -> bytes:
    name = entry_id(message.time_ms, message.offset)
    fields = fields_of(message.payload, message.flags, message.extras)
    items = [b"$%d\r\n%b\r\n" % (len(field), field) for field in fields]
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(name), name, encode.array(items))


def encoded_committed(committed: CommittedMessages) -> EncodedEntries | None:
    """The messages of a commit; None if they are many or large, or wait for a time, or expire."""
    payloads = committed.group.payloads
    if len(payloads) > COMMITTED_MAX or sum(map(len, payloads)) > COMMITTED_BYTES_MAX:
        return None
    if any(extras.due_ms or extras.expires_ms for extras in committed.extras.values()):
        return None
    messages = list(committed.messages())
    ids = [entry_id(message.time_ms, message.offset) for message in messages]
    return EncodedEntries(committed.first_offset, ids, list(map(encoded, messages)))


def encoded_slice(part: TopicSlice, topic: bytes) -> EncodedEntries:
    messages: list[Message] = []

    def alone(number: int) -> bytes:
        if not messages:
            messages.extend(part.messages(topic))
        return encoded(messages[number])

    return EncodedEntries(part.first_offset, *encode_entries(part, alone))


def encode_entries(
    part: TopicSlice, alone: Callable[[int], bytes]
) -> tuple[list[bytes], list[bytes]]:
    """The ids and the encoded entries of a slice; ``alone`` encodes the one of a number."""
    starts = [*memoryview(part.run_starts).cast("I"), part.count]
    times = memoryview(part.run_times).cast("I")
    ids: list[bytes] = []
    for run, time_ms in enumerate(times):
        first, end = part.first_offset + starts[run], part.first_offset + starts[run + 1]
        ids += [b"%d-%d" % (part.time_ms + time_ms, offset) for offset in range(first, end)]
    return ids, list(map(alone, range(part.count)))


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.entries import encode_entries
