"""What went wrong, and who came and left: a ring of recorded reasons, for ``why``.

Every place that raises a counter of ends or drops writes here too, and nothing is written for a
message that is delivered. The ring keeps the last ``EVENTS_KEPT`` records in memory; it grows as it
is used, so an idle broker pays nothing.

**Storms.** Records of the same kind, client and reason within a second are one, with a count. And
of each kind no more than ``NEW_PER_SECOND_MAX`` begin in a second; what goes beyond is counted
without the client's name. So neither a client that is dropped a thousand messages a second nor ten
thousand clients with made-up names push out what others want to know: the ring spans half a minute
of the worst storm of a kind, and hours of ordinary life.

**Columns.** Most records say that somebody came or left, and differ in little: they share all but
time, client and peer, which are a column each. So the arrival of a client takes 32 bytes, and no
object of its own. An ``Event`` is made of a record when somebody reads it.

**Threads.** The event loop alone writes. Readers copy the columns and search the copies backwards
in a thread of theirs. What is written meanwhile takes the places of the oldest records, which is
why a reader looks again at ``next`` after it has copied, and leaves those out. A record that still
grows may gain a count meanwhile.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

EVENTS_KEPT = 65_536  # 20 MB if all are different and no name is shared; a test measures it
ENDS_KEPT = 20_000  # clients whose last end is kept beyond the ring
NEW_PER_SECOND_MAX = 2_000  # records of one kind that begin in one second
DETAIL_CHARACTERS_MAX = 160
NAME_BYTES_MAX = 256  # of a client id or topic that is recorded; longer ones are cut

CONNECTED: Final = "connected"
ENDED: Final = "ended"
REFUSED: Final = "refused"
DROPPED: Final = "dropped"
RETURNED: Final = "returned"  # by a worker of a group

ALIKE_MAX = 256  # facts remembered, so that the next record may share them

_Key = tuple[str, str, bytes, str]  # kind, reason, group, user

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


class _Facts(msgspec.Struct, gc=False):
    """What a record says besides when, of whom and from where: fields of ``Event``."""

    kind: str
    reason: str
    user: str
    detail: str
    topic: bytes = b""
    group: bytes = b""
    offset: int = -1
    sequence: int = 0
    last_sequence: int = 0
    count: int = 1
    is_everywhere: bool = False
    is_shared: bool = False  # by several records: copied before it is changed


class _Columns:
    """Records, each at its place in all columns."""

    __slots__ = ("clients", "facts", "peers", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.clients: list[bytes] = []
        self.peers: list[str] = []
        self.facts: list[_Facts] = []

    def copied(self) -> "_Columns":
        copy = _Columns()
        copy.facts = self.facts[:]
        copy.times = self.times[:]
        copy.clients = self.clients[:]
        copy.peers = self.peers[:]
        return copy

    def put(self, place: int, ms: int, client: bytes, peer: str, facts: _Facts) -> None:
        """Write over the record at a place, or append one."""
        if place < len(self.facts):
            self.times[place] = ms
            self.clients[place] = client
            self.peers[place] = peer
            self.facts[place] = facts
        else:
            self.times.append(ms)
            self.clients.append(client)
            self.peers.append(peer)
            self.facts.append(facts)

    def event(self, number: int, place: int) -> Event:
        facts = self.facts[place]
        return Event(
            number,
            self.times[place],
            facts.kind,
            facts.reason,
            self.clients[place],
            facts.topic,
            facts.group,
            facts.offset,
            facts.sequence,
            facts.last_sequence,
            facts.user,
            self.peers[place],
            facts.detail,
            facts.count,
            facts.is_everywhere,
        )


class Events:
    """The ring of one broker, and the last end of each client."""

    __slots__ = (
        "_alike",
        "_columns",
        "_counts",
        "_fresh",
        "_kept",
        "_places",
        "_second",
        "_wall_ms",
        "ends",
        "next",
    )

    def __init__(self, wall_ms: Callable[[], int] = lambda: 0, kept: int = EVENTS_KEPT) -> None:
        """``wall_ms`` is the clock; without one all records are of the same moment."""
        self._wall_ms = wall_ms
        self._kept = kept
        self._places = kept + 1  # a reader may find one half written over
        self._columns = _Columns()
        self._alike: dict[tuple[str, str, str, str], _Facts] = {}
        self._second = 0
        # numbers of the records of this second, by client: they are counted up
        self._fresh: dict[_Key, dict[bytes, int]] = {}
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
        is_everywhere: bool = False,
    ) -> int:
        """Record something, or count it with what is alike in this second; return its number."""
        now_ms = self._wall_ms()
        self._begin_second(now_ms)
        client, group = client[:NAME_BYTES_MAX], group[:NAME_BYTES_MAX]
        alike = self._fresh.setdefault((kind, reason, group, user), {})
        if client not in alike and self._counts.get(kind, 0) >= NEW_PER_SECOND_MAX:
            client, topic, group, peer, user, detail = b"", b"", b"", "", "", "and others"
            alike = self._fresh.setdefault((kind, reason, group, user), {})
        known = alike.get(client)
        if known is not None:
            self._count_up(known, count, topic, sequences, is_everywhere=is_everywhere)
            return known
        facts = _Facts(
            kind,
            reason,
            user,
            detail[:DETAIL_CHARACTERS_MAX],
            topic[:NAME_BYTES_MAX],
            group,
            offset,
            *sequences,
            count,
            is_everywhere,
        )
        self._counts[kind] = self._counts.get(kind, 0) + 1
        alike[client] = number = self.next
        self._columns.put(number % self._places, now_ms, client, peer, self._shared(facts))
        self.next = number + 1
        return number

    def _begin_second(self, now_ms: int) -> None:
        if now_ms // 1000 != self._second:
            self._second = now_ms // 1000
            self._fresh, self._counts = {}, {}

    def _shared(self, facts: _Facts) -> _Facts:
        """The same facts as an object that other records have too, if they are not special."""
        key = (facts.kind, facts.reason, facts.user, facts.detail)
        if facts != _Facts(*key):
            return facts
        if key not in self._alike:
            if len(self._alike) >= ALIKE_MAX:
                self._alike.clear()
            facts.is_shared = True
            self._alike[key] = facts
        return self._alike[key]

    def _count_up(
        self,
        number: int,
        count: int,
        topic: bytes,
        sequences: tuple[int, int],
        *,
        is_everywhere: bool,
    ) -> None:
        if not self._is_kept(number):
            return  # others of the same second have pushed it out
        place = number % self._places
        known = self._columns.facts[place]
        if known.is_shared:
            known = self._columns.facts[place] = replace(known, is_shared=False)
        known.count += count
        known.is_everywhere = known.is_everywhere or is_everywhere
        if known.topic and known.topic != topic[:NAME_BYTES_MAX]:
            known.topic = b""  # of several topics
        first, last = sequences
        if last:
            known.sequence = min(known.sequence or first, first)
            known.last_sequence = max(known.last_sequence, last)

    def ended(self, reason: str, client: bytes, *, user: str, peer: str, detail: str) -> None:
        """Record the end of a client that was connected, and keep it as the client's last."""
        number = self.note(ENDED, reason, client, user=user, peer=peer, detail=detail)
        if not self._is_kept(number) or not self._columns.clients[number % self._places]:
            return
        event = self.at(number)
        self.ends[event.client] = event
        self.ends.move_to_end(event.client)
        if len(self.ends) > ENDS_KEPT:
            self.ends.popitem(last=False)

    def now_ms(self) -> int:
        return self._wall_ms()

    @property
    def oldest_ms(self) -> int:
        """When the oldest record that is kept was made; 0: nothing was pushed out."""
        oldest = self.next - self._kept
        return self._columns.times[oldest % self._places] if oldest > 0 else 0

    def __len__(self) -> int:
        return min(self.next, self._kept)

    def _is_kept(self, number: int) -> bool:
        return number >= self.next - self._kept

    def at(self, number: int) -> Event:
        """A record that is kept."""
        return self._columns.event(number, number % self._places)

    def newest(self) -> Iterator[Event]:
        """Records from the newest to the oldest."""
        columns, numbers = self._copied()
        for number in numbers:
            yield columns.event(number, number % self._places)

    def _copied(self) -> tuple[_Columns, range]:
        """All records and their numbers, the newest first, for any thread."""
        end = self.next
        columns = self._columns.copied()
        oldest = max(0, self.next - self._kept)  # those before are, or may be, written over
        return columns, range(end - 1, oldest - 1, -1)

    def since(self, number: int, count_max: int) -> Iterator[Event]:
        """Records from a number on, oldest first, of those that are still kept."""
        first = max(number, self.next - len(self))
        for one in range(first, min(self.next, first + count_max)):
            yield self.at(one)

    def turn(self) -> None:
        """Called periodically: let go what was kept to count by, once its second is over."""
        if self._fresh:
            self._begin_second(self._wall_ms())

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
        columns, numbers = self._copied()
        for number in numbers:
            place = number % self._places
            facts = columns.facts[place]
            if (
                (client is None or columns.clients[place] == client)
                and (topic is None or facts.topic == topic)
                and (not kind or facts.kind == kind)
                and (not reason or facts.reason == reason)
                and since_ms <= columns.times[place]
            ):
                event = columns.event(number, place)
                if is_before is None or is_before(event):
                    found.append(event)
                    if len(found) == limit:
                        break
        return found
