"""Numbering of messages, so that the broker stores a repetition once.

The broker identifies a message by producer id and seq, per topic. A client without an id makes one
up, which is unique, and counts for itself: from 0, without gaps, so that the broker can store many
numbers as one range. Repetitions are then recognised for as long as the client lives.

A client *with* an id may have used the same numbers before a restart. If it counted from 0 again
its messages would be taken for repetitions and dropped silently: such a client must be given each
seq, and is recognised over restarts. For the same reason the other kind must not be given one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from secrets import token_hex
from threading import Lock
from typing import Final

import msgspec

from penstock.client.payload import check_payload
from penstock.client.queue.checks import U64_MAX, check_items, name
from penstock.client.queue.checks import count as count_of
from penstock.client.queue.values import Item, MessageKeywords
from penstock.errors import LocalProtocolError
from penstock.limits import MIB

BATCH_MAX: Final = 256  # messages in one request; the broker commits as many together
BATCH_BYTES_MAX: Final = MIB  # payloads in one request, unless a single one is larger


class Producer:
    """Numbers messages; for any number of threads."""

    def __init__(self, producer_id: str | None) -> None:
        self._is_named = producer_id is not None
        self.producer_id = token_hex(8) if producer_id is None else name("producer_id", producer_id)
        self._lock = Lock()
        self._next: defaultdict[str, int] = defaultdict(int)

    def take(self, topic: str, seq: int | None, count: int = 1) -> int:
        """Return the first of ``count`` consecutive seqs: the given one, or the next."""
        name("topic", topic)
        if (seq is not None) is not self._is_named:
            raise _explained(self._is_named)
        if seq is not None:
            return count_of("seq", seq, most=U64_MAX)
        with self._lock:
            first = self._next[topic]
            self._next[topic] = first + count
        return first


def _explained(is_named: bool) -> LocalProtocolError:
    if is_named:
        return LocalProtocolError(
            "a client with a producer_id was given a message without a seq",
            "number the messages of each topic, also over restarts; or give no producer_id",
        )
    return LocalProtocolError(
        "a client without a producer_id was given a seq", "give connect() a producer_id as well"
    )


class ProduceBatch(msgspec.Struct):
    """Messages that have everything but the payload in common."""

    settings: MessageKeywords
    payloads: list[bytes]


def batches(items: Iterable[bytes | Item], settings: MessageKeywords) -> Iterator[ProduceBatch]:
    """Cut messages, in their order, into batches as large as possible."""
    check_items(items)
    batch, size = ProduceBatch(settings, []), 0
    for item in items:
        payload, own = (item.payload, _own(item)) if isinstance(item, Item) else (item, settings)
        payload = as_bytes(payload)
        size += len(payload)
        is_full = len(batch.payloads) == BATCH_MAX or size > BATCH_BYTES_MAX
        if batch.payloads and (is_full or own != batch.settings):
            yield batch
            batch, size = ProduceBatch(own, []), len(payload)
        batch.settings = own
        batch.payloads.append(payload)
    if batch.payloads:
        yield batch


def _own(item: Item) -> MessageKeywords:
    return {
        "priority": item.priority,
        "content_type": item.content_type,
        "delay_s": item.delay_s,
        "ttl_s": item.ttl_s,
        "headers": item.headers,
    }


def as_bytes(payload: bytes) -> bytes:
    """Return the payload as bytes; raise TypeError for text."""
    if type(payload) is bytes:
        return payload
    check_payload(payload)
    return bytes(payload)
