"""What a store is: the protocol that the broker uses, and the values it returns.

Only the writer thread may call ``commit``, ``retain``, ``trim`` and ``delete``; reads may be called
from any thread, and see the effect of every such call that has returned.

**Retention** removes a topic's oldest messages, one by one. A limit says what must be *kept*: with
``messages_max=10`` the newest ten stay; with ``bytes_max`` messages go while at least as many bytes
of payload stay without them. With ``age_ms_max`` the messages before the first young one go. This
may take a fiftieth of the age longer, or as long as a clock was ahead; none goes too early. A topic
begins later at once; the bytes are freed with the block, or when it is folded again.
**Trimming and deleting** are exact, too; bytes are freed when retention has come to the message.
**Dropping** a topic is part of a batch; retention frees the bytes.

Two things hold retention back. Messages from a *sequence* on, of any topic, may still be needed;
and of ``ProtectedTopics``, messages from an *offset* on are not consumed yet. The first stops every
limit of a topic, the second only limits that were not set for the topic itself. Neither stops the
total: a full disk would refuse new messages to keep old ones. Topics that are ``kept`` are exempt
from all limits. Messages below a topic's *low-water mark* are removed whatever the limits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from penstock.model.columns import MessageColumns
from penstock.model.message import Message
from penstock.store.batch import Batch
from penstock.store.copies.copied_store import StoreCopy
from penstock.store.entry import Entry
from penstock.store.extras import Schedule
from penstock.store.history import History, HistoryStep
from penstock.store.raw_slice import RawSlice
from penstock.store.scan import Scan, ScanStep

Result = TypeVar("Result")

# messages dated further in the future than this never expire by age on their own
CLOCK_ERROR_MS_MAX = 24 * 3600 * 1000

LOG_UNBOUND = (1 << 63) - 1  # a log floor beyond any entry: no other node needs the log


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """A log entry as nodes exchange it; kind 0 is a journal entry, others change membership."""

    index: int
    kind: int
    data: bytes


class EncodedBatch(NamedTuple):
    """A batch encoded as the next entry, and the offset of each group's first message."""

    data: bytes
    first_offsets: tuple[int, ...]


class Write(msgspec.Struct, gc=False):
    """What one transaction of a cluster node writes.

    ``entries`` replace the log from the index of the first one on. ``record`` belongs to consensus
    (None: unchanged); ``committed``, stored with it, is the commit index (None: the whole log,
    always) and must cover what the rows contain. Rows and checkpoint are those of ``Batch``.
    """

    entries: Sequence[LogEntry] = ()
    record: bytes | None = None
    committed: int | None = None
    rows: list[tuple[str, bytes, bytes | None]] = []
    checkpoint: int | None = None


class Written(NamedTuple):
    """Durations of a write."""

    commit_s: float
    fsync_s: float


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A durable batch: its place in the journal, and what it cost."""

    index: int
    base_sequence: int
    count: int
    bytes: int
    commit_s: float
    fsync_s: float
    # of each group's first message, in the order of ``Batch.groups``
    first_offsets: tuple[int, ...]
    ends_entry: bool = True  # whether no other node's batch follows in its entry


class TopicInfo(msgspec.Struct, frozen=True, gc=False):
    """Messages ``first_offset … next_offset - 1`` but ``deleted`` of them. Ids are never reused."""

    id: int
    name: bytes
    first_offset: int
    next_offset: int
    bytes: int
    created_ms: int
    deleted: int = 0

    @property
    def count(self) -> int:
        return self.next_offset - self.first_offset - self.deleted


class TopicSlice(MessageColumns, frozen=True):
    """Consecutive messages of a topic out of entry ``index``."""

    index: int

    def messages(self, topic: bytes) -> Iterator[Message]:
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
    """The answer to ``read_topic``; ``next_offset`` is where to continue, past deleted ones."""

    topic: bytes
    first_offset: int
    next_offset: int
    slices: list[TopicSlice]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.slices)

    def messages(self) -> Iterator[Message]:
        for part in self.slices:
            yield from part.messages(self.topic)


class RawQuery(NamedTuple):
    """A bulk read of offsets ``start … end - 1``; an ``end`` of 0 is that of the topic.

    ``columns`` are bits of ``penstock.model.columns``. ``bytes_max`` bounds payloads and headers,
    each on its own, unless a single message has more.
    """

    topic: bytes
    start: int
    end: int
    count_max: int
    bytes_max: int
    columns: int


class TopicFlags(msgspec.Struct):
    """The answer to ``read_flags``: flags and schedules of messages, without the messages.

    ``runs`` are first offset, count and flags, ascending, without deleted messages. ``schedule``
    has times due and times of expiry by offset. ``next_offset`` is where to continue.
    """

    next_offset: int
    runs: list[tuple[int, int, int]]
    schedule: dict[int, Schedule]

    def add_run(self, first: int, end: int, flags: int) -> None:
        if self.runs:
            last_first, count, last_flags = self.runs[-1]
            if last_flags == flags and last_first + count == first:
                self.runs[-1] = (last_first, end - last_first, flags)
                return
        self.runs.append((first, end - first, flags))


class RetentionLimits(msgspec.Struct, frozen=True):
    """How much of a topic must be kept; None: no limit."""

    messages_max: int | None = None
    age_ms_max: int | None = None
    bytes_max: int | None = None


class TopicRetentionRule(msgspec.Struct, frozen=True):
    """Limits of the topics that ``matches`` accepts."""

    matches: Callable[[bytes], bool]
    limits: RetentionLimits


class ProtectedTopics(msgspec.Struct, frozen=True):
    """Topics that the default limits leave alone until their messages are consumed.

    ``floors`` are the first offsets not consumed yet. Topics with ``prefix`` but no floor are not
    consumed at all.
    """

    prefix: bytes | None = None
    floors: dict[bytes, int] = {}
    kept: tuple[bytes, ...] = ()  # prefixes of topics from which nothing is removed
    spared: tuple[bytes, ...] = ()  # prefixes of topics that have limits of their own alone

    def keeps(self, topic: bytes) -> bool:
        return topic.startswith(self.kept)

    def spares(self, topic: bytes) -> bool:
        """Whether the bound of the journal removes nothing from a topic."""
        return topic.startswith(self.kept + self.spared)

    def floor(self, topic: bytes) -> int | None:
        """The first offset still needed; None if the topic is not protected."""
        floor = self.floors.get(topic)
        if floor is None and self.prefix is not None and topic.startswith(self.prefix):
            return 0
        return floor


NOTHING_PROTECTED = ProtectedTopics()

NO_LOW_WATER_MARKS: Mapping[bytes, int] = MappingProxyType({})


class RetentionRules(msgspec.Struct, frozen=True):
    """The limits of a topic are its own, else those of the first matching rule, else the default.

    ``by_topic`` may be large and change often: only topics whose own limits change cost anything.
    """

    default: RetentionLimits = RetentionLimits()
    rules: tuple[TopicRetentionRule, ...] = ()
    total_bytes_max: int | None = None
    by_topic: Mapping[bytes, RetentionLimits] = {}

    def limits(self, topic: bytes) -> RetentionLimits:
        own = self.by_topic.get(topic)
        if own is not None:
            return own
        for rule in self.rules:
            if rule.matches(topic):
                return rule.limits
        return self.default

    def is_chosen(self, topic: bytes) -> bool:
        return topic in self.by_topic or any(rule.matches(topic) for rule in self.rules)

    def shared_age(self, topic: bytes) -> int | None:
        return None if topic in self.by_topic else self.limits(topic).age_ms_max

    def own_age(self, topic: bytes) -> int | None:
        own = self.by_topic.get(topic)
        return own.age_ms_max if own else None

    def shared_ages(self) -> set[int]:
        limits = (self.default, *(rule.limits for rule in self.rules))
        return {limit.age_ms_max for limit in limits if limit.age_ms_max is not None}


class RetentionRequest(NamedTuple):
    """The arguments of ``Store.retain``."""

    rules: RetentionRules
    now_ms: int
    floor_sequence: int
    protected: ProtectedTopics = NOTHING_PROTECTED
    low_water_marks: Mapping[bytes, int] = NO_LOW_WATER_MARKS

    def floor(self, topic: bytes) -> int | None:
        """The first offset that the limits must leave; a topic's own ignore protection."""
        if self.protected.keeps(topic):
            return 0
        floor = self.protected.floor(topic)
        if floor is not None and self.rules.is_chosen(topic):
            return None
        return floor

    def protects(self, topic: bytes, next_offset: int) -> bool:
        floor = self.floor(topic)
        return floor is not None and next_offset > floor

    def is_low(self, topic: bytes, next_offset: int) -> bool:
        return next_offset <= self.low_water_marks.get(topic, 0)


_Name: TypeAlias = bytes  # of a topic; in ``RetentionResult``, ``bytes`` is a field


class RetentionResult(msgspec.Struct):
    """What retention removed, and whether there is more to do at once."""

    messages: int = 0
    bytes: int = 0
    blocks: int = 0
    more: bool = False
    # ranges by topic, ascending, without messages deleted before
    offsets: dict[_Name, list[tuple[int, int]]] = {}

    def note(self, topic: _Name, offset_ranges: Iterable[tuple[int, int]]) -> None:
        """Add removed messages of a topic; calls ascend."""
        for first, end in offset_ranges:
            known = self.offsets.setdefault(topic, [])
            self.messages += end - first
            if known and known[-1][1] == first:
                known[-1] = (known[-1][0], end)
            else:
                known.append((first, end))

    def add(self, other: "RetentionResult") -> None:
        for topic, offset_ranges in other.offsets.items():
            self.note(topic, offset_ranges)
        self.bytes += other.bytes
        self.blocks += other.blocks


class StoreSize(msgspec.Struct, frozen=True, gc=False):
    """``bytes_used`` counts pages in use, without free ones, and blocks."""

    bytes_used: int
    map_bytes: int
    entries: int
    messages: int
    sequence_oldest: int
    sequence_newest: int
    blocks: int = 0
    block_bytes: int = 0  # of their files
    tail_bytes: int = 0  # of the file of the database
    damage: int = 0  # places found damaged since the start
    disk_free_bytes: int = 0  # of the file system


class Store(Protocol):
    """The journal and what is derived from it."""

    @property
    def next_sequence(self) -> int:
        """The sequence that the next message will get; the first is 1."""

    @property
    def next_index(self) -> int:
        """The index that the next entry will get; the first is 1."""

    def commit(self, batch: Batch) -> Commit:
        """Make a batch durable, or raise a StorageError, having changed nothing. Writer thread."""

    def commit_small(self, batch: Batch) -> Commit:
        """``commit`` faster if the batch is small, and readers do not follow each commit.

        Only where flushes are known to be short: readers may have to wait for one.
        """

    @property
    def has_room(self) -> bool:
        """Whether a small commit need not make room first, which may take long. Any thread."""

    def prepare(self) -> None:
        """Do work in advance that speeds up the next commits. Writer thread only."""

    def replay(self) -> Iterator[Entry]:
        """Entries after the checkpoint, in order, for a start."""

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Checkpoint rows of one table."""

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        """Messages by sequence (ascending); None for those that are gone."""

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        """Messages of one topic from an offset on; at least one, if there is one."""

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        """Pass messages to ``make`` as they are in the journal; None: no such topic.

        ``make`` gets the topic, where to continue, and slices with at least one message if there is
        one. Their columns are views that are valid until it returns.
        """

    def read_raw_many(
        self, scan: Scan, count_max: int, bytes_max: int, make: Callable[[ScanStep], Result]
    ) -> Result:
        """Do a step of a scan: pass the next messages to ``make``, and move the positions.

        There is at least one message unless all are passed on, or were removed meanwhile. A scan
        has one step at a time.
        """

    def read_history(
        self, history: History, low: int, end: int, count_max: int, bytes_max: int
    ) -> HistoryStep:
        """Messages of a history from a sequence on, below ``end``, about as many as asked for.

        There may be none though there are more: go on where the step says, until ``end``. All below
        ``end`` must be committed. The first step lists the topics, which may take long.
        """

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        """The end of ``bytes_max`` bytes of payload from an offset on; at least one message."""

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        """Flags and schedules of about ``count_max`` messages of a topic; at least one, if any."""

    def topic(self, name: bytes) -> TopicInfo | None:
        """A topic; None if it has no messages since it was created or dropped."""

    def count_from(self, topic: bytes, offset: int) -> int:
        """How many messages a topic has from an offset on."""

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        """Topics whose names begin with ``prefix`` and are greater than ``after``, by name."""

    def retain(self, request: RetentionRequest) -> RetentionResult:
        """Do a bounded slice of retention. Writer thread only.

        Messages from ``floor_sequence`` on are still needed: only ``total_bytes_max`` may remove
        them. So are those of ``protected`` topics, unless limits or a rule were set for their
        topic; nothing removes what is ``kept``. Messages below a topic's low-water mark are
        removed in any case, once ``floor_sequence`` has passed them. Raises a StorageError, having
        removed nothing.
        """

    def trim(self, topic: bytes, offset: int) -> int:
        """Delete all messages below an offset, durably; return how many. Writer thread only."""

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        """Delete single messages, durably; return how many there were. Writer thread only."""

    def size(self) -> StoreSize:
        """How much is stored."""

    def close(self) -> None:
        """Close; nothing else may be called afterwards."""


class LogStore(Store, Protocol):
    """A store whose journal is a replicated log: batches are encoded, written, then applied."""

    @property
    def first_index(self) -> int:
        """The first entry from which on the log has no gaps. Any thread."""

    @property
    def last_index(self) -> int:
        """The last entry of the log, applied or not. Any thread."""

    # called on the writer thread with what was removed to make room
    on_removed: Callable[[RetentionResult], None]

    log_floor: int  # retention keeps entries from here on, unless the total demands otherwise

    start_floor: int  # retention keeps entries from here on in any case

    def record(self) -> bytes | None:
        """The record written last, if any."""

    @property
    def committed(self) -> int | None:
        """The commit index stored with the record; None: all of the log is committed."""

    def encode_batch(self, batch: Batch) -> EncodedBatch:
        """Encode a batch as the next entry after all that is written. Writer thread only.

        All of the log must be applied if the batch, or the log's tail, drops topics.
        """

    def write(self, write: Write) -> Written:
        """Make this durable without applying, or raise a StorageError. Writer thread only."""

    def apply(self, index: int) -> list[Entry]:
        """Make committed entries up to ``index`` visible; return them. Writer thread only."""

    def log_entries(self, low: int, high: int, bytes_max: int) -> list[LogEntry]:
        """Entries ``low … high - 1``, at least one; LookupError if there is none. Any thread."""

    def copy(self, is_wanted: Callable[[], bool] = lambda: True) -> StoreCopy:
        """A copy of everything, as of one moment. Blocks; any thread; raises StorageError.

        It is given up once ``is_wanted`` returns False.
        """
