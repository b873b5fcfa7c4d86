"""A group of a work queue as specified, message by message.

A record for each message that was handed out, all candidates sorted for every poll, every message
checked when time passes: slow, and easy to compare with the specification.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.pending import NEVER_MS

__all__ = ["Message", "ModelGroup", "Record", "Topic"]


@dataclass
class Message:
    priority: int
    due_ms: int
    expires_ms: int


@dataclass
class Record:
    """A message that was handed out or delayed, and is not done."""

    deliveries: int = 0
    lease: int | None = None
    holder: bytes = b""
    until_ms: int = 0
    taken_ms: int = 0
    lapsed: int | None = None
    """An expired lease, if the message was not handed out since."""


@dataclass
class Topic:
    messages: dict[int, Message] = field(default_factory=dict)
    first: int = 0
    offsets: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Where numbered messages lie."""
    done: set[int] = field(default_factory=set)
    """What former or moved groups have finished."""

    @property
    def end(self) -> int:
        return len(self.messages)

    def done_until(self, groups: "Iterable[ModelGroup]", first: int) -> int:
        """Everything before was finished by an entitled group, or is gone."""
        offset = first
        while offset in self.done or any(g.since <= offset and g.has_done(offset) for g in groups):
            offset += 1
        return offset

    def is_over(self, offset: int, now_ms: int) -> bool:
        return 0 < self.messages[offset].expires_ms <= now_ms

    def urgency(self, offset: int) -> tuple[int, int]:
        return -self.messages[offset].priority, offset


class ModelGroup:
    """A group, message by message."""

    def __init__(self, topic: Topic, start: int, since: int = 0) -> None:
        self.topic = topic
        self.since = since
        """This group is not entitled to what came before."""
        self.done = set(range(start))
        self.records: dict[int, Record] = {}
        self.again: set[int] = set()
        """Messages to be handed out although they were, for the group was moved back: now if they
        are free when their turn comes, else never."""
        self.polls = 0
        self.max_deliveries = self.backoff_ms = self.backoff_max_ms = 0
        self.dead_letters = 0

    def has_done(self, offset: int) -> bool:
        return offset in self.done and offset < self.topic.end

    def is_exhausted(self, record: Record) -> bool:
        is_over = record.until_ms == NEVER_MS or 0 < self.max_deliveries <= record.deliveries
        return record.lease is None and is_over

    def is_returned(self, record: Record) -> bool:
        return record.lease is None and not record.until_ms and not self.is_exhausted(record)

    def candidates(self, now_ms: int) -> set[int]:
        topic = self.topic
        return {
            offset
            for offset in range(topic.first, topic.end)
            if offset not in self.done
            and not topic.is_over(offset, now_ms)
            and self._is_ready(offset, now_ms)
        }

    def _is_ready(self, offset: int, now_ms: int) -> bool:
        record = self.records.get(offset)
        if record is None or offset in self.again:
            return self.topic.messages[offset].due_ms <= now_ms
        return self.is_returned(record)

    def select(self, maximum: int, poll_count: int, candidates: set[int]) -> list[int]:
        """Most of a poll to the most urgent, the reserved part to the oldest."""
        reserved = min(maximum, maximum // 4 + (1 if (poll_count + 1) % 4 == 0 else 0))
        chosen = sorted(candidates, key=self.topic.urgency)[: maximum - reserved]
        for offset in sorted(candidates - set(chosen)):
            if len(chosen) == maximum:
                break
            chosen.append(offset)
        return sorted(chosen, key=self.topic.urgency)

    def forget_removed(self) -> None:
        """What was to be handed out again and was taken by retention is nobody's business."""
        gone = [o for o in self.records if o < self.topic.first]
        for offset in gone:
            if self.is_returned(self.records[offset]):
                del self.records[offset]

    def hand_out(self, offset: int, lease: int, holder: bytes, until_ms: int) -> bool:
        self.again.discard(offset)
        record = self.records.get(offset)
        if record is not None and not self.is_returned(record):
            return False
        times = record.deliveries if record else 0
        self.records[offset] = Record(times + 1, lease, holder, until_ms)
        return True

    def leased(self) -> dict[int, int]:
        found = ((record.lease, offset) for offset, record in self.records.items())
        return {lease: offset for lease, offset in found if lease is not None}

    def acknowledgeable(self) -> dict[int, int]:
        """Active leases, and expired ones whose message no other worker has."""
        found = ((record.lapsed, offset) for offset, record in self.records.items())
        return self.leased() | {lease: offset for lease, offset in found if lease is not None}

    def settle(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            del self.records[offset]
            if offset not in self.again:
                self.done.add(offset)
            self.again.discard(offset)

    def commit(self, offset: int) -> None:
        self.done |= set(range(offset))
        self.again -= self.done
        self.records = {o: record for o, record in self.records.items() if o >= offset}

    def pass_over(self, offset: int, due_ms: int) -> None:
        """It is not due yet, or its time is over."""
        self.again.discard(offset)
        record = self.records.get(offset)
        if due_ms:
            self.records.setdefault(offset, Record(until_ms=due_ms))
        elif record is None or self.is_returned(record):
            self.records.pop(offset, None)
            self.done.add(offset)

    def give_back(self, offset: int, until_ms: int) -> None:
        record = self.records[offset]
        record.lease, record.holder, record.until_ms = None, b"", until_ms
        record.lapsed = None

    def backoff(self, deliveries: int) -> int:
        pause_ms = self.backoff_ms * 2 ** (deliveries - 1)
        return min(pause_ms, self.backoff_max_ms) if self.backoff_max_ms else pause_ms

    def sweep(self, now_ms: int) -> None:
        for offset, record in self.records.items():
            if 0 < record.until_ms <= now_ms and not self.is_exhausted(record):
                lapsed = record.lapsed if record.lease is None else record.lease
                self.give_back(offset, 0)
                record.lapsed = lapsed

    def move(self, start: int) -> None:
        """All from ``start`` on is to be handed out, nothing below that was not handed out yet."""
        self.done = set(range(start)) - set(self.records)
        self.again = {offset for offset in self.records if offset >= start}
