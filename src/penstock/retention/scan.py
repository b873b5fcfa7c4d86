"""Scans the topics that have settings of their own, in slices, for what retention may remove.

There may be a hundred thousand, so the loop serves clients between slices. Results that are out of
date keep too much, never too little, as groups only advance. A topic that was deleted and created
again has new offsets, so its result is discarded.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from penstock.core.broker import Broker
from penstock.core.topics import TopicSettings
from penstock.retention.topic_limits import TopicLimits
from penstock.store.store import TopicInfo

EXAMINED_AT_ONCE = 1_000


class ScannedTopics(Protocol):
    """Topics and their limits."""

    @property
    def limits(self) -> TopicLimits: ...

    def info(self, topic: bytes) -> TopicInfo | None: ...


class RetentionScan:
    """One scan of all such topics; calls ``done`` at the end."""

    def __init__(
        self, broker: Broker, topics: ScannedTopics, done: Callable[["RetentionScan"], None]
    ) -> None:
        self._broker = broker
        self._info = topics.info
        self._limits = topics.limits
        self._done = done
        self._topics = iter(list(broker.topics))
        self.floors: dict[bytes, int] = {}  # queue topics: first offset with unfinished work
        self._lows: dict[bytes, tuple[int, int]] = {}  # first offset to keep, and topic id
        self.is_over = False

    def run(self) -> None:
        """Examine a slice, and schedule the next."""
        self.is_over = True  # also if this fails: then another scan begins
        some = list(islice(self._topics, EXAMINED_AT_ONCE))
        for settings in some:
            self._examine(settings)
        if len(some) == EXAMINED_AT_ONCE:
            self.is_over = False
            asyncio.get_running_loop().call_soon(self.run)
        else:
            self._done(self)

    def _examine(self, settings: TopicSettings) -> None:
        name = settings.name
        info = self._info(name)
        if not settings.keep:
            first = info.first_offset if info else 0
            self.floors[name] = self._broker.groups.floor(name, first)
        if info is not None:
            self._limits.grown(info)
            low = self._limits.low(info)
            if low > info.first_offset:
                self._lows[name] = low, info.id

    def lows(self) -> dict[bytes, int]:
        """The first offset to keep, by topic."""
        found = (
            (name, low, self._info(name), topic_id) for name, (low, topic_id) in self._lows.items()
        )
        return {name: low for name, low, now, topic_id in found if now and now.id == topic_id}
