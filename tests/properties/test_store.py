"""The store on LMDB against the plain one: any history, the same answers.

The machine commits, drops, folds, retains, trims, deletes, closes, opens, and crashes (abandons the
files), with blocks and slices made so small that every seam is crossed within a few steps: a fold
may begin, retention remove some of what it folds, and the block be registered later. Tables and
topics are few, so that they collide.
"""

import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.model.history_start import HistoryStart
from penstock.model.message import Extras, Signature
from penstock.store import lmdb_store, unsettled
from penstock.store.batch import Batch
from penstock.store.blocks import tail_folding
from penstock.store.blocks.folder import InlineFolder
from penstock.store.deletions import NOTHING, erase, ranges_of
from penstock.store.entry import Placement, decode, encode
from penstock.store.history import History
from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore
from penstock.store.retention import engine as retention
from penstock.store.retention import excess, expiry, total_limit
from penstock.store.slices import GroupRange, part_bytes
from penstock.store.store import (
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionResult,
    RetentionRules,
    TopicRetentionRule,
)
from penstock.store.verify import verify

TOPICS = [b"a", b"a/b", b"b", b"n" * 600]

signatures = st.builds(
    Signature,
    version=st.integers(0, 255),
    key_id=st.integers(0, 2**32 - 1),
    signature=st.binary(min_size=64, max_size=64),
    signed_ms=st.integers(0, 2**64 - 1),
    nonce=st.binary(max_size=8),
)
headers = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), max_size=2).map(tuple)
times = st.just(0) | st.integers(0, 2**64 - 1)
extras = st.none() | st.builds(Extras, headers, st.none() | signatures, times, times).filter(
    lambda found: found != Extras()  # comes back as None
)
runs = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.lists(st.tuples(st.binary(max_size=12), extras), min_size=1, max_size=4),
        st.integers(0, 3),
        st.integers(0, 7) | st.integers(0, 0xFFFF),
        st.none() | st.tuples(st.sampled_from([b"", b"p", b"q"]), st.integers(0, 3)),
    ),
    max_size=6,
)
limits = st.builds(
    RetentionLimits,
    messages_max=st.none() | st.integers(0, 10),
    age_ms_max=st.none() | st.integers(0, 40),
    bytes_max=st.none() | st.integers(0, 60),
)


def append(batch, run, now_ms=0):
    """Append one of ``runs``, and record its producer."""
    topic, messages, delta, flags, numbered = run
    payloads, found = zip(*messages, strict=True)
    place = batch.messages_of(topic)
    batch.append(topic, payloads, now_ms + delta, flags, found if any(found) else None)
    if numbered is not None:
        batch.add_producer_run(topic, place, len(payloads), *numbered)


def is_a(topic: bytes) -> bool:
    return topic[:1] == b"a"


@given(runs, st.lists(st.integers()), st.integers(1, 2**60))
def test_a_batch_survives_the_codec(appended, events, base):
    """Whatever was appended comes back, in order, with its own time and flags."""
    batch = Batch()
    expected, numbers = [], []
    for run in appended:
        append(batch, run)
        topic, sent, time_ms, flags, numbered = run
        expected += [(topic, payload, time_ms, flags, found) for payload, found in sent]
        numbers += [numbered and (numbered[0], numbered[1] + n) for n in range(len(sent))]
    for event in events:
        if abs(event) < 2**63:
            batch.add_event(("e", event))
    placements = [Placement(number, 10 * number) for number in range(len(batch.groups))]
    entry = decode(encode(batch, 1, base, placements))
    messages = list(entry.messages())
    assert [(m.topic, m.payload, m.time_ms, m.flags, m.extras) for m in messages] == expected
    assert [m.sequence for m in messages] == list(range(base, base + len(expected)))
    assert [entry.message(m.sequence) for m in messages] == messages
    assert entry.events == batch.events
    seqs = {
        (topic, first + n): (producer, seq + n)
        for topic, first, count, producer, seq in entry.producers()
        for n in range(count)
    }
    assert [seqs.get((m.topic, m.offset)) for m in messages] == numbers


@given(
    st.lists(
        st.tuples(st.just("erase"), st.lists(st.integers(0, 30), max_size=8))
        | st.tuples(st.just("forget"), st.integers(0, 12)),
        max_size=10,
    )
)
def test_deleted_ranges_are_a_set_of_offsets(steps):
    """Offset n has n bytes. The rows that change, put together, are the ranges."""
    ranges, rows, deleted, begin = NOTHING, {}, set(), 0
    for step, value in steps:
        if step == "erase":
            wanted = ranges_of(value, begin, 31)
            sizes = lambda stretches: [sum(range(*stretch)) for stretch in stretches]  # noqa: E731
            ranges, changes, count = erase(ranges, wanted, sizes)
            added = {offset for offset in value if offset >= begin} - deleted
            assert count == len(added)
            deleted |= added
        else:
            begin = max(begin, value)
            below = {offset for offset in deleted if offset < begin}
            ranges, changes = ranges.beyond(begin, sum(below))
            deleted -= below
        rows.update(changes)
        kept = {first: row for first, row in rows.items() if row}
        assert kept == dict(
            zip(ranges.firsts, zip(ranges.ends, ranges.sizes, strict=True), strict=True)
        )
        assert {n for n in range(40) if ranges.contains(n)} == deleted
        assert (ranges.count, ranges.bytes) == (len(deleted), sum(deleted))
        living = [n for first, end in ranges.living(begin, 40) for n in range(first, end)]
        assert living == [n for n in range(begin, 40) if n not in deleted]
        assert ranges.skip(begin) == living[0]
        assert all(end not in deleted for end in ranges.ends)


class LateFolder(InlineFolder):
    """Has the file at once, and says so after a few questions."""

    STEPS = 3

    def start(self, job):
        self._left = self.STEPS
        super().start(job)

    def result(self):
        self._left -= 1
        return super().result() if self._left < 0 else None

    def wait(self):
        self._left = 0


def open_store(path):
    return LmdbStore(
        path,
        64 * 1024,
        lambda _path, environment, files: LateFolder(environment, files),
        block_bytes=400,
    )


class StoreMachine(RuleBasedStateMachine):
    """Every step is done to both stores; every invariant compares them."""

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-store-"))
        self.model = MemoryStore()
        self.rules = RetentionRules()
        self.now_ms = 0
        self.copies = 0

    @initialize()
    def begin(self):
        self.store = open_store(self.directory / "0")

    def teardown(self):
        self.store.close()
        shutil.rmtree(self.directory)

    @rule(
        appended=runs,
        rows=st.dictionaries(st.sampled_from(TOPICS), st.none() | st.binary(max_size=4)),
        event=st.none() | st.integers(0, 9),
        back=st.none() | st.integers(0, 3),
        drops=st.just([]) | st.lists(st.sampled_from(TOPICS), max_size=2),
        is_small=st.booleans(),
    )
    def commit(self, appended, rows, event, back, drops, is_small):
        self.now_ms += 10
        batch = Batch()
        for topic in drops:
            batch.drop(topic)
        for run in appended:
            append(batch, run, self.now_ms)
        for key, value in rows.items():
            batch.add_row("t", key, value)
        if event is not None:
            batch.add_event(("e", event))
        if back is not None:
            batch.checkpoint = max(self.model.next_index - 1 - back, self.model._checkpoint)
        self._commit(batch, is_small=is_small)

    def _commit(self, batch, *, is_small):
        ours = (self.store.commit_small if is_small else self.store.commit)(batch)
        assert _place(ours) == _place(self.model.commit(batch))

    @rule(
        series=st.lists(st.tuples(runs, st.none() | st.binary(max_size=4)), max_size=6),
        crashes=st.booleans(),
    )
    def commit_some(self, series, crashes):
        """Small commits, of which no reader has seen any when the crash comes."""
        for appended, row in series:
            batch = Batch()
            for run in appended:
                append(batch, run, self.now_ms)
            batch.add_event(("e", 1))
            if row is not None:
                batch.add_row("t", b"a", row)
            self._commit(batch, is_small=True)
        if crashes:
            self.crash()

    @rule(default=limits, of_a=limits)
    def change_rules(self, default, of_a):
        """Only rarely, because then all topics are examined."""
        self.rules = RetentionRules(default, (TopicRetentionRule(is_a, of_a),))

    @rule(
        own=st.dictionaries(st.sampled_from(TOPICS), limits),
        behind=st.integers(0, 10),
        floors=st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 20)),
        low_water_marks=st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 20)),
    )
    def retain(self, own, behind, floors, low_water_marks):
        order = (
            msgspec.structs.replace(self.rules, by_topic=own),
            self.now_ms,
            max(self.model.next_sequence - behind, 1),
            ProtectedTopics(b"b", floors),
            low_water_marks,
        )
        plain = self.model.retain(RetentionRequest(*order))
        ours = RetentionResult(more=True)
        while ours.more:
            removed = self.store.retain(RetentionRequest(*order))
            ours.add(removed)
            ours.more = removed.more
        assert (ours.messages, ours.bytes) == (plain.messages, plain.bytes)
        assert ours.offsets == plain.offsets

    @rule(steps=st.integers(1, 12))
    def prepare(self, steps):
        """A few steps of a fold, if it is due."""
        for _ in range(steps):
            self.store.prepare()

    @rule()
    def fold(self):
        self.store.fold()

    @rule(kept=st.booleans(), file_bytes=st.integers(0, 2_000))
    def make_room(self, kept, file_bytes):
        """The total removes blocks; the plain store follows, as it has none."""
        before = {info.name: info for info in self.store.topics()}
        protected = ProtectedTopics(kept=(b"b",) if kept else ())
        request = RetentionRequest(self.rules, self.now_ms, 1, protected)
        while self.store._remove(request, file_bytes).more:
            pass
        removed = RetentionResult()
        for info in self.store.topics():
            if info.first_offset > before[info.name].first_offset:
                assert not (kept and info.name == b"b")
                self.model._cut(self.model._topics[info.name], info.first_offset, removed)
        self.model._removed_messages += removed.messages

    @rule(topic=st.sampled_from(TOPICS), offset=st.integers(0, 20))
    def trim(self, topic, offset):
        assert self.store.trim(topic, offset) == self.model.trim(topic, offset)

    @rule(topic=st.sampled_from(TOPICS), offsets=st.lists(st.integers(0, 20), max_size=6))
    def delete(self, topic, offsets):
        assert self.store.delete(topic, offsets) == self.model.delete(topic, offsets)

    @rule()
    def reopen(self):
        path = self.store._directory.path
        self.store.close()
        assert verify(path).faults == []
        self.store = open_store(path)

    @rule()
    def crash(self):
        """Only what is on disk at this moment remains."""
        self.copies += 1
        path = self.directory / f"{self.copies}"
        shutil.copytree(self.store._directory.path, path)
        self.store.close()
        self.store = open_store(path)

    @invariant()
    def same_messages(self):
        end = self.model.next_sequence
        assert (self.store.next_sequence, self.store.next_index) == (end, self.model.next_index)
        assert self.store.read(range(end + 1)) == self.model.read(range(end + 1))

    @invariant()
    def same_topics(self):
        assert sorted(map(_row, self.store.topics())) == sorted(map(_row, self.model.topics()))
        for topic in TOPICS:
            last = self.model.topic(topic)
            for offset in range(0, last.next_offset + 1 if last else 1, 3):
                for count_max, bytes_max in ((10**6, 10**6), (3, 20)):
                    ours = self.store.read_topic(topic, offset, count_max, bytes_max)
                    plain = self.model.read_topic(topic, offset, count_max, bytes_max)
                    assert list(ours.messages()) == list(plain.messages())
                    assert ours.first_offset == plain.first_offset
                    assert ours.next_offset == plain.next_offset
                assert _marked(self.store, topic, offset) == _read(self.store, topic, offset)

    @invariant()
    def same_history(self):
        """In steps of any size: all that is there of some topics, in order, each once."""
        end = self.model.next_sequence
        stored = [message for message in self.model.read(range(end)) if message is not None]
        for last, horizon in ((0, 0), (2, 0), (2, end // 2)):
            start = HistoryStart(last=last)
            plain = _history(self.model, start, horizon, 10**6)
            assert _history(self.store, start, horizon, 10**6) == plain
            assert _history(self.store, start, horizon, 2) == plain
            if not last:
                assert plain == [m for m in stored if m.topic.startswith(b"a")]

    @invariant()
    def same_state(self):
        assert list(self.store.rows("t")) == list(self.model.rows("t"))
        ours, plain = self.store.replay(), self.model.replay()
        assert [bytes(e.buffer) for e in ours] == [bytes(e.buffer) for e in plain]
        assert _size(self.store.size()) == _size(self.model.size())

    @invariant()
    def dead_messages_are_counted(self):
        """Of each block, and no block is left without a living message."""
        for each in self.store._blocks.current.blocks:
            dead = [self._dead_in(each.block, group) for group in each.block.groups()]
            messages, size = (sum(part) for part in zip(*dead, strict=True))
            assert (each.row.dead_messages, each.row.dead_bytes) == (messages, size)
            assert messages < each.row.summary.count

    def _dead_in(self, block, group):
        entry, number = block.opened(group.number)
        first = self._first_offset(group.topic_id, entry.group(number).name)
        end = min(max(first, group.first_offset), group.next_offset)
        if end == group.first_offset:
            return 0, 0
        part = GroupRange(entry, number, group.first_offset, end)
        return end - group.first_offset, part_bytes(part)

    def _first_offset(self, topic_id, name):
        """Where the messages of a topic begin that are not counted as dead."""
        if topic_id in self.store._dropped:
            return self.store._dropped[topic_id].state.first_offset
        with self.store._environment.reading() as transaction:
            row = self.store._reader.row_state(transaction, name)
        state = self.store._topics.get(name) or row
        return state.first_offset if state and state.id == topic_id else 2**63


def _marked(store, topic, offset):
    """Offsets, flags and schedules, out of marks read a few at a time."""
    found = []
    while True:
        marks = store.read_flags(topic, offset, 5)
        for first, count, flags in marks.runs:
            found += [
                (n, flags, *marks.schedule.get(n, (0, 0))) for n in range(first, first + count)
            ]
        if marks.next_offset == offset or not marks.runs:
            return found
        offset = marks.next_offset


def _history(store, start, horizon, count_max):
    history = History(b"a/#", lambda topic: topic.startswith(b"a"), start, horizon)
    found, low, end = [], 0, store.next_sequence
    while low < end:
        step = store.read_history(history, low, end, count_max, 40)
        assert step.next_sequence > low
        found += step.messages
        low = step.next_sequence
    return found


def _read(store, topic, offset):
    """The same, out of whole messages."""
    messages = store.read_topic(topic, offset, 10**6, 10**6).messages()
    extras = [(m.offset, m.flags, m.extras or Extras()) for m in messages]
    return [(number, flags, found.due_ms, found.expires_ms) for number, flags, found in extras]


def _place(commit):
    return (commit.index, commit.base_sequence, commit.bytes, commit.first_offsets)


def _row(info):
    return msgspec.structs.astuple(info)


def _size(size):
    return (size.messages, size.sequence_newest)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Folds and retention in steps of a handful, no time; age is exact, whatever that costs."""
    monkeypatch.setattr(tail_folding, "TOPICS_PER_STEP", 1)
    monkeypatch.setattr(tail_folding, "ENTRIES_PER_STEP", 2)
    monkeypatch.setattr(retention, "SLICE_STEPS", 5)
    monkeypatch.setattr(retention, "ENTRIES_PER_SLICE", 2)
    monkeypatch.setattr(expiry, "EXPIRED_GROUPS", 4)
    monkeypatch.setattr(total_limit, "SHRINK_GROUPS", 3)
    monkeypatch.setattr(lmdb_store, "RETAIN_S", 0)
    monkeypatch.setattr(unsettled, "WORTH_RECORDS", 0)
    for module in (excess, expiry):
        monkeypatch.setattr(module, "AGE_STEPS", 10**9)


@pytest.mark.usefixtures("small")
class TestStore(StoreMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
