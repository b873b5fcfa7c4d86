"""What a store is: the protocol that the broker codes against, and the values it returns.

There are two: ``LmdbStore`` (durable) and ``MemoryStore`` (gone with the process; the plain one
against which the other is tested). One thread, the writer's, may call ``commit``, ``retain``,
``trim`` and ``delete``; everything that reads may be called from any thread, and sees the effect of
every such call that has returned.

**Retention** works on whole groups (one topic's part of one entry), oldest first. A limit says what
must be *kept*: with ``messages_max=10`` at least the newest ten stay, and what lies in the same
group as the tenth stays with it. An entry is deleted when all its groups are gone and no start
will replay it any more. **Trimming and deleting** are exact: a message is gone at once, wherever it
lies in its group, though its bytes are freed with the group. **Dropping** a topic is part of a
batch: with its commit all messages are gone and the name is free, the bytes are freed by retention.

Two things hold retention up. Messages from a *sequence* on, of any topic, may still be waited for;
and of ``ProtectedTopics`` topics, messages from an *offset* on have yet to be worked through. The
first stops every limit of a topic, the second those limits that nobody chose for the topic itself.
Neither stops the total: a full disk would refuse what is new to keep what is old. Topics that are
``kept`` whole are beyond any limit; whoever writes there sees to it that they end.

The other way round, what lies below a topic's *low* need not be kept whatever the limits say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from penstock.model.columns import MessageColumns
from penstock.model.message import Message
from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.extras import Schedule

Result = TypeVar("Result")

CLOCK_ERROR_MS_MAX = 24 * 3600 * 1000
"""Messages dated further in the future than this never expire by age by themselves (a limit on
count or size, or a later message of the topic, takes them). Others wait for them to come of age."""


LOG_UNBOUND = (1 << 63) - 1
"""A floor of the log beyond any entry: nobody else needs it."""


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry of the log as nodes exchange it.

    Of kind 0 ``data`` is the entry's content as it lies in the journal, or nothing at all. Any
    other kind is a change of who has a say, and only those who decide on that know its content.
    """

    index: int
    kind: int
    data: bytes


class EncodedBatch(NamedTuple):
    """A batch as the entry that it is going to be, and the offset of each group's first message."""

    data: bytes
    first_offsets: tuple[int, ...]


class Write(msgspec.Struct, gc=False):
    """What one transaction writes where a log is agreed upon by several.

    ``entries`` replace whatever the log has from the first one's index on. ``record`` is for those
    who agree (None: as it was); the store keeps it, and beside it how far the log is ``committed``
    by then (None: all that is in it, always), which must not be less than what the rows contain.
    Rows and checkpoint are those of ``Batch``.
    """

    entries: Sequence[LogEntry] = ()
    record: bytes | None = None
    committed: int | None = None
    rows: list[tuple[str, bytes, bytes | None]] = []
    checkpoint: int | None = None


class Written(NamedTuple):
    """What a write cost."""

    commit_s: float
    fsync_s: float


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A batch that is durable: its place in the journal, and what it cost."""

    index: int
    base_sequence: int
    count: int
    bytes: int
    commit_s: float
    fsync_s: float
    first_offsets: tuple[int, ...]
    """Offset of each group's first message, in the order of ``Batch.groups``."""
    ends_entry: bool = True
    """Whether its entry has no other node's batch behind it."""


class TopicInfo(msgspec.Struct, frozen=True, gc=False):
    """A topic; messages ``first_offset … next_offset - 1`` are there, save for ``deleted`` of them.

    Ids are never reused.
    """

    id: int
    name: bytes
    first_offset: int
    next_offset: int
    bytes: int
    created_ms: int
    deleted: int = 0

    @property
    def count(self) -> int:
        """How many messages are there."""
        return self.next_offset - self.first_offset - self.deleted


class TopicSlice(MessageColumns, frozen=True):
    """Consecutive messages of a topic out of entry ``index``."""

    index: int

    def messages(self, topic: bytes) -> Iterator[Message]:
        """The same, one by one; for those who do not read columns."""
        bounds = memoryview(self.bounds).cast("I").tolist()
        starts = [*memoryview(self.run_starts).cast("I"), self.count]
        positions = memoryview(self.run_positions).cast("I")
        times = memoryview(self.run_times).cast("I")
        types = self.run_types or bytes(len(times))
        for run, (start, end) in enumerate(pairwise(starts)):
            flags = self.run_flags[run] | types[run] << 8
            for number in range(start, end):
                yield Message(
                    topic=topic,
                    payload=self.blob[bounds[number] - bounds[0] : bounds[number + 1] - bounds[0]],
                    sequence=self.base_sequence + positions[run] + number - start,
                    offset=self.first_offset + number,
                    time_ms=self.time_ms + times[run],
                    flags=flags,
                    extras=self.extras.get(number),
                )


class TopicRange(msgspec.Struct, frozen=True):
    """The answer to ``read_topic``.

    ``first_offset`` is the oldest offset that is still there: if it is greater than the one asked
    for, the messages between are gone. ``next_offset`` is where to go on reading; it lies beyond
    messages that were deleted. No slice contains such a message: slices end before and begin after.
    """

    topic: bytes
    first_offset: int
    next_offset: int
    slices: list[TopicSlice]

    @property
    def count(self) -> int:
        """How many messages the slices hold."""
        return sum(part.count for part in self.slices)

    def messages(self) -> Iterator[Message]:
        """All messages, one by one."""
        for part in self.slices:
            yield from part.messages(self.topic)


Column: TypeAlias = bytes | memoryview
"""Numbers, little-endian, or bytes one after the other."""


class RawQuery(NamedTuple):
    """What to read in bulk: offsets ``start … end - 1``; an ``end`` of 0 is that of the topic.

    ``columns`` are bits of ``penstock.model.columns``. Of each of payloads and headers, if they are
    wanted, there are ``bytes_max``, unless a single message has more.
    """

    topic: bytes
    start: int
    end: int
    count_max: int
    bytes_max: int
    columns: int


class RawSlice(NamedTuple):
    """Consecutive messages of a topic out of one entry.

    The columns are in the order of ``Slice`` in ``queue.proto``; those that nobody asked for, and
    those of which the entry has none, are absent: their tuple is empty.
    """

    first_offset: int
    messages: int
    base_sequence: int
    time_ms: int
    payloads: tuple[Column, ...]
    """Bounds, payloads."""
    runs: tuple[Column, ...]
    """Starts, positions, times, flags, types."""
    signatures: tuple[Column, ...]
    """Numbers, records."""
    headers: tuple[Column, ...]
    """Numbers, header bounds, text bounds, texts."""
    schedules: tuple[Column, ...]
    """Numbers, times due, times of expiry."""
    producers: tuple[Column, ...]
    """Numbers, counts, seqs, name ends, names."""


class TopicFlags(msgspec.Struct):
    """The answer to ``read_flags``: flags and schedules of messages, without the messages.

    ``runs`` are first offset, count and flags, ascending; what was deleted is in none. ``schedule``
    has the times due and of expiry, by offset. ``next_offset`` is where to go on.
    """

    next_offset: int
    runs: list[tuple[int, int, int]]
    schedule: dict[int, Schedule]

    def add_run(self, first: int, end: int, flags: int) -> None:
        """Add offsets ``first … end - 1``, to the last run if they go on there with its flags."""
        if self.runs:
            last_first, count, last_flags = self.runs[-1]
            if last_flags == flags and last_first + count == first:
                self.runs[-1] = (last_first, end - last_first, flags)
                return
        self.runs.append((first, end - first, flags))


class RetentionLimits(msgspec.Struct, frozen=True):
    """How much of a topic must be kept; ``None`` is without limit."""

    messages_max: int | None = None
    age_ms_max: int | None = None
    bytes_max: int | None = None


class TopicRetentionRule(msgspec.Struct, frozen=True):
    """Limits for the topics that ``matches`` accepts."""

    matches: Callable[[bytes], bool]
    limits: RetentionLimits


class ProtectedTopics(msgspec.Struct, frozen=True):
    """Topics that the default limits leave alone until their messages were worked through.

    They have a floor, and offsets from there on are still needed; or they are known by how their
    names begin, and nothing of them was worked through yet.
    """

    prefix: bytes | None = None
    floors: dict[bytes, int] = {}
    kept: bytes | None = None
    """How the names of topics begin of which nothing is removed while they exist."""

    def keeps(self, topic: bytes) -> bool:
        """Whether a topic is kept whole, whatever the limits, the total among them."""
        return self.kept is not None and topic.startswith(self.kept)

    def floor(self, topic: bytes) -> int | None:
        """The first offset that is needed; None if the topic is like any other."""
        floor = self.floors.get(topic)
        if floor is None and self.prefix is not None and topic.startswith(self.prefix):
            return 0
        return floor


NOTHING_PROTECTED = ProtectedTopics()

NO_LOW_WATER_MARKS: Mapping[bytes, int] = MappingProxyType({})


class RetentionRules(msgspec.Struct, frozen=True):
    """What was set for just this topic counts, else the first rule that matches, else the default.

    And the size of it all. ``by_topic`` may be large and change often: a topic costs something when
    its own limits change, not whenever others do.
    """

    default: RetentionLimits = RetentionLimits()
    rules: tuple[TopicRetentionRule, ...] = ()
    total_bytes_max: int | None = None
    by_topic: Mapping[bytes, RetentionLimits] = {}

    def limits(self, topic: bytes) -> RetentionLimits:
        """The limits of one topic."""
        own = self.by_topic.get(topic)
        if own is not None:
            return own
        for rule in self.rules:
            if rule.matches(topic):
                return rule.limits
        return self.default

    def is_chosen(self, topic: bytes) -> bool:
        """Whether the topic's limits were written with the topic in mind."""
        return topic in self.by_topic or any(rule.matches(topic) for rule in self.rules)

    def shared_age(self, topic: bytes) -> int | None:
        """The topic's age limit, unless it was set for this topic alone."""
        return None if topic in self.by_topic else self.limits(topic).age_ms_max

    def own_age(self, topic: bytes) -> int | None:
        """The age limit that was set for this topic alone."""
        own = self.by_topic.get(topic)
        return own.age_ms_max if own else None

    def shared_ages(self) -> set[int]:
        """Every age limit of the rules and the default."""
        limits = (self.default, *(rule.limits for rule in self.rules))
        return {limit.age_ms_max for limit in limits if limit.age_ms_max is not None}


class RetentionRequest(NamedTuple):
    """What is to be kept: the arguments of ``Store.retain``."""

    rules: RetentionRules
    now_ms: int
    floor_sequence: int
    protected: ProtectedTopics
    low_water_marks: Mapping[bytes, int]

    def floor(self, topic: bytes) -> int | None:
        """The first offset that the topic's limits must leave; None: they may take all.

        Limits that were written with the topic in mind are obeyed.
        """
        if self.protected.keeps(topic):
            return 0
        floor = self.protected.floor(topic)
        if floor is not None and self.rules.is_chosen(topic):
            return None
        return floor

    def protects(self, topic: bytes, next_offset: int) -> bool:
        """Whether something before an offset is beyond the reach of the topic's limits."""
        floor = self.floor(topic)
        return floor is not None and next_offset > floor

    def is_low(self, topic: bytes, next_offset: int) -> bool:
        """Whether everything before an offset need not be kept, whatever the limits."""
        return next_offset <= self.low_water_marks.get(topic, 0)


_Name: TypeAlias = bytes
"""Of a topic; within ``RetentionResult``, ``bytes`` is a number."""


class RetentionResult(msgspec.Struct):
    """What retention removed, and whether there is more to do at once."""

    messages: int = 0
    bytes: int = 0
    entries: int = 0
    more: bool = False
    offsets: dict[_Name, list[tuple[int, int]]] = {}
    """Stretches by topic, ascending; without messages that were deleted before."""

    def note(self, topic: _Name, stretches: Iterable[tuple[int, int]]) -> None:
        """Messages of a topic were removed, later ones than those noted before."""
        for first, end in stretches:
            known = self.offsets.setdefault(topic, [])
            self.messages += end - first
            if known and known[-1][1] == first:
                known[-1] = (known[-1][0], end)
            else:
                known.append((first, end))

    def add(self, other: "RetentionResult") -> None:
        """Count what another slice removed as well."""
        for topic, stretches in other.offsets.items():
            self.note(topic, stretches)
        self.bytes += other.bytes
        self.entries += other.entries


class StoreSize(msgspec.Struct, frozen=True, gc=False):
    """How much is stored. ``bytes_used`` counts pages in use, not those that wait for reuse."""

    bytes_used: int
    map_bytes: int
    entries: int
    messages: int
    sequence_oldest: int
    sequence_newest: int


class Store(Protocol):
    """The journal and what is derived from it."""

    @property
    def next_sequence(self) -> int:
        """The sequence that the next message will get; the first is 1."""

    @property
    def next_index(self) -> int:
        """The index that the next entry will get; the first is 1."""

    def commit(self, batch: Batch) -> Commit:
        """Make a batch durable. Writer thread only.

        Raises StorageFull or another StorageError, having changed nothing.
        """

    def prepare(self) -> None:
        """Make the next commits quick, now that nobody waits. Writer thread only."""

    def replay(self) -> Iterator[Entry]:
        """Entries after the checkpoint, in order; for start-up."""

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Checkpoint rows of one table."""

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        """Messages by sequence (ascending); None for those that are gone."""

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        """Messages of one topic from an offset on; at least one, if there is one."""

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        """What ``make`` makes of messages as they lie in the journal; None: no such topic.

        It is given the topic, where to go on reading, and slices, one message at least if there is
        one. Their columns are views that are valid until it returns.
        """

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        """How far so many bytes of payload reach from an offset on: the offset behind the last.

        One message at least. A topic in many small pieces is not followed to the end: then it is
        an offset before that.
        """

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        """Flags and schedules of a topic's messages from an offset on, some ``count_max`` of them.

        Something at least, if there is something; ``next_offset`` is the topic's end when that is
        reached.
        """

    def topic(self, name: bytes) -> TopicInfo | None:
        """One topic, or None if nothing was journaled for it, ever or since it was dropped."""

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        """All topics whose names begin with ``prefix``, behind one of them; sorted by name."""

    def retain(
        self,
        rules: RetentionRules,
        now_ms: int,
        floor_sequence: int,
        protected: ProtectedTopics = NOTHING_PROTECTED,
        low_water_marks: Mapping[bytes, int] = NO_LOW_WATER_MARKS,
    ) -> RetentionResult:
        """Do a bounded slice of retention. Writer thread only.

        Messages from ``floor_sequence`` on are still needed: only ``total_bytes_max`` may remove
        them. So are those that are ``protected``, unless limits were set or a rule written for
        their topic; what is ``kept``, nothing may remove. Of the topics in ``low_water_marks``,
        groups that end at or before that offset are removed in any case, once they are not needed
        for their sequence. Raises a StorageError, having removed nothing.
        """

    def trim(self, topic: bytes, offset: int) -> int:
        """Remove all messages of a topic below an offset, durably; how many there were.

        Writer thread only. Raises a StorageError, having changed nothing.
        """

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        """Remove single messages of a topic, durably; how many of them were there.

        Writer thread only. Raises a StorageError, having changed nothing.
        """

    def size(self) -> StoreSize:
        """How much is stored."""

    def close(self) -> None:
        """Let go of everything; nothing else may be called afterwards."""


class LogStore(Store, Protocol):
    """A store whose journal is a log that several nodes agree upon.

    ``commit`` is the way of a node that has nobody to ask. Where there are others, a batch is
    drawn up, written and, once enough of them have it, applied.
    """

    @property
    def first_index(self) -> int:
        """From this entry on the log is whole. Any thread."""

    @property
    def last_index(self) -> int:
        """The last entry of the log, be it applied or not. Any thread."""

    on_removed: Callable[[RetentionResult], None]
    """Told, on the writer thread, what was removed to make room for a commit."""

    log_floor: int
    """Retention removes no entry from this one on, unless the total demands it."""

    start_floor: int
    """Not even the total removes an entry from this one on."""

    def record(self) -> bytes | None:
        """The record that was written last, if there is one."""

    @property
    def committed(self) -> int | None:
        """How far the log was committed when the record was written; None: all of it is."""

    def encode_batch(self, batch: Batch) -> EncodedBatch:
        """Give a batch its place: the entry that follows the last. Writer thread only.

        Everything in the log must be applied: offsets follow from what is before.
        """

    def write(self, write: Write) -> Written:
        """Make this durable, entries without applying them. Writer thread only.

        Raises a StorageError, having changed nothing.
        """

    def apply(self, index: int) -> list[Entry]:
        """Make entries up to this one part of what is read; return them. Writer thread only.

        They are committed: nothing will ever replace them.
        """

    def log_entries(self, low: int, high: int, bytes_max: int) -> list[LogEntry]:
        """Entries ``low … high - 1``, one at least, then no more than so many bytes. Any thread.

        Raises LookupError where there is none of index ``low``.
        """

    def copy(self, file: int) -> None:
        """Write a copy of everything, as of one moment, to an open file or pipe. Any thread."""
