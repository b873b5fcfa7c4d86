"""Whatever was committed is read back from the block it was folded into, exactly."""

from collections.abc import Iterable
from itertools import chain, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model import columns
from penstock.model.message import Extras, Message, Signature
from penstock.store.batch import Batch
from penstock.store.blocks.block import Block
from penstock.store.blocks.fold import Fold, fold
from penstock.store.blocks.format import RAW, ZSTD
from penstock.store.entry import Entry, Placement, decode, encode
from penstock.store.raw import gather_raw
from penstock.store.slices import GroupRange, gather

EVERYTHING = 1 << 40


class Numbered(NamedTuple):
    """A message, its topic id, and which producer gave it which number."""

    topic_id: int
    message: Message
    producer: tuple[bytes, int] | None


class Append(NamedTuple):
    topic: int
    payloads: list[bytes]
    time_ms: int
    flags: int
    extras: list[Extras | None]
    producer: bytes  # empty: not numbered


signatures = st.builds(
    Signature,
    st.integers(1, 2),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=64, max_size=64),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=8),
)
texts = st.binary(max_size=5)
extras = st.builds(
    Extras,
    st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    st.none() | signatures,
    st.just(0) | st.integers(0, 2**64 - 1),
    st.just(0) | st.integers(0, 2**64 - 1),
)
payloads = st.binary(max_size=8) | st.integers(0, 900).map(bytes)
# times of a clock that is set back, and by more than an entry can express
times = st.integers(1_000, 1_003) | st.sampled_from([1, 2**33, 2**33 + 1, 2**40])


@st.composite
def appends(draw: st.DrawFn, topics: int, times: st.SearchStrategy[int]) -> Append:
    found = draw(st.lists(payloads, min_size=1, max_size=4))
    is_plain = draw(st.booleans())
    return Append(
        draw(st.integers(0, topics - 1)),
        found,
        draw(times),
        draw(st.sampled_from([0, 1, 0x7F, 0x301, 0x100])),
        [None if is_plain else draw(st.none() | extras) for _ in found],
        draw(st.sampled_from([b"", b"p", b"producer"])),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[list[Append]]:
    topics = draw(st.sampled_from([1, 3, 40]))
    entry = st.lists(appends(topics, times), max_size=6)
    return draw(st.lists(entry, min_size=1, max_size=8))


class Journal:
    """Entries as the store would write them, and what they hold."""

    def __init__(self, history: list[list[Append]]) -> None:
        self.entries: list[Entry] = []
        self.held: list[Numbered] = []
        self.next_sequence = 5
        self._next_offsets: dict[int, int] = {}
        self._seqs: dict[bytes, int] = {}
        for batch in history:
            self._commit(batch)

    def fold(self, **wanted: object) -> Fold:
        plan = {"number": 7, "base_sequence": 5, "end_sequence": self.next_sequence}
        return Fold(**{**plan, "first_index": 1, "last_index": len(self.entries), **wanted})

    def _commit(self, appends: list[Append]) -> None:
        batch, producers = Batch(), []
        for append in appends:
            topic = b"topic/%d" % append.topic
            group = batch.groups.get(topic)
            place = len(group.payloads) if group else 0
            batch.append(topic, append.payloads, append.time_ms, append.flags, append.extras)
            number = len(append.payloads)
            for count in range(number):
                seq = self._seqs.get(append.producer, 3) + count
                producers.append((append.producer, seq) if append.producer else None)
            if append.producer:
                seq = self._seqs.get(append.producer, 3)
                batch.add_producer_run(topic, place, number, append.producer, seq)
                self._seqs[append.producer] = seq + number + (append.flags & 1)
        self._store(batch, producers)

    def _store(self, batch: Batch, producers: list[tuple[bytes, int] | None]) -> None:
        placements = []
        for topic, group in batch.groups.items():
            topic_id = int(topic.removeprefix(b"topic/")) * 7 % 41
            first = self._next_offsets.get(topic_id, 2)
            placements.append(Placement(topic_id, first))
            self._next_offsets[topic_id] = first + len(group.payloads)
        data = encode(batch, len(self.entries) + 1, self.next_sequence, placements)
        entry = decode(data)
        for sequence in range(entry.base_sequence, entry.end_sequence):
            producer = producers[sequence - entry.base_sequence]
            self.held.append(Numbered(*entry.located(sequence), producer))
        self.entries.append(entry)
        self.next_sequence += batch.count


def folded(entries: Iterable[Entry], plan: Fold) -> Block:
    return Block(b"".join(fold(entries, plan)))


def by_topic(held: Iterable[Numbered]) -> list[Numbered]:
    return sorted(held, key=lambda found: (found.topic_id, found.message.offset))


def ranges(block: Block) -> list[tuple[int, GroupRange]]:
    found = []
    for group in block.groups():
        entry, number = block.opened(group.number)
        part = GroupRange(entry, number, group.first_offset, group.next_offset)
        found.append((group.topic_id, part))
    return found


def read(block: Block) -> list[Numbered]:
    """All that a block holds, as the store reads topics."""
    found = []
    for topic_id, part in ranges(block):
        (cut,) = gather([part], EVERYTHING, EVERYTHING)
        producers = {
            place + number: (producer, seq + number)
            for place, count, producer, seq in cut.producers
            for number in range(count)
        }
        name = part.entry.group(part.group).name
        for number, message in enumerate(cut.messages(name)):
            found.append(Numbered(topic_id, message, producers.get(number)))
    return found


def part_sizes() -> st.SearchStrategy[int]:
    return st.sampled_from([1, 300, 256 * 1024])


@settings(max_examples=50)
@given(histories(), part_sizes(), st.sampled_from([RAW, ZSTD]))
def test_a_fold_keeps_every_message(history, part_bytes, codec) -> None:
    journal = Journal(history)
    block = folded(journal.entries, journal.fold(part_bytes=part_bytes, codec=codec))
    assert read(block) == by_topic(journal.held)
    assert list(block.verify()) == []
    assert block.summary.count == len(journal.held)
    assert block.summary.payload_bytes == sum(len(m.payload) for _, m, _ in journal.held)
    times = [m.time_ms for _, m, _ in journal.held] or [0]
    assert (block.summary.oldest_ms, block.summary.newest_ms) == (min(times), max(times))


@settings(max_examples=50)
@given(histories(), part_sizes())
def test_a_block_finds_messages_by_topic_and_by_sequence(history, part_bytes) -> None:
    journal = Journal(history)
    block = folded(journal.entries, journal.fold(part_bytes=part_bytes))
    for topic_id, message, _ in journal.held:
        assert block.located(message.sequence) == (topic_id, message)
        group = block.group(block.find(topic_id, message.offset))
        assert group.topic_id == topic_id
        assert group.first_offset <= message.offset < group.next_offset
        assert group.newest_ms >= message.time_ms
    assert block.located(journal.next_sequence) is None
    assert block.located(4) is None
    for topic_id in {found.topic_id for found in journal.held}:
        end = max(m.offset for number, m, _ in journal.held if number == topic_id)
        assert block.find(topic_id, end + 1) == -1
    assert block.find(1_000) == -1


@settings(max_examples=50)
@given(histories(), part_sizes(), st.data())
def test_a_fold_leaves_out_what_is_dropped_or_cut_and_nothing_else(
    history, part_bytes, data
) -> None:
    journal = Journal(history)
    ids = st.integers(0, 40)
    dropped = data.draw(st.frozensets(ids, max_size=3))
    cuts = data.draw(st.dictionaries(ids, st.integers(0, 20)))
    plan = journal.fold(part_bytes=part_bytes, dropped=dropped, cuts=cuts)
    block = folded(journal.entries, plan)
    kept = [
        found
        for found in journal.held
        if found.topic_id not in dropped and found.message.offset >= cuts.get(found.topic_id, 0)
    ]
    assert read(block) == by_topic(kept)
    for found in journal.held:
        expected = (found.topic_id, found.message) if found in kept else None
        assert block.located(found.message.sequence) == expected


@settings(max_examples=50)
@given(histories(), part_sizes(), part_sizes(), st.data())
def test_a_fold_of_blocks_is_the_fold_of_all_they_were_made_of(
    history, part_bytes, other_bytes, data
) -> None:
    journal = Journal(history)
    size = len(journal.entries)
    ends = sorted(data.draw(st.sets(st.integers(1, size), max_size=3)) | {0, size})
    blocks = []
    for number, (first, end) in enumerate(pairwise(ends)):
        entries = journal.entries[first:end]
        base, stop = entries[0].base_sequence, entries[-1].end_sequence
        plan = Fold(number, base, stop, first + 1, end, part_bytes=part_bytes)
        blocks.append(folded(entries, plan))
    plan = journal.fold(part_bytes=other_bytes)
    again = folded(chain.from_iterable(block.entries() for block in blocks), plan)
    at_once = folded(journal.entries, plan)
    assert read(again) == read(at_once) == by_topic(journal.held)
    assert list(again.verify()) == []


@settings(max_examples=50)
@given(histories(), part_sizes())
def test_bulk_reads_get_the_same_columns_from_parts_as_from_entries(history, part_bytes) -> None:
    journal = Journal(history)
    block = folded(journal.entries, journal.fold(part_bytes=part_bytes))
    found = []
    for topic_id, part in ranges(block):
        for cut in gather_raw([part], EVERYTHING, EVERYTHING, columns.ALL):
            bounds, blob = cut.payloads
            ends = memoryview(bounds).cast("I").tolist()
            starts = [*memoryview(cut.runs[0]).cast("I"), cut.messages]
            positions = memoryview(cut.runs[1]).cast("I")
            for run, (start, end) in enumerate(pairwise(starts)):
                for number in range(start, end):
                    payload = bytes(blob[ends[number] - ends[0] : ends[number + 1] - ends[0]])
                    sequence = cut.base_sequence + positions[run] + number - start
                    found.append((topic_id, cut.first_offset + number, sequence, payload))
    assert found == [
        (topic_id, m.offset, m.sequence, m.payload) for topic_id, m, _ in by_topic(journal.held)
    ]


@pytest.mark.parametrize("codec", [RAW, ZSTD])
def test_a_block_without_messages_is_sound(codec) -> None:
    block = folded([], Fold(1, 5, 9, 3, 4, codec=codec))
    assert list(block.verify()) == list(block.groups()) == list(block.entries()) == []
    assert block.find(0) == -1
    assert block.located(5) is None
