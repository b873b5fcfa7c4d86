"""Counts the messages that groups miss because retention removed them.

Retention may remove messages of thousands of topics at once. They are looked at some at a time, so
that the loop serves clients in between.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from penstock.core.broker import Broker
from penstock.model.queue_names import WORKERS, is_queue
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.store.store import RetentionResult

COUNTED_AT_ONCE = 256  # topics: about a millisecond

_Removed: TypeAlias = tuple[bytes, list[tuple[int, int]]]  # a topic and its removed ranges


class MissedMessages:
    """Counts for one broker."""

    def __init__(self, broker: Broker, counters: Counters, loop: asyncio.AbstractEventLoop) -> None:
        self._groups = broker.groups
        self._counters = counters
        self._loop = loop

    def removed(self, result: RetentionResult) -> None:
        """Count what was removed. Any thread."""
        with contextlib.suppress(RuntimeError):  # the loop may have ended
            self._loop.call_soon_threadsafe(self._count, iter(result.offsets.items()))

    def _count(self, removed: Iterator[_Removed]) -> None:
        by_topic, some = self._groups.by_topic, list(islice(removed, COUNTED_AT_ONCE))
        for topic, ranges in some:
            if topic in by_topic or is_queue(topic):
                missed = self._missed(topic, ranges)
                self._counters.dropped(DropReason.RETENTION, missed, topic=topic)
        if len(some) == COUNTED_AT_ONCE:
            self._loop.call_soon(self._count, removed)

    def _missed(self, topic: bytes, ranges: list[tuple[int, int]]) -> int:
        missed = self._groups.missed(topic, ranges)
        if is_queue(topic) and self._groups.get(topic, WORKERS) is None:  # no worker came yet
            missed += sum(end - first for first, end in ranges)
        return missed
