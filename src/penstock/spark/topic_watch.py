"""What the broker has of the topics that a query reads, kept up at the cost of what changes.

The first look lists all topics that match. From then on the broker is asked what was written to,
made or deleted since, and may keep us waiting for the first of it: a query at rest asks twice a
second, and learns of a message at once. Beginning anew is always right, and is what we do when the
broker says so (it was restarted, or too much has changed).
"""

import logging
import re
from collections.abc import Collection
from typing import Final

from penstock.spark.broker import client_for, map_concurrently, with_retries
from penstock.spark.filters import topic_regex
from penstock.spark.options import OffsetSpec, OffsetSpecs, SourceOptions, option_error
from penstock.spark.planning import TopicState
from penstock.wire.queue._generated.queue_pb2 import Changed, Located, Topic

_LOG: Final = logging.getLogger("penstock.spark")

SINGLE_MAX: Final = 256
"""Up to so many topics are asked about one by one; the state of more is listed."""

MISSING_MAX: Final = 5
"""Topics that are not there, and are named."""

GONE_MAX: Final = 65_536
"""Topics that were deleted, and are remembered as they were."""


class TopicWatch:
    """The topics that match, as we have seen them last."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pattern = re.compile(options.pattern) if options.pattern else None
        self._names = re.compile(topic_regex(options.filters))
        self._sequence = 0
        self.topics: dict[str, TopicState] = {}
        self.gone: dict[str, TopicState] = {}
        """Topics that were deleted or made anew meanwhile, as they were before."""

    def look(self, wait_s: float = 0.0) -> None:
        """Learn what has changed; wait for the first change for so long."""
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
            page = self._ask(self._sequence, after=_last_name(page))
        self._list()

    def wants(self, name: str) -> bool:
        """Tell whether a topic of this name would be among ours, if there were one."""
        is_ours = self._pattern is None or self._pattern.fullmatch(name)
        return bool(is_ours and self._names.match(name))

    def _list(self) -> None:
        """Learn all there is, page by page; changes are counted from the first page on."""
        page = self._ask(0)
        self._sequence = page.sequence
        found = self._note(page)
        while page.more:
            page = self._ask(0, after=page.topics[-1].name)
            found |= self._note(page)
        for name in self.topics.keys() - found:
            self._forget(name)

    def _ask(self, sequence: int, *, wait_s: float = 0.0, after: str = "") -> Changed:
        options = self._options
        return with_retries(
            options.patience,
            lambda: client_for(options.servers).changes(
                options.filters, after_sequence=sequence, wait_s=wait_s, after=after
            ),
        )

    def _note(self, changed: Changed) -> set[str]:
        """Take over what topics are like; those that the pattern leaves out are none of ours."""
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


def _last_name(page: Changed) -> str:
    """The last that a page of changes tells of; they are in the order of names."""
    return max([*(topic.name for topic in page.topics), *page.deleted])


def warn_missing_topics(options: SourceOptions, found: Collection[str]) -> None:
    """Say which topics are not there: a name that is mistyped must not look like one at rest.

    That is no error: a topic is made by the first message to it, which may come later.
    """
    names = [name for name in options.filters if not {"+", "#"} & set(name)]
    missing = [name for name in names if name not in found]
    if missing:
        listed = ", ".join(map(repr, missing[:MISSING_MAX]))
        more = f" and {len(missing) - MISSING_MAX:,} more" if len(missing) > MISSING_MAX else ""
        _LOG.warning("there is no topic %s%s yet", listed, more)
    elif not found:
        asked = options.pattern or ", ".join(options.filters)
        _LOG.warning("no topic matches %s yet", asked)


def current_states(options: SourceOptions, names: list[str]) -> dict[str, TopicState]:
    """How topics are right now: retention moves their first offsets without a change to tell of.

    What is not listed is asked about by name: a batch that was planned before the subscription was
    changed has topics that are not subscribed to any more, and are there all the same.
    """
    if len(names) <= SINGLE_MAX:
        return _locate_each(options, names)
    watch = TopicWatch(options)
    watch.look()
    listed = watch.topics
    return listed | _locate_each(options, [name for name in names if name not in listed])


def _locate_each(options: SourceOptions, names: list[str]) -> dict[str, TopicState]:
    def ask(name: str) -> TopicState:
        found = with_retries(
            options.patience, lambda: client_for(options.servers).locate(name, times_ms=())
        )
        return TopicState(found.incarnation, found.first_offset, found.end_offset)

    seen = zip(names, map_concurrently(ask, names), strict=True)
    return {name: topic for name, topic in seen if topic.incarnation}


def resolve_offsets(
    options: SourceOptions, places: OffsetSpecs, seen: dict[str, TopicState]
) -> dict[str, int]:
    """Which offsets places are, for topics as they are now."""

    def ask(name: str) -> int:
        return _offset(options, name, places.of(name), seen[name])

    timed = [name for name in seen if places.of(name).kind == "time"]
    offsets = {name: ask(name) for name in seen.keys() - set(timed)}
    return {**offsets, **dict(zip(timed, map_concurrently(ask, timed), strict=True))}


def _offset(options: SourceOptions, name: str, place: OffsetSpec, topic: TopicState) -> int:
    if place.kind == "earliest":
        return topic.first
    if place.kind == "latest":
        return topic.end
    if place.kind == "offset":
        if place.value > topic.end:
            raise option_error(
                "startingOffsets, endingOffsets",
                f"{place.value} is beyond the end of {name!r}, which is {topic.end}",
                "give an offset up to there, or -1 for the end",
            )
        return place.value
    return locate(options, name, place.value).offsets[0]


def locate(options: SourceOptions, name: str, time_ms: int) -> Located:
    """Ask where the first message of this time or later is, and what the topic has besides."""
    return with_retries(
        options.patience, lambda: client_for(options.servers).locate(name, times_ms=[time_ms])
    )
