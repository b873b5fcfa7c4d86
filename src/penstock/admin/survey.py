"""What a scrape must know of all topics that are worked on and of all their groups.

There may be tens of thousands, they belong to the event loop, and each costs some microseconds. So
they are gone through in slices: between two of them others have a turn. What comes and goes
meanwhile is counted or not; each number is true of its own moment.

Beyond a bound nobody is looked at any more: a scrape that never ends helps nobody either. Of the
groups looked at, those that are furthest behind have series of their own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import chain, islice

from penstock.admin.pages import text_of
from penstock.admin.view import QueueView
from penstock.core.groups import Group

TOPICS_MAX = 10_000
GROUPS_MAX = 100_000
"""Topics and groups that are looked at."""

SERIES_DEFAULT, SERIES_MAX = 100, 1_000
"""Groups that have series of their own: a scraper keeps each of those for ever."""

AT_ONCE = 200
"""Topics and groups looked at before others have a turn: about a millisecond."""


class Survey:
    """Sums over topics and groups, complete when ``slices`` has ended."""

    def __init__(self, queues: QueueView, series_max: int = SERIES_DEFAULT) -> None:
        self._queues = queues
        self._series_max = series_max
        self._lags: list[tuple[int, bytes, bytes]] = []
        self.topics = 0
        self.messages = 0
        self.groups = 0
        self.pending = 0
        self.in_flight = 0
        self.lag = 0
        self._readers: Counter[bytes] = Counter()

    def slices(self) -> Iterator[None]:
        """Gather it all, a slice with each step."""
        for looked_at, _ in enumerate(self._gather(self._names()), 1):
            if looked_at % AT_ONCE == 0:
                self._lags = nlargest(self._series_max, self._lags)
                yield
        self._lags = nlargest(self._series_max, self._lags)

    def _names(self) -> list[bytes]:
        """Topics that were made or steered or have groups; not those with dead letters."""
        names = dict.fromkeys(chain(self._queues.topics.by_name, self._queues.groups.by_topic))
        return list(islice((name for name in names if not name.startswith(b"$")), TOPICS_MAX))

    def _gather(self, names: Iterable[bytes]) -> Iterator[None]:
        for name in names:
            self.topics += 1
            self.messages += self._queues.messages(name)
            yield
            groups = list(self._queues.groups.by_topic.get(name, {}).values())
            for group in groups[: GROUPS_MAX - self.groups]:
                self._add(group)
                yield

    def _add(self, group: Group) -> None:
        behind = self._queues.lag(group)
        self.groups += 1
        self.pending += len(group.pending)
        self.in_flight += group.in_hand
        self.lag += behind
        self._lags.append((behind, group.topic, group.name))
        if group.reader:
            self._readers[group.name] += behind

    @property
    def reader_lags(self) -> dict[tuple[str, ...], float]:
        """The lags of readers over all their topics, by name; of those furthest behind."""
        furthest = self._readers.most_common(self._series_max)
        return {(text_of(name),): behind for name, behind in furthest}

    @property
    def largest_lags(self) -> dict[tuple[str, ...], float]:
        """The lags of the groups that are furthest behind, by topic and group."""
        return {(text_of(topic), text_of(name)): behind for behind, topic, name in self._lags}
