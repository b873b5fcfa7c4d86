"""Counts the messages that groups miss because retention removed them.

Retention may remove messages of thousands of topics at once. Most have no groups; those that have
are counted some at a time, so that the loop serves clients in between.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TypeAlias

from penstock.core.broker import Broker
from penstock.model.queue_names import WORKERS, is_queue
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.store.store import RetentionResult

COUNTED_AT_ONCE = 256  # topics: about a millisecond

_Offsets: TypeAlias = dict[bytes, list[tuple[int, int]]]  # removed ranges by topic


class MissedMessages:
    """Counts for one broker."""

    def __init__(self, broker: Broker, counters: Counters, loop: asyncio.AbstractEventLoop) -> None:
        self._groups = broker.groups
        self._counters = counters
        self._loop = loop

    def removed(self, result: RetentionResult) -> None:
        """Count what was removed. Any thread."""
        offsets = result.offsets
        queues = set(filter(is_queue, offsets))  # here, as this looks at each name
        with contextlib.suppress(RuntimeError):  # the loop may have ended
            self._loop.call_soon_threadsafe(self._begin, offsets, queues)

    def _begin(self, offsets: _Offsets, queues: set[bytes]) -> None:
        queues |= self._groups.by_topic.keys() & offsets.keys()  # costs what the smaller one has
        self._count(iter(queues), offsets)

    def _count(self, topics: Iterator[bytes], offsets: _Offsets) -> None:
        some = list(islice(topics, COUNTED_AT_ONCE))
        for topic in some:
            self._counters.drops[DropReason.RETENTION] += self._missed(topic, offsets[topic])
        if len(some) == COUNTED_AT_ONCE:
            self._loop.call_soon(partial(self._count, topics, offsets))

    def _missed(self, topic: bytes, ranges: list[tuple[int, int]]) -> int:
        missed = self._groups.missed(topic, ranges)
        if is_queue(topic) and self._groups.get(topic, WORKERS) is None:  # no worker came yet
            missed += sum(end - first for first, end in ranges)
        return missed
