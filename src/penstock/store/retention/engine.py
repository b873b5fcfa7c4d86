"""Removing what need not be kept, in slices that the writer thread runs between commits.

Nothing here grows with what is merely stored:

* limits by **count and bytes** are examined for topics that were written to (and once for all
  topics, after a start or a change of the rules);
* limits by **age** use one cursor per distinct age (expiry.py). A topic's own age limit is examined
  with the topic, when its oldest message expires;
* the **total** removes the oldest blocks, of all topics alike (total_limit.py), when a commit or
  the disk budget needs room;
* **dropped** topics are freed once blocks have them all (dropped_freeing.py).

What a limit removes is exact, message by message (excess.py). How it is removed, and what becomes
of the space: slice.py.

Messages that are still needed are skipped, and their topic is noted: *blocked* if a sequence is
needed, *held* if the topic is protected from some offset on. It is examined again when that has
moved. An age cursor does not wait for held topics: when one is examined again, its age counts. The
same holds for a topic that has lost its own limits, or its protection (*freed*).

Each *stage* of a slice has its own number of steps: however many topics are written to, the total
is still enforced.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from penstock.store.entry import TOPIC_IDS
from penstock.store.environment import Transaction
from penstock.store.marks import Marks
from penstock.store.retention.dropped_freeing import free_dropped
from penstock.store.retention.excess import remove_excess
from penstock.store.retention.expiry import expire
from penstock.store.retention.slice import AgeCursor, PlaceCursor, RetentionSlice, StoredParts
from penstock.store.retention.total_limit import shrink
from penstock.store.store import (
    NOTHING_PROTECTED,
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionResult,
    RetentionRules,
)
from penstock.store.topics import unpack_topic

SLICE_STEPS = 256  # groups or topics examined in each stage of one slice

ENTRIES_PER_SLICE = 256  # entries of the tail that one slice asks for the topics written to

UNLIMITED_MAX = 65_536  # topics of which is remembered that neither count nor bytes limit them


class RetentionEngine:
    """The state of retention between slices."""

    def __init__(self, parts: StoredParts) -> None:
        self._parts = parts
        self._request: RetentionRequest | None = None
        self._rules: RetentionRules | None = None
        # topics' own limits, when the rules were last compared
        self._own: dict[bytes, RetentionLimits] = {}
        self._floor = 0
        self._protected = NOTHING_PROTECTED
        self._seen = 0  # entries up to this one were asked for the topics written to
        self._written: set[int] = set()  # ids of topics written to, not yet examined
        # the same, in the order in which they are examined, last first: that of blocks
        self._batch: list[int] = []
        self._unlimited: set[int] = set()
        self._queue: dict[bytes, None] = {}  # topics to examine for other reasons
        # topics over their limits whose oldest messages are still needed
        self._blocked: dict[bytes, None] = {}
        self._held: dict[bytes, int] = {}  # protected topics over their limits, and from where on
        # when the oldest message expires, of topics with their own age limit
        self._wakes: dict[bytes, int] = {}
        # low-water marks below which nothing but blocked messages is left
        self._lowered: dict[bytes, int] = {}
        # topics that lost their own limits or protection; a cursor may have passed their groups
        self._freed: dict[bytes, None] = {}
        # where the examination of all topics continues; None when complete
        self._walk: bytes | None = b""
        self._ages: dict[int, AgeCursor] = {}
        self._oldest = PlaceCursor()  # the total has removed what it could before this

    def examine(self, topic: bytes) -> None:
        if self._request is not None:  # before the first call the walk will see it anyway
            self._queue[topic] = None

    def forget(self, topic: bytes) -> None:
        for known in (self._queue, self._blocked, self._held, self._freed):
            known.pop(topic, None)
        self._wakes.pop(topic, None)
        self._lowered.pop(topic, None)

    def slice(self, request: RetentionRequest, marks: Marks) -> tuple[RetentionResult, Marks]:
        """Do one slice of work; return what was removed, and the marks after it."""
        if request is not self._request:
            self._request = request
            self._compare(request.rules, marks)
            self._unblock(request.floor_sequence)
            self._release(request.protected)
            self._lower(request.low_water_marks)
            self._wake(request.now_ms)
        stages = (
            self._free_dropped,
            self._examine_written,
            self._examine_queue,
            self._examine_all,
            self._expire,
        )
        return self._work(request, marks, stages)

    def make_room(
        self, request: RetentionRequest, marks: Marks, file_bytes: int
    ) -> tuple[RetentionResult, Marks]:
        """Do one slice towards so many bytes in files of blocks, and nothing else."""

        def shrink_files(work: RetentionSlice) -> None:
            work.oldest = shrink(work, file_bytes, self._oldest)

        return self._work(request, marks, (self._free_dropped, shrink_files))

    def _work(
        self,
        request: RetentionRequest,
        marks: Marks,
        stages: Sequence[Callable[[RetentionSlice], None]],
    ) -> tuple[RetentionResult, Marks]:
        parts = self._parts

        def job(transaction: Transaction) -> RetentionSlice:
            with parts.environment.reading() as snapshot:
                work = RetentionSlice(parts, request, snapshot, transaction, marks)
                work.walk, work.ages, work.oldest = self._walk, self._ages, self._oldest
                for stage in stages:
                    stage(work)
                work.write()
                return work

        work, _ = parts.environment.write(0, job)
        work.take_over()
        self._take_over(work)
        return work.removed, work.marks

    def _take_over(self, work: RetentionSlice) -> None:
        if work.examined_ids:
            del self._batch[-work.examined_ids :]
        for name in work.examined:
            self._queue.pop(name, None)
            self._wakes.pop(name, None)
            if name not in work.blocked:
                self._freed.pop(name, None)
        self._blocked |= work.blocked
        self._held |= work.held
        self._wakes |= work.wakes
        self._lowered |= work.lowered
        self._walk = work.walk
        self._ages = work.ages
        self._oldest = work.oldest

    # ── What a new request changes ────────────────────────────────────────────────────────────

    def _compare(self, rules: RetentionRules, marks: Marks) -> None:
        """Queue the topics whose limits have changed."""
        if rules is self._rules:
            return
        if self._rules is None or _shared(rules) != _shared(self._rules):
            self._walk = b""
            self._seen = marks.flushed_index  # the walk sees the rows of those before
            self._ages = {}
        for name in rules.by_topic.keys() | self._own.keys():
            if rules.by_topic.get(name) != self._own.get(name):
                self._queue[name] = None
                if name not in rules.by_topic:
                    self._freed[name] = None
        self._rules = rules
        self._own = dict(rules.by_topic)
        self._unlimited.clear()

    def _unblock(self, floor_sequence: int) -> None:
        if floor_sequence > self._floor:
            self._queue |= self._blocked
            for name in self._blocked:
                self._lowered.pop(name, None)
            self._blocked = {}
        self._floor = floor_sequence

    def _release(self, protected: ProtectedTopics) -> None:
        """Queue held topics of which more was consumed."""
        if protected is self._protected:
            return
        before, self._protected = self._protected, protected
        for name in self._held.keys() & protected.floors.keys():  # costs what the smaller one has
            if protected.floors[name] > self._held[name]:
                del self._held[name]
                self._queue[name] = None
        for name in self._held.keys() & (before.floors.keys() - protected.floors.keys()):
            del self._held[name]
            self._queue[name] = self._freed[name] = None

    def _lower(self, low_water_marks: Mapping[bytes, int]) -> None:
        """Queue the topics whose low-water marks have risen."""
        if len(self._lowered) > len(low_water_marks):
            self._lowered = {n: low for n, low in self._lowered.items() if n in low_water_marks}
        for name, low in low_water_marks.items():
            if low > self._lowered.get(name, 0):
                self._queue[name] = None

    def _wake(self, now_ms: int) -> None:
        """Queue the topics whose oldest message has expired."""
        self._queue |= dict.fromkeys(n for n, wake_ms in self._wakes.items() if wake_ms <= now_ms)

    # ── Examining topics ──────────────────────────────────────────────────────────────────────

    def _examine_written(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        self._note_written(work)
        if not self._batch and self._written:
            self._batch = sorted(self._written, reverse=True)
            self._written = set()
        for topic_id in reversed(self._batch):
            name = self._name(work, topic_id)
            is_limited = name is not None and self._is_limited(name, topic_id)
            if is_limited and not (work.step() and self._examine(work, name or b"")):
                return
            work.examined_ids += 1
        work.removed.more |= bool(self._written)

    def _name(self, work: RetentionSlice, topic_id: int) -> bytes | None:
        """The name of a topic that was written to; None if it was dropped."""
        state = self._parts.topics.by_id(topic_id)
        if state is None:  # it is in blocks, and was evicted since
            state = work.state_in_blocks(topic_id)
        return state.name if state is not None else None

    def _note_written(self, work: RetentionSlice) -> None:
        """Note the topics of entries that were committed since."""
        entries, flushed = self._parts.memory.entries, work.marks.flushed_index
        if self._seen < flushed:
            for each in work.blocks.blocks:
                if each.row.summary.last_index > self._seen:
                    self._written.update(each.block.topic_ids)
            self._seen = flushed
        if entries and entries[-1].entry_index > self._seen:
            for entry in islice(work.journal.after(self._seen), ENTRIES_PER_SLICE):
                if entry.index > entries[-1].entry_index:
                    break  # it is not applied yet
                self._written.update(entry.column(TOPIC_IDS))
                self._seen = entry.index
            work.removed.more |= self._seen < entries[-1].entry_index
        self._written -= self._unlimited

    def _is_limited(self, name: bytes, topic_id: int) -> bool:
        """Whether what is written to a topic may exceed anything but a shared age."""
        rules = self._rules or RetentionRules()
        limits = rules.limits(name)
        if limits.messages_max is None and limits.bytes_max is None and name not in rules.by_topic:
            if len(self._unlimited) >= UNLIMITED_MAX:
                self._unlimited.clear()
            self._unlimited.add(topic_id)
            return False
        return True

    def _examine_queue(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        for name in self._queue:
            if not (work.step() and self._examine(work, name)):
                return

    def _examine_all(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        while work.walk is not None and work.step():
            cursor = work.snapshot.cursor(self._parts.environment["topics"])
            found = cursor.set_range(work.walk) if work.walk else cursor.first()
            if not found:
                work.walk = None
                return
            if not self._examine(work, unpack_topic(cursor.value()).name):
                return
            work.walk = bytes(cursor.key()) + b"\0"

    def _examine(self, work: RetentionSlice, name: bytes) -> bool:
        """Remove what is beyond a topic's limits; return whether that is complete."""
        topic = work.topic(name) if self._may_have_excess(work, name) else None
        if topic is not None:
            if not remove_excess(work, topic, self._age(work.request, name)):
                return False
            low = work.request.low_water_marks.get(name, 0)
            if low and (low <= topic.state.first_offset or name in work.blocked):
                work.lowered[name] = low
        work.examined.append(name)
        return True

    def _may_have_excess(self, work: RetentionSlice, name: bytes) -> bool:
        """Whether a topic must be examined. Cursors take care of shared age limits."""
        request = work.request
        limits = request.rules.limits(name)
        return (
            limits.messages_max is not None
            or limits.bytes_max is not None
            or name in request.low_water_marks
            or self._age(request, name) is not None
            or self._parts.topics.deleted(name).count > 0
        )

    def _age(self, request: RetentionRequest, name: bytes) -> int | None:
        """The age to examine a topic for: its own, or one whose cursor did not wait for it."""
        rules = request.rules
        if name in rules.by_topic:
            return rules.own_age(name)
        is_passed = name in self._freed or request.floor(name) is not None
        return rules.shared_age(name) if is_passed else None

    # ── Other stages ──────────────────────────────────────────────────────────────────────────

    def _free_dropped(self, work: RetentionSlice) -> None:
        free_dropped(work, SLICE_STEPS)

    def _expire(self, work: RetentionSlice) -> None:
        ages = work.request.rules.shared_ages()
        work.ages = {age: expire(work, age, self._ages.get(age, AgeCursor())) for age in ages}


def _shared(rules: RetentionRules) -> tuple[object, ...]:
    return (rules.default, rules.rules, rules.total_bytes_max)
