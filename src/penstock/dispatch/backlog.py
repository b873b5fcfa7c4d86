"""The backlog of one topic: what its dispatchers have to dispatch, and how fast they may.

All groups of a topic share:

* which offsets have which priority, and which are scheduled (``dispatch/priorities``). That is read
  from the journal when the first dispatcher opens; what is known so far is dispatched meanwhile;
* the messages of recent commits. Most are dispatched soon after their commit, and reading them from
  disk would cost each round a wait for a reader thread.

The limits are those of the topic (``retention/topic_limits``).
"""

from collections import deque
from collections.abc import Callable, Iterable

from penstock.commit.feed import CommittedMessages
from penstock.core.priority_offsets import OffsetsByPriority
from penstock.core.rate import TokenBucket
from penstock.dispatch.parts import DispatchParts
from penstock.dispatch.priorities import PriorityCatalog
from penstock.limits import MIB
from penstock.model.message import Message
from penstock.retention.topic_limits import TopicLimits
from penstock.store.store import TopicInfo

RECENT_BYTES_MAX = MIB
RECENT_PARTS_MAX = 256
"""Payload bytes, and number, of the recent commits that a topic keeps in memory."""


class _Recent:
    """The messages of one commit, decoded when the first is needed."""

    __slots__ = ("_messages", "_source", "end", "first", "size")

    def __init__(self, committed: CommittedMessages) -> None:
        self._source = committed
        self._messages: list[Message] = []
        self.first = committed.first_offset
        self.end = committed.first_offset + committed.count
        self.size = sum(map(len, committed.group.payloads))

    def message(self, offset: int) -> Message:
        if not self._messages:
            self._messages = list(self._source.messages())
        return self._messages[offset - self.first]


class Backlog:
    """What one topic has to dispatch."""

    def __init__(
        self, parts: DispatchParts, topic: bytes, limits: TopicLimits, grown: Callable[[], None]
    ) -> None:
        self._parts = parts
        self.topic = topic
        self._limits = limits
        self._grown = grown
        self._catalogue: PriorityCatalog | None = None
        self._wider: PriorityCatalog | None = None  # begins further back; being read
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        parts.feed.tap(topic, self._committed)

    def close(self) -> None:
        self._parts.feed.untap(self.topic, self._committed)
        self._close_catalogues()

    def forget(self) -> None:
        """The topic was deleted: its offsets begin anew."""
        self._recent.clear()
        self._recent_bytes = 0
        self._close_catalogues()

    def _close_catalogues(self) -> None:
        for catalogue in (self._catalogue, self._wider):
            if catalogue is not None:
                catalogue.close()
        self._catalogue = self._wider = None

    # ── priorities and schedules ──────────────────────────────────────────────────────────────

    @property
    def offsets(self) -> OffsetsByPriority | None:
        """What is known of the topic; None before the first ``cover``."""
        return self._catalogue.offsets if self._catalogue else None

    @property
    def has_times(self) -> bool:
        """Whether messages are known that are delayed or will expire."""
        offsets = self.offsets
        return offsets is not None and any(len(listed.schedule) for listed in offsets.by_priority)

    def cover(self, start: int) -> OffsetsByPriority:
        """What is known from ``start`` on; more may be read right now.

        A group that begins further back than others causes another read and waits for it; the
        others need not.
        """
        catalogue = self._catalogue_of(start)
        if catalogue is None:
            catalogue = self._open(start)
        return catalogue.offsets

    def _catalogue_of(self, start: int) -> PriorityCatalog | None:
        """Of those that begin early enough, the one that is complete sooner."""
        for catalogue in (self._catalogue, self._wider):
            if catalogue is not None and catalogue.offsets.start <= start:
                return catalogue
        return None

    def _open(self, start: int) -> PriorityCatalog:
        self._tell_limits()
        opened = PriorityCatalog(self._parts, self.topic, start, self._read)
        if self._catalogue is None:
            self._catalogue = opened
        else:
            if self._wider is not None:
                self._wider.close()
            self._wider = opened
        return opened

    def knows_all_of(self, info: TopicInfo, start: int) -> bool:
        """Whether everything from ``start`` on was read; if not, ``grown`` will be called."""
        catalogue = self._catalogue_of(start)
        return catalogue is not None and catalogue.known_to >= info.next_offset

    def is_reading(self, start: int) -> bool:
        """Whether more from ``start`` on is being read; ``grown`` is called then."""
        catalogue = self._catalogue_of(start)
        return catalogue is not None and catalogue.is_reading

    def _read(self) -> None:
        """More is known. Once the wider catalogue has caught up, it replaces the other."""
        wider, narrow = self._wider, self._catalogue
        if wider is not None and narrow is not None and wider.known_to >= narrow.known_to:
            narrow.close()
            self._catalogue, self._wider = wider, None
        self._grown()

    def _tell_limits(self) -> None:
        info = self._parts.store.topic(self.topic)
        if info is not None:
            self._limits.grown(info)

    def _committed(self, committed: CommittedMessages) -> None:
        self._keep(committed)
        self._tell_limits()
        for catalogue in (self._catalogue, self._wider):
            if catalogue is not None:
                catalogue.committed(committed)
        if self._catalogue is not None:
            self._grown()

    # ── recent messages ───────────────────────────────────────────────────────────────────────

    def _keep(self, committed: CommittedMessages) -> None:
        recent = _Recent(committed)
        self._recent.append(recent)
        self._recent_bytes += recent.size
        while self._recent_bytes > RECENT_BYTES_MAX or len(self._recent) > RECENT_PARTS_MAX:
            self._recent_bytes -= self._recent.popleft().size

    def at_hand(self, offsets: Iterable[int]) -> dict[int, Message]:
        """Those of the messages that are in memory."""
        found: dict[int, Message] = {}
        if not self._recent:
            return found
        oldest = self._recent[0].first
        newest_first = list(reversed(self._recent))
        recent = newest_first[0]
        for offset in offsets:
            if offset < oldest:
                continue
            if not recent.first <= offset < recent.end:
                recent = next((r for r in newest_first if r.first <= offset < r.end), recent)
            if recent.first <= offset < recent.end:
                found[offset] = recent.message(offset)
        return found

    # ── limits ────────────────────────────────────────────────────────────────────────────────

    def bucket(self, now: float) -> TokenBucket | None:
        """The rate limit of deliveries; None: unlimited."""
        return self._limits.bucket(self.topic, now)

    def is_aged(self, info: TopicInfo, end: int) -> bool:
        """Whether it is known which messages before ``end`` are too old."""
        return self._limits.is_aged(info, end)

    def first_offset(self, info: TopicInfo) -> int:
        """The oldest message within the topic's own limits; retention removes others later."""
        return self._limits.first_offset(info)
