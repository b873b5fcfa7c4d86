"""The messages of a batch, collected on the event loop.

Appending must cost next to nothing, however many topics there are: payloads and *runs* (topic,
count, time, flags) are kept in order of arrival, and a topic costs a number. An append with the
same topic, time and flags extends the last run. Grouping by topic is left to those who need it: the
codec, in the writer thread, and those who ask for the ``group`` of a topic.

``kernel/columns.pyx`` is the compiled form: there, a payload is a place in an object, which may be
all that was read from a connection at once, so nothing is copied before the entry is encoded.
Lists of payloads and runs are made when somebody asks, which nothing per message may do.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import ne
from typing import TYPE_CHECKING

from penstock import kernel
from penstock.model.message import Extras

# integers per run. In ``MessageColumns.runs``: number of the topic, count, time in ms, flags.
# In ``TopicBatch.runs``: position in the batch, count, time in ms, flags.
RUN_WIDTH = 4

GROUPS_PICKED_MAX = 4  # topics that are picked out of a batch before all are grouped at once


class TopicBatch:
    """The messages of one topic in a batch: payloads in order of arrival, and flat runs."""

    __slots__ = ("payloads", "runs")

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.runs: list[int] = []

    def add(self, position: int, payloads: list[bytes], time_ms: int, flags: int) -> None:
        self.payloads += payloads
        self.runs += (position, len(payloads), time_ms, flags)


class MessageColumns:
    """Messages in order of arrival."""

    __slots__ = (
        "_flags",
        "_group",
        "_grouped",
        "_grouped_count",
        "_picked",
        "_time_ms",
        "_topic",
        "count",
        "group_messages",
        "payload_bytes",
        "payloads",
        "runs",
        "topics",
    )

    def __init__(self) -> None:
        self.count = 0
        self.payload_bytes = 0  # payloads, and what is beside them
        self.topics: dict[bytes, int] = {}  # the number of each topic, counted from 0
        self.group_messages: list[int] = []  # how many messages there are, by number of the topic
        self.payloads: list[bytes] = []  # in order of arrival, as ``runs``
        self.runs: list[int] = []
        self._topic: bytes | None = None  # of the last run, unless that must not go on
        self._group = 0
        self._time_ms = 0
        self._flags = 0
        self._grouped: dict[bytes, TopicBatch] = {}
        self._grouped_count = 0  # messages that were there when they were grouped
        self._picked = 0

    def append(
        self,
        topic: bytes,
        payloads: Sequence[bytes],
        time_ms: int,
        flags: int,
        extras: Sequence[Extras | None] | None = None,
    ) -> int:
        """Add messages of one topic, each with its ``extras``; return the first position."""
        position = self.count
        number = len(payloads)
        if topic == self._topic and time_ms == self._time_ms and flags == self._flags:
            group = self._group
            self.runs[-3] += number  # nothing came in between: the last run goes on
        elif number:
            topics = self.topics
            found = topics.get(topic)
            if found is None:  # as ``add_topic``, without the call
                found = topics[topic] = len(topics)
                self.group_messages.append(0)
            group = self._group = found
            self.runs += (group, number, time_ms, flags)
            self._topic = topic
            self._time_ms = time_ms
            self._flags = flags
        else:
            return position
        if extras is not None:
            assert len(extras) == number
            self._note_extras(topic, self.group_messages[group], extras)
        self.group_messages[group] += number
        self.payloads += payloads
        self.count = position + number
        self.payload_bytes += len(payloads[0]) if number == 1 else sum(map(len, payloads))
        return position

    def _note_extras(self, topic: bytes, first: int, extras: Sequence[Extras | None]) -> None:
        """Keep the extras of messages that are about to be added, from number ``first`` on."""
        raise NotImplementedError

    def append_each(
        self, topics: Sequence[bytes], payloads: Sequence[bytes], time_ms: int, flags: int
    ) -> int:
        """Add messages, ``topics[n]`` that of ``payloads[n]``; return the first position.

        As ``append`` one by one, for less.
        """
        position, count = self.count, len(payloads)
        for topic in dict.fromkeys(topics):
            self.add_topic(topic)
        groups = list(map(self.topics.__getitem__, topics))
        if 2 * sum(map(ne, groups, groups[1:])) < count:  # neighbours are mostly of one topic
            for group, same in groupby(groups):
                self.runs += (group, sum([1 for _ in same]), time_ms, flags)
        else:
            runs = [0, 1, time_ms, flags] * count
            runs[::RUN_WIDTH] = groups
            self.runs += runs
        for group, number in Counter(groups).items():
            self.group_messages[group] += number
        self.payloads += payloads
        self.count = position + count
        self.payload_bytes += sum(map(len, payloads))
        self._topic = None  # what is appended next begins a run of its own
        return position

    def append_slice(
        self, topic: bytes, chunk: bytes, start: int, end: int, time_ms: int, flags: int
    ) -> int:
        """``append`` one message that is a part of what was read; return its position."""
        assert 0 <= start <= end <= len(chunk)
        return self.append(topic, [chunk[start:end]], time_ms, flags)

    def add_topic(self, topic: bytes) -> int:
        """Return the number of a topic, which must get messages."""
        number = self.topics.setdefault(topic, len(self.topics))
        if number == len(self.group_messages):
            self.group_messages.append(0)
        return number

    def add_run(self, group: int, payloads: list[bytes], time_ms: int, flags: int) -> None:
        """Add a run that stays apart from the one before it. ``payload_bytes`` is not changed."""
        self.runs += (group, len(payloads), time_ms, flags)
        self.group_messages[group] += len(payloads)
        self.payloads += payloads
        self.count += len(payloads)
        self._topic = None

    def add_messages(self, other: "MessageColumns") -> None:
        """Append all of another; runs stay apart. ``payload_bytes`` is not changed."""
        numbers = [self.add_topic(topic) for topic in other.topics]
        for number, count in zip(numbers, other.group_messages, strict=True):
            self.group_messages[number] += count
        runs = list(other.runs)
        runs[0::RUN_WIDTH] = [numbers[group] for group in other.runs[0::RUN_WIDTH]]
        self.runs += runs
        self.payloads += other.payloads
        self.count += other.count
        self._topic = None  # what is appended next begins a run of its own

    def messages_of(self, topic: bytes) -> int:
        """How many messages of a topic there are."""
        number = self.topics.get(topic)
        return 0 if number is None else self.group_messages[number]

    def first_times(self) -> list[int]:
        """The time of each topic's first run, by number of the topic; all have messages."""
        groups, times = self.runs[0::RUN_WIDTH], self.runs[2::RUN_WIDTH]
        firsts = dict(zip(reversed(groups), reversed(times), strict=True))
        return [firsts[number] for number in range(len(self.topics))]

    def each_run(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Position, number of the topic, count, time and flags of each run, as they arrived."""
        position = 0
        runs = iter(self.runs)
        for group, count, time_ms, flags in zip(runs, runs, runs, runs, strict=True):
            yield position, group, count, time_ms, flags
            position += count

    def payloads_between(self, start: int, end: int) -> list[bytes]:
        """The payloads at positions ``start … end - 1``."""
        return self.payloads[start:end]

    @property
    def groups(self) -> dict[bytes, TopicBatch]:
        """The messages by topic. It costs what it holds: not for every commit."""
        if self._grouped_count != self.count:
            grouped = {topic: TopicBatch() for topic in self.topics}
            found = list(grouped.values())
            payloads = self.payloads
            for position, group, count, time_ms, flags in self.each_run():
                found[group].add(position, payloads[position : position + count], time_ms, flags)
            self._grouped, self._grouped_count = grouped, self.count
        return self._grouped

    def group(self, topic: bytes) -> TopicBatch | None:
        """The messages of one topic."""
        number = self.topics.get(topic)
        if number is None:
            return None
        self._picked += 1
        if self._grouped_count == self.count or self._picked > GROUPS_PICKED_MAX:
            return self.groups[topic]
        group = TopicBatch()
        if len(self.topics) == 1:
            group.payloads = self.payloads
            group.runs = list(self.runs)
            group.runs[0::RUN_WIDTH] = accumulate((0, *self.runs[1:-RUN_WIDTH:RUN_WIDTH]))
            return group
        for position, other, count, time_ms, flags in self.each_run():
            if other == number:
                group.add(position, self.payloads[position : position + count], time_ms, flags)
        return group


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.columns import MessageColumns, TopicBatch
