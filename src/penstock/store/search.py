"""Where a topic's messages pass a sequence or a time.

Bisection over offsets, one message read for each halving: twenty reads for a million messages.
Offsets that are gone (removed, deleted) stand for the next message that is there, which keeps the
order, so that nothing need be known about gaps. Messages may come and go meanwhile; the answer then
holds for some moment of the search.
"""

from collections.abc import Callable

from penstock.model.message import Message
from penstock.store.store import Store

__all__ = ["offset_at_sequence", "offset_at_time"]


def offset_at_sequence(store: Store, topic: bytes, sequence: int) -> int:
    """The first offset whose message has this sequence or a greater one.

    If there is none it is the offset that the next message will get: 0 for an unknown topic.
    """
    return _first(store, topic, lambda message: message.sequence >= sequence)


def offset_at_time(store: Store, topic: bytes, time_ms: int) -> int:
    """The first offset whose message was published at this time or later.

    If there is none it is the offset that the next message will get: 0 for an unknown topic.
    Times ascend unless a clock was set back. Where they do not, there are several places at which
    they pass ``time_ms``, and this is one of them: its message is not older, the one before it is.
    """
    return _first(store, topic, lambda message: message.time_ms >= time_ms)


def _first(store: Store, topic: bytes, is_reached: Callable[[Message], bool]) -> int:
    info = store.topic(topic)
    if info is None:
        return 0
    low, high = info.first_offset, info.next_offset
    while low < high:  # all before `low` are too early, the one at `high` is not, or is the end
        middle = (low + high) // 2
        message = _message_from(store, topic, middle)
        if message is None or is_reached(message):
            high = middle
        else:
            low = message.offset + 1
    message = _message_from(store, topic, low)  # `low` itself may be in a gap
    return message.offset if message else info.next_offset


def _message_from(store: Store, topic: bytes, offset: int) -> Message | None:
    """The first message from an offset on."""
    return next(store.read_topic(topic, offset, 1, 0).messages(), None)
