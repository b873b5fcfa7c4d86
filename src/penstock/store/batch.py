"""What one commit writes, collected on the event loop.

Appending must cost next to nothing: it adds payloads to their topic and notes one *run* (position,
count, time, flags); an append with the same topic, time and flags extends the last run. Columns,
checksum, topic ids and offsets are left to the codec, in the writer thread. A batch belongs to the
loop until it is submitted, then to the writer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model.message import Extras
from penstock.store.extras import extras_bytes
from penstock.store.producers import ProducerRun, join, producer_run_bytes

# integers per run in ``TopicBatch.runs``: position in the batch, count, time in ms, flags
RUN_WIDTH = 4

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


class Batch:
    """What one commit writes, atomically: dropped topics, messages, events, checkpoint rows.

    ``checkpoint``, when set, makes replay start after that entry index from this commit on.
    """

    __slots__ = (
        "_flags",
        "_group",
        "_time_ms",
        "_topic",
        "checkpoint",
        "configuration",
        "count",
        "drops",
        "events",
        "extras",
        "groups",
        "payload_bytes",
        "producers",
        "rows",
        "segments",
        "term",
    )

    def __init__(self) -> None:
        self.count = 0
        self.payload_bytes = 0  # payloads and extras
        self.groups: dict[bytes, TopicBatch] = {}
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
        self._topic: bytes | None = None
        self._group = TopicBatch()
        self._time_ms = 0
        self._flags = 0

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
            group.runs[-3] += number  # nothing came in between: the last run goes on
        elif number:
            group = self._file(topic, time_ms, flags)
            group.runs += (position, number, time_ms, flags)
        else:
            return position
        if extras is not None:
            assert len(extras) == number
            self._note_extras(topic, len(group.payloads), extras)
        group.payloads += payloads
        self.count = position + number
        self.payload_bytes += len(payloads[0]) if number == 1 else sum(map(len, payloads))
        return position

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

    def absorb(self, other: "Batch", segment: "NodeSegment | None" = None) -> None:
        """Append the journal content of another batch; runs stay apart. Neither may drop topics."""
        if segment is not None:
            self.segments.append(segment._replace(position=self.count, event=len(self.events)))
        for topic, group in other.groups.items():
            self._absorb_group(topic, group, other)
        self.events += [(self.count + position, event) for position, event in other.events]
        assert not self.drops
        assert not other.drops
        self.count += other.count
        self.payload_bytes += other.payload_bytes
        self._topic = None  # what is appended next begins a run of its own

    def _absorb_group(self, topic: bytes, group: TopicBatch, other: "Batch") -> None:
        mine = self.groups.setdefault(topic, TopicBatch())
        place = len(mine.payloads)
        runs = list(group.runs)
        runs[0::RUN_WIDTH] = [self.count + position for position in group.runs[0::RUN_WIDTH]]
        mine.runs += runs
        mine.payloads += group.payloads
        extras = other.extras.get(topic)
        if extras:
            shifted = {place + number: found for number, found in extras.items()}
            self.extras.setdefault(topic, {}).update(shifted)
        producer_runs = other.producers.get(topic)
        if producer_runs:
            moved = [(place + first, *rest) for first, *rest in producer_runs]
            self.producers.setdefault(topic, []).extend(moved)  # type: ignore[arg-type]

    def _note_extras(self, topic: bytes, first: int, extras: Sequence[Extras | None]) -> None:
        for number, found in enumerate(extras, start=first):
            if found is not None and found != _NO_EXTRAS:
                self.payload_bytes += extras_bytes(found)
                self.extras.setdefault(topic, {})[number] = found

    def _file(self, topic: bytes, time_ms: int, flags: int) -> TopicBatch:
        group = self.groups.get(topic)
        if group is None:
            group = self.groups[topic] = TopicBatch()
        self._topic = topic
        self._group = group
        self._time_ms = time_ms
        self._flags = flags
        return group
