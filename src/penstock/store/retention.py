"""Removing what need not be kept, in slices that the writer thread runs between commits.

Nothing here grows with what is merely stored:

* limits by **count and bytes** are examined for topics that were written to (and once for all
  topics, after a start or a change of the rules);
* limits by **age** use one cursor per distinct age, from the oldest entry up to the first group
  that is too young. A topic's own age limit is examined with the topic, when its oldest group
  expires;
* the **total** removes the oldest entries, of all topics alike;
* entries **without content** are swept once, when the checkpoint has passed them;
* **dropped** topics (dropped.py) are freed group by group, once the index has them all. Cursors
  skip their groups, recognised by the topic's id.

A topic's oldest groups whose messages were all deleted, or that lie below its low-water mark, are
removed whatever the limits; limits count what is left.

Messages that are still needed are skipped, and their topic is noted: *blocked* if a sequence is
needed, *held* if the topic is protected from some offset on. It is examined again when that has
moved. An age cursor does not wait for held topics: when one is examined again, groups that the
cursor has passed count as expired. The same holds for a topic that has lost its own limits.

A group is removed by moving its topic's ``first_offset`` past it. Its entry is deleted with the
last of its groups; until then ``live`` counts the others. A slice reads a snapshot from before it
began and writes in one transaction; memory follows after that has committed.

Each *stage* of a slice has its own number of steps: however many topics are written to, the total
is still enforced. The index may lack a topic's newest groups; the topic is examined again when they
are written, and journal cursors end with the last complete round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from penstock.store.deletions import put_deleted
from penstock.store.dropped import Dropped, delete_dropped, put_dropped
from penstock.store.entry import Entry, GroupView
from penstock.store.environment import Environment, Transaction
from penstock.store.index import Reference, reference, row_span
from penstock.store.journal import JournalCursor
from penstock.store.keys import index_key, journal_key, topic_key, unpack_journal_key
from penstock.store.marks import Marks, put_marks
from penstock.store.reader import Reader
from penstock.store.retention_slice import Cursor, RetentionSlice, TopicLeft
from penstock.store.slices import part_bytes
from penstock.store.store import (
    CLOCK_ERROR_MS_MAX,
    LOG_UNBOUND,
    NOTHING_PROTECTED,
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionResult,
    RetentionRules,
)
from penstock.store.topics import StoredTopic, TopicStates, put_topic, unpack_topic

SLICE_STEPS = 256  # groups, topics or entries examined in each stage of one slice

# groups that one slice removes for the total: about ten milliseconds, while a commit waits
SHRINK_GROUPS = 2_048

ROW_ENDS_MAX = 65_536

# databases that shrink when messages are removed; the total limits these
FREEABLE = ("journal", "index", "live", "deleted")


class RetentionEngine:
    """The state of retention between slices."""

    def __init__(
        self,
        environment: Environment,
        reader: Reader,
        topics: TopicStates,
        dropped: dict[int, Dropped],
    ) -> None:
        self._environment = environment
        self._reader = reader
        self._topics = topics
        self._dropped = dropped
        self._log_floor = LOG_UNBOUND  # other nodes may need entries from here on
        # entries from here on are kept in any case, for a start of this node
        self._start_floor = LOG_UNBOUND
        self._request: RetentionRequest | None = None
        self._rules = RetentionRules()
        # topics' own limits, when the rules were last compared
        self._own: dict[bytes, RetentionLimits] = {}
        self._floor = 0
        self._protected = NOTHING_PROTECTED
        self._queue: dict[bytes, None] = {}  # topics written to since they were last examined
        # topics over their limits whose oldest messages are still needed
        self._blocked: dict[bytes, None] = {}
        self._held: dict[bytes, int] = {}  # protected topics over their limits, and from where on
        # when the oldest group expires, of topics with their own age limit
        self._wakes: dict[bytes, int] = {}
        # low-water marks below which nothing but blocked messages is left
        self._lowered: dict[bytes, int] = {}
        # topics that lost their own limits; a cursor may have passed their groups
        self._freed: dict[bytes, None] = {}
        # where the examination of all topics continues; None when complete
        self._walk: bytes | None = b""
        self._ages: dict[int, Cursor] = {}
        # end of the first index row of some topics; none ends before
        self._row_ends: dict[int, int] = {}
        self._oldest: Cursor = (0, 0)  # everything before this was removed for the total

    def keep_from(self, log_floor: int, start_floor: int) -> None:
        self._log_floor, self._start_floor = log_floor, start_floor

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
            self._compare(request.rules)
            self._unblock(request.floor_sequence)
            self._release(request.protected)
            self._lower(request.low_water_marks)
            self._wake(request.now_ms)
        total = request.rules.total_bytes_max
        stages = (
            self._free_dropped,
            self._examine_queue,
            self._examine_all,
            self._expire,
            self._sweep,
            self._shrink,
        )
        return self._work(request, marks, total, stages)

    def make_room(
        self, request: RetentionRequest, marks: Marks, total: int
    ) -> tuple[RetentionResult, Marks]:
        stages = (self._free_dropped, self._sweep, self._shrink)
        return self._work(request, marks, total, stages)

    def _work(
        self,
        request: RetentionRequest,
        marks: Marks,
        total: int | None,
        stages: Sequence[Callable[[RetentionSlice], None]],
    ) -> tuple[RetentionResult, Marks]:
        def job(transaction: Transaction) -> RetentionSlice:
            with self._environment.reading() as snapshot:
                journal = JournalCursor(self._environment, snapshot, None)
                work = RetentionSlice(request, snapshot, journal, transaction, marks)
                work.total, work.walk, work.ages = total, self._walk, self._ages
                for stage in stages:
                    stage(work)
                self._finish(work)
                return work

        work, _ = self._environment.write(0, job)
        self._take_over(work)
        return work.removed, work.marks

    def _compare(self, rules: RetentionRules) -> None:
        """Queue the topics whose limits have changed."""
        if rules is self._rules:
            return
        if _shared(rules) != _shared(self._rules):
            self._walk = b""
            self._ages = {}
        for name in rules.by_topic.keys() | self._own.keys():
            if rules.by_topic.get(name) != self._own.get(name):
                self._queue[name] = None
                if name not in rules.by_topic:
                    self._freed[name] = None
        self._rules = rules
        self._own = dict(rules.by_topic)

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
        self._protected = protected
        for name in self._held.keys() & protected.floors.keys():  # costs what the smaller one has
            if protected.floors[name] > self._held[name]:
                del self._held[name]
                self._queue[name] = None

    def _lower(self, low_water_marks: Mapping[bytes, int]) -> None:
        """Queue the topics whose low-water marks have risen."""
        if len(self._lowered) > len(low_water_marks):
            self._lowered = {n: low for n, low in self._lowered.items() if n in low_water_marks}
        for name, low in low_water_marks.items():
            if low > self._lowered.get(name, 0):
                self._queue[name] = None

    def _wake(self, now_ms: int) -> None:
        """Queue the topics whose oldest group has expired."""
        self._queue |= dict.fromkeys(n for n, wake_ms in self._wakes.items() if wake_ms <= now_ms)

    def _finish(self, work: RetentionSlice) -> None:
        for key, left in work.live.items():
            record = left.to_bytes(4, "little")
            work.transaction.put(key, record, db=self._environment["live"])
        for topic in work.changed.values():
            self._delete_rows(work, topic.state)
            put_topic(self._environment, work.transaction, topic.state)
            if topic.deleted.count:
                self._forget_deleted(work, topic)
        for topic_id, dropped in work.freed.items():
            if dropped is None:
                delete_dropped(self._environment, work.transaction, topic_id)
            else:
                put_dropped(self._environment, work.transaction, dropped)
        if work.removed.messages:
            total = work.marks.removed_messages + work.removed.messages
            work.marks = msgspec.structs.replace(work.marks, removed_messages=total)
        work.marks = msgspec.structs.replace(work.marks, compacted=work.compacted)
        if work.removed.messages or work.removed.entries:
            put_marks(self._environment, work.transaction, work.marks)

    def _forget_deleted(self, work: RetentionSlice, topic: TopicLeft) -> None:
        state = topic.state
        topic.deleted, changes = topic.deleted.beyond(state.first_offset, topic.deleted_bytes)
        key = (state.id, state.name)
        put_deleted(self._environment, work.transaction, key, topic.deleted, changes)

    def _take_over(self, work: RetentionSlice) -> None:
        with self._topics.lock:
            for name, changed in work.changed.items():
                state = self._topics.get(name)
                if state is not None:
                    state.first_offset = changed.state.first_offset
                    state.bytes = changed.state.bytes
                self._topics.set_deleted(name, changed.deleted)
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
        for topic_id, dropped in work.freed.items():
            if dropped is None:
                del self._dropped[topic_id]
            else:
                self._dropped[topic_id] = dropped

    # ── Count and bytes ───────────────────────────────────────────────────────────────────────

    def _examine_queue(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        for name in self._queue:
            if not (work.step() and self._examine(work, name)):
                return

    def _examine_all(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        while work.walk is not None and work.step():
            cursor = work.snapshot.cursor(self._environment["topics"])
            found = cursor.set_range(work.walk) if work.walk else cursor.first()
            if not found:
                work.walk = None
                return
            if not self._examine(work, unpack_topic(cursor.value()).name):
                return
            work.walk = bytes(cursor.key()) + b"\0"

    def _examine(self, work: RetentionSlice, name: bytes) -> bool:
        """Remove what is deleted or beyond a topic's limits; return whether that is complete."""
        topic = self._topic(work, name) if self._may_have_excess(work, name) else None
        if topic and not self._drop_excess(work, topic):
            return False
        work.examined.append(name)
        return True

    def _drop_excess(self, work: RetentionSlice, topic: TopicLeft) -> bool:
        name = topic.state.name
        for found in self._references(work, topic):
            if not self._is_excess(work, topic, found):
                self._note_lowered(work, name, found.next_offset - 1)
                return True
            if not work.step():
                return False
            self._drop(work, topic, found)
        self._note_lowered(work, name, topic.state.first_offset)
        return True

    def _note_lowered(self, work: RetentionSlice, name: bytes, end: int) -> None:
        """Note that nothing is left below a topic's low-water mark, unless the index lacks it."""
        low = work.request.low_water_marks.get(name, 0)
        if low and (low <= end or name in work.blocked):
            work.lowered[name] = low

    def _may_have_excess(self, work: RetentionSlice, name: bytes) -> bool:
        """Whether a topic must be examined. Cursors take care of shared age limits."""
        request = work.request
        limits = request.rules.limits(name)
        is_limited = limits.messages_max is not None or limits.bytes_max is not None
        is_special = name in request.rules.by_topic or name in request.low_water_marks
        is_passed = request.floor(name) is not None or name in self._freed
        return is_limited or is_special or is_passed or self._topics.deleted(name).count > 0

    def _is_excess(self, work: RetentionSlice, topic: TopicLeft, found: Reference) -> bool:
        """Whether a topic's oldest group may be removed; notes why not."""
        messages, size = self._left(work, topic, found)
        if not messages:
            return True
        request, name = work.request, topic.state.name
        is_low = request.is_low(name, found.next_offset)
        is_beyond = topic.is_beyond(request.rules.limits(name), messages, size)
        is_old = self._is_passed(request, name, found) or self._is_old(work, topic, found)
        if not (is_low or is_beyond or is_old):
            return False
        if found.last_sequence >= request.floor_sequence:
            work.blocked[name] = None
            return False
        return is_low or not self._is_held(work, name, found)

    def _is_passed(self, request: RetentionRequest, name: bytes, found: Reference) -> bool:
        age = request.rules.shared_age(name)
        if age is None or (request.floor(name) is None and name not in self._freed):
            return False
        is_behind = age in self._ages and (found.entry_index, found.group) < self._ages[age]
        return is_behind and found.time_ms <= request.now_ms - age

    def _is_old(self, work: RetentionSlice, topic: TopicLeft, found: Reference) -> bool:
        """Whether its own age limit removes the oldest group; if not, notes when it will."""
        request, name = work.request, topic.state.name
        age = request.rules.own_age(name)
        if age is None:
            return False
        if found.time_ms > request.now_ms + CLOCK_ERROR_MS_MAX:
            following = islice(self._references(work, topic), SLICE_STEPS)
            dated = (f for f in following if f.time_ms <= request.now_ms + CLOCK_ERROR_MS_MAX)
            found = next(dated, found)
        if found.time_ms <= request.now_ms - age:
            return True
        work.wakes[name] = found.time_ms + age
        return False

    def _is_held(self, work: RetentionSlice, name: bytes, found: Reference) -> bool:
        floor = work.request.floor(name)
        if floor is None or found.next_offset <= floor:
            return False
        work.held[name] = floor
        return True

    # ── Age ───────────────────────────────────────────────────────────────────────────────────

    def _expire(self, work: RetentionSlice) -> None:
        ages = work.request.rules.shared_ages()
        work.ages = {age: self._expire_age(work, age) for age in ages}

    def _expire_age(self, work: RetentionSlice, age: int) -> Cursor:
        """Advance the cursor of one age limit; return its position."""
        rules, now_ms, floor_sequence, _, _ = work.request
        work.begin_stage(SLICE_STEPS)
        cursor = self._ages.get(age, (0, 0))
        for entry, number in _groups_from(work, cursor):
            cursor = (entry.index, number)
            if not work.step():
                break
            found = reference(entry, number)
            if found.time_ms > now_ms + CLOCK_ERROR_MS_MAX:
                continue  # a wrong clock dated it: it must not hold up the others
            group = entry.group(number)
            if found.time_ms > now_ms - age or found.last_sequence >= floor_sequence:
                if self._is_dropped(work, group):
                    continue
                break
            name = group.name
            if rules.shared_age(name) != age or self._is_dropped(work, group):
                continue
            if not self._is_held(work, name, found):
                self._drop_through(work, name, found)
        else:
            cursor = (work.marks.flushed_index + 1, 0)
        return cursor

    # ── Total ─────────────────────────────────────────────────────────────────────────────────

    def _shrink(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        work.oldest = self._oldest
        if work.total is None or (work.is_freeing and work.removed.entries):
            return  # there is no limit, or room is being made without this
        groups_left = SHRINK_GROUPS
        for entry in work.journal.after(work.oldest[0] - 1):
            index, first = work.oldest
            first = first if entry.index == index else 0
            if first == 0 and self._freeable_bytes(work) <= work.total:
                return
            if entry.index > self._disposable(work):
                return  # a start would replay it; the next checkpoint lets it go
            if not work.step():
                return
            end = min(first + groups_left, entry.group_count)
            groups_left -= end - first
            self._remove_groups(work, entry, first, end)
            if end < entry.group_count:
                work.oldest = (entry.index, end)
                work.removed.more = True
                return
            work.oldest = (entry.index + 1, 0)

    def _remove_groups(self, work: RetentionSlice, entry: Entry, first: int, end: int) -> None:
        """Remove groups of an entry, and the entry with the last of them."""
        spares, changed = work.request.protected.spares, work.changed
        released = 0
        for number, topic_id, name, first_offset, count, size in entry.extents(first, end):
            topic = self._topic(work, name)
            if topic is None or topic.state.id != topic_id:
                released += self._pass_dropped(work, topic_id, first_offset, count, size)
            elif spares(name) or topic.state.first_offset > first_offset:
                continue
            elif topic.state.first_offset < first_offset or topic.deleted.count:
                self._drop_through(work, name, reference(entry, number))
            else:
                topic.remove_oldest(count, size)
                changed[name] = topic
                work.removed.note(name, ((first_offset, first_offset + count),))
                work.removed.bytes += size
                released += 1
        key = journal_key(entry.base_sequence, entry.index)
        left = self._live(work, key, entry.group_count) - released
        if left == 0:
            self._delete_entry(work, key)
        elif released:
            work.live[key] = left

    def _pass_dropped(
        self, work: RetentionSlice, topic_id: int, first_offset: int, count: int, size: int
    ) -> int:
        """Release a group of a dropped topic if it is the oldest left; return how many (0 or 1)."""
        record = work.freed[topic_id] if topic_id in work.freed else self._dropped.get(topic_id)
        if record is None or record.state.first_offset != first_offset:
            return 0
        state = record.state.copy()
        state.first_offset += count
        state.bytes -= size
        work.free(topic_id, Dropped(record.entry_index, state))
        return 1

    def _freeable_bytes(self, work: RetentionSlice) -> int:
        """Without rows of topics and sessions, which removing messages does not shrink."""
        return self._environment.used_bytes(work.transaction, FREEABLE)

    # ── Entries with nothing to keep ──────────────────────────────────────────────────────────

    def _sweep(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        last = self._removable(work)
        swept = work.marks.swept
        for entry in work.journal.after(swept):
            if entry.index > last or not work.step():
                break
            swept = entry.index
            key = journal_key(entry.base_sequence, entry.index)
            if self._live(work, key, entry.group_count) == 0:
                self._delete_entry(work, key)
        work.marks = msgspec.structs.replace(work.marks, swept=swept)

    def _removable(self, work: RetentionSlice) -> int:
        """The last entry that neither a start nor another node needs."""
        return min(self._disposable(work), self._log_floor - 1)

    def _disposable(self, work: RetentionSlice) -> int:
        """The last entry that no start needs; the total may remove what other nodes need."""
        return min(self.disposable(work.marks), work.marks.flushed_index)

    def disposable(self, marks: Marks) -> int:
        """The same, regardless of how far the index is."""
        return min(marks.checkpoint, self._start_floor - 1)

    # ── Dropping ──────────────────────────────────────────────────────────────────────────────

    def _is_dropped(self, work: RetentionSlice, group: GroupView) -> bool:
        """Whether a group belongs to a dropped topic, though its name may be in use again."""
        topic = self._topic(work, group.name)
        return topic is None or topic.state.id != group.topic_id

    def _topic(self, work: RetentionSlice, name: bytes) -> TopicLeft | None:
        topic = work.topics.get(name)
        if topic is None:
            state = self._topics.get(name)
            state = state.copy() if state else self._reader.row_state(work.snapshot, name)
            if state is not None:
                topic = work.topics[name] = TopicLeft(state, self._topics.deleted(name))
        return topic

    def _references(self, work: RetentionSlice, topic: TopicLeft) -> Iterator[Reference]:
        state = topic.state
        return self._reader.references(work.snapshot, state.id, [], state.first_offset)

    def _left(self, work: RetentionSlice, topic: TopicLeft, found: Reference) -> tuple[int, int]:
        deleted = list(topic.deleted.within(found.first_offset, found.next_offset))
        count = sum(end - first for first, end in deleted)
        if not count:
            return found.message_count, found.bytes
        if count == found.message_count:
            return 0, 0
        journal = JournalCursor(self._environment, work.snapshot, None)  # a cursor of its own
        entry = journal.at(found.base_sequence, found.entry_index)
        assert entry is not None, "a group that was not dropped is there"
        size = sum(part_bytes(found.part(entry, first, end)) for first, end in deleted)
        return found.message_count - count, found.bytes - size

    def _drop_through(self, work: RetentionSlice, name: bytes, last: Reference) -> None:
        topic = self._topic(work, name)
        assert topic is not None, "a topic in the journal has a state"
        for found in self._references(work, topic):
            if found.first_offset > last.first_offset:
                break
            self._drop(work, topic, found)

    def _drop(self, work: RetentionSlice, topic: TopicLeft, found: Reference) -> None:
        messages, size = self._left(work, topic, found)
        topic.state.first_offset = found.next_offset
        topic.state.bytes -= found.bytes
        topic.messages -= messages
        topic.bytes -= size
        topic.deleted_bytes += found.bytes - size
        work.changed[topic.state.name] = topic
        work.removed.note(
            topic.state.name, topic.deleted.living(found.first_offset, found.next_offset)
        )
        work.removed.bytes += size
        self._release_group(work, found)

    def _release_group(self, work: RetentionSlice, found: Reference) -> None:
        """Note that a group is gone; delete its entry if it was the last and may go."""
        key = journal_key(found.base_sequence, found.entry_index)
        left = self._live(work, key, found.group_count) - 1
        if left == 0 and found.entry_index <= self._removable(work):
            self._delete_entry(work, key)
        else:
            work.live[key] = left

    def _live(self, work: RetentionSlice, key: bytes, group_count: int) -> int:
        if key in work.live:
            return work.live[key]
        record = work.transaction.get(key, db=self._environment["live"])
        return group_count if record is None else int.from_bytes(record, "little")

    def _delete_entry(self, work: RetentionSlice, key: bytes) -> None:
        _, index = unpack_journal_key(key)
        work.compacted = max(work.compacted, index)
        work.removed.entries += work.transaction.delete(key, db=self._environment["journal"])
        work.transaction.delete(key, db=self._environment["live"])
        work.live.pop(key, None)

    # ── Dropped topics ────────────────────────────────────────────────────────────────────────

    def _free_dropped(self, work: RetentionSlice) -> None:
        work.begin_stage(SLICE_STEPS)
        for topic_id, dropped in self._dropped.items():
            if dropped.entry_index > work.marks.flushed_index:
                continue  # the index may lack some of its groups
            left = Dropped(dropped.entry_index, dropped.state.copy())
            is_free = (
                work.step()  # each topic costs something, though nothing be left of it
                and self._free_groups(work, left.state)
                and self._free_ranges(work, topic_id)
            )
            self._delete_rows(work, left.state)
            work.free(topic_id, None if is_free else left)
            if not is_free:
                work.is_freeing = True
                return

    def _free_groups(self, work: RetentionSlice, state: StoredTopic) -> bool:
        """Release a dropped topic's groups, oldest first; return whether that is complete."""
        for found in self._reader.references(work.snapshot, state.id, [], state.first_offset):
            if not work.step():
                return False
            self._release_group(work, found)
            state.first_offset = found.next_offset
            state.bytes -= found.bytes
        return True

    def _free_ranges(self, work: RetentionSlice, topic_id: int) -> bool:
        """Delete a dropped topic's rows of deleted offsets; return whether that is complete."""
        cursor = work.transaction.cursor(self._environment["deleted"])
        prefix = topic_key(topic_id)
        while cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix):
            if not work.step():
                return False
            work.transaction.delete(bytes(cursor.key()), db=self._environment["deleted"])
        return True

    def _delete_rows(self, work: RetentionSlice, state: StoredTopic) -> None:
        if state.first_offset < self._row_ends.get(state.id, 0):
            return
        cursor = work.transaction.cursor(self._environment["index"])
        start = index_key(state.id, 0)
        while cursor.set_range(start) and bytes(cursor.key())[:4] == start[:4]:
            _, end = row_span(cursor.value())
            if end > state.first_offset:
                self._note_row_end(state.id, end)
                return
            work.transaction.delete(bytes(cursor.key()), db=self._environment["index"])

    def _note_row_end(self, topic_id: int, end: int) -> None:
        if len(self._row_ends) >= ROW_ENDS_MAX:
            self._row_ends.clear()
        self._row_ends[topic_id] = end


def _shared(rules: RetentionRules) -> tuple[object, ...]:
    return (rules.default, rules.rules, rules.total_bytes_max)


def _groups_from(work: RetentionSlice, cursor: Cursor) -> Iterator[tuple[Entry, int]]:
    index, number = cursor
    for entry in work.journal.after(index - 1):
        if entry.index > work.marks.flushed_index:
            return
        first = number if entry.index == index else 0
        for group in range(first, entry.group_count):
            yield entry, group
