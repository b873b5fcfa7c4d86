"""What went wrong, and who came and left: a ring of recorded reasons, for ``why``.

Every place that raises a counter of ends or drops writes here too, and nothing is written for a
message that is delivered. The ring keeps the last ``EVENTS_KEPT`` records in memory; it grows as it
is used, so an idle broker pays nothing.

**Storms.** Records of the same kind, client and reason within a second are one, with a count. And
of each kind no more than ``NEW_PER_SECOND_MAX`` begin in a second; what goes beyond is counted
without the client's name. So neither a client that is dropped a thousand messages a second nor ten
thousand clients with made-up names push out what others want to know: the ring spans half a minute
of the worst storm of a kind, and hours of ordinary life.

**Threads.** The event loop alone writes. Readers copy the list of references, at once, and search
the copy backwards in a thread of theirs; a record that still grows may gain a count meanwhile.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

EVENTS_KEPT = 65_536  # 24 MB if all are different and no name is shared; a test measures it
ENDS_KEPT = 20_000  # clients whose last end is kept beyond the ring
NEW_PER_SECOND_MAX = 2_000  # records of one kind that begin in one second
DETAIL_CHARACTERS_MAX = 160
NAME_BYTES_MAX = 256  # of a client id or topic that is recorded; longer ones are cut

CONNECTED: Final = "connected"
ENDED: Final = "ended"
REFUSED: Final = "refused"
DROPPED: Final = "dropped"
RETURNED: Final = "returned"  # by a worker of a group

_Key = tuple[str, str, bytes, bytes, str]  # kind, reason, client, group, user

KINDS: Final = (CONNECTED, ENDED, REFUSED, DROPPED, RETURNED)


class Event(msgspec.Struct, gc=False):
    """One record. ``sequence`` to ``last_sequence`` are the messages that it is about; 0: none."""

    number: int  # grows by one with each record
    ms: int
    kind: str
    reason: str
    client: bytes = b""
    topic: bytes = b""
    group: bytes = b""
    offset: int = -1
    sequence: int = 0
    last_sequence: int = 0
    user: str = ""
    peer: str = ""
    detail: str = ""
    count: int = 1
    is_everywhere: bool = False  # all nodes record it: it follows from the journal


class Events:
    """The ring of one broker, and the last end of each client."""

    __slots__ = ("_counts", "_fresh", "_kept", "_ring", "_second", "_wall_ms", "ends", "next")

    def __init__(self, wall_ms: Callable[[], int] = lambda: 0, kept: int = EVENTS_KEPT) -> None:
        """``wall_ms`` is the clock; without one all records are of the same moment."""
        self._wall_ms = wall_ms
        self._kept = kept
        self._ring: list[Event] = []
        self._second = 0
        self._fresh: dict[_Key, Event] = {}  # of this second, to be counted up
        self._counts: dict[str, int] = {}  # records that began in this second, by kind
        self.next = 0  # number of the next record
        self.ends: OrderedDict[bytes, Event] = OrderedDict()

    def note(
        self,
        kind: str,
        reason: str,
        client: bytes = b"",
        topic: bytes = b"",
        *,
        group: bytes = b"",
        count: int = 1,
        offset: int = -1,
        sequences: tuple[int, int] = (0, 0),
        user: str = "",
        peer: str = "",
        detail: str = "",
    ) -> Event:
        """Record something, or count it with what is alike in this second."""
        now_ms = self._wall_ms()
        if now_ms // 1000 != self._second:
            self._second = now_ms // 1000
            self._fresh, self._counts = {}, {}
        client, group = client[:NAME_BYTES_MAX], group[:NAME_BYTES_MAX]
        key = (kind, reason, client, group, user)
        known = self._fresh.get(key)
        if known is None and self._counts.get(kind, 0) >= NEW_PER_SECOND_MAX:
            client, topic, group, peer, user, detail = b"", b"", b"", "", "", "and others"
            key = (kind, reason, client, group, user)
            known = self._fresh.get(key)
        if known is not None:
            return _counted_up(known, count, topic, sequences)
        event = Event(
            self.next,
            now_ms,
            kind,
            reason,
            client,
            topic[:NAME_BYTES_MAX],
            group,
            offset,
            *sequences,
            user,
            peer,
            detail[:DETAIL_CHARACTERS_MAX],
            count,
        )
        self._fresh[key] = event
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._append(event)
        return event

    def _append(self, event: Event) -> None:
        if len(self._ring) < self._kept:
            self._ring.append(event)
        else:
            self._ring[self.next % self._kept] = event
        self.next += 1

    def ended(self, reason: str, client: bytes, *, user: str, peer: str, detail: str) -> None:
        """Record the end of a client that was connected, and keep it as the client's last."""
        event = self.note(ENDED, reason, client, user=user, peer=peer, detail=detail)
        if event.client:
            self.ends[event.client] = event
            self.ends.move_to_end(event.client)
            if len(self.ends) > ENDS_KEPT:
                self.ends.popitem(last=False)

    def now_ms(self) -> int:
        return self._wall_ms()

    @property
    def oldest_ms(self) -> int:
        """When the oldest record that is kept was made; 0: nothing was pushed out."""
        return self._ring[self.next % self._kept].ms if self.next > self._kept else 0

    def __len__(self) -> int:
        return len(self._ring)

    def newest(self) -> Iterator[Event]:
        """Records from the newest to the oldest."""
        ring, end = list(self._ring), self.next  # any thread: the copy is made at once
        if len(ring) == self._kept:
            start = max((event.number for event in ring), default=0) + 1
        else:
            start = len(ring)
        for number in range(start - 1, max(-1, end - len(ring) - 1), -1):
            event = ring[number % self._kept]
            if event.number == number:  # else it was overwritten meanwhile
                yield event

    def since(self, number: int, count_max: int) -> list[Event]:
        """Records from a number on, oldest first, of those that are still kept."""
        first = max(number, self.next - len(self._ring))
        end = min(self.next, first + count_max)
        return [self._ring[one % self._kept] for one in range(first, end)]

    def turn(self) -> None:
        """Called periodically: let go what was kept to count by, once its second is over."""
        if self._fresh and self._wall_ms() // 1000 != self._second:
            self._fresh, self._counts = {}, {}

    def is_settled(self, event: Event) -> bool:
        """Whether nothing is counted with this record any more: its second is over."""
        return event.ms // 1000 != self._wall_ms() // 1000

    def find(
        self,
        limit: int,
        *,
        client: bytes | None = None,
        topic: bytes | None = None,
        kind: str = "",
        reason: str = "",
        since_ms: int = 0,
        is_before: Callable[[Event], bool] | None = None,
    ) -> list[Event]:
        """The newest records that match, newest first. Takes milliseconds: call it in a thread."""
        found: list[Event] = []
        for event in self.newest():
            if (
                (client is None or event.client == client)
                and (topic is None or event.topic == topic)
                and (not kind or event.kind == kind)
                and (not reason or event.reason == reason)
                and since_ms <= event.ms
                and (is_before is None or is_before(event))
            ):
                found.append(event)
                if len(found) == limit:
                    break
        return found


def _counted_up(known: Event, count: int, topic: bytes, sequences: tuple[int, int]) -> Event:
    known.count += count
    if known.topic and known.topic != topic[:NAME_BYTES_MAX]:
        known.topic = b""  # of several topics
    first, last = sequences
    if last:
        known.sequence = min(known.sequence or first, first)
        known.last_sequence = max(known.last_sequence, last)
    return known
