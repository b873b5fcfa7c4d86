"""Sums over all topics used as queues, and over their groups, for a scrape.

There may be tens of thousands, and each costs some microseconds. So they are visited in slices, the
event loop serves others in between, and each number is true at its own moment.
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
SERIES_DEFAULT, SERIES_MAX = 100, 1_000  # groups with their own series: a scraper keeps each
AT_ONCE = 200  # topics and groups per slice: about a millisecond


class Survey:
    """Sums over topics and groups, complete when ``slices`` is exhausted."""

    def __init__(self, queues: QueueView, series_max: int = SERIES_DEFAULT) -> None:
        self._queues = queues
        self._series_max = series_max
        self._lags: list[tuple[int, bytes, bytes]] = []
        self._reader_lags: Counter[bytes] = Counter()
        self.topics = 0
        self.messages = 0
        self.groups = 0
        self.pending = 0
        self.in_flight = 0
        self.lag = 0

    def slices(self) -> Iterator[None]:
        for visited, _ in enumerate(self._visit(self._names()), 1):
            if visited % AT_ONCE == 0:
                self._lags = nlargest(self._series_max, self._lags)
                yield
        self._lags = nlargest(self._series_max, self._lags)

    def _names(self) -> list[bytes]:
        names = dict.fromkeys(chain(self._queues.topics.by_name, self._queues.groups.by_topic))
        return list(islice((name for name in names if not name.startswith(b"$")), TOPICS_MAX))

    def _visit(self, names: Iterable[bytes]) -> Iterator[None]:
        for name in names:
            self.topics += 1
            self.messages += self._queues.messages(name)
            yield
            groups = list(self._queues.groups.by_topic.get(name, {}).values())
            for group in groups[: GROUPS_MAX - self.groups]:
                self._add(group)
                yield

    def _add(self, group: Group) -> None:
        lag = self._queues.lag(group)
        self.groups += 1
        self.pending += len(group.pending)
        self.in_flight += group.in_flight
        self.lag += lag
        self._lags.append((lag, group.topic, group.name))
        if group.reader:
            self._reader_lags[group.name] += lag

    @property
    def reader_lags(self) -> dict[tuple[str, ...], float]:
        largest = self._reader_lags.most_common(self._series_max)
        return {(text_of(name),): lag for name, lag in largest}

    def largest(self) -> list[tuple[bytes, bytes, int]]:
        """Topic, group and lag of the groups that are furthest behind."""
        return [(topic, name, lag) for lag, topic, name in self._lags]

    @property
    def largest_lags(self) -> dict[tuple[str, ...], float]:
        return {(text_of(topic), text_of(name)): lag for lag, topic, name in self._lags}
