"""One slice of retention; if its transaction fails, nothing has happened."""

from penstock.store.deletions import Ranges
from penstock.store.dropped import Dropped
from penstock.store.environment import Transaction
from penstock.store.journal import JournalCursor
from penstock.store.marks import Marks
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionResult
from penstock.store.topics import StoredTopic

Cursor = tuple[int, int]  # entry index and number of the group to examine next


class TopicLeft:
    """The slice's own copy of a topic: state, deleted ranges, how much is left."""

    __slots__ = ("bytes", "deleted", "deleted_bytes", "messages", "state")

    def __init__(self, state: StoredTopic, deleted: Ranges) -> None:
        self.state = state
        self.deleted = deleted
        self.deleted_bytes = 0  # of deleted messages, in groups that this slice removed
        self.messages = state.next_offset - state.first_offset - deleted.count
        self.bytes = state.bytes - deleted.bytes

    def remove_oldest(self, messages: int, size: int) -> None:
        self.state.first_offset += messages
        self.state.bytes -= size
        self.messages -= messages
        self.bytes -= size

    def is_beyond(self, limits: RetentionLimits, messages: int, size: int) -> bool:
        """Whether enough is kept without the oldest group, which has ``messages`` and ``size``."""
        beyond_count = (
            limits.messages_max is not None and self.messages - messages >= limits.messages_max
        )
        beyond_bytes = limits.bytes_max is not None and self.bytes - size >= limits.bytes_max
        return beyond_count or beyond_bytes


class RetentionSlice:
    """One slice of work."""

    def __init__(
        self,
        request: RetentionRequest,
        snapshot: Transaction,
        journal: JournalCursor,
        transaction: Transaction,
        marks: Marks,
    ) -> None:
        self.request = request
        self.snapshot = snapshot
        self.journal = journal
        self.transaction = transaction
        self.marks = marks
        # how much may be left of what retention can free
        self.total: int | None = request.rules.total_bytes_max
        self.steps = 0
        self.removed = RetentionResult()
        self.topics: dict[bytes, TopicLeft] = {}
        self.changed: dict[bytes, TopicLeft] = {}
        self.examined: list[bytes] = []
        self.blocked: dict[bytes, None] = {}
        self.held: dict[bytes, int] = {}
        self.wakes: dict[bytes, int] = {}
        self.lowered: dict[bytes, int] = {}
        # dropped topics of which something was freed, by id; None: all of it
        self.freed: dict[int, Dropped | None] = {}
        self.is_freeing = False  # whether the next slice continues to free a dropped topic
        self.walk: bytes | None = None
        self.ages: dict[int, Cursor] = {}
        self.oldest: Cursor = (0, 0)
        self.live: dict[bytes, int] = {}  # groups left, of entries that lost some in this slice
        self.compacted = marks.compacted

    def begin_stage(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> bool:
        """Take a step; return False if none is left."""
        self.steps -= 1
        self.removed.more |= self.steps < 0
        return self.steps >= 0

    def free(self, topic_id: int, left: Dropped | None) -> None:
        """Note what is left of a dropped topic; None: nothing."""
        self.freed[topic_id] = left
