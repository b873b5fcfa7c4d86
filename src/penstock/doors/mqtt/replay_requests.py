"""Subscriptions that ask for history: what they say, and whether they may have it.

``$replay/<what>/<filter>`` is no subscription of its own: it asks for ``<filter>`` with history, as
the user property ``replay`` does. So a session has each filter once, SUBSCRIBE without history ends
that history, and UNSUBSCRIBE takes the filter in either form.
"""

from typing import Final, NamedTuple

from penstock.core.delivery import (
    DELIVER_HISTORY,
    DELIVER_ID_SHIFT,
    DELIVER_PUBLISHED_RETAIN,
    DELIVER_QOS,
)
from penstock.core.session import Session
from penstock.core.shares import is_shared
from penstock.core.subscription_options import Marks, is_no_local
from penstock.core.subscriptions import SubscriptionTrie
from penstock.limits import REPLAYS_MAX
from penstock.model.history_start import (
    ALLOWED,
    REPLAY_PREFIX,
    HistoryRequest,
    HistoryStart,
    parse_start,
    split_request,
)
from penstock.wire.mqtt.properties import Properties
from penstock.wire.mqtt.reason_codes import ReasonCode

PROPERTY: Final = b"replay"


class Fault(NamedTuple):
    """Why a filter is refused."""

    code: ReasonCode
    text: str


NOT_UNDERSTOOD: Final = Fault(ReasonCode.TOPIC_FILTER_INVALID, ALLOWED)
NO_FILTER: Final = Fault(
    ReasonCode.TOPIC_FILTER_INVALID, "name a filter behind it, as in $replay/last=100/a/#"
)
NOT_SHARED: Final = Fault(
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    "a shared subscription has no replay: its group goes on where it was",
)
NOT_LOCAL: Final = Fault(
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    "history does not tell who published: no replay with No Local",
)
TOO_MANY: Final = Fault(
    ReasonCode.QUOTA_EXCEEDED,
    f"{REPLAYS_MAX} replays of one session at a time: wait until some have caught up",
)


class Asked(NamedTuple):
    """One filter of a SUBSCRIBE; ``fault`` says why it cannot have the history it asks for."""

    topic_filter: bytes
    start: HistoryStart | None  # None: no history is asked for
    fault: Fault | None = None

    def name(self) -> bytes:
        """The filter as it is journaled."""
        if self.start is None:
            return self.topic_filter
        return HistoryRequest(self.start, self.topic_filter).text()


def plain(topic_filter: bytes) -> bytes:
    """A filter without the request for history."""
    found = split_request(topic_filter)
    return found[1] if found else topic_filter


class ReplayRequests:
    """Requests for history of one connection; ``pending`` ones are not in the session yet."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[int, int] | None = None  # replays by packet id

    def read(self, topic_filter: bytes, options: int, properties: Properties, now_ms: int) -> Asked:
        words = [value.decode(errors="replace") for name, value in properties.user_properties
                 if name == PROPERTY]  # fmt: skip
        found = split_request(topic_filter)
        if found is not None:
            words, topic_filter = [found[0]], found[1]
        if not words:
            return Asked(topic_filter, None, _share_fault(topic_filter))
        start = parse_start(words[0], now_ms) if len(words) == 1 else None
        return Asked(topic_filter, start, _fault(topic_filter, start, options))

    def count(self, session: Session) -> int:
        return len(session.replays or ()) + sum((self._pending or {}).values())

    def note(self, packet_id: int, count: int) -> None:
        """A SUBSCRIBE is in the pipeline."""
        if count:
            self._pending = {**(self._pending or {}), packet_id: count}

    def answered(self, packet_id: int) -> None:
        """The session has them."""
        if self._pending is not None:
            self._pending.pop(packet_id, None)
            self._pending = self._pending or None


def _fault(topic_filter: bytes, start: HistoryStart | None, options: int) -> Fault | None:
    if start is None:
        return NOT_UNDERSTOOD
    if not topic_filter:
        return NO_FILTER
    if is_shared(topic_filter):
        return NOT_SHARED
    return NOT_LOCAL if is_no_local(options) else None


def _share_fault(topic_filter: bytes) -> Fault | None:
    """``$share/<group>/$replay/…`` would wait for topics that cannot exist."""
    wanted = topic_filter.split(b"/", 2)[-1] if is_shared(topic_filter) else b""
    return NOT_SHARED if wanted.startswith(REPLAY_PREFIX) else None


def history_marks(session: Session, topic: bytes, flags: int) -> Marks | None:
    """What a subscription whose history is being sent adds to a delivery; None: nothing.

    A page says to which subscription it belongs. A repeated delivery does not: then it is the one
    that matches the topic, unless that is in the routes by now.
    """
    if flags & DELIVER_HISTORY:
        number = flags >> DELIVER_ID_SHIFT
        ids = (number,) if number else ()
        return Marks(flags & DELIVER_QOS, ids, bool(flags & DELIVER_PUBLISHED_RETAIN))
    trie: SubscriptionTrie[int] = SubscriptionTrie()
    for number, offer in enumerate(session.replays or ()):
        trie.subscribe(offer.topic_filter, number, 0)
    matching = [(session.replays or [])[number].options for number in trie.match(topic)]
    return Marks.of(matching) if matching else None
