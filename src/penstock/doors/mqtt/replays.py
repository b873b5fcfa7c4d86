"""Sends history to a subscriber in pages, then lets its subscription go live.

``core/replay_offers`` explains what a page is and how the subscription joins the live flow without
a gap or a double. Here the journal is read, off the loop and ahead of the client, and pages are
made when its window is not full, its outbox is idle and the page before was applied. Replays of one
connection take turns.

**Live messages.** QoS 0 is forwarded when it arrives and journaled later. In the turn of the loop
in which the subscription has joined, live subscribers have had what can be read from the journal,
up to ``Reading.end``, and what is still in the pipeline, which is taken from there. What comes
later passes the ``LiveCollector``, which hands everything on when the last history is sent. So
history has a message of QoS 0 if its sequence is below ``end``, and one of QoS 1 or 2 if it was
applied before the subscription joined (``ReplayOffer.joined_at``).
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Final, Protocol

from penstock.core.commands import Replayed
from penstock.core.live import live_of
from penstock.core.replay_delivery import STEP_ENDS, STEP_JOINS, STEP_LEAVES, STEP_SENDS
from penstock.core.replay_offers import ReplayOffer
from penstock.core.session import Session, SessionClient
from penstock.core.subscriptions import SubscriptionTrie
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.replay_memory import LiveCollector, MarkedClient, Reading
from penstock.errors import StorageError
from penstock.limits import KIB, MIB
from penstock.model.history_start import HistoryStart
from penstock.model.message import Message
from penstock.net.outbox import Outbox
from penstock.obs.reasons import DisconnectReason
from penstock.store.history import History, HistoryStep
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

# read from the journal at a time: a block with many topics is decoded as a whole for it
READ_MESSAGES: Final = 16_384
READ_FIRST: Final = 1_024  # the same at the beginning: the client waits
READ_BYTES: Final = 2 * MIB
PAGE_MESSAGES: Final = 256
PAGE_BYTES: Final = 128 * KIB
AT_ONCE: Final = 64  # sequences up to which the end of the journal is read on the loop
NEAR: Final = 16_384  # sequences from the end that are read without waiting for long reads


class ReplayingClient(MarkedClient, SessionClient, Protocol):
    """The connection that the pages are sent to."""

    reason: DisconnectReason | None
    principal: Principal

    @property
    def outbox(self) -> Outbox: ...


class MqttReplays:
    """The replays of one connection."""

    __slots__ = ("_client", "_door", "_is_making", "_readings", "_session", "_submitted")

    def __init__(self, door: MqttParts, client: ReplayingClient, session: Session) -> None:
        self._door = door
        self._client = client
        self._session = session
        self._readings: dict[bytes, Reading] = {}  # by filter; the first was served longest ago
        self._is_making = False
        self._submitted: tuple[bytes, Replayed] | None = None  # the page in the pipeline

    def go_on(self, *, is_page_done: bool = False) -> None:
        """Make the next page if there is one and room for it; may be called at any time."""
        if is_page_done:
            self._page_done()
        self._note_joined()
        if not self._is_making and self._submitted is None and self._has_room():
            self._is_making = True
            self._door.connections.turns.share(self._make())

    def close(self) -> None:
        for reading in self._readings.values():
            reading.is_forgotten = True
            self._door.replay_memory.forget(reading)
        self._readings = {}

    def _has_room(self) -> bool:
        session, client = self._session, self._client
        is_current = session.client is client and client.reason is None
        return bool(session.replays) and is_current and client.outbox.is_idle()

    def _offer(self, topic_filter: bytes) -> ReplayOffer | None:
        replays = self._session.replays or ()
        return next((offer for offer in replays if offer.topic_filter == topic_filter), None)

    # ── readings ──────────────────────────────────────────────────────────────────────────────

    def _upcoming(self) -> list[tuple[ReplayOffer, Reading]]:
        """The replays in the order of their turns."""
        offers = {offer.topic_filter: offer for offer in self._session.replays or ()}
        for gone in self._readings.keys() - offers.keys():
            reading = self._readings.pop(gone)
            reading.is_forgotten = True
            self._door.replay_memory.forget(reading)
        for topic_filter, offer in offers.items():
            known = self._readings.get(topic_filter)
            if known is None or known.is_forgotten or known.number != offer.number:
                self._readings[topic_filter] = self._begun(offer, known)
        return [(offers[name], reading) for name, reading in self._readings.items()]

    def _begun(self, offer: ReplayOffer, before: Reading | None) -> Reading:
        """Read from the position of an offer on. What it has listed can still be used."""
        if before is not None:
            self._door.replay_memory.forget(before)
            is_usable = before.offer is offer and not before.is_reading
            if is_usable and not before.is_forgotten:
                return Reading(offer, before.history)
            before.is_forgotten = True  # what it reads now is of no use
        trie: SubscriptionTrie[None] = SubscriptionTrie()
        trie.subscribe(offer.topic_filter, None, 0)
        start, horizon = HistoryStart(*offer.start), 0
        if offer.after >= 0 and start.last:  # the last ones of that time
            horizon = offer.horizon
            start = start if horizon else start._replace(last=0)
        history = History(offer.topic_filter, lambda topic: bool(trie.match(topic)), start, horizon)
        reading = Reading(offer, history)
        if start.last and not horizon:  # count those, too, that are not written yet
            reading.waits_for = self._door.pipeline.received_sequence
        return reading

    def _read(self, reading: Reading, end: int) -> None:
        store, history, low = self._door.readers.store, reading.history, reading.low
        count = READ_MESSAGES if history.is_listed else READ_FIRST
        reading.is_reading = True

        def job() -> HistoryStep:
            return store.read_history(history, low, end, count, READ_BYTES)

        def done(step: HistoryStep) -> None:
            reading.is_reading = False
            if not reading.is_forgotten:
                reading.unsent.extend(step.messages)
                reading.low = step.next_sequence
                self._door.replay_memory.note(reading)
            self.go_on()

        def failed(error: StorageError) -> None:
            reading.is_reading = False
            if not reading.is_forgotten:
                self._client.close(DisconnectReason.STORAGE_FAILED, error.message)

        if history.is_listed and end - low <= AT_ONCE and reading.collector is not None:
            try:
                done(job())
            except StorageError as error:
                failed(error)
            return
        is_search = not history.is_listed or end - low > NEAR
        self._door.readers.run(job, done, failed, is_search=is_search)

    # ── pages ─────────────────────────────────────────────────────────────────────────────────

    def _make(self) -> Iterator[None]:
        yield
        self._is_making = False
        if self._submitted is not None or not self._has_room():
            return
        for offer, reading in self._upcoming():
            if not reading.is_reading and self._advance(offer, reading):
                break

    def _advance(self, offer: ReplayOffer, reading: Reading) -> bool:
        """Read on, or submit a page; return whether a page was submitted."""
        pipeline = self._door.pipeline
        room = self._door.broker.replay_delivery.room(self._session)
        if not room and offer.qos:
            return False
        if reading.waits_for > pipeline.settled_sequence and reading.waits_left:
            reading.waits_left -= 1
            reading.is_reading = True
            pipeline.when_committed(lambda: self._readable(reading))
            return False
        if reading.collector is not None and (
            reading.collector.is_full
            or self._door.broker.replay_delivery.is_full(self._session, offer.topic_filter)
        ):
            self._submit(offer, reading, [], STEP_LEAVES)
            return True
        end = reading.end if reading.collector is not None else pipeline.settled_sequence
        if reading.unsent:
            messages = list(self._page(offer, reading, room))
            is_last = reading.collector is not None and not reading.unsent and reading.low >= end
            self._submit(offer, reading, messages, STEP_ENDS if is_last else STEP_SENDS)
        elif reading.low < end:
            if end > pipeline.settled_sequence:  # not written yet (durability "interval")
                reading.is_reading = True
                pipeline.when_readable(lambda: self._readable(reading), end)
            else:
                self._read(reading, end)
            return False
        else:
            step = STEP_JOINS if reading.collector is None else STEP_ENDS
            self._submit(offer, reading, [], step)
        return True

    def _readable(self, reading: Reading) -> None:
        reading.is_reading = False
        self.go_on()

    def _page(self, offer: ReplayOffer, reading: Reading, room: int) -> Iterator[Message]:
        """The next messages that are to be sent; others are taken out, too."""
        now_ms, bytes_left, count = self._door.connections.wall_ms(), PAGE_BYTES, PAGE_MESSAGES
        unsent = reading.unsent
        while unsent and bytes_left > 0 and count and (room or not min(offer.qos, unsent[0].qos)):
            message = unsent.popleft()
            if not self._is_due(offer, message, now_ms):
                continue
            room -= bool(min(offer.qos, message.qos))
            bytes_left -= len(message.payload)
            count -= 1
            yield message

    def _is_due(self, offer: ReplayOffer, message: Message, now_ms: int) -> bool:
        if offer.is_joining and message.qos and message.sequence > offer.joined_at:
            return False  # it is held back already
        if message.extras is not None and 0 < message.extras.expires_ms <= now_ms:
            return False
        broker, admission = self._door.broker, self._door.admission
        if broker.routes.may_receive is None:
            return True
        is_history = message.sequence <= offer.horizon
        if is_history and not admission.allows(self._client.principal, Action.READ, message.topic):
            return False
        return broker.routes.may_receive(self._session, message.topic)

    def _submit(
        self, offer: ReplayOffer, reading: Reading, messages: list[Message], step: int
    ) -> None:
        """Submit a page; its position is before what is left."""
        after = reading.unsent[0].sequence if reading.unsent else reading.low
        found = [(message, min(offer.qos, message.qos)) for message in messages]
        page = Replayed(
            client_id=self._session.client_id,
            connection=self._session.connection,
            number=offer.number,
            since=offer.after,
            after=max(after - 1, offer.after, 0),
            runs=list(_runs(found)),
            step=step,
            found=messages,
            live=[message.sequence for message, qos in found if not qos],
        )
        topic_filter = offer.topic_filter
        self._submitted = topic_filter, page
        self._readings[topic_filter] = self._readings.pop(topic_filter)  # the others come first
        self._door.replay_memory.served(reading)
        self._door.pipeline.submit(page, self._client, durable=self._session.durable)

    def _page_done(self) -> None:
        """A page was applied; what did not fit the window is sent again."""
        submitted, self._submitted = self._submitted, None
        if submitted is None:
            return
        topic_filter, page = submitted
        offer, reading = self._offer(topic_filter), self._readings.get(topic_filter)
        if offer is None or reading is None or reading.number != page.number:
            return
        left = [message for message in page.found if message.sequence > offer.after]
        reading.unsent.extendleft(reversed(left))

    # ── the seam ──────────────────────────────────────────────────────────────────────────────

    def _note_joined(self) -> None:
        """If a subscription has just joined the routes: note what live subscribers had so far."""
        for offer in self._session.replays or ():
            reading = self._readings.get(offer.topic_filter)
            if not offer.is_joining or reading is None or reading.collector is not None:
                continue
            joining = self._door.broker.replay_delivery.joining(self._session, offer.topic_filter)
            if joining is None or reading.number != offer.number:
                continue
            collector = reading.collector = LiveCollector(self._client, offer.options)
            matches = reading.history.matches
            reading.end, pending = self._door.pipeline.seam()
            for topic, payloads, extras, flags in pending:
                if matches(topic):
                    for payload, extra in zip(payloads, extras or repeat(None), strict=False):
                        collector.forward(live_of(topic, payload, extra, flags))
            joining.client, joining.pass_on = collector, collector.pass_on


def _runs(found: list[tuple[Message, int]]) -> Iterator[tuple[int, int, int]]:
    """Consecutive sequences of one QoS, without QoS 0."""
    first = count = before = 0
    for message, qos in found:
        if not qos:
            continue
        if count and qos == before and message.sequence == first + count:
            count += 1
            continue
        if count:
            yield first, count, before
        first, count, before = message.sequence, 1, qos
    if count:
        yield first, count, before
