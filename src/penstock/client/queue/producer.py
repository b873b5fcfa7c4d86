"""Numbering what a client produces, so that the broker stores a repetition once.

The broker knows a message by producer id and seq, per topic. A client that was given no id makes
one up, which nobody else has, and counts for itself: from 0, without gaps, so that the broker can
remember many numbers as one stretch. What it sends again after a lost connection is then recognised
for as long as the client lives.

A client that *was* given an id may have had an earlier life that used the same numbers. Counting
from 0 again, its messages would be taken for repetitions and thrown away in silence: such a client
must be told each seq, and is then recognised over restarts. For the same reason the other kind is
told none.
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
from penstock.client.queue.values import Item, MessageSettings
from penstock.errors import LocalProtocolError
from penstock.limits import MIB

BATCH_MAX: Final = 256
"""Messages in one request: what the broker commits together anyway."""

BATCH_BYTES_MAX: Final = MIB
"""Payloads in one request, save for one that alone is larger."""


class Producer:
    """Numbers messages; for any number of threads."""

    def __init__(self, producer_id: str | None) -> None:
        self._is_named = producer_id is not None
        self.producer_id = token_hex(8) if producer_id is None else name("producer_id", producer_id)
        self._lock = Lock()
        self._next: defaultdict[str, int] = defaultdict(int)

    def take(self, topic: str, seq: int | None, count: int = 1) -> int:
        """The first of so many seqs in a row: the given one, or the next ones."""
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

    settings: MessageSettings
    payloads: list[bytes]


def batches(items: Iterable[bytes | Item], settings: MessageSettings) -> Iterator[ProduceBatch]:
    """Cut a line of messages, in their order, into batches as large as can be."""
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


def _own(item: Item) -> MessageSettings:
    return {
        "priority": item.priority,
        "content_type": item.content_type,
        "delay_s": item.delay_s,
        "ttl_s": item.ttl_s,
        "headers": item.headers,
    }


def as_bytes(payload: bytes) -> bytes:
    """What can be put on the wire; TypeError for text, whose encoding is not ours to guess."""
    if type(payload) is bytes:
        return payload
    check_payload(payload)
    return bytes(payload)
