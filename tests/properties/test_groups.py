"""Groups against a model that keeps one record per message, and against their own replay."""

from copy import deepcopy

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.commands import (
    Claimed,
    ConsumerGone,
    ConsumerMade,
    GroupGone,
    GroupMade,
    GroupMoved,
    Returned,
    Settled,
    Taken,
    from_event,
    to_event,
)
from penstock.core.groups import Groups, row_key
from tests.group_rows import RowsOnDisk, state_of

T, G = b"t", b"g"
KEY = row_key(T, G)
consumers = st.sampled_from([b"a", b"b", b"c"])
offsets = st.integers(0, 24)


class Model:
    """A naive group: who has which message, since when, how often."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.consumers: set[bytes] = set()
        self.pending: dict[int, tuple[bytes | None, int, int]] = {}

    def take(self, shares, first, end, now_ms, gone, *, settle):
        is_gone = {offset for start, stop in gone for offset in range(start, stop)}
        for offset in [o for o, p in self.pending.items() if p[0] is None and o < first]:
            del self.pending[offset]
        self.next = max(self.next, first)
        given = []
        for name, count in shares:
            self.consumers.add(name)
            mine = []
            while len(mine) < count and (offset := self._following(end, is_gone)) is not None:
                mine.append(offset)
                self._give(name, offset, now_ms, settle=settle)
            if mine:
                given.append((name, mine))
        return given

    def _following(self, end, is_gone):
        returned = [o for o, pending in self.pending.items() if pending[0] is None]
        if returned:
            return min(returned)
        fresh = [offset for offset in range(self.next, end) if offset not in is_gone]
        if fresh:
            self.next = fresh[0] + 1
        return fresh[0] if fresh else None

    def _give(self, name, offset, now_ms, *, settle):
        known = self.pending.get(offset)
        is_returned = known is not None and known[0] is None
        if not settle:
            self.pending[offset] = (name, now_ms, known[2] + 1 if is_returned else 1)
        elif is_returned:
            del self.pending[offset]

    def claim(self, command: Claimed):
        claimed = []
        for offset in command.offsets:
            known = self.pending.get(offset)
            if known is None and not command.forces:
                continue
            holder, since, times = known or (None, 0, 1)
            if known and command.renews and holder != command.consumer:
                continue
            if holder is not None and command.now_ms - since < command.min_idle_ms:
                continue
            times = times + command.counts if command.deliveries is None else command.deliveries
            self.pending[offset] = (command.consumer, command.taken_ms, times)
            self.consumers.add(command.consumer)
            claimed.append(offset)
        return claimed


class GroupMachine(RuleBasedStateMachine):
    """Commands in any order; now and then the checkpoint is taken, or the broker dies."""

    @initialize(start=st.integers(0, 3))
    def begin(self, start):
        self.groups = Groups()
        self.model: Model | None = None
        self.disk = RowsOnDisk()
        self.entries: list[tuple[int, tuple]] = []
        self.index = 0
        self.first = self.end = 0
        self.now_ms = 1_000
        self.make(start)

    def do(self, command):
        """Journal a command, apply it, return its result."""
        self.index += 1
        self.entries.append((self.index, to_event(command)))
        return self.groups.apply(command, self.index, recovering=False)

    @rule(start=st.integers(0, 3))
    def make(self, start):
        assert self.do(GroupMade(T, G, start)) is (self.model is None)
        self.model = self.model or Model(start)

    @rule()
    def destroy(self):
        assert self.do(GroupGone(T, G)) is (True if self.model else None)
        self.model = None

    @rule(start=offsets)
    def move(self, start):
        outcome = self.do(GroupMoved(T, G, start))
        if self.model and not any(holder is None for holder, _, _ in self.model.pending.values()):
            assert outcome is True
        if self.model:
            self.model.next = start

    @rule(count=st.integers(1, 5), ms=st.integers(0, 50))
    def publish(self, count, ms):
        self.end += count
        self.now_ms += ms

    @rule(count=st.integers(1, 3))
    def retain(self, count):
        self.first = min(self.end, self.first + count)

    @rule(
        shares=st.lists(st.tuples(consumers, st.integers(1, 4)), min_size=1, max_size=3),
        settle=st.booleans(),
        holes=st.sets(offsets, max_size=6),
    )
    def take(self, shares, settle, holes):
        gone = [(offset, offset + 1) for offset in sorted(holes)]
        command = Taken(T, G, shares, self.first, self.end, self.now_ms, settle, gone)
        got = self.do(command)
        if self.model is None:
            assert got is None
            return
        expected = self.model.take(shares, self.first, self.end, self.now_ms, gone, settle=settle)
        assert [(share.consumer, share.offsets) for share in got] == expected

    @rule(ranges=st.lists(st.tuples(offsets, st.integers(0, 40)), max_size=3))
    def settle(self, ranges):
        stretches = [(start, start + count) for start, count in ranges]
        settled = self.do(Settled(T, G, stretches))
        if self.model:
            done = {o for start, end in stretches for o in range(start, end)} & {
                *self.model.pending
            }
            assert settled == len(done)
            for offset in done:
                del self.model.pending[offset]

    @rule(name=consumers)
    def give_back(self, name):
        count = self.do(Returned(T, G, name))
        if self.model:
            held = [o for o, pending in self.model.pending.items() if pending[0] == name]
            assert count == len(held)
            for offset in held:
                _, since, times = self.model.pending[offset]
                self.model.pending[offset] = (None, since, times)
            self.model.consumers.discard(name)

    @rule(name=consumers)
    def remove(self, name):
        count = self.do(ConsumerGone(T, G, name))
        if self.model:
            held = [o for o, pending in self.model.pending.items() if pending[0] == name]
            assert count == len(held)
            for offset in held:
                del self.model.pending[offset]
            self.model.consumers.discard(name)

    @rule(name=consumers)
    def make_consumer(self, name):
        is_new = self.do(ConsumerMade(T, G, name, self.now_ms))
        if self.model:
            assert is_new is (name not in self.model.consumers)
            self.model.consumers.add(name)

    @rule(
        name=consumers,
        wanted=st.lists(offsets, max_size=4),
        min_idle_ms=st.sampled_from([0, 20, 100]),
        deliveries=st.none() | st.integers(0, 9),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
    def claim(self, name, wanted, min_idle_ms, deliveries, flags):
        counts, forces, renews = flags
        command = Claimed(
            T, G, name, wanted, min_idle_ms, self.now_ms, self.now_ms, deliveries, counts,
            forces, renews,
        )  # fmt: skip
        claimed = self.do(command)
        if self.model:
            assert claimed == self.model.claim(command)

    @rule()
    def checkpoint(self):
        """The row is taken now; the entries before it need not be there for a start any more."""
        self.disk.write(self.groups, KEY, self.index)
        self.entries.clear()

    @rule()
    def row_without_mark(self):
        """The row is newer than the mark: replay meets entries that it contains."""
        self.disk.write(self.groups, KEY, self.index)

    @rule()
    def die(self):
        """Rows and entries restore the state."""
        before = state_of(self.groups.get(T, G))
        self.groups = self.disk.load()
        for index, event in deepcopy(self.entries):
            self.groups.apply(from_event(event), index, recovering=True)
        assert state_of(self.groups.get(T, G)) == before

    @invariant()
    def the_group_is_what_the_model_says(self):
        if not hasattr(self, "groups"):
            return
        group = self.groups.get(T, G)
        assert (group is None) is (self.model is None)
        if group is None or self.model is None:
            return
        assert group.next == self.model.next
        assert {*group.consumers} == self.model.consumers
        found = {o: (p.consumer, p.taken_ms, p.deliveries) for o, p in group.pending.items()}
        assert found == self.model.pending
        assert group.returned.offsets() == sorted(o for o, p in found.items() if p[0] is None)
        for name, consumer in group.consumers.items():
            assert consumer.pending == {o for o, pending in found.items() if pending[0] == name}


TestGroups = GroupMachine.TestCase
