"""Reading messages of a topic by their offsets."""

from typing import NamedTuple

from penstock.model.message import Message
from penstock.store.store import Store


class ReadResult(NamedTuple):
    """Messages that were read, and offsets beyond the byte limit. All others are gone."""

    messages: dict[int, Message]
    unread: list[int]


def read_messages(store: Store, topic: bytes, offsets: list[int], bytes_max: int) -> ReadResult:
    """Read messages in this order, until ``bytes_max`` is reached."""
    messages: dict[int, Message] = {}
    number = size = 0
    while number < len(offsets) and size < bytes_max:
        first = offsets[number]
        count = _contiguous(offsets, number)
        part = store.read_topic(topic, first, count, bytes_max - size)
        found = [message for message in part.messages() if message.offset < first + count]
        messages.update((message.offset, message) for message in found)
        size += sum(len(message.payload) for message in found)
        # What is missing before ``next_offset`` is gone; if that is no help, all of it is.
        end = part.next_offset if part.next_offset > first else first + count
        number += min(end - first, count)
    return ReadResult(messages, offsets[number:])


def _contiguous(offsets: list[int], number: int) -> int:
    """The length of the contiguous range that begins here."""
    end = number + 1
    while end < len(offsets) and offsets[end] == offsets[end - 1] + 1:
        end += 1
    return end - number
