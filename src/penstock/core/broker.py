"""The broker's state and its one verb: apply a command, collect the effects.

Pure and deterministic: no clock, no socket, no disk. The state follows from all commands, in order,
so the same journal gives the same state anywhere: after a restart, on a replica, in a test.

Two kinds of session share all code. A **durable** one (MQTT: clean session 0) is in the journal. A
**live** one lasts as long as its connection; its commands are applied in the same order but never
written. A live session with a will is recorded too, so that the will is published even if the
broker crashes first. In a cluster it is always recorded, as all nodes must know who has which
client id; but only its own node knows what it subscribes to and is sent.

QoS 0 messages do not pass here on their way to subscribers: doors route them at once. They only
come here to be retained.
"""

from collections.abc import Callable
from typing import get_args

from penstock.core.access_changes import AccessChanges
from penstock.core.commands import (
    AccessChanged,
    Acknowledged,
    Authored,
    Closed,
    Command,
    DeliveriesLost,
    Drained,
    Erased,
    Expired,
    Forgotten,
    Identified,
    KeysStored,
    KeyStored,
    Leased,
    Offered,
    Progressed,
    Published,
    PublishedBy,
    Received,
    Released,
    Repeated,
    Replayed,
    Resumed,
    RetainedExpired,
    SessionOpened,
    Subscribed,
    TopicConfigured,
    TopicGone,
    Trimmed,
    Unsubscribed,
    WillSent,
)
from penstock.core.completion import Completion, Refusable
from penstock.core.effects import (
    Effects,
    Erasing,
    GroupChanged,
    IdentityTaken,
    Outcome,
    ScheduleChanged,
    TopicEnded,
)
from penstock.core.groups import STIRRING, GroupCommand, Groups
from penstock.core.journal_position import JournalPosition
from penstock.core.live import LiveSubscriber
from penstock.core.owners import OWNED_BY_ANOTHER, Owners
from penstock.core.producers import Producers
from penstock.core.replay_delivery import ReplayDelivery
from penstock.core.retained import Retained
from penstock.core.retained_delivery import RetainedDelivery
from penstock.core.routes import Routes
from penstock.core.schedules import ScheduleCommand, Schedules
from penstock.core.session import (
    Publisher,
    Session,
)
from penstock.core.session_commands import SessionCommands
from penstock.core.session_deliveries import SessionDeliveries
from penstock.core.session_queues import SessionQueues
from penstock.core.session_table import SessionTable
from penstock.core.sinks import SinkCommand, Sinks
from penstock.core.subscribers import Subscribers
from penstock.core.topics import Topics
from penstock.limits import (
    INFLIGHT_MAX,
    QUEUE_MESSAGES_MAX,
    RETAINED_MAX,
    ROUTES_CACHED_MAX,
    SESSION_EXPIRY_S,
)
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.book import AccessBook
from penstock.trust.keys import KeyRing


class Broker:
    """Sessions, subscriptions and retained messages, and what commands do to them."""

    def __init__(
        self,
        counters: Counters,
        *,
        inflight_max: int = INFLIGHT_MAX,
        queue_messages_max: int = QUEUE_MESSAGES_MAX,
        queue_drops_oldest: bool = True,
        retained_max: int = RETAINED_MAX,
        routes_cached_max: int = ROUTES_CACHED_MAX,
        session_expiry_s: int = SESSION_EXPIRY_S,
    ) -> None:
        self.counters = counters
        self._position = JournalPosition()
        self.queues = SessionQueues(counters, queue_messages_max, drops_oldest=queue_drops_oldest)
        self.routes: Routes[Session | LiveSubscriber] = Routes(cached_max=routes_cached_max)
        self.retained = Retained(count_max=retained_max)
        self.subscribers = Subscribers()
        self.groups = Groups()
        self.topics = Topics()
        self.producers = Producers()
        self.sinks = Sinks()
        self.schedules = Schedules()
        self.keys = KeyRing()
        self.access = AccessBook()
        self.owners = Owners(self.access, self.keys, self.retained)
        self.session_table = SessionTable(
            counters, self._position, self.routes, self.queues, inflight_max, session_expiry_s
        )
        self.sessions = self.session_table.by_id
        self.away = self.session_table.away
        self.dirty = self.session_table.dirty
        self._deliveries = SessionDeliveries(self.session_table, self.routes, self.retained)
        self.retained_delivery = RetainedDelivery(
            self.retained,
            self.routes,
            self.owners,
            self.session_table.with_offers,
            self._deliveries.offer,
        )
        self._deliveries.retained_delivery = self.retained_delivery
        sessions, deliveries = self.session_table, self._deliveries
        self.replay_delivery = ReplayDelivery(sessions, self.routes, deliveries.offer)
        deliveries.replay_delivery = self.replay_delivery
        self.acknowledge = self._deliveries.acknowledge
        self.orphans = self.session_table.orphans
        self.oldest_needed = self.session_table.oldest_needed
        self._session_commands = SessionCommands(
            sessions, deliveries, self.retained_delivery, self.replay_delivery, self.routes
        )
        self._access_changes = self._make_access_changes()
        self._handlers: dict[type, Callable[..., None]] = {
            **self._session_handlers(),
            Progressed: self._progressed,
            Forgotten: self._forgotten,
            KeyStored: self._access_changes.keys_stored,
            KeysStored: self._access_changes.keys_stored,
            AccessChanged: self._access_changes.changed,
            Authored: self._authored,
            RetainedExpired: self._retained_expired,
            TopicConfigured: self._topic_configured,
            TopicGone: self._topic_gone,
            Identified: self._identified,
            Resumed: self._resumed,
            Trimmed: self._erasing,
            Erased: self._erasing,
            **dict.fromkeys(get_args(GroupCommand), self._group_changed),
            **dict.fromkeys(get_args(SinkCommand), self._sink_changed),
            **dict.fromkeys(get_args(ScheduleCommand), self._schedule_changed),
        }

    def _session_handlers(self) -> dict[type, Callable[..., None]]:
        sessions = self._session_commands
        return {
            SessionOpened: sessions.opened,
            Closed: sessions.closed,
            Expired: sessions.expired,
            WillSent: sessions.will_sent,
            Subscribed: sessions.subscribed,
            Unsubscribed: sessions.unsubscribed,
            Offered: sessions.offered,
            Replayed: self.replay_delivery.replayed,
            Drained: sessions.drained,
            Acknowledged: sessions.acknowledged,
            Received: sessions.received,
            Released: sessions.released,
            DeliveriesLost: sessions.lost,
            Repeated: sessions.repeated,
            PublishedBy: self._deliveries.published_by,
            Published: self._deliveries.published,
        }

    def _make_access_changes(self) -> AccessChanges:
        return AccessChanges(
            book=self.access,
            keys=self.keys,
            owners=self.owners,
            routes=self.routes,
            owned=(self.subscribers, self.sinks, self.schedules),
            end_sessions=self._session_commands.end_all_of,
            moment=lambda: (self.index, self._position.is_recovering),
        )

    # ── applying ──────────────────────────────────────────────────────────────────────────────

    @property
    def index(self) -> int:
        """Of the journal entry whose commands are being applied."""
        return self._position.index

    @index.setter
    def index(self, index: int) -> None:
        self._position.index = index

    def begin(self, index: int, base_sequence: int) -> None:
        """Set the journal entry to which the following commands belong."""
        self._position.begin(index, base_sequence)

    def apply(self, command: Command, waiter: Refusable | None, effects: Effects) -> None:
        self._handlers[type(command)](command, waiter, effects)

    def _authored(self, command: Authored, _client: Publisher | None, _effects: Effects) -> None:
        self.retained.attribute(command.topic, self._position.last_sequence, command.user)

    def _retained_expired(
        self, command: RetainedExpired, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        for topic, sequence in command.messages:
            self.retained.expired(topic, sequence)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, None))

    # ── durable subscribers, groups, keys ──────────────────────────────────────────────────────

    def _progressed(
        self, command: Progressed, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        recovering = self._position.is_recovering
        given_up = self.subscribers.progressed(command, self.index, recovering=recovering)
        self.counters.drops[DropReason.ACKNOWLEDGEMENT_HOLES] += given_up
        if given_up and not recovering:
            reason, topic = DropReason.ACKNOWLEDGEMENT_HOLES, command.topic
            effects.drop(reason, command.client_id, given_up, topic=topic)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, given_up))

    def _forgotten(
        self, command: Forgotten, _waiter: Completion[object] | None, _effects: Effects
    ) -> None:
        self.subscribers.forgotten(command, self.index, recovering=self._position.is_recovering)

    def _group_changed(
        self, command: GroupCommand, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        value = self.groups.apply(command, self.index, recovering=self._position.is_recovering)
        if isinstance(command, Leased) and value is not None:
            self._note_expired(command, effects)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, value))
        elif isinstance(command, STIRRING) and not self._position.is_recovering:
            workers = command.workers if isinstance(command, Leased) else ()
            effects.controls.append(GroupChanged(command.topic, command.group, workers))

    def _note_expired(self, command: Leased, effects: Effects) -> None:
        self.counters.drops[DropReason.EXPIRED] += len(command.expired)
        if command.expired and not self._position.is_recovering:
            effects.drop(
                DropReason.EXPIRED,
                b"",
                len(command.expired),
                topic=command.topic,
                group=command.group,
                offset=command.expired[0],
                detail="before the group handed it out",
            )

    def _resumed(
        self, command: Resumed, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        self.groups.resume(command.now_ms, self.index, recovering=self._position.is_recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, None))

    def _topic_configured(
        self, command: TopicConfigured, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        is_new = self.topics.configure(command, self.index, recovering=self._position.is_recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, is_new))
        elif not self._position.is_recovering:
            effects.controls.append(GroupChanged(command.topic, None))

    def _topic_gone(
        self, command: TopicGone, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        """Forget everything kept by offsets of this topic, which start over at 0."""
        is_recovering = self._position.is_recovering
        known = self.topics.forget(command, self.index, recovering=is_recovering)
        self.groups.forget_topic(command.topic, self.index, recovering=is_recovering)
        self.subscribers.forget_topic(command.topic, self.index, recovering=is_recovering)
        self.producers.forget_topic(command.topic)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, known))
        elif not is_recovering:
            effects.controls.append(TopicEnded(command.topic))

    def _identified(
        self, command: Identified, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        recovering = self._position.is_recovering
        is_own = self.subscribers.identified(command, self.index, recovering=recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, "" if is_own else OWNED_BY_ANOTHER))
        if is_own and not recovering:
            taken = IdentityTaken(command.client_id, command.connection)
            effects.controls.append(taken)

    def _erasing(
        self, command: Trimmed | Erased, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        """The store deletes them; after a crash the server repeats it."""
        if not self._position.is_recovering:
            effects.controls.append(Erasing(command, waiter))

    def _sink_changed(
        self, command: SinkCommand, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        value = self.sinks.apply(command, self.index, recovering=self._position.is_recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, value))

    def _schedule_changed(
        self, command: ScheduleCommand, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        recovering = self._position.is_recovering
        fault = self.schedules.apply(command, self.index, recovering=recovering)
        if not recovering:
            effects.controls.append(ScheduleChanged(command.name))
        if waiter is not None:
            effects.controls.append(Outcome(waiter, fault))

    # ── checkpoint and recovery ───────────────────────────────────────────────────────────────

    def begin_recovery(self) -> None:
        """From now on, loaded rows may already contain what is applied."""
        self._position.is_recovering = True
        self._access_changes.refresh()

    def session_row(self, client_id: bytes) -> bytes | None:
        """The checkpoint row of a session; None: it has none."""
        return self.session_table.row(client_id)

    def load_session(self, row: bytes) -> None:
        self.retained_delivery.note(self.session_table.load(row))

    def settle_recovery(self) -> None:
        """After the last replayed entry."""
        self._position.is_recovering = False
        self.subscribers.settle()
        self.session_table.settle()
