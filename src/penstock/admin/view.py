"""What the HTTP pages can read and change in a running broker; ``node`` implements it.

A ``BrokerView`` answers from memory, on the event loop. Only ``store``, ``journal`` and
``queue_pending`` may read the disk: call them in a worker thread.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from penstock.access.denials import Denials
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus
from penstock.core.commands import GroupConfigured, TopicConfigured
from penstock.core.groups import Group, Groups
from penstock.core.retained import RetainedMessage
from penstock.core.schedules import Schedules
from penstock.core.topics import Topics
from penstock.model.mqtt_headers import Headers
from penstock.model.schedule import ScheduledMessage, Timing
from penstock.obs.bridge_view import BridgeViews
from penstock.obs.client_view import ClientView
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.staging.sink_commits import SinkView
from penstock.store.store import Store
from penstock.trust.book import ANY_VERSION, AccessBook, Change
from penstock.trust.gate import Gate
from penstock.trust.keys import Key
from penstock.trust.passwords import Cost
from penstock.trust.principal import Principal


class Confirmed(Protocol):
    """A source of linearizable reads."""

    async def confirmed(self) -> None:
        """Wait until everything acknowledged so far is visible here. Raises NoQuorum."""


class JournalView(NamedTuple):
    """The size of the journal as of the last commit. Sequences are 0 while it is empty."""

    bytes: int  # pages in use, not the size of the map
    map_bytes: int
    entries: int
    messages: int
    oldest_sequence: int
    newest_sequence: int
    blocks: int = 0
    block_bytes: int = 0
    tail_bytes: int = 0
    damage: int = 0
    disk_free_bytes: int = 0


class Holder(NamedTuple):
    """A worker, and who that is as far as this node knows."""

    worker: str
    client_id: str = ""
    address: str = ""
    user: str = ""
    node: int = 0


class Depth(NamedTuple):
    """Messages of a priority that were never delivered."""

    messages: int
    not_due: int  # of these
    next_offset: int  # the first; -1: there is none


class WaitingView(NamedTuple):
    """What a group was never given: by priority, and the next in order (offset, priority)."""

    depths: list[Depth]
    next: list[tuple[int, int]]
    looked_at: int
    is_complete: bool


class QueueView(Protocol):
    """Topics, consumer groups and dead letters. The store can be read from any thread."""

    @property
    def store(self) -> Store: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def groups(self) -> Groups: ...
    def lag(self, group: Group) -> int: ...
    def first_offset(self, topic: bytes) -> int: ...  # the oldest that a new group would receive
    def messages(self, topic: bytes) -> int: ...  # from ``first_offset`` on
    def consumers(self, topic: bytes, group: bytes) -> int: ...
    def workers(self, topic: bytes, group: bytes) -> list[Holder]: ...  # connected here
    def described_workers(self, names: Iterable[bytes]) -> list[Holder]: ...  # in the same order
    def holders(self, leases: Iterable[int]) -> dict[int, Holder]: ...  # as far as known here
    def now_ms(self) -> int: ...  # the steady time, by which leases end
    def wall_ms(self) -> int: ...
    def waiting(self, group: Group, first: int, count_max: int) -> WaitingView: ...  # from the disk
    def first_letter(self, letters: bytes) -> int: ...  # neither redriven nor dropped
    def letter_count(self, letters: bytes) -> int: ...  # from ``first_letter`` on


class ReaderView(NamedTuple):
    """Somebody whose position in a topic is kept."""

    name: bytes
    kind: str  # reader_group or durable_subscriber
    topic: bytes
    user: str
    position: int
    lag: int
    committed_ms: int  # 0: not kept


class SparkAdmin(Protocol):
    """Those who read by themselves, and sinks."""

    @property
    def leads(self) -> bool: ...  # only the leader knows what is staged
    def wall_ms(self) -> int: ...
    def readers(self) -> Iterator[ReaderView]: ...
    def end(self, topic: bytes) -> int: ...
    def earliest(self, topic: bytes) -> int: ...
    def sinks(self) -> set[bytes]: ...
    def sink(self, name: bytes) -> SinkView | None: ...
    async def forget(self, name: bytes) -> None: ...  # raises Refused while it commits


class BrokerView(Confirmed, Protocol):
    """A running broker, read-only."""

    @property
    def version(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def gate(self) -> Gate: ...
    @property
    def queues(self) -> QueueView: ...
    @property
    def bridges(self) -> BridgeViews: ...

    def connections(self) -> int: ...  # of clients, HTTP excluded

    def clients(self, prefix: bytes, count_max: int, *, are_away: bool) -> list[ClientView]:
        """Connected clients by id prefix, or the sessions of clients that are away."""

    def sessions(self) -> tuple[int, int]: ...  # connected, and with the client away
    def queued(self) -> int: ...

    def certificate_expiry(self) -> Mapping[str, float]: ...  # in seconds, by listener

    def reloads(self) -> Mapping[str, int]: ...  # of certificates, by outcome

    def outgoing(self) -> tuple[int, int, int]:
        """Bytes waiting to be sent, their limit, and the connections waiting for room."""

    def retained(self) -> int: ...
    def schedules(self) -> int: ...
    def subscriptions(self) -> int: ...  # over all protocols, queue workers included
    def followers(self) -> int: ...  # subscriptions of binary clients: they read the journal
    def durable_subscribers(self) -> int: ...  # binary client ids with stored acknowledgements
    def topics_subscribed(self) -> int: ...  # distinct filters, queues excluded
    def filters(self, count_max: int) -> list[bytes]: ...  # some of them, no RESP patterns
    def subscribers(self, topic_filter: bytes) -> int: ...  # to exactly this filter
    def queue_pending(self) -> int: ...  # jobs that are waiting or in progress
    def journal(self) -> JournalView: ...
    def pending_capture_bytes(self) -> int: ...
    def cluster(self) -> ClusterStatus: ...  # as this node sees it; a cluster of one if standalone
    def clock_skew_s(self) -> float: ...  # this node's clock minus the leader's
    def uptime_s(self) -> float: ...
    def ready(self) -> tuple[bool, str]: ...  # the reason if it does not accept work


class ClusterAdmin(Protocol):
    """Reads and changes the membership. Raises PenstockError for a change that is refused."""

    def own(self) -> Member: ...
    def status(self) -> ClusterStatus: ...

    async def bootstrap(self, members: Sequence[Member]) -> None:
        """Create a cluster of these nodes; of this node alone if there are none."""

    async def add(self, member: Member) -> None: ...
    async def remove(self, node_id: int) -> None: ...
    async def transfer(self, node_id: int) -> None: ...

    async def digests(self, index: int, log_first: int) -> msgspec.Struct:
        """Digests of this node's state at an entry (0: the last), and of its log from an entry."""


class TlsAdmin(Protocol):
    """The certificate that clients are shown."""

    def describe(self) -> dict[str, object]: ...
    async def reload(self) -> list[str]: ...  # what changed; raises ConfigError


class TopicPublisher(Protocol):
    """Publishes messages for HTTP clients."""

    @property
    def payload_bytes_max(self) -> int: ...

    def refusal(self, principal: Principal, topic: bytes) -> tuple[DisconnectReason, str] | None:
        """Why a message to this topic is refused, or None. A refusal is counted."""

    async def publish(
        self, topic: bytes, payload: bytes, *, retain: bool, headers: Headers, expiry_s: int
    ) -> int:
        """Publish with QoS 1 and return the offset once the message is durable.

        ``expiry_s``: how long the message is worth delivering; 0: for ever.
        """


class KeyAdmin(Confirmed, Protocol):
    """Reads and changes the public keys of devices."""

    @property
    def one_at_a_time(self) -> asyncio.Lock: ...  # for changes made from what was read
    def keys(self) -> list[Key]: ...  # active or not, ordered by id
    def next_key_id(self) -> int: ...
    def wall_ms(self) -> int: ...  # the clock by which keys expire, since 1970

    async def store_keys(self, *keys: Key) -> None:
        """Add a key, or replace the one with its id; durable and in force on return."""


class AffectedSubscription(NamedTuple):
    """A subscription of a session that a change of access would narrow."""

    user: str
    client_id: str
    topic_filter: str


class AccessAdmin(Confirmed, Protocol):
    """Reads and changes users, roles, tokens and bans."""

    @property
    def book(self) -> AccessBook: ...
    @property
    def denials(self) -> Denials: ...
    @property
    def one_at_a_time(self) -> asyncio.Lock: ...  # for changes made from what was read
    @property
    def password_cost(self) -> Cost: ...  # of hashing a new password
    def wall_ms(self) -> int: ...

    def affected(self, after: AccessBook, count_max: int) -> list[AffectedSubscription]:
        """Subscriptions on this node that would receive less, if the book were this one."""

    def withheld(self) -> Iterator[RetainedMessage | None]:
        """Retained messages whose author lost the right; None: a step in vain."""

    async def change(
        self, changes: Sequence[Change], author: Principal, expected: int = ANY_VERSION
    ) -> None:
        """Make all changes or none; they are in force on return.

        Raises Refused, and AccessConflict if the book is of another version than ``expected``.
        """


class ScheduleAdmin(Confirmed, Protocol):
    """Reads and changes scheduled publishes; a change is durable and in force on return."""

    @property
    def schedules(self) -> Schedules: ...
    def wall_ms(self) -> int: ...

    async def create(
        self, name: bytes, timing: Timing, message: ScheduledMessage, missed: str, by: Principal
    ) -> None:
        """Create a schedule that publishes with the rights of ``by``. Raises Refused."""

    async def cancel(self, name: bytes, by: Principal) -> None:
        """Forget a schedule. Raises Refused if there is none."""


class QueueAdmin(QueueView, Confirmed, Protocol):
    """Changes topics, groups and dead letters; each change is durable and in force on return."""

    async def configure_topic(self, command: TopicConfigured) -> None: ...
    async def delete_topic(self, topic: bytes) -> None: ...

    async def make_group(self, topic: bytes, group: bytes, at: str, value: int) -> bool:
        """Create a group and return True; False if it exists.

        ``at`` is "earliest", "latest", "offset" or "time"; ``value`` is the offset, or the time in
        milliseconds. The same for ``move_group``.
        """

    async def move_group(self, topic: bytes, group: bytes, at: str, value: int) -> None: ...
    async def configure_group(self, command: GroupConfigured) -> None: ...
    async def delete_group(self, topic: bytes, group: bytes) -> None: ...
    async def redrive(self, topic: bytes, group: bytes, maximum: int) -> int: ...  # letters sent
    async def drop(self, topic: bytes, group: bytes) -> int: ...  # letters dropped
    def is_redriving(self, letters: bytes) -> bool: ...

    async def locate(self, topic: bytes, at: str, value: int) -> int:
        """The offset that ``at`` and ``value`` mean, as ``move_group`` takes them."""

    async def move_letters(
        self, topic: bytes, group: bytes, offsets: list[int], *, send_back: bool
    ) -> tuple[int, str]:
        """Redrive these letters alone, or delete them: how many went, and why others stay.

        Raises Refused while letters of this group are being moved.
        """
