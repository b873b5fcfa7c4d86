"""Where a topic's messages pass a sequence, a time, or a stream id of time and offset.

Bisection over offsets, one read for each step. Offsets that are gone stand for the next existing
message, which keeps the order. Messages may come and go meanwhile; the answer then holds for some
moment of the search.
"""

from collections.abc import Callable

from penstock.model.message import Message
from penstock.store.store import Store, TopicInfo

CLOCK_SKEW_MS = 1_000  # how far times of neighbours may go back without a clock being set by hand


def offset_at_sequence(store: Store, topic: bytes, sequence: int) -> int:
    """The first offset whose message has this sequence or a greater one, or the next offset."""
    return _first(store, topic, lambda message: message.sequence >= sequence)


def offset_at_time(store: Store, topic: bytes, time_ms: int) -> int:
    """The first offset whose message was published at this time or later, or the next offset."""
    return _first(store, topic, lambda message: message.time_ms >= time_ms)


def offset_of_entry(
    store: Store, topic: bytes, time_ms: int, offset: int, *, is_behind: bool = False
) -> int:
    """The offset of a stream entry named by time and offset, or the one after it.

    Messages from there on are not before that entry, those below are. If times do not ascend, ids
    that we gave out are still exact: an entry with this id, or one next to it, is found by its
    offset. The id of a removed entry counts as ours if its time fits those around it, within
    ``CLOCK_SKEW_MS``.
    """
    info = store.topic(topic)
    if info is None:
        return 0
    if offset <= info.next_offset:
        known = _place_of_name(store, info, time_ms, offset, is_behind=is_behind)
        if known is not None:
            return known
    wanted = (time_ms, offset + is_behind)
    low = _passed(store, info, lambda message: (message.time_ms, message.offset) >= wanted)
    following = _message_from(store, topic, low)
    if low <= offset < (following.offset if following else info.next_offset):
        return offset + is_behind  # in a gap: entries that were removed before it stay before it
    if low > info.first_offset:
        return low
    return offset + is_behind if offset < low else 0


def _place_of_name(
    store: Store, info: TopicInfo, time_ms: int, offset: int, *, is_behind: bool
) -> int | None:
    """The offset that an entry id stands for if we gave it out; None if we did not."""
    here = _message_from(store, info.name, offset)
    is_there = here is not None and here.offset == offset
    is_gone = not is_there and 0 < offset < info.next_offset
    if here is not None and is_there and here.time_ms == time_ms:
        return offset + is_behind
    if here is not None and is_gone and 0 <= time_ms - here.time_ms <= CLOCK_SKEW_MS:
        return offset + is_behind
    before = _message_at(store, info.name, offset - 1)
    ahead_ms = before.time_ms - time_ms if before else -1
    if is_gone and 0 <= ahead_ms <= CLOCK_SKEW_MS:
        return offset + is_behind
    if ahead_ms == 0:
        return offset
    after = _message_at(store, info.name, offset + 1)
    return offset + 1 if after is not None and after.time_ms == time_ms else None


def _message_at(store: Store, topic: bytes, offset: int) -> Message | None:
    message = _message_from(store, topic, offset) if offset >= 0 else None
    return message if message is not None and message.offset == offset else None


def _first(store: Store, topic: bytes, is_reached: Callable[[Message], bool]) -> int:
    info = store.topic(topic)
    if info is None:
        return 0
    low = _passed(store, info, is_reached)
    message = _message_from(store, topic, low)  # `low` itself may be in a gap
    return message.offset if message else info.next_offset


def _passed(store: Store, info: TopicInfo, is_reached: Callable[[Message], bool]) -> int:
    low, high = info.first_offset, info.next_offset
    while low < high:  # all before `low` are too early, the one at `high` is not, or is the end
        middle = (low + high) // 2
        message = _message_from(store, info.name, middle)
        if message is None or is_reached(message):
            high = middle
        else:
            low = message.offset + 1
    return low


def _message_from(store: Store, topic: bytes, offset: int) -> Message | None:
    return next(store.read_topic(topic, offset, 1, 0).messages(), None)
