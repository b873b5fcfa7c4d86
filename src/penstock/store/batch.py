"""What one commit writes, collected on the event loop.

Appending must cost next to nothing, however many topics there are: payloads and *runs* (topic,
count, time, flags) are kept in order of arrival, and a topic costs a number. An append with the
same topic, time and flags extends the last run. Grouping by topic, columns, checksum, topic ids and
offsets are left to the codec, in the writer thread. Those who want the messages of a topic ask for
its ``group``. A batch belongs to the loop until it is submitted, then to the writer, who does not
change it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import ne
from typing import NamedTuple

from penstock.model.message import Extras
from penstock.store.extras import extras_bytes
from penstock.store.producers import ProducerRun, join, producer_run_bytes

# integers per run. In ``Batch.runs``: number of the topic, count, time in ms, flags.
# In ``TopicBatch.runs``: position in the batch, count, time in ms, flags.
RUN_WIDTH = 4

GROUPS_PICKED_MAX = 4  # topics that are picked out of a batch before all are grouped at once

_NO_EXTRAS = Extras()


class NodeSegment(NamedTuple):
    """The batch of one node within an entry: its first message and event there."""

    node: int
    incarnation: int
    number: int
    position: int = 0
    event: int = 0


class TopicBatch:
    """The messages of one topic in a batch: payloads in order of arrival, and flat runs."""

    __slots__ = ("payloads", "runs")

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.runs: list[int] = []

    def add(self, position: int, payloads: list[bytes], time_ms: int, flags: int) -> None:
        self.payloads += payloads
        self.runs += (position, len(payloads), time_ms, flags)


class Batch:
    """What one commit writes, atomically: dropped topics, messages, events, checkpoint rows.

    ``checkpoint``, when set, makes replay start after that entry index from this commit on.
    """

    __slots__ = (
        "_flags",
        "_group",
        "_grouped",
        "_grouped_count",
        "_picked",
        "_time_ms",
        "_topic",
        "checkpoint",
        "configuration",
        "count",
        "drops",
        "events",
        "extras",
        "group_messages",
        "payload_bytes",
        "payloads",
        "producers",
        "rows",
        "runs",
        "segments",
        "term",
        "topics",
    )

    def __init__(self) -> None:
        self.count = 0
        self.payload_bytes = 0  # payloads and extras
        self.topics: dict[bytes, int] = {}  # the number of each topic, counted from 0
        self.group_messages: list[int] = []  # how many messages there are, by number of the topic
        self.payloads: list[bytes] = []  # in order of arrival, as ``runs``
        self.runs: list[int] = []
        # by topic, then by number in the topic's payloads
        self.extras: dict[bytes, dict[int, Extras]] = {}
        # by topic; numbers count the topic's payloads
        self.producers: dict[bytes, list[ProducerRun]] = {}
        self.drops: dict[bytes, None] = {}
        self.events: list[tuple[int, tuple[object, ...]]] = []
        self.rows: list[tuple[str, bytes, bytes | None]] = []
        self.checkpoint: int | None = None
        self.segments: list[NodeSegment] = []  # which nodes' batches these are, in a cluster
        # a membership change: kind and content, opaque to the store
        self.configuration: tuple[int, bytes] | None = None
        self.term = 0  # where not 0, only the leader of this term may put the batch into the log
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

    def messages_of(self, topic: bytes) -> int:
        """How many messages of a topic there are."""
        number = self.topics.get(topic)
        return 0 if number is None else self.group_messages[number]

    def each_run(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Position, number of the topic, count, time and flags of each run, as they arrived."""
        position = 0
        runs = iter(self.runs)
        for group, count, time_ms, flags in zip(runs, runs, runs, runs, strict=True):
            yield position, group, count, time_ms, flags
            position += count

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

    def add_producer_run(
        self, topic: bytes, place: int, count: int, producer: bytes, seq: int
    ) -> None:
        """Note the seqs of messages from number ``place`` in the topic on. Calls ascend."""
        producer_run = (place, count, producer, seq)
        size = producer_run_bytes(producer_run)
        producer_runs = self.producers.setdefault(topic, [])
        joined = join(producer_runs[-1], producer_run) if producer_runs else None
        if joined is not None:
            producer_runs[-1] = joined
            return
        assert not producer_runs or place >= producer_runs[-1][0] + producer_runs[-1][1]
        producer_runs.append(producer_run)
        self.payload_bytes += size

    def drop(self, topic: bytes) -> None:
        """Drop a topic before the messages of this batch, which may create it again."""
        self.drops[topic] = None

    def add_event(self, event: tuple[object, ...]) -> None:
        """Add an event, ordered after the messages appended so far."""
        self.events.append((self.count, event))

    def add_row(self, table: str, key: bytes, value: bytes | None) -> None:
        """Put a checkpoint row, or delete it (None)."""
        self.rows.append((table, key, value))

    @property
    def is_empty(self) -> bool:
        return not (self.has_content or self.rows) and self.checkpoint is None

    @property
    def has_content(self) -> bool:
        """Whether it has something for the journal, not only checkpoint rows."""
        return bool(self.count or self.drops or self.events)

    @property
    def is_single(self) -> bool:
        """Whether it is one plain message for the journal, apart from dropped topics."""
        return (
            self.count == 1
            and not (self.events or self.extras or self.producers or self.segments)
            and self.configuration is None
        )

    def absorb(self, other: "Batch", segment: "NodeSegment | None" = None) -> None:
        """Append the journal content of another batch; runs stay apart. Neither may drop topics."""
        if segment is not None:
            self.segments.append(segment._replace(position=self.count, event=len(self.events)))
        numbers = [
            self._absorb_topic(topic, count, other)
            for topic, count in zip(other.topics, other.group_messages, strict=True)
        ]
        runs = list(other.runs)
        runs[0::RUN_WIDTH] = [numbers[group] for group in other.runs[0::RUN_WIDTH]]
        self.runs += runs
        self.payloads += other.payloads
        self.events += [(self.count + position, event) for position, event in other.events]
        assert not self.drops
        assert not other.drops
        self.count += other.count
        self.payload_bytes += other.payload_bytes
        self._topic = None  # what is appended next begins a run of its own

    def _absorb_topic(self, topic: bytes, count: int, other: "Batch") -> int:
        number = self.add_topic(topic)
        place = self.group_messages[number]
        self.group_messages[number] += count
        extras = other.extras.get(topic)
        if extras:
            shifted = {place + number: found for number, found in extras.items()}
            self.extras.setdefault(topic, {}).update(shifted)
        producer_runs = other.producers.get(topic)
        if producer_runs:
            moved = [(place + first, *rest) for first, *rest in producer_runs]
            self.producers.setdefault(topic, []).extend(moved)  # type: ignore[arg-type]
        return number

    def _note_extras(self, topic: bytes, first: int, extras: Sequence[Extras | None]) -> None:
        noted = self.extras.get(topic)
        size = 0
        for number, found in enumerate(extras, start=first):
            if found is not None and (found.headers or found != _NO_EXTRAS):
                size += extras_bytes(found)
                if noted is None:
                    noted = self.extras[topic] = {}
                noted[number] = found
        self.payload_bytes += size
