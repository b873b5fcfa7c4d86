"""Groups: named consumers of one topic that share its messages.

A group hands out each message of its topic once, in order of offsets. What was handed out is
**pending** until it is settled; what a vanished worker had pending is **returned**, and goes out
again before anything new. Nothing is stored per message that is done or not yet handed out::

    offsets   0 … 41 | 42  43  44 | 45 …          next = 45
              settled | 43 pending | not handed out

The queues of the binary protocol, PULL, and the groups of Redis Streams are all this. A queue is a
group whose workers' pending messages are returned when they leave; a stream's consumer keeps its
own until somebody claims them.

Every verb returns what the one who asked wants to know; ``Broker`` makes an effect of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import msgspec

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
)

__all__ = ["Consumer", "Group", "Groups", "Pending", "Share"]

GroupCommand = (
    GroupMade
    | GroupMoved
    | GroupGone
    | ConsumerMade
    | ConsumerGone
    | Taken
    | Settled
    | Returned
    | Claimed
)


class Pending(msgspec.Struct, array_like=True, gc=False):
    """A message handed out and not settled. ``consumer`` is None once it was returned."""

    consumer: bytes | None
    taken_ms: int
    deliveries: int


class Consumer(msgspec.Struct, array_like=True):
    """A consumer of a group: when it last asked, when it last got something, what it holds."""

    seen_ms: int
    active_ms: int
    pending: set[int]


class Share(NamedTuple):
    """What one consumer got: offsets, ascending, each with how often it was delivered by now."""

    consumer: bytes
    offsets: list[int]
    deliveries: list[int]


class _Row(msgspec.Struct, array_like=True):
    """A group as a row of the checkpoint."""

    topic: bytes
    name: bytes
    next: int
    applied: int
    pending: list[tuple[int, Pending]]
    consumers: list[tuple[bytes, int, int]]


_decoder = msgspec.msgpack.Decoder(_Row)
_encoder = msgspec.msgpack.Encoder()


class Group:
    """One group of one topic."""

    def __init__(self, topic: bytes, name: bytes, start: int) -> None:
        self.topic = topic
        self.name = name
        self.next = start
        """The offset of the next message to be handed out for the first time."""
        self.pending: dict[int, Pending] = {}
        self.returned: list[int] = []
        """Pending offsets that nobody has, ascending."""
        self.consumers: dict[bytes, Consumer] = {}
        self.applied = 0
        """Index of the last journal entry that this state contains; replay skips up to it."""

    def available(self, end: int) -> int:
        """How many messages could be handed out, if the topic ends at ``end``."""
        return len(self.returned) + max(end - self.next, 0)

    @property
    def oldest_unsettled(self) -> int:
        """The lowest offset that is pending or not handed out; all before it is done."""
        return min(self.next, *self.pending) if self.pending else self.next

    def unsettled(self, stretches: list[tuple[int, int]]) -> int:
        """How many of these offsets are pending or not handed out."""
        ahead = sum(max(end - max(start, self.next), 0) for start, end in stretches)
        handed_out = (offset for offset in self.pending if offset < self.next)
        return ahead + sum(_contains(stretches, offset) for offset in handed_out)

    def consumer(self, name: bytes, now_ms: int) -> Consumer:
        """A consumer by name, made on first use."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = self.consumers[name] = Consumer(now_ms, now_ms, set())
        return consumer

    # ── handing out ───────────────────────────────────────────────────────────────────────────

    def take(self, command: Taken) -> list[Share]:
        """Hand out messages, returned ones first; offsets below ``first`` are no longer there."""
        self._drop_removed(command.first)
        shares = []
        for name, count in command.shares:
            consumer = self.consumer(name, command.now_ms)
            consumer.seen_ms = command.now_ms
            offsets = self._next_offsets(count, command)
            if offsets:
                consumer.active_ms = command.now_ms
                shares.append(self._hand_out(name, offsets, command))
        return shares

    def _drop_removed(self, first: int) -> None:
        """Forget returned messages that retention has taken since; skip what it took before."""
        count = bisect_left(self.returned, first)
        for offset in self.returned[:count]:
            del self.pending[offset]
        del self.returned[:count]
        self.next = max(self.next, first)

    def _next_offsets(self, count: int, command: Taken) -> list[int]:
        offsets, self.returned = self.returned[:count], self.returned[count:]
        for start, end in _living(self.next, command.end, command.gone):
            if len(offsets) == count:
                break
            self.next = min(end, start + count - len(offsets))
            offsets += range(start, self.next)
        return offsets

    def _hand_out(self, name: bytes, offsets: list[int], command: Taken) -> Share:
        deliveries = []
        for offset in offsets:
            known = self.pending.get(offset)
            is_returned = known is not None and known.consumer is None
            times = known.deliveries + 1 if known and is_returned else 1
            deliveries.append(times)
            if not command.settle:
                self._assign(offset, known, Pending(name, command.now_ms, times))
            elif is_returned:
                del self.pending[offset]
        return Share(name, offsets, deliveries)

    def _assign(self, offset: int, known: Pending | None, pending: Pending) -> None:
        """Let a consumer have a message, whoever had it before (the group was moved back)."""
        if known is not None and known.consumer is not None:
            self.consumers[known.consumer].pending.discard(offset)
        assert pending.consumer is not None
        self.consumers[pending.consumer].pending.add(offset)
        self.pending[offset] = pending

    def settle(self, ranges: list[tuple[int, int]]) -> int:
        """These are done with; return how many of them were pending."""
        settled = 0
        for start, end in ranges:
            if end - start > len(self.pending):  # a wide range costs what is there, not its width
                offsets = [offset for offset in self.pending if start <= offset < end]
            else:
                offsets = [offset for offset in range(start, end) if offset in self.pending]
            settled += len(offsets)
            for offset in offsets:
                self._let_go(offset, self.pending.pop(offset))
        return settled

    def _let_go(self, offset: int, pending: Pending) -> None:
        """Take a pending message from whoever has it."""
        if pending.consumer is None:
            self.returned.remove(offset)
        else:
            self.consumers[pending.consumer].pending.discard(offset)

    def give_back(self, name: bytes) -> int:
        """A worker is gone: what it had goes to others. Return how much that was."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        for offset in consumer.pending:
            self.pending[offset].consumer = None
        self.returned = sorted(self.returned + list(consumer.pending))
        return len(consumer.pending)

    def remove(self, name: bytes) -> int:
        """Forget a consumer and all that it had not settled; return how much that was."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        for offset in consumer.pending:
            del self.pending[offset]
        return len(consumer.pending)

    def claim(self, command: Claimed) -> list[int]:
        """Give pending messages to another consumer; return those that changed hands."""
        claimed = [offset for offset in command.offsets if self._claim_one(offset, command)]
        consumer = self.consumers.get(command.consumer)
        if consumer is not None:
            consumer.seen_ms = command.now_ms
            if claimed:
                consumer.active_ms = command.now_ms
        return claimed

    def _claim_one(self, offset: int, command: Claimed) -> bool:
        known = self.pending.get(offset)
        if not _may_claim(known, command):
            return False
        times = command.deliveries
        if times is None:
            # By force, a message that nobody had counts as delivered once before, as in Redis.
            times = (known.deliveries if known else 1) + command.counts
        self.consumer(command.consumer, command.now_ms)
        if known is not None and known.consumer is None:
            self.returned.remove(offset)
        self._assign(offset, known, Pending(command.consumer, command.taken_ms, times))
        return True

    # ── checkpoint ────────────────────────────────────────────────────────────────────────────

    def to_row(self, applied: int) -> bytes:
        """Everything durable of this group; it contains all entries up to ``applied``."""
        self.applied = applied
        return _encoder.encode(
            _Row(
                self.topic,
                self.name,
                self.next,
                applied,
                list(self.pending.items()),
                [(name, c.seen_ms, c.active_ms) for name, c in self.consumers.items()],
            )
        )

    @classmethod
    def from_row(cls, row: bytes) -> "Group":
        """The group that ``to_row`` described."""
        data = _decoder.decode(row)
        group = cls(data.topic, data.name, data.next)
        group.applied = data.applied
        group.pending = dict(data.pending)
        for name, seen_ms, active_ms in data.consumers:
            group.consumers[name] = Consumer(seen_ms, active_ms, set())
        for offset, pending in data.pending:
            if pending.consumer is None:
                group.returned.append(offset)
            else:
                group.consumers[pending.consumer].pending.add(offset)
        group.returned.sort()
        return group


def _living(start: int, end: int, gone: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The stretches of ``start … end - 1`` that are left without those that are gone."""
    for gone_start, gone_end in gone:
        if start < min(gone_start, end):
            yield start, min(gone_start, end)
        start = max(start, gone_end)
    if start < end:
        yield start, end


def _contains(stretches: list[tuple[int, int]], offset: int) -> bool:
    """Whether an offset lies in one of the stretches, which ascend."""
    place = bisect_right(stretches, offset, key=itemgetter(0)) - 1
    return place >= 0 and offset < stretches[place][1]


def _may_claim(pending: Pending | None, command: Claimed) -> bool:
    if pending is None:
        return command.forces
    if command.renews and pending.consumer != command.consumer:
        return False
    idle_ms = command.now_ms - pending.taken_ms
    return pending.consumer is None or idle_ms >= command.min_idle_ms


def row_key(topic: bytes, name: bytes) -> bytes:
    """The key of a group's row: its two names, told apart by the length of the first."""
    return len(topic).to_bytes(4, "big") + topic + name


def _names(key: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(key[:4], "big")
    return key[4:end], key[end:]


class Groups:
    """All groups of all topics, and what commands do to them."""

    def __init__(self) -> None:
        self.by_topic: dict[bytes, dict[bytes, Group]] = {}
        self.dirty: dict[bytes, None] = {}
        """Keys (``row_key``) of groups whose row on disk is older than the state here."""

    def get(self, topic: bytes, name: bytes) -> Group | None:
        """A group, or None if there is none."""
        return self.by_topic.get(topic, {}).get(name)

    @property
    def count(self) -> int:
        """How many groups there are."""
        return sum(map(len, self.by_topic.values()))

    def __iter__(self) -> Iterator[Group]:
        for groups in self.by_topic.values():
            yield from groups.values()

    def missed(self, topic: bytes, stretches: list[tuple[int, int]]) -> int:
        """How many messages groups miss if these of a topic are gone; for each group its own.

        Nothing changes: what is gone is found out when somebody asks for it.
        """
        return sum(group.unsettled(stretches) for group in self.by_topic.get(topic, {}).values())

    def apply(self, command: GroupCommand, index: int, *, recovering: bool) -> object:
        """Apply a command; return what the one who asked wants to know, None: no such group."""
        group = self.get(command.topic, command.group)
        if group is not None and recovering and group.applied >= index:
            return None
        if isinstance(command, GroupMade):
            return self._make(command, group)
        if group is None:
            return None
        self.dirty[row_key(command.topic, command.group)] = None
        return self._change(group, command)

    def _make(self, command: GroupMade, group: Group | None) -> bool:
        """Make a group; tell whether it is new."""
        if group is not None:
            return False
        group = Group(command.topic, command.group, command.start)
        self.by_topic.setdefault(command.topic, {})[command.group] = group
        self.dirty[row_key(command.topic, command.group)] = None
        return True

    def _change(self, group: Group, command: GroupCommand) -> object:
        match command:
            case Taken():
                return group.take(command)
            case Settled():
                return group.settle(command.ranges)
            case Returned():
                return group.give_back(command.consumer)
            case Claimed():
                return group.claim(command)
            case GroupMoved():
                group.next = command.start
                return True
            case ConsumerMade():
                known = command.consumer in group.consumers
                group.consumer(command.consumer, command.now_ms)
                return not known
            case ConsumerGone():
                return group.remove(command.consumer)
            case GroupGone():
                del self.by_topic[command.topic][command.group]
                if not self.by_topic[command.topic]:
                    del self.by_topic[command.topic]
                return True
            case GroupMade():  # pragma: no cover - made in ``apply``
                return False

    def row(self, key: bytes, index: int) -> bytes | None:
        """The checkpoint row of a group as of entry ``index``; None: it has none."""
        group = self.get(*_names(key))
        return group.to_row(index) if group else None

    def load(self, row: bytes) -> None:
        """Take a group from the checkpoint, before any replay."""
        group = Group.from_row(row)
        self.by_topic.setdefault(group.topic, {})[group.name] = group
