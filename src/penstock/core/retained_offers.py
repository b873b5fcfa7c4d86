"""Sending the retained messages of a new subscription page by page [MQTT-3.3.1-6].

A filter may match a million retained messages, and a client may read slowly or not at all. So a
subscription only creates an **offer** in the session: its filters, and how far they were served.
**Pages** follow, each a separate command (``Offered``), as the client's window and its outbox
allow; ``doors/mqtt/retained_pages.py`` drives them.

**Position.** Retained messages are offered in the order of their sequences, so one number
(``after``) is the position of an offer, whatever is retained or cleared meanwhile. A topic that
gets a new message moves behind the ``horizon``, the last sequence when the subscription was made:
the new message reaches the subscriber live, and the old one is no longer retained.

**Search.** The tree is not ordered by sequence. A search walks it in slices, and keeps the
``FOUND_MAX`` oldest messages that are due; when those are used up it walks again. The tree may
change between two slices: a name is looked up when it is reached.

**What survives.** The offer is part of the session's row. A persistent session that reconnects gets
the rest, with a new horizon: while the client was away nothing of QoS 0 was queued for it, so a
topic that changed is offered with what is retained now.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import chain, islice

import msgspec

from penstock.core.retained import Retained, RetainedMessage
from penstock.core.subscription_options import id_of, qos_of

FOUND_MAX = 32_768  # messages that one walk finds at most: 256 KiB while a subscriber is served

PAGE_MESSAGES_MAX = 256
# size of a page: some milliseconds of work; the last message may exceed the bytes
PAGE_BYTES_MAX = 128 * 1024


class RetainedOffer(msgspec.Struct, array_like=True):
    """Filters of one SUBSCRIBE whose retained messages are being sent, and the position."""

    number: int  # changes whenever pages under way become void
    # with the options of each (``core.subscription_options``)
    filters: dict[bytes, int]
    after: int  # everything up to this sequence was offered; -1: nothing yet
    horizon: int  # sequence of the last message when the subscription was made

    @property
    def subscription_id(self) -> int:
        """The identifier of the SUBSCRIBE, which all its filters have; 0: none."""
        return id_of(next(iter(self.filters.values()), 0))


class Page(msgspec.Struct, frozen=True):
    """The next messages of an offer, as ``(topic, sequence, qos)`` each."""

    number: int
    offers: list[tuple[bytes, int, int]]
    live: list[tuple[bytes, int, int]]  # those of QoS 0
    after: int  # position of the offer once they have been sent
    is_last: bool


class RetainedSearch:
    """Finds the messages of an offer from its position on. Void if the offer is renewed."""

    __slots__ = (
        "_after",
        "_ceiling",
        "_filters",
        "_found",
        "_horizon",
        "_order",
        "_walk",
        "number",
    )

    def __init__(self, retained: Retained, offer: RetainedOffer) -> None:
        self.number = offer.number
        self._filters = dict(offer.filters)
        self._horizon = offer.horizon
        self._begin(retained, offer.after)

    def _begin(self, retained: Retained, after: int) -> None:
        self._after = after
        self._found: dict[int, int] = {}  # sequences of messages that are due, with the granted QoS
        # the same, sorted, when the walk is complete: ``sequence << 2 | qos``
        self._order: array[int] | None = None
        # what lies above was found and forgotten, for the next walk
        self._ceiling: float = float("inf")
        self._walk = self._due(retained)

    def _due(self, retained: Retained) -> Iterator[None]:
        for topic_filter, granted in self._filters.items():
            for message in retained.walk(topic_filter):
                if message is not None and self._after < message.sequence <= self._horizon:
                    self._note(message.sequence, qos_of(granted))
                yield

    def _note(self, sequence: int, granted: int) -> None:
        if sequence >= self._ceiling:
            return
        self._found[sequence] = max(granted, self._found.get(sequence, 0))
        if len(self._found) >= 2 * FOUND_MAX:
            oldest = sorted(self._found)
            self._ceiling = oldest[FOUND_MAX]
            self._found = {kept: self._found[kept] for kept in oldest[:FOUND_MAX]}

    def step(self, visits: int) -> bool:
        """Visit ``visits`` nodes; return whether the walk is complete."""
        if self._order is None and sum(1 for _ in islice(self._walk, visits)) < visits:
            packed = [sequence << 2 | granted for sequence, granted in self._found.items()]
            self._order = array("Q", sorted(packed))
            self._found = {}
        return self._order is not None

    def page(
        self,
        retained: Retained,
        offer: RetainedOffer,
        now_ms: int,
        passed_over: Collection[bytes] = (),
    ) -> Page | None:
        """The next page of the offer; None if another walk is needed first.

        Call it when ``step`` is complete. ``passed_over`` are topics with a newer message that
        subscribers have already and that is about to be retained.
        """
        assert self._order is not None
        due = [] if offer.after >= 0 else self._ephemeral(retained)
        place = bisect_left(self._order, offer.after + 1 << 2)
        bytes_left = PAGE_BYTES_MAX
        after = offer.after
        while place < len(self._order) and len(due) < PAGE_MESSAGES_MAX and bytes_left > 0:
            after, granted = self._order[place] >> 2, self._order[place] & 0b11
            place += 1
            message = retained.find(after)
            if message is None or message.is_expired(now_ms):
                continue
            if message.topic not in passed_over:
                due.append((message, min(granted, message.qos)))
                bytes_left -= len(message.payload)
        is_last = place == len(self._order)
        if is_last and self._ceiling != float("inf"):
            if not due:
                self._begin(retained, after)
                return None
            is_last = False
        entries = [(message.topic, message.sequence, qos) for message, qos in due]
        return Page(
            number=offer.number,
            offers=[entry for entry in entries if entry[2]],
            live=[entry for entry in entries if not entry[2]],
            after=max(after, 0),
            is_last=is_last,
        )

    def _ephemeral(self, retained: Retained) -> list[tuple[RetainedMessage, int]]:
        """The broker's own values, which are few and have no position."""
        found = chain.from_iterable(map(retained.match_ephemeral, self._filters))
        return [(message, 0) for message in {message.topic: message for message in found}.values()]
