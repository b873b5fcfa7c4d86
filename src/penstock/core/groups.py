"""All groups by topic and name, and what commands do to them.

``group`` is about a single group. Here a command finds or creates its group; checkpoint rows and
the number of the next lease, which is never reused, are kept here too.

What groups have done outlives them (``retired_groups``). That involves two rows, the group's and
the retired one's, and a crash must not leave one without the other. So the row of a group includes
that of a changed retired group, and those of groups that have none on disk yet.
"""

from collections.abc import Iterator

from penstock.core.commands import (
    Claimed,
    ConsumerGone,
    ConsumerMade,
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
    Returned,
    Settled,
    Swept,
    Taken,
)
from penstock.core.group import Consumer, Group, GroupDelivery, Pending
from penstock.core.group_row import decode_group, encode_chunk, encode_group, load_chunk
from penstock.core.low_water_marks import LowWaterMarks, entitled_from
from penstock.core.retired_groups import RETIRED_NAME, RetiredGroups
from penstock.core.shares import is_of_share

__all__ = ["Consumer", "Group", "GroupCommand", "GroupDelivery", "Groups", "Pending", "row_key"]

GroupCommand = (
    GroupMade | GroupMoved | GroupGone | ConsumerMade | ConsumerGone | Taken | Settled
    | Returned | Claimed | Leased | LeasesSettled | LeasesReturned | LeasesExtended | Swept
    | GroupCommitted | GroupConfigured | DeadLettered
)  # fmt: skip

_LEASE_KEY = b""  # key of the row with the number of the next lease; no group's key is empty


def row_key(topic: bytes, name: bytes) -> bytes:
    """The key of a group's row: both names, separated by the length of the first."""
    return len(topic).to_bytes(4, "big") + topic + name


def _names(key: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(key[:4], "big")
    return key[4:end], key[end:]


def _chunk_key(key: bytes, chunk: int) -> bytes:
    return key + chunk.to_bytes(8, "big")


def _chunk_of(key: bytes) -> tuple[bytes, int]:
    return key[:-8], int.from_bytes(key[-8:], "big")


# commands that may concern those who wait for a group at another node
STIRRING = (
    GroupMade,
    GroupMoved,
    GroupGone,
    GroupConfigured,
    Returned,
    LeasesReturned,
    Leased,
    Swept,
    Claimed,
)


class Groups:
    """All groups of all topics."""

    def __init__(self) -> None:
        self.by_topic: dict[bytes, dict[bytes, Group]] = {}
        self.count = 0
        self.retired = RetiredGroups()
        self._low_water_marks = LowWaterMarks(self.by_topic)
        self.dirty: dict[bytes, None] = {}  # keys of groups whose row on disk is outdated
        self.timed: dict[Group, None] = {}  # groups with leases or delayed messages
        self.redeliveries = 0
        # chunks of pending messages that have a row on disk, by group key
        self._stored: dict[bytes, set[int]] = {}
        # those of deleted groups, whose rows are to be deleted
        self._deleted: dict[bytes, set[int]] = {}
        # one count for all groups, so that a lease never fits a later group of the same name
        self.next_lease = 0

    def get(self, topic: bytes, name: bytes) -> Group | None:
        return self.by_topic.get(topic, {}).get(name)

    def _known(self, key: bytes) -> Group | None:
        topic, name = _names(key)
        if name == RETIRED_NAME:
            return self.retired.by_topic.get(topic)
        return self.get(topic, name)

    def floor(self, topic: bytes, first: int = 0) -> int:
        """Everything below is done, if the topic has nothing before ``first``.

        Groups of readers hold back what they have not read. But what they have read is not done:
        workers may come later.
        """
        return self._low_water_marks.floor(topic, max(self.retired.low(topic), first))

    def reach(self, topic: bytes, first: int = 0) -> int:
        """Everything below was done by some group, though others may still have to."""
        return self._low_water_marks.reach(topic, max(self.retired.low(topic), first))

    def __iter__(self) -> Iterator[Group]:
        for groups in self.by_topic.values():
            yield from groups.values()

    def missed(self, topic: bytes, ranges: list[tuple[int, int]]) -> int:
        """How many messages groups miss if these ranges are removed, summed over the groups."""
        return sum(group.unsettled(ranges) for group in self.by_topic.get(topic, {}).values())

    def apply(self, command: GroupCommand, index: int, *, recovering: bool) -> object:
        """Apply a command; return its result, None if there is no such group."""
        if isinstance(command, Leased):
            self._count_leases(command)
        group = self.get(command.topic, command.group)
        if group is not None and recovering and group.applied >= index:
            if isinstance(command, GroupMade) and command.rest:
                self._hand_over(group, index, recovering=True)
            return None
        if isinstance(command, GroupMade):
            return self._make(command, group, index, recovering=recovering)
        if group is None:
            return None
        self.dirty[row_key(command.topic, command.group)] = None
        if isinstance(command, GroupGone | GroupMoved) and command.done >= 0:
            self._remember(group, command, index, recovering=recovering)
        group.is_share = group.is_share and is_of_share(command)
        before = group.redeliveries
        value = self._change(group, command)
        self.redeliveries += group.redeliveries - before
        self._note_time(group)
        return value

    def resume(self, now_ms: int, index: int, *, recovering: bool) -> None:
        for group in list(self.timed):
            if not (recovering and group.applied >= index) and group.resume(now_ms):
                self.dirty[row_key(group.topic, group.name)] = None

    def _note_time(self, group: Group) -> None:
        if group.leases or group.delayed:
            self.timed[group] = None
        else:
            self.timed.pop(group, None)

    def _count_leases(self, command: Leased) -> None:
        count = sum(end - start for _, _, runs in command.shares for _, start, end in runs)
        self.next_lease = max(self.next_lease, command.first_lease + count)
        self.dirty[_LEASE_KEY] = None

    def forget_topic(self, topic: bytes, index: int, *, recovering: bool) -> None:
        for group in list(self.by_topic.get(topic, {}).values()):
            if not (recovering and group.applied >= index):
                self._remove(group)
        merged = self.retired.by_topic.get(topic)
        if merged is not None and not (recovering and merged.applied >= index):
            del self.retired.by_topic[topic]
            self._forget_rows(row_key(topic, RETIRED_NAME))

    def _remove(self, group: Group) -> None:
        self.timed.pop(group, None)
        self._forget_rows(row_key(group.topic, group.name))
        self.count -= 1
        del self.by_topic[group.topic][group.name]
        if not self.by_topic[group.topic]:
            del self.by_topic[group.topic]

    def _forget_rows(self, key: bytes) -> None:
        self.dirty[key] = None
        self._deleted.setdefault(key, set()).update(self._stored.get(key, ()))

    def _remember(
        self, group: Group, command: GroupGone | GroupMoved, index: int, *, recovering: bool
    ) -> None:
        """Remember what a group has done before it is deleted or moved back."""
        is_forward = isinstance(command, GroupMoved) and command.start >= group.oldest_unsettled
        if is_forward or entitled_from(group) is None:
            return
        if self.retired.add(group, command.done, index, recovering=recovering):
            self.dirty[row_key(group.topic, RETIRED_NAME)] = None

    def _hand_over(self, successor: Group, index: int, *, recovering: bool) -> None:
        if self.retired.hand_over(successor, index, recovering=recovering):
            self.dirty[row_key(successor.topic, RETIRED_NAME)] = None

    def _make(
        self, command: GroupMade, group: Group | None, index: int, *, recovering: bool
    ) -> bool:
        """Create a group; return whether it is new.

        Its version is greater than any that a former group of this name had, so choices made for
        that one are void.
        """
        if group is not None:
            return False
        group = Group(command.topic, command.group, command.start, reader=command.reader)
        group.version, group.since = index << 16, command.since
        group.backoff_ms, group.backoff_max_ms = command.backoff_ms, command.backoff_max_ms
        group.is_backoff_chosen = not command.backoff_ms
        group.is_share = command.is_share
        if command.rest:
            self._hand_over(group, index, recovering=recovering)
            self._note_time(group)
        self.by_topic.setdefault(command.topic, {})[command.group] = group
        self.count += 1
        self._low_water_marks.lower(group)
        self.dirty[row_key(command.topic, command.group)] = None
        return True

    def _change(self, group: Group, command: GroupCommand) -> object:
        match command:
            case Leased():
                return group.lease(command)
            case LeasesSettled():
                return group.settle_leases(command.leases)
            case LeasesReturned():
                return group.return_leases(command)
            case LeasesExtended():
                return group.extend_leases(command)
            case Swept():
                return group.sweep(command)
            case DeadLettered():
                buried = group.settle((offset, offset + 1) for offset in command.offsets)
                group.dead_letters += buried
                return buried
            case Taken():
                return group.take(command)
            case Settled():
                return group.settle(command.ranges)
            case Returned():
                return group.give_back(command.consumer)
            case Claimed():
                claimed = group.claim(command)
                self._low_water_marks.lower(group)
                return claimed
            case ConsumerMade():
                known = command.consumer in group.consumers
                group.consumer(command.consumer, command.now_ms)
                return not known
            case ConsumerGone():
                return group.remove(command.consumer)
            case _:
                return self._steer(group, command)

    def _steer(self, group: Group, command: GroupCommand) -> bool:
        match command:
            case GroupMoved():
                group.move(command.start)
                self._low_water_marks.lower(group)
            case GroupCommitted():
                group.commit(command)
            case GroupConfigured():
                group.configure(command)
            case GroupGone():
                self._remove(group)
        return True

    # ── checkpoint ────────────────────────────────────────────────────────────────────────────

    def rows(self, key: bytes, index: int) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Table, key and row (None: deleted) of what changed in a group, as of entry ``index``.

        They belong in one commit, as they are complete up to the same entry.
        """
        if key == _LEASE_KEY:
            yield "groups", key, self.next_lease.to_bytes(8, "big")
            return
        for one in (key, *self._beside(key)):
            yield from self._rows_of(one, index)

    def _beside(self, key: bytes) -> list[bytes]:
        """Groups whose rows must be written along with a changed retired group."""
        topic, _ = _names(key)
        merged = self.retired.by_topic.get(topic)
        if merged is None or merged.applied:
            return []
        unwritten = [g for g in self.by_topic.get(topic, {}).values() if not g.applied]
        keys = [row_key(topic, group.name) for group in (merged, *unwritten)]
        return [one for one in keys if one != key]

    def _rows_of(self, key: bytes, index: int) -> Iterator[tuple[str, bytes, bytes | None]]:
        group = self._known(key)
        stored = self._stored.setdefault(key, set())
        changed = self._deleted.pop(key, set())
        yield "groups", key, encode_group(group, index) if group else None
        if group is not None:
            changed |= group.changed
            group.changed = set()
        for chunk in sorted(changed):
            row = encode_chunk(group, chunk) if group else None
            if row is not None:
                stored.add(chunk)
            elif chunk in stored:
                stored.discard(chunk)
            else:
                continue
            yield "pending", _chunk_key(key, chunk), row
        if not stored:
            del self._stored[key]

    def failed(self, table: str, key: bytes) -> None:
        """Note that a row was not written."""
        if table == "groups":
            self.dirty[key] = None
            group = self._known(key) if key != _LEASE_KEY else None
            if group is not None:
                group.applied = 0
            return
        key, chunk = _chunk_of(key)
        self.dirty[key] = None
        self._stored.setdefault(key, set()).add(chunk)  # or not: writing it again does no harm
        group = self._known(key)
        changed = group.changed if group else self._deleted.setdefault(key, set())
        changed.add(chunk)

    def load(self, key: bytes, row: bytes) -> None:
        """Load a group from the checkpoint, before any replay; ``load_chunk`` follows."""
        if key == _LEASE_KEY:
            self.next_lease = int.from_bytes(row, "big")
            return
        group = decode_group(row)
        if group.name == RETIRED_NAME:
            self.retired.by_topic[group.topic] = group
            return
        self.by_topic.setdefault(group.topic, {})[group.name] = group
        self.count += 1

    def load_chunk(self, key: bytes, row: bytes) -> None:
        """Load a chunk of pending messages; ``end_loading`` follows."""
        key, chunk = _chunk_of(key)
        self._stored.setdefault(key, set()).add(chunk)
        group = self._known(key)
        if group is not None:
            load_chunk(group, row)

    def end_loading(self) -> None:
        for merged in self.retired.by_topic.values():
            merged.end_loading()
        for group in self:
            group.end_loading()
            self._note_time(group)
            if group.changed:
                self.dirty[row_key(group.topic, group.name)] = None
