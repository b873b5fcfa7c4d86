"""What retention asks about topics that were made or steered, found out some of them at a time.

There may be a hundred thousand, and each costs some microseconds, so others have their turn in
between. What was found meanwhile grows old, and errs on the side of keeping: groups only get on.
But a topic may be deleted and made anew, and then its offsets are those of others; what was found
of it is dropped.
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
    """What is known of topics."""

    @property
    def limits(self) -> TopicLimits: ...

    def info(self, topic: bytes) -> TopicInfo | None: ...


class RetentionScan:
    """One look at all such topics; ``done`` is called when it is over."""

    def __init__(
        self, broker: Broker, topics: ScannedTopics, done: Callable[["RetentionScan"], None]
    ) -> None:
        self._broker = broker
        self._info = topics.info
        self._limits = topics.limits
        self._done = done
        self._topics = iter(list(broker.topics))
        self.floors: dict[bytes, int] = {}
        """Of topics for work: from which offset on it is not done."""
        self._lows: dict[bytes, tuple[int, int]] = {}
        """Below which offset nothing need stay, and of which topic by that name."""
        self.is_over = False

    def go_on(self) -> None:
        """Look at some more."""
        self.is_over = True  # also if this fails: then there will be another
        some = list(islice(self._topics, EXAMINED_AT_ONCE))
        for settings in some:
            self._examine(settings)
        if len(some) == EXAMINED_AT_ONCE:
            self.is_over = False
            asyncio.get_running_loop().call_soon(self.go_on)
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
        """Below which offsets nothing need stay."""
        found = (
            (name, low, self._info(name), topic_id) for name, (low, topic_id) in self._lows.items()
        )
        return {name: low for name, low, now, topic_id in found if now and now.id == topic_id}
