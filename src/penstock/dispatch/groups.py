"""Operations on consumer groups: create, seek, commit, delete, lag."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from penstock.commit.completion import Callback
from penstock.core.commands import GroupCommitted, GroupGone, GroupMade, GroupMoved
from penstock.core.completion import Completion
from penstock.core.groups import Group
from penstock.dispatch.backlog import Backlog
from penstock.dispatch.parts import DispatchParts
from penstock.dispatch.topics import TopicOperations
from penstock.errors import StorageError
from penstock.limits import BACKOFF_MAX_MS_DEFAULT, BACKOFF_MS_DEFAULT, GROUPS_MAX
from penstock.obs.reasons import DisconnectReason
from penstock.store.search import offset_at_time


class StartAt(Enum):
    """Where a group starts to read."""

    EARLIEST = 0
    LATEST = 1
    OFFSET = 2
    TIME = 3


class Start(NamedTuple):
    """Where a group starts to read; the value is an offset, or a time in ms."""

    at: StartAt = StartAt.EARLIEST
    value: int = 0


class GroupOperations:
    """All groups; ``dispatch`` is called with a topic and group that may have more to dispatch."""

    def __init__(
        self,
        parts: DispatchParts,
        topics: TopicOperations,
        backlogs: Mapping[bytes, Backlog],
        dispatch: Callable[[bytes, bytes], None],
    ) -> None:
        self._parts = parts
        self._topics = topics
        self._backlogs = backlogs
        self._dispatch = dispatch
        self._ending: set[tuple[bytes, bytes]] = set()  # their ``GroupGone`` is in the pipeline

    def lag(self, group: Group) -> int:
        """The number of messages that a group has not done, without those it will never be given.

        Expired messages are known of topics that had a worker since the start.
        """
        info = self._topics.info(group.topic)
        if info is None:
            return 0
        first = self._topics.limits.first_offset(info)
        lag = group.lag(info.next_offset, first)
        backlog = self._backlogs.get(group.topic)
        if backlog is None or backlog.offsets is None or not lag:
            return lag
        heads = [max(head, first) for head in group.heads]
        expired = backlog.offsets.expired(heads, self._parts.steady.now_ms())
        return max(lag - expired, len(group.leases))

    def has_room_for(self, topic: bytes, group: bytes) -> bool:
        """Whether the group exists or may be created."""
        groups = self._parts.broker.groups
        return groups.count < GROUPS_MAX or groups.get(topic, group) is not None

    def create(
        self,
        topic: bytes,
        group: bytes,
        start: Start,
        completion: Completion[object],
        *,
        reader: bool = False,
        is_share: bool = False,
    ) -> None:
        """Create a group if it does not exist; the result is whether it is new.

        ``is_share``: it ends with the shared subscription that it is made for.
        """
        exists = self._parts.broker.groups.get(topic, group) is not None
        if exists and (topic, group) not in self._ending:
            completion.done(False)
            return

        def command(offset: int) -> GroupMade:
            is_first = start.at is StartAt.EARLIEST
            made = self.create_command(topic, group, offset, is_first=is_first, reader=reader)
            return replace(made, is_share=is_share)

        self._locate(topic, start, completion, command)

    def create_command(
        self, topic: bytes, group: bytes, start: int, *, is_first: bool, reader: bool = False
    ) -> GroupMade:
        """``is_first``: the group starts at the beginning, wherever that is now.

        Only such a group is entitled to messages that waited for a group. Where no other group
        still needs older messages, it gets what is not done.
        """
        since, is_rest = (0 if is_first else start), False
        if is_first and self._topics.limits.is_used_up(topic):
            start = max(start, self._topics.earliest(topic))
            is_rest = start >= self._parts.broker.groups.retired.low(topic) and not reader
        return GroupMade(
            topic,
            group,
            start,
            reader,
            since,
            is_rest,
            BACKOFF_MS_DEFAULT,
            BACKOFF_MAX_MS_DEFAULT,
        )

    def delete_command(self, topic: bytes, group: bytes) -> GroupGone:
        """What the group has done of a queue topic stays done."""
        return GroupGone(topic, group, self._done(topic))

    def end(self, topic: bytes, group: bytes) -> None:
        """Delete a group together with its shared subscription; it may be created again at once."""
        if (topic, group) in self._ending:
            return
        self._ending.add((topic, group))

        def done(*_outcome: object) -> None:
            self._ending.discard((topic, group))

        ended = Callback(done, done)
        command = self.delete_command(topic, group)
        self._parts.pipeline.submit(command, ended, durable=True)

    def seek_command(self, topic: bytes, group: bytes, start: int) -> GroupMoved:
        """What the group has done of a queue topic so far stays done."""
        return GroupMoved(topic, group, start, self._done(topic))

    def _done(self, topic: bytes) -> int:
        """Messages of a queue topic before this were done by some group; -1: it is a log."""
        info = self._topics.info(topic)
        if info is None or not self._topics.limits.is_used_up(topic):
            return -1
        return self._parts.broker.groups.reach(topic, self._topics.limits.first_offset(info))

    def seek(
        self, topic: bytes, group: bytes, start: Start, completion: Completion[object]
    ) -> None:
        """Let a group read on from elsewhere."""

        def moved(value: object) -> None:
            completion.done(value)
            self._dispatch(topic, group)

        def command(offset: int) -> GroupMoved:
            return self.seek_command(topic, group, offset)

        self._locate(topic, start, Callback(moved, completion.refused), command)

    def _locate(
        self,
        topic: bytes,
        start: Start,
        completion: Completion[object],
        command: Callable[[int], GroupMade | GroupMoved],
    ) -> None:
        """Find the offset of a start, then submit the command with it."""

        def submit(offset: object) -> None:
            assert isinstance(offset, int)
            self._parts.pipeline.submit(command(offset), completion, durable=True)

        self.locate(topic, start, Callback(submit, completion.refused))

    def locate(self, topic: bytes, start: Start, completion: Completion[object]) -> None:
        """Find the offset of a start; that is the result."""

        def found(offset: int) -> None:
            completion.done(min(offset, self._topics.end(topic)))  # it may be a new topic now

        def fail(error: StorageError) -> None:
            completion.refused(DisconnectReason.STORAGE_FAILED, error.message)

        store = self._parts.store
        if start.at is StartAt.TIME:
            self._parts.readers.run(lambda: offset_at_time(store, topic, start.value), found, fail)
        elif start.at is StartAt.EARLIEST:
            found(self._topics.earliest(topic))
        else:
            found(self._topics.end(topic) if start.at is StartAt.LATEST else start.value)

    def commit(
        self, topic: bytes, group: bytes, offset: int, completion: Completion[object]
    ) -> None:
        """Settle everything below an offset, at most up to the end of the topic."""
        info = self._topics.info(topic)
        if info is None:
            completion.done(0)
            return
        known = self._parts.broker.groups.get(topic, group)
        if known is None:
            start = self._topics.earliest(topic)
            created = self.create_command(topic, group, start, is_first=True)
            self._parts.pipeline.submit(created, None, durable=True)
        offset = min(offset, info.next_offset)
        ahead = min(known.ahead, info.next_offset - offset) if known else 0
        committed = GroupCommitted(topic, group, offset, ahead)
        self._parts.pipeline.submit(committed, completion, durable=True)
