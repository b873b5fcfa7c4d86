"""Tracks the topics that a query reads, at the cost of what changes.

The first refresh lists all matching topics. After that the broker reports changes, and holds the
request until there is one. If too much has changed, it asks for a new listing.
"""

import logging
import re
from collections.abc import Collection
from typing import Final

from penstock.spark.broker import ask, map_concurrently
from penstock.spark.filters import topic_regex
from penstock.spark.options import OffsetSpec, OffsetSpecs, SourceOptions
from penstock.spark.options_text import option_error
from penstock.spark.planning import TopicState
from penstock.wire.queue._generated.queue_pb2 import Changed, Located, Topic

_LOG: Final = logging.getLogger("penstock.spark")
SINGLE_MAX: Final = 256  # up to this many topics are queried one by one; more are listed
PAGE_TOPICS: Final = 10_000  # of one reply: the most that the broker sends
MISSING_MAX: Final = 5  # missing topics that a warning names
GONE_MAX: Final = 65_536


class TopicWatch:
    """The matching topics, as of the last refresh."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pattern = re.compile(options.pattern) if options.pattern else None
        self._names = re.compile(topic_regex(options.filters))
        self._sequence = 0
        self.topics: dict[str, TopicState] = {}
        self.gone: dict[str, TopicState] = {}  # topics deleted or recreated, as they were before

    def refresh(self, wait_s: float = 0.0) -> None:
        if not self._sequence:
            self._list()
            return
        page = self._ask(self._sequence, wait_s=wait_s)
        sequence = page.sequence
        while not page.again:
            for name in page.deleted:
                self._forget(name)
            self._note(page)
            if not page.more:
                self._sequence = sequence
                return
            names = [*(topic.name for topic in page.topics), *page.deleted]  # each is sorted
            page = self._ask(self._sequence, after=max(names))
        self._list()

    def matches(self, name: str) -> bool:
        is_ours = self._pattern is None or self._pattern.fullmatch(name)
        return bool(is_ours and self._names.match(name))

    def _list(self) -> None:
        page = self._ask(0)
        self._sequence = page.sequence
        found = self._note(page)
        while page.more:
            page = self._ask(0, after=page.topics[-1].name)
            found |= self._note(page)
        for name in self.topics.keys() - found:
            self._forget(name)

    def _ask(self, sequence: int, *, wait_s: float = 0.0, after: str = "") -> Changed:
        filters = self._options.filters
        return ask(
            self._options,
            lambda client: client.changes(
                filters, after_sequence=sequence, wait_s=wait_s, max=PAGE_TOPICS, after=after
            ),
        )

    def _note(self, changed: Changed) -> set[str]:
        found = set()
        for topic in changed.topics:
            if self._pattern is None or self._pattern.fullmatch(topic.name):
                found.add(topic.name)
                self._put(topic)
        return found

    def _put(self, topic: Topic) -> None:
        before = self.topics.get(topic.name)
        if before is not None and before.incarnation != topic.incarnation:
            self._remember(topic.name, before)
        self.topics[topic.name] = TopicState(
            topic.incarnation, topic.first_offset, topic.end_offset, topic.messages, topic.bytes
        )

    def _forget(self, name: str) -> None:
        before = self.topics.pop(name, None)
        if before is not None:
            self._remember(name, before)

    def _remember(self, name: str, before: TopicState) -> None:
        self.gone.pop(name, None)
        self.gone[name] = before
        if len(self.gone) > GONE_MAX:
            del self.gone[next(iter(self.gone))]


def warn_missing_topics(options: SourceOptions, found: Collection[str]) -> None:
    """Log which named topics do not exist yet, so a typo does not look like an idle topic."""
    names = [name for name in options.filters if not {"+", "#"} & set(name)]
    missing = [name for name in names if name not in found]
    if missing:
        listed = ", ".join(map(repr, missing[:MISSING_MAX]))
        more = f" and {len(missing) - MISSING_MAX:,} more" if len(missing) > MISSING_MAX else ""
        _LOG.warning("no such topic yet: %s%s", listed, more)
    elif not found:
        asked = options.pattern or ", ".join(options.filters)
        _LOG.warning("no topic matches %s yet", asked)


def current_states(options: SourceOptions, names: list[str]) -> dict[str, TopicState]:
    """Return the present state of topics; retention moves first offsets without a change event."""
    if len(names) <= SINGLE_MAX:
        return _locate_each(options, names)
    watch = TopicWatch(options)
    watch.refresh()
    listed = watch.topics
    return listed | _locate_each(options, [name for name in names if name not in listed])


def _locate_each(options: SourceOptions, names: list[str]) -> dict[str, TopicState]:
    def state(name: str) -> TopicState:
        found = ask(options, lambda client: client.locate(name, times_ms=()))
        return TopicState(found.incarnation, found.first_offset, found.end_offset)

    seen = zip(names, map_concurrently(state, names), strict=True)
    return {name: topic for name, topic in seen if topic.incarnation}


def resolve_offsets(
    options: SourceOptions, specs: OffsetSpecs, seen: dict[str, TopicState]
) -> dict[str, int]:
    def offset(name: str) -> int:
        return _offset(options, name, specs.of(name), seen[name])

    timed = [name for name in seen if specs.of(name).kind == "time"]
    offsets = {name: offset(name) for name in seen.keys() - set(timed)}
    return {**offsets, **dict(zip(timed, map_concurrently(offset, timed), strict=True))}


def _offset(options: SourceOptions, name: str, spec: OffsetSpec, topic: TopicState) -> int:
    if spec.kind == "earliest":
        return topic.first
    if spec.kind == "latest":
        return topic.end
    if spec.kind == "offset":
        if spec.value > topic.end:
            raise option_error(
                "startingOffsets, endingOffsets",
                f"{spec.value} is beyond the end of {name!r}, which is {topic.end}",
                "give a smaller offset, or -1 for the end",
            )
        return spec.value
    return locate(options, name, spec.value).offsets[0]


def locate(options: SourceOptions, name: str, time_ms: int) -> Located:
    return ask(options, lambda client: client.locate(name, times_ms=[time_ms]))
