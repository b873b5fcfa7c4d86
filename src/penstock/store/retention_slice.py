"""One slice of retention: what it looks at, what it writes to, and what it has changed so far.

Everything here lives as long as one transaction. If that fails, it is as if nothing had happened.
"""

from penstock.store.deletions import Ranges
from penstock.store.dropped import Dropped
from penstock.store.environment import Transaction
from penstock.store.journal import JournalCursor
from penstock.store.marks import Marks
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionResult
from penstock.store.topics import StoredTopic

Cursor = tuple[int, int]
"""Entry index, and number of the group within it, to be looked at next."""


class TopicLeft:
    """The slice's own copy of a topic: its state, what was deleted, how much is left."""

    __slots__ = ("bytes", "deleted", "deleted_bytes", "messages", "state")

    def __init__(self, state: StoredTopic, deleted: Ranges) -> None:
        self.state = state
        self.deleted = deleted
        self.deleted_bytes = 0
        """Of deleted messages, in the groups that this slice dropped."""
        self.messages = state.next_offset - state.first_offset - deleted.count
        self.bytes = state.bytes - deleted.bytes

    def remove_oldest(self, messages: int, size: int) -> None:
        """Take so much away at the beginning, none of which was deleted before."""
        self.state.first_offset += messages
        self.state.bytes -= size
        self.messages -= messages
        self.bytes -= size

    def is_beyond(self, limits: RetentionLimits, messages: int, size: int) -> bool:
        """Whether enough is left to keep without the oldest group, which has so much."""
        beyond_count = (
            limits.messages_max is not None and self.messages - messages >= limits.messages_max
        )
        beyond_bytes = limits.bytes_max is not None and self.bytes - size >= limits.bytes_max
        return beyond_count or beyond_bytes


class RetentionSlice:
    """One slice of work: what it looks at, where it writes, its budget, what it has changed."""

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
        self.total: int | None = request.rules.total_bytes_max
        """How much may be left of what retention can free."""
        self.steps = 0
        self.removed = RetentionResult()
        self.topics: dict[bytes, TopicLeft] = {}
        self.changed: dict[bytes, TopicLeft] = {}
        self.examined: list[bytes] = []
        self.blocked: dict[bytes, None] = {}
        self.held: dict[bytes, int] = {}
        self.wakes: dict[bytes, int] = {}
        self.lowered: dict[bytes, int] = {}
        self.freed: dict[int, Dropped | None] = {}
        """Dropped topics of which something was freed, by id; None: all of it."""
        self.is_freeing = False
        """Whether a dropped topic is to be freed further in the next slice."""
        self.walk: bytes | None = None
        self.ages: dict[int, Cursor] = {}
        self.oldest: Cursor = (0, 0)
        self.live: dict[bytes, int] = {}
        """Groups left, of the entries that lost some in this slice and are still there."""
        self.compacted = marks.compacted

    def begin_stage(self, steps: int) -> None:
        """Give the next stage its steps."""
        self.steps = steps

    def step(self) -> bool:
        """Take one step, if there is one left."""
        self.steps -= 1
        self.removed.more |= self.steps < 0
        return self.steps >= 0

    def free(self, topic_id: int, left: Dropped | None) -> None:
        """Note what is left of a dropped topic; None: nothing is."""
        self.freed[topic_id] = left
