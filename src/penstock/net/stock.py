"""The stock of one topic: what its desks have to hand out, and how fast they may.

What all groups of a topic share:

* which offsets have which priority, and which are scheduled (``core/lanes``). That is nowhere
  stored but with the messages themselves, so it is read from the journal when the first desk
  opens, a stretch at a time and off the loop, and kept up with every commit. Until all is read,
  what is known so far is handed out;
* the messages of the last commits, as most are handed out while they are fresh: reading them from
  disk would cost a thread's round for each deal.

Limits, on what there is and on how fast it leaves, are those of the topic (``topic_limits``).
"""

from collections import deque
from collections.abc import Callable, Iterable

from penstock.core.lanes import Lanes
from penstock.core.rate import TokenBucket
from penstock.limits import MIB
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT, Message
from penstock.net.feed import Part
from penstock.net.hub import Hub
from penstock.net.topic_limits import TopicLimits
from penstock.store.batch import RUN_WIDTH
from penstock.store.store import TopicInfo, TopicMarks

__all__ = ["Stock"]

MARKS_AT_ONCE = 65_536
"""Messages whose priorities are read from the journal at a time."""

RECENT_BYTES_MAX = MIB
RECENT_PARTS_MAX = 256
"""Payload of the last commits that a topic keeps at hand, and how many commits."""

READ_AGAIN_S = 0.5
"""Pause before the journal is read again, if it could not be."""


class _Recent:
    """What one commit brought; messages are made of it when somebody asks for one."""

    __slots__ = ("_messages", "_part", "end", "first", "size")

    def __init__(self, part: Part) -> None:
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


class Stock:
    """What there is of one topic."""

    def __init__(
        self, hub: Hub, topic: bytes, limits: TopicLimits, grown: Callable[[], None]
    ) -> None:
        self._hub = hub
        self.topic = topic
        self._limits = limits
        self._grown = grown
        self.lanes: Lanes | None = None
        """None before anybody said from where on."""
        self._known_to = 0
        """Everything below was looked at; messages that were deleted are in no lane."""
        self._is_reading = False
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        hub.feed.tap(topic, self._committed)

    def close(self) -> None:
        """Nobody hands out messages of this topic any more."""
        self._hub.feed.untap(self.topic)
        self.lanes = None

    def forget(self) -> None:
        """The topic was deleted: its offsets begin anew."""
        self._recent.clear()
        self._recent_bytes = 0
        self.lanes = None

    # ── priorities and schedules ──────────────────────────────────────────────────────────────

    def cover(self, start: int) -> Lanes:
        """What is known of the offsets from ``start`` on; more may be on its way."""
        if self.lanes is None or start < self.lanes.start:
            self.lanes = Lanes(start)
            self._known_to = start
            self._read_on(self.lanes)
        return self.lanes

    def knows_all_of(self, info: TopicInfo) -> bool:
        """Whether all messages were looked at; if not, ``grown`` will be called."""
        return self._known_to >= info.next_offset

    def _read_on(self, lanes: Lanes) -> None:
        """Read what the journal has beyond what is known, if it has."""
        info = self._hub.store.topic(self.topic)
        if info is not None:
            self._limits.grown(info)
        if self._is_reading or info is None or self._known_to >= info.next_offset:
            return
        self._is_reading = True
        store, topic, start = self._hub.store, self.topic, self._known_to
        self._hub.run_off_loop(
            lambda: store.read_marks(topic, start, MARKS_AT_ONCE),
            lambda marks: self._read(lanes, marks),
            lambda _error: self._read_failed(),
        )

    def _read(self, lanes: Lanes, marks: TopicMarks) -> None:
        self._is_reading = False
        if lanes is not self.lanes:  # somebody asked for more, or the topic is gone, meanwhile
            if self.lanes is not None:
                self._read_on(self.lanes)
            return
        for first, count, flags in marks.runs:
            _extend(lanes, first, count, flags)
        self._known_to = max(marks.next_offset, lanes.start)
        for offset, (due_ms, expires_ms) in marks.schedule.items():
            lanes.schedule(offset, due_ms, expires_ms)
        self._read_on(lanes)
        self._grown()

    def _read_failed(self) -> None:
        """It was counted and logged; the disk may recover."""
        self._is_reading = False
        self._hub.loop.call_later(READ_AGAIN_S, self._read_again)

    def _read_again(self) -> None:
        if self.lanes is not None:
            self._read_on(self.lanes)

    def _committed(self, part: Part) -> None:
        self._keep(part)
        lanes = self.lanes
        if lanes is None:  # nobody has asked
            return
        if part.first_offset <= self._known_to and not self._is_reading:
            _extend_by_part(lanes, part)
            self._known_to = max(self._known_to, part.first_offset + part.count)
        self._read_on(lanes)
        self._grown()

    # ── messages at hand ──────────────────────────────────────────────────────────────────────

    def _keep(self, part: Part) -> None:
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

    def first_offset(self, info: TopicInfo) -> int:
        """The oldest message that the topic's own limits leave; others go when there is time."""
        return self._limits.first_offset(info)


def _extend(lanes: Lanes, first: int, count: int, flags: int) -> None:
    """Add messages, as far as they are not known, nor forgotten as every group is past them."""
    known = max(lanes.end - first, 0)
    if known < count:
        lanes.extend(first + known, count - known, (flags & FLAG_PRIORITY) >> PRIORITY_SHIFT)


def _extend_by_part(lanes: Lanes, part: Part) -> None:
    """Add what a commit brought, as far as it is not known."""
    first = part.first_offset
    counts, flags = part.group.runs[1::RUN_WIDTH], part.group.runs[3::RUN_WIDTH]
    for count, flag in zip(counts, flags, strict=True):
        _extend(lanes, first, count, flag)
        first += count
    for number, extras in part.extras.items():
        if extras.due_ms or extras.expires_ms:
            lanes.schedule(part.first_offset + number, extras.due_ms, extras.expires_ms)
