"""The backlog of one topic: what its dispatchers have to hand out, and how fast they may.

What all groups of a topic share:

* which offsets have which priority, and which are scheduled (``catalogue``). It is read from the
  journal when the first dispatcher opens, and until all is read, what is known so far is handed
  out;
* the messages of the last commits, as most are handed out while they are fresh: reading them from
  disk would cost a thread's round trip for each round.

Limits, on what there is and on how fast it leaves, are those of the topic (``topic_limits``).
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
"""Payload of the last commits that a topic keeps at hand, and how many commits."""


class _Recent:
    """What one commit brought; messages are made of it when somebody asks for one."""

    __slots__ = ("_messages", "_part", "end", "first", "size")

    def __init__(self, part: CommittedMessages) -> None:
        self._part = part
        self._messages: list[Message] = []
        self.first = part.first_offset
        self.end = part.first_offset + part.count
        self.size = sum(map(len, part.group.payloads))

    def message(self, offset: int) -> Message:
        """The message of an offset, which lies within."""
        if not self._messages:
            self._messages = list(self._part.messages())
        return self._messages[offset - self.first]


class Backlog:
    """What there is of one topic."""

    def __init__(
        self, parts: DispatchParts, topic: bytes, limits: TopicLimits, grown: Callable[[], None]
    ) -> None:
        self._parts = parts
        self.topic = topic
        self._limits = limits
        self._grown = grown
        self._catalogue: PriorityCatalog | None = None
        self._wider: PriorityCatalog | None = None
        """One that begins further back, while it is being read."""
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        parts.feed.tap(topic, self._committed)

    def close(self) -> None:
        """Nobody hands out messages of this topic any more."""
        self._parts.feed.untap(self.topic)
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
    def lanes(self) -> OffsetsByPriority | None:
        """What is known of the topic; None before anybody said from where on."""
        return self._catalogue.lanes if self._catalogue else None

    @property
    def has_times(self) -> bool:
        """Whether messages are known that are due later, or whose time will be over."""
        lanes = self.lanes
        return lanes is not None and any(len(lane.schedule) for lane in lanes.by_priority)

    def cover(self, start: int) -> OffsetsByPriority:
        """What is known of the offsets from ``start`` on; more may be on its way.

        Who begins further back than others makes us read again, and must wait for that; the others
        need not.
        """
        catalogue = self._catalogue_of(start)
        if catalogue is None:
            catalogue = self._open(start)
        return catalogue.lanes

    def _catalogue_of(self, start: int) -> PriorityCatalog | None:
        """The one that is complete sooner, of those that begin early enough."""
        for catalogue in (self._catalogue, self._wider):
            if catalogue is not None and catalogue.lanes.start <= start:
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
        """Whether all messages from ``start`` on were looked at; if not, ``grown`` is called."""
        catalogue = self._catalogue_of(start)
        return catalogue is not None and catalogue.known_to >= info.next_offset

    def is_reading(self, start: int) -> bool:
        """Whether more from ``start`` on is about to be known; ``grown`` is called then."""
        catalogue = self._catalogue_of(start)
        return catalogue is not None and catalogue.is_reading

    def _read(self) -> None:
        """More is known; if the wider catalogue knows what the other does, one is enough."""
        wider, narrow = self._wider, self._catalogue
        if wider is not None and narrow is not None and wider.known_to >= narrow.known_to:
            narrow.close()
            self._catalogue, self._wider = wider, None
        self._grown()

    def _tell_limits(self) -> None:
        info = self._parts.store.topic(self.topic)
        if info is not None:
            self._limits.grown(info)

    def _committed(self, part: CommittedMessages) -> None:
        self._keep(part)
        self._tell_limits()
        for catalogue in (self._catalogue, self._wider):
            if catalogue is not None:
                catalogue.committed(part)
        if self._catalogue is not None:
            self._grown()

    # ── messages at hand ──────────────────────────────────────────────────────────────────────

    def _keep(self, part: CommittedMessages) -> None:
        recent = _Recent(part)
        self._recent.append(recent)
        self._recent_bytes += recent.size
        while self._recent_bytes > RECENT_BYTES_MAX or len(self._recent) > RECENT_PARTS_MAX:
            self._recent_bytes -= self._recent.popleft().size

    def at_hand(self, offsets: Iterable[int]) -> dict[int, Message]:
        """Those of some messages that need not be read."""
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
        """The tokens that deliveries take; None: there is no limit."""
        return self._limits.bucket(self.topic, now)

    def is_aged(self, info: TopicInfo, end: int) -> bool:
        """Whether it is known which of the messages before ``end`` are too old."""
        return self._limits.is_aged(info, end)

    def first_offset(self, info: TopicInfo) -> int:
        """The oldest message that the topic's own limits leave; others go when there is time."""
        return self._limits.first_offset(info)
