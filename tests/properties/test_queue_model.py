"""Work queues against a naive model written from the specification.

The model keeps a record for every message that was handed out, sorts all candidates for every poll,
and looks at every message when time passes. The broker's state, which does none of this, is driven
with the same commands, in the way in which a dispatcher does it: messages are *chosen*, other things
happen, and then what was chosen is *handed out*. Now and then a checkpoint is taken, or the broker
dies and comes back from rows and entries.

After each step both must agree on every message: new, in flight, to be redelivered, delayed, failed
too often, or done. At the end time passes until nothing is held back, and every unfinished message
must be delivered, the oldest at least every fourth time.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core import group as group_module
from penstock.core import group_row as group_row_module
from penstock.core.broker import Broker
from penstock.core.commands import (
    DeadLettered,
    GroupCommitted,
    GroupConfigured,
    GroupGone,
    GroupMade,
    GroupMoved,
    Leased,
    LeasesExtended,
    LeasesReturned,
    LeasesSettled,
    Resumed,
    Returned,
    Swept,
    TopicConfigured,
    TopicGone,
    from_event,
    to_event,
)
from penstock.core.effects import Effects, Outcome
from penstock.core.group_row import encode_chunk, encode_group
from penstock.core.groups import Group
from penstock.core.pending import NEVER_MS
from penstock.core.priority_offsets import OffsetsByPriority
from penstock.core.selection import Picker
from penstock.obs.counters import Counters
from tests.properties.queue_model import Message, ModelGroup, Record, Topic

T = b"t"
names = st.sampled_from([b"g", b"h"])
workers = st.sampled_from([b"", b"", b"ann", b"bob"])
places = st.lists(st.integers(0, 9), min_size=1, max_size=5)
"""Index into all leases; some have expired, and must not matter."""
polls = st.lists(st.tuples(st.integers(1, 9), workers), min_size=1, max_size=3)
producers = st.tuples(st.sampled_from([b"", b"p", b"q"]), st.integers(0, 5))


Row = tuple[str, bytes, bytes | None]
"""Table, key, and row; None: no row."""

Rows = dict[tuple[str, bytes], bytes | None]


@dataclass
class Deal:
    """Messages that were chosen: by the broker's code, and by the model."""

    version: int
    picker: Picker
    shares: list[tuple[bytes, list[tuple[int, int, int]]]]
    expected: list[list[int]]
    group: ModelGroup


class QueueMachine(RuleBasedStateMachine):
    """One topic, two groups; commands in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._small_chunks = ExitStack()
        for module in (group_module, group_row_module):
            self._small_chunks.enter_context(patch.object(module, "CHUNK_BITS", 2))
        self.broker = Broker(Counters())
        self.topic = Topic()
        self.groups: dict[bytes, ModelGroup] = {}
        self.deals: dict[bytes, Deal] = {}
        self.lanes = OffsetsByPriority(0)
        self.now_ms = 1_000
        self.index = 0
        self.rows: Rows = {}
        self.entries: list[tuple[int, Any]] = []
        """Since the checkpoint: commands, or notes of numbered messages."""
        self.history: list[tuple[int, Any]] = []
        """All of them since the beginning."""

    @initialize()
    def begin(self) -> None:
        for name in (b"g", b"h"):
            self._make(name)
        self.produce(6, 0, 0, 0, (b"", 0))

    def do(self, command: Any) -> Any:
        """Journal a command, apply it, return its result."""
        self.index += 1
        self._journal(to_event(command))
        effects = Effects()
        self.broker.begin(self.index, 0)
        self.broker.apply(command, self, effects)
        [outcome] = effects.controls
        assert isinstance(outcome, Outcome)
        return outcome.value

    def _journal(self, entry: Any) -> None:
        self.entries.append((self.index, entry))
        self.history.append((self.index, entry))

    def group(self, name: bytes) -> Group:
        group = self.broker.groups.get(T, name)
        assert group is not None
        return group

    # ── topics ────────────────────────────────────────────────────────────────────────────────

    @rule(
        amount=st.integers(1, 6),
        priority=st.sampled_from([0, 0, 3, 7]),
        delay_ms=st.sampled_from([0, 0, 0, 80]),
        ttl_ms=st.sampled_from([0, 0, 0, 150]),
        numbered=producers,
    )
    def produce(self, amount, priority, delay_ms, ttl_ms, numbered) -> None:
        producer, seq = numbered
        if producer:
            amount = 1
            found = self.broker.producers.find(T, producer, seq)
            assert found == self.topic.offsets.get(numbered)
            if found is not None:
                return
        due_ms = self.now_ms + delay_ms if delay_ms else 0
        expires_ms = self.now_ms + ttl_ms if ttl_ms else 0
        start = self.topic.end
        for offset in range(start, start + amount):
            self.topic.messages[offset] = Message(priority, due_ms, expires_ms)
            self._backlog(offset)
        if producer:
            self.topic.offsets[numbered] = start
            self.index += 1
            note = (T, producer, seq, start, 1)
            self._journal(note)
            self.broker.producers.note(*note)

    def _backlog(self, offset: int) -> None:
        message = self.topic.messages[offset]
        self.lanes.extend(offset, 1, message.priority)
        if message.due_ms or message.expires_ms:
            self.lanes.schedule(offset, message.due_ms, message.expires_ms)

    def _restock(self, start: int) -> None:
        self.lanes = OffsetsByPriority(start)
        for offset in range(start, self.topic.end):
            self._backlog(offset)

    @rule(keep=st.integers(3, 20))
    def retain(self, keep) -> None:
        """Retention leaves this many messages."""
        self.topic.first = max(self.topic.first, self.topic.end - keep)

    @rule(ms=st.integers(1, 200))
    def wait(self, ms) -> None:
        self.now_ms += ms

    @rule(rate_milli=st.none() | st.integers(0, 9), keep=st.none() | st.booleans())
    def configure_topic(self, rate_milli, keep) -> None:
        is_new = self.broker.topics.get(T) is None
        assert self.do(TopicConfigured(T, rate_milli=rate_milli, keep=keep)) is is_new

    @rule()
    def delete_topic(self) -> None:
        """Clients that wait for its messages then wait for those of the next topic of this name."""
        self.do(TopicGone(T))
        assert self.broker.topics.get(T) is None
        assert not self.broker.groups.count
        names, self.groups = [*self.groups], {}
        self.topic, self.lanes = Topic(), OffsetsByPriority(0)
        for name in names:
            self._make(name)

    # ── groups ────────────────────────────────────────────────────────────────────────────────

    def _make(self, name: bytes, *, is_first: bool = True) -> None:
        """Create a group, at the beginning or at the end."""
        topic, groups = self.topic, self.broker.groups
        start = max(topic.first, groups.floor(T, topic.first)) if is_first else topic.end
        is_rest = is_first and start >= groups.retired.low(T)
        since = 0 if is_first else start
        assert self.do(GroupMade(T, name, start, since=since, rest=is_rest)) is True
        assert self.do(GroupMade(T, name, topic.end)) is False
        model = self.groups[name] = ModelGroup(topic, start, since)
        if is_rest:
            self._inherit(self.group(name), model)

    def _inherit(self, group: Group, model: ModelGroup) -> None:
        """It gets unfinished messages, counts deliveries from 0, and is responsible for them."""
        model.done |= self.topic.done
        self.topic.done = {*range(self.broker.groups.retired.low(T))}
        for offset in range(self.topic.first, self.topic.end):
            is_passed = offset < group.heads[self.topic.messages[offset].priority]
            if is_passed and offset not in model.done:
                model.records[offset] = Record(until_ms=group.pending[offset].until_ms)

    @rule(name=names, is_first=st.booleans())
    def delete(self, name, is_first) -> None:
        """What it finished stays finished, and the rest waits for the next group."""
        self._remember(name)
        assert self.do(GroupGone(T, name, self._done())) is True
        assert self.do(Swept(T, name, self.now_ms)) is None
        del self.groups[name]
        self._make(name, is_first=is_first)

    def _done(self) -> int:
        done = self.broker.groups.reach(T, self.topic.first)
        assert done <= self.topic.done_until(self.groups.values(), self.topic.first)
        return done

    def _remember(self, name: bytes) -> None:
        model = self.groups[name]
        if model.since <= max(self._done(), self.broker.groups.retired.low(T)):
            self.topic.done |= {*range(model.since)}
            self.topic.done |= {o for o in model.done if model.since <= o}

    @rule(name=names, start=st.integers(0, 30))
    def seek(self, name, start) -> None:
        start = min(start, self.topic.end)
        if start < self.group(name).oldest_unsettled:
            self._remember(name)
        self.do(GroupMoved(T, name, start, self._done()))
        model = self.groups[name]
        model.move(start)
        model.since = min(model.since, start)

    @rule(name=names, offset=st.integers(0, 30))
    def commit(self, name, offset) -> None:
        offset = min(offset, self.topic.end)
        ahead = min(self.group(name).ahead, self.topic.end - offset)
        self.do(GroupCommitted(T, name, offset, ahead))
        self.groups[name].commit(offset)

    @rule(
        name=names,
        max_deliveries=st.none() | st.integers(0, 3),
        backoff_ms=st.none() | st.sampled_from([0, 30]),
        backoff_max_ms=st.none() | st.sampled_from([0, 50]),
    )
    def configure(self, name, max_deliveries, backoff_ms, backoff_max_ms) -> None:
        changes = (max_deliveries, backoff_ms, backoff_max_ms)
        self.do(GroupConfigured(T, name, *changes))
        attributes = ("max_deliveries", "backoff_ms", "backoff_max_ms")
        for attribute, value in zip(attributes, changes, strict=True):
            if value is not None:
                setattr(self.groups[name], attribute, value)

    # ── handing out ───────────────────────────────────────────────────────────────────────────

    @rule(name=names, asked=polls)
    def choose(self, name, asked) -> None:
        """What a dispatcher does when a worker wants messages."""
        if name in self.deals:
            return
        group, model = self.group(name), self.groups[name]
        self._sweep_if_due(name)
        picker = self._picker(group)
        want = min(sum(maximum for maximum, _ in asked), picker.available())
        candidates = model.candidates(self.now_ms)
        deal = Deal(group.version, picker, [], [], model)
        for number, (maximum, worker) in enumerate(asked):
            runs = picker.pick(min(maximum, want), group.polls + number)
            if not runs:
                break
            want -= len(_offsets(runs))
            expected = model.select(maximum, model.polls + number, candidates)
            candidates -= set(expected)
            deal.shares.append((worker, runs))
            deal.expected.append(expected)
        else:
            number += 1
        assert number == len(asked) or not candidates
        if deal.shares or picker.delayed or picker.expired:
            self.deals[name] = deal

    @rule(name=names, asked=polls, visibility_ms=st.sampled_from([40, 400]))
    def poll(self, name, asked, visibility_ms) -> None:
        """The usual case: nothing happens in between."""
        self.choose(name, asked)
        self.hand_out(name, visibility_ms)

    @rule(name=names, asked=polls, priority=st.sampled_from([1, 4, 7]))
    def poll_while_it_grows(self, name, asked, priority) -> None:
        """Messages are stored after some were chosen, of a priority that there was not before."""
        self.choose(name, asked)
        self.produce(1, priority, 0, 0, (b"", 0))
        self.hand_out(name, 400)

    @rule(name=names, back=st.integers(1, 9))
    def poll_again(self, name, back) -> None:
        """Request messages that are in flight or delayed."""
        self.hand_out(name, 400)
        self.seek(name, max(self.group(name).next - back, self.topic.first))
        self.poll(name, [(back, b"")], 400)

    def _picker(self, group: Group) -> Picker:
        start = max(group.next, self.topic.first)
        if start < self.lanes.start:
            self._restock(start)
        return Picker(
            self.lanes, group.heads, group.returned.by_priority, self.topic.first, self.now_ms
        )

    def _sweep_if_due(self, name: bytes) -> None:
        wakes_ms = self.group(name).wakes_ms()
        if wakes_ms is not None and wakes_ms <= self.now_ms:
            self.do(Swept(T, name, self.now_ms))
            self.groups[name].sweep(self.now_ms)

    @rule(name=names, visibility_ms=st.sampled_from([40, 400]))
    def hand_out(self, name, visibility_ms) -> None:
        """Commit what was chosen; anything may have happened meanwhile."""
        deal = self.deals.pop(name, None)
        if deal is None:
            return
        command = self._leased(name, deal, self.now_ms + visibility_ms)
        is_void = self.group(name).version != deal.version
        assert is_void or deal.group is self.groups[name], "chosen from another group"
        shares = self.do(command)
        assert (shares is None) is is_void
        if not is_void:
            deal.group.forget_removed()
            self._compare(deal, command, shares)
            self._pass_over(deal)

    def _leased(self, name: bytes, deal: Deal, until_ms: int) -> Leased:
        picker = deal.picker
        return Leased(
            T,
            name,
            deal.version,
            self.topic.first,
            picker.heads,
            picker.ahead,
            self.broker.groups.next_lease,
            self.now_ms,
            [(worker, 0 if worker else until_ms, runs) for worker, runs in deal.shares],
            picker.delayed,
            picker.expired,
        )

    def _compare(self, deal: Deal, command: Leased, shares: list[Any]) -> None:
        """The broker gives each worker what the model gives it, under the same leases."""
        planned = command.first_lease
        for chosen, expected, share in zip(command.shares, deal.expected, shares, strict=True):
            worker, until_ms, runs = chosen
            assert _offsets(runs) == expected
            given: list[int] = []
            for offset in expected:
                lease = planned + len(given)
                if deal.group.hand_out(offset, lease, worker, until_ms):
                    deal.group.records[offset].taken_ms = self.now_ms
                    given.append(offset)
            assert share.offsets == given
            assert share.lease == planned
            assert share.deliveries == [deal.group.records[o].deliveries for o in given]
            planned += len(_offsets(runs))
        deal.group.polls += len(shares)

    def _pass_over(self, deal: Deal) -> None:
        """Delayed messages wait; expired ones are gone."""
        for offset, due_ms, _ in deal.picker.delayed:
            deal.group.pass_over(offset, due_ms)
        for offset in deal.picker.expired:
            deal.group.pass_over(offset, 0)

    # ── taking back ───────────────────────────────────────────────────────────────────────────

    def _some(
        self, name: bytes, places: list[int], held: dict[int, int] | None = None
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """Some leases of a group as ranges, and the offsets of those that have not expired."""
        held = self.groups[name].leased() if held is None else held
        leases = dict(enumerate(sorted(held)))
        chosen = {leases.get(place, self.broker.groups.next_lease - place) for place in places}
        stretches = [(lease, lease + 1) for lease in sorted(chosen)]
        return stretches, [held[lease] for lease in sorted(chosen) if lease in held]

    @rule(name=names, places=places)
    def ack(self, name, places) -> None:
        """Also late, if no other worker was given the message since."""
        stretches, held = self._some(name, places, self.groups[name].acknowledgeable())
        assert self.do(LeasesSettled(T, name, stretches)) == len(held)
        self.groups[name].settle(held)

    @rule(
        name=names,
        places=places,
        delay_ms=st.sampled_from([0, 0, 60]),
        counts=st.sampled_from([True, True, False]),
        fails=st.sampled_from([True, True, False]),
        is_final=st.sampled_from([False, False, True]),
    )
    def nack(self, name, places, delay_ms, counts, fails, is_final) -> None:
        stretches, held = self._some(name, places)
        terms = delay_ms, b"why", counts, fails, is_final
        back = LeasesReturned(T, name, stretches, self.now_ms, *terms)
        assert self.do(back) == len(held)
        model = self.groups[name]
        for offset in held:
            record = model.records[offset]
            pause_ms = delay_ms
            if not counts:
                record.deliveries -= 1
            elif fails:
                pause_ms = max(pause_ms, model.backoff(record.deliveries))
            until_ms = self.now_ms + pause_ms if pause_ms else 0
            model.give_back(offset, NEVER_MS if is_final else until_ms)

    @rule(name=names, places=places, visibility_ms=st.sampled_from([1, 300]))
    def extend(self, name, places, visibility_ms) -> None:
        stretches, held = self._some(name, places)
        deadline_ms = self.now_ms + visibility_ms
        assert self.do(LeasesExtended(T, name, stretches, deadline_ms)) == len(held)
        for offset in held:
            self.groups[name].records[offset].until_ms = deadline_ms

    @rule()
    def resume(self) -> None:
        """After downtime, leases are extended."""
        self.do(Resumed(self.now_ms))
        for model in self.groups.values():
            for record in model.records.values():
                if record.lease is not None and record.until_ms:
                    more_ms = max(record.until_ms - record.taken_ms, 0)
                    record.until_ms = max(record.until_ms, self.now_ms + more_ms)

    @rule(name=names)
    def sweep(self, name) -> None:
        self.do(Swept(T, name, self.now_ms))
        self.groups[name].sweep(self.now_ms)

    @rule(name=names, worker=st.sampled_from([b"ann", b"bob"]))
    def leave(self, name, worker) -> None:
        model = self.groups[name]
        held = [o for o, record in model.records.items() if record.holder == worker]
        assert self.do(Returned(T, name, worker)) == len(held)
        for offset in held:
            model.give_back(offset, 0)

    @rule(name=names, most=st.integers(1, 3))
    def bury(self, name, most) -> None:
        model = self.groups[name]
        dead = [o for o, record in model.records.items() if model.is_exhausted(record)][:most]
        assert {*dead} <= {*self.group(name).exhausted}
        assert self.do(DeadLettered(T, name, dead)) == len(dead)
        model.settle(dead)
        model.dead_letters += len(dead)

    # ── dying ─────────────────────────────────────────────────────────────────────────────────

    @rule(marks=st.booleans(), slices=st.sampled_from([1, 2, 3]))
    def checkpoint(self, marks, slices=1) -> None:
        """Rows are written; with the mark, what they contain is not replayed any more.

        Without it the broker may die when some of them are written and others are not.
        """
        keys = [*self.broker.groups.dirty][:: 1 if marks else slices]
        self.rows.update({row[:2]: row[2] for row in self._changed_rows(keys)})
        for key in keys:
            del self.broker.groups.dirty[key]
        self.broker.topics.dirty.clear()
        if marks:
            self.entries.clear()

    def _changed_rows(self, keys: list[bytes]) -> Iterator[Row]:
        groups, topics = self.broker.groups, self.broker.topics
        for key in keys:
            yield from groups.rows(key, self.index)
        for key in topics.dirty:
            yield "settings", key, topics.row(key, self.index)
        for key, row in self.broker.producers.take_dirty(1_000):
            yield "producers", key, row

    @rule(rests=st.booleans())
    def die(self, rests) -> None:
        """Rows and entries restore the state; what was chosen is forgotten.

        A broker that was idle long enough before has written all changes.
        """
        if rests:
            self.checkpoint(marks=True)
        before = state(self.broker)
        self.broker = _recovered(self.rows, deepcopy(self.entries))
        assert state(self.broker) == before
        self.deals.clear()
        unsettled = [group.oldest_unsettled for group in self.broker.groups]
        self._restock(min([*unsettled, self.topic.end]))

    @rule(name=names, places=places, back=st.integers(0, 9), verb=st.integers(0, 4))
    def change_one_thing_between_two_lives(self, name, places, back, verb) -> None:
        """Checkpoint, one change, checkpoint: the change must have been noticed."""
        self.die(rests=True)
        if verb == 0:
            self.ack(name, places)
        elif verb == 1:
            self.nack(name, places, 0, True, True, back == 0)
        elif verb == 2:
            self.extend(name, places, 300)
        elif verb == 3:
            self.commit(name, max(self.group(name).next - back, 0))
        else:
            self.wait(400)
            self.sweep(name)
        self.die(rests=True)

    # ── what must hold ────────────────────────────────────────────────────────────────────────

    @invariant()
    def nothing_is_let_go_that_somebody_has_to_do(self) -> None:
        """Below the floor all was done, by a group that was entitled to it; and none is behind."""
        first = self.topic.first
        floor = self.broker.groups.floor(T, first)
        assert floor <= self.topic.done_until(self.groups.values(), first)
        for model in self.groups.values():
            assert all(o in model.done for o in range(max(first, model.since), floor))

    @invariant()
    def groups_are_what_the_model_says(self) -> None:
        for name, model in self.groups.items():
            self._check_leases(self.group(name), model)
            self._check_messages(self.group(name), model)

    def _check_leases(self, group: Group, model: ModelGroup) -> None:
        """No message is with two at once, and a lease is there until it is settled or swept."""
        assert len({*group.leases.values()}) == len(group.leases)
        assert group.leases == model.leased()
        assert group.in_flight == len(group.leases)
        assert (group.polls, group.dead_letters) == (model.polls, model.dead_letters)

    def _check_messages(self, group: Group, model: ModelGroup) -> None:
        """Each message is in the expected state, and none is lost."""
        returned, topic = {*group.returned.offsets()}, self.topic
        for offset in range(topic.first, topic.end):
            record, pending = model.records.get(offset), group.pending.get(offset)
            is_ahead = offset >= group.heads[topic.messages[offset].priority]
            if record is None:
                assert pending is None
                assert is_ahead is (offset not in model.done)
                continue
            assert is_ahead is (offset in model.again)
            assert pending is not None, f"{offset} is lost"
            assert pending.deliveries == record.deliveries
            assert (pending.consumer is None) is (record.lease is None)
            assert pending.until_ms == record.until_ms
            assert (offset in group.exhausted) is model.is_exhausted(record)
            assert (offset in returned) is model.is_returned(record)

    def teardown(self) -> None:
        try:
            assert state(_recovered({}, self.history)) == state(self.broker), "not deterministic"
            for name in self.groups:
                self._drain(name)
        finally:
            self._small_chunks.close()

    def _ack_held(self, name: bytes) -> None:
        """Acknowledge what is in flight, and nothing late."""
        held = self.groups[name].leased()
        assert self.do(LeasesSettled(T, name, [(n, n + 1) for n in sorted(held)])) == len(held)
        self.groups[name].settle(held.values())

    def _drain(self, name: bytes) -> None:
        """Every unfinished message is delivered, and the oldest is never passed over often."""
        model = self.groups[name]
        self.deals.clear()
        for worker in (b"ann", b"bob"):
            self.leave(name, worker)
        self.configure(name, 0, 0, 0)
        self.wait(10_000)  # leases got their time again with each resume
        left, passed = len(self.topic.messages) + 1, 0
        while self.topic.first < self.topic.end:
            self._sweep_if_due(name)
            candidates = model.candidates(self.now_ms)
            if not candidates:
                break
            self.choose(name, [(1, b"")])
            self.hand_out(name, 400)
            self._ack_held(name)
            passed = passed + 1 if min(candidates) in model.candidates(self.now_ms) else 0
            assert passed < 4
            left -= 1
            assert left, "it never ends"
        expected = [o for o in range(self.topic.first, self.topic.end) if o not in model.done]
        assert all(self.topic.is_over(offset, self.now_ms) for offset in expected)


def _offsets(runs: Iterable[tuple[int, int, int]]) -> list[int]:
    return [offset for _, start, end in runs for offset in range(start, end)]


def _recovered(rows: Rows, entries: list[tuple[int, Any]]) -> Broker:
    """Return the state that a start builds from rows and entries."""
    broker = Broker(Counters())
    loaders = {
        "groups": broker.groups.load,
        "pending": broker.groups.load_chunk,
        "producers": broker.producers.load,
        "settings": lambda _name, row: broker.topics.load(row),
    }
    for (table, key), row in sorted(rows.items(), key=lambda entry: entry[0]):
        if row is not None:
            loaders[table](key, row)
    broker.groups.end_loading()
    broker.begin_recovery()
    for index, entry in entries:
        broker.begin(index, 0)
        if isinstance(entry[0], bytes):
            broker.producers.note(*entry)
        else:
            broker.apply(from_event(entry), None, Effects())
    broker.settle_recovery()
    return broker


def state(broker: Broker) -> tuple[Any, ...]:
    """Return everything that a start must restore."""
    retired = broker.groups.retired.by_topic.values()
    groups = [*sorted(broker.groups, key=lambda group: group.name), *retired]
    chunks = [{offset >> group_module.CHUNK_BITS for offset in g.pending} for g in groups]
    return (
        [encode_group(group, 0) for group in groups],
        [
            [encode_chunk(group, chunk) for chunk in sorted(pending)]
            for group, pending in zip(groups, chunks, strict=True)
        ],
        [sorted(group.exhausted) for group in groups],
        broker.groups.next_lease,
        [broker.topics.row(topic.name, 0) for topic in broker.topics],
        list(_numbered(broker)),
    )


def _numbered(broker: Broker) -> Iterator[int | None]:
    for producer in (b"p", b"q"):
        for seq in range(6):
            yield broker.producers.find(T, producer, seq)


TestQueueModel = QueueMachine.TestCase
