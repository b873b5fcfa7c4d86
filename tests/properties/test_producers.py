"""Numbered messages against a dictionary and a queue, through checkpoints, failures and crashes."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import producers as module
from penstock.core.producers import Producers

TOPICS, NAMES, SEQS = (b"t", b"u"), (b"p", b"q"), range(24)

notes = st.tuples(
    st.just("note"),
    st.sampled_from(TOPICS),
    st.sampled_from(NAMES),
    st.integers(0, 16),  # seq
    st.integers(0, 2),  # messages without a number before it
    st.integers(1, 8),  # count
)
steps = st.lists(
    st.one_of(
        notes,
        notes,
        notes,
        st.tuples(st.just("forget"), st.sampled_from(TOPICS)),
        st.tuples(st.just("commit"), st.integers(1, 3)),
        st.tuples(st.just("fail"), st.integers(1, 3)),
        st.tuples(st.just("crash")),
    ),
    max_size=40,
)


@pytest.fixture(autouse=True, scope="module")
def _small_chunks():
    before, module.CHUNK_RUNS_MAX = module.CHUNK_RUNS_MAX, 3
    yield
    module.CHUNK_RUNS_MAX = before


class Model:
    """One dictionary entry for each message, and the order in which they came."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.offsets: dict[bytes, dict[tuple[bytes, int], int]] = {}
        self.order: dict[bytes, deque[tuple[bytes, int]]] = {}

    def note(self, topic: bytes, producer: bytes, seq: int, offset: int, count: int) -> None:
        offsets = self.offsets.setdefault(topic, {})
        order = self.order.setdefault(topic, deque())
        for distance in range(count):
            key = producer, seq + distance
            if key not in offsets:
                offsets[key] = offset + distance
                order.append(key)
            while len(order) > self.window:
                del offsets[order.popleft()]

    def forget_topic(self, topic: bytes) -> None:
        self.offsets.pop(topic, None)
        self.order.pop(topic, None)

    def find(self, topic: bytes, producer: bytes, seq: int) -> int | None:
        return self.offsets.get(topic, {}).get((producer, seq))


class Broker:
    """What surrounds the fold: a journal, rows on disk, rounds of the checkpoint."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.state = Producers(window)
        self.journal: list[tuple] = []
        self.ends: dict[bytes, int] = {}
        self.disk: dict[bytes, bytes] = {}
        self.mark = 0
        self.round: tuple[int, int] | None = None
        """Length of the journal when the round began, and how many rows are left."""

    def produce(self, topic: bytes, producer: bytes, seq: int, gap: int, count: int) -> list[tuple]:
        """Append what is not known yet; return what was noted, in runs."""
        self.ends[topic] = self.ends.get(topic, 0) + gap
        noted = []
        while count:
            new = self._unknown(topic, producer, seq, count)
            if new:
                noted.append((topic, producer, seq, self.ends[topic], new))
                self.write(("note", *noted[-1]))
                self.ends[topic] += new
            seq, count = seq + max(new, 1), count - max(new, 1)
        return noted

    def _unknown(self, topic: bytes, producer: bytes, seq: int, count: int) -> int:
        """How many of these, from the first on, are not known."""
        known = (n for n in range(count) if self.state.find(topic, producer, seq + n) is not None)
        return next(known, count)

    def write(self, entry: tuple) -> None:
        self.apply(entry)
        self.journal.append(entry)

    def forget(self, topic: bytes) -> None:
        self.ends.pop(topic, None)
        self.write(("forget", topic))

    def apply(self, entry: tuple) -> None:
        verb, *arguments = entry
        if verb == "note":
            self.state.note(*arguments)
        else:
            self.state.forget_topic(*arguments)

    def commit(self, count: int) -> None:
        """Write a slice of the round, and the mark with the last one."""
        began, left = self.round or (len(self.journal), self.state.dirty_count)
        rows = self.state.take_dirty(min(count, left))
        for key, row in rows:
            if row is None:
                self.disk.pop(key, None)
            else:
                self.disk[key] = row
        left -= len(rows)
        self.round = (began, left) if left else None
        if not left:
            self.mark = began

    def fail(self, count: int) -> None:
        """A slice was taken and could not be written: the round begins again some time."""
        self.state.mark_dirty([key for key, _ in self.state.take_dirty(count)])
        self.round = None

    def crash(self) -> None:
        self.state, self.round = Producers(self.window), None
        for key, row in sorted(self.disk.items()):
            self.state.load(key, row)
        for entry in self.journal[self.mark :]:
            self.apply(entry)


def check(state: Producers, model: Model) -> None:
    for topic in TOPICS:
        for name in NAMES:
            found = [state.find(topic, name, seq) for seq in SEQS]
            assert found == [model.find(topic, name, seq) for seq in SEQS]


def perform(broker: Broker, model: Model, step: tuple) -> None:
    match step:
        case ("note", *arguments):
            for run in broker.produce(*arguments):
                model.note(*run)
        case ("forget", topic):
            broker.forget(topic)
            model.forget_topic(topic)
        case ("commit", count):
            broker.commit(count)
        case ("fail", count):
            broker.fail(count)
        case _:
            broker.crash()


@given(st.sampled_from((1, 5, 12)), st.lists(notes, max_size=40))
def test_what_is_noted_again_stays_as_a_dictionary_and_a_queue_have_it(window, chosen):
    """The door records only unknown numbers; if it did not, the first offset and its age would win."""
    state, model, ends = Producers(window), Model(window), {}
    for _, topic, producer, seq, gap, count in chosen:
        offset = ends.get(topic, 0) + gap
        ends[topic] = offset + count
        state.note(topic, producer, seq, offset, count)
        model.note(topic, producer, seq, offset, count)
        check(state, model)


@given(st.sampled_from((1, 5, 12)), steps)
def test_whatever_happens_it_knows_what_a_dictionary_and_a_queue_know(window, chosen):
    broker, model = Broker(window), Model(window)
    for step in chosen:
        perform(broker, model, step)
        check(broker.state, model)
    broker.crash()
    check(broker.state, model)


@given(st.sampled_from((1, 5, 12)), steps)
def test_when_all_is_written_the_rows_alone_are_the_state(window, chosen):
    """And no row is left over: each belongs to an existing chunk."""
    broker, model = Broker(window), Model(window)
    for step in chosen:
        perform(broker, model, step)
    broker.round = None
    broker.commit(1_000)
    broker.crash()
    assert broker.mark == len(broker.journal)
    check(broker.state, model)
    assert {module._key(number) for number in broker.state._chunks} == broker.disk.keys()
