"""What the HTTP pages can read from a running broker, and what they can change.

``BrokerView`` is read-only. Changes go through ``KeyAdmin`` (device keys), ``QueueAdmin`` (topics,
groups, dead letters), ``ClusterAdmin`` (membership) and ``TopicPublisher`` (messages). The package
``node`` implements them.

A ``BrokerView`` answers from memory, on the event loop. Only ``store``, ``journal`` and
``queue_pending`` may read the disk: call them in a worker thread.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus
from penstock.core.commands import GroupConfigured, TopicConfigured
from penstock.core.groups import Group, Groups
from penstock.core.topics import Topics
from penstock.obs.client_view import ClientView
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store
from penstock.trust.gate import Gate
from penstock.trust.keys import Key


class Confirmed(Protocol):
    """Somebody who knows whether what is read here is current."""

    async def confirmed(self) -> None:
        """Wait until everything acknowledged before is to be seen here. Raises NoQuorum."""


class JournalView(NamedTuple):
    """The journal in numbers, as of the last commit. Sequences are 0 while there is no message."""

    bytes: int
    """Disk used by the store: pages in use, not the size of the map."""
    map_bytes: int
    """Address space the store may use before it has to grow."""
    entries: int
    messages: int
    oldest_sequence: int
    newest_sequence: int


class QueueView(Protocol):
    """Topics, their groups and their dead letters, as the pages see them."""

    @property
    def store(self) -> Store:
        """The journal; its reading methods may be called from any thread."""

    @property
    def topics(self) -> Topics:
        """Topics that were made or steered."""

    @property
    def groups(self) -> Groups:
        """All groups of all topics."""

    def lag(self, group: Group) -> int:
        """How many messages a group has not done, of those that there are."""
        ...

    def first_offset(self, topic: bytes) -> int:
        """The oldest message that a new group of a topic would get."""

    def messages(self, topic: bytes) -> int:
        """How many messages a topic has from there on."""

    def consumers(self, topic: bytes, group: bytes) -> int:
        """How many consumers a group has now."""

    def first_letter(self, letters: bytes) -> int:
        """The oldest message of a dead-letter topic that was neither sent back nor dropped."""

    def letter_count(self, letters: bytes) -> int:
        """How many messages a dead-letter topic has from there on."""


class BrokerView(Confirmed, Protocol):
    """A running broker, as the pages see it."""

    @property
    def version(self) -> str:
        """The version of the package."""

    @property
    def store(self) -> Store:
        """The journal; its reading methods may be called from any thread."""

    @property
    def counters(self) -> Counters:
        """All that is counted."""

    @property
    def gate(self) -> Gate:
        """Who judges signatures, and counts what was judged."""

    @property
    def queues(self) -> QueueView:
        """Topics that are worked on, and their groups."""

    def connections(self) -> int:
        """Open connections of clients; who asks by HTTP is none."""

    def clients(self, prefix: bytes, count_max: int, *, are_away: bool) -> list[ClientView]:
        """Clients whose ids begin so: connected ones, or sessions that wait for theirs."""

    def sessions(self) -> tuple[int, int]:
        """Sessions with a connection, and sessions without (away)."""

    def queued(self) -> int:
        """Messages waiting in the queues of all sessions."""

    def outgoing(self) -> tuple[int, int, int]:
        """Bytes that wait to be sent, the most they may be, and who waits for room among them."""

    def retained(self) -> int:
        """Retained messages."""

    def subscriptions(self) -> int:
        """Filters of all clients, by any protocol; workers of queues, too."""

    def followers(self) -> int:
        """Those of them that follow the journal: subscriptions of binary clients."""

    def durable_subscribers(self) -> int:
        """Client ids of the binary protocol whose acknowledgements are kept."""

    def topics_subscribed(self) -> int:
        """Different filters that somebody subscribes to, queues aside."""

    def filters(self, count_max: int) -> list[bytes]:
        """Some of those filters; without patterns of RESP, which are none."""

    def subscribers(self, topic_filter: bytes) -> int:
        """How many subscribe to a filter of just this spelling."""

    def queue_pending(self) -> int:
        """Jobs that wait in queues or are being done, whether or not a worker was ever there."""

    def journal(self) -> JournalView:
        """The journal in numbers."""

    def pending_capture_bytes(self) -> int:
        """Bytes of QoS 0 messages waiting to be journaled."""

    def cluster(self) -> ClusterStatus:
        """The cluster as this node sees it; a broker that stands alone is one of itself."""

    def clock_skew_s(self) -> float:
        """Say how far this node's clock is ahead of the cluster's time, which is the leader's."""

    def uptime_s(self) -> float:
        """Seconds since the broker began to listen."""

    def ready(self) -> tuple[bool, str]:
        """Whether new work is welcome; if not, why (storage full or failing, shutting down)."""


class ClusterAdmin(Protocol):
    """The cluster, as the pages see and change it. What is refused is a ``PenstockError``."""

    def own(self) -> Member:
        """Say who this node is and where it is reached."""

    def status(self) -> ClusterStatus:
        """How the cluster is."""

    async def bootstrap(self, members: Sequence[Member]) -> None:
        """Begin a cluster of these nodes; of this one alone, if there are none."""

    async def add(self, member: Member) -> None:
        """Have a node join."""

    async def remove(self, node_id: int) -> None:
        """Have a node take part no longer."""

    async def transfer(self, node_id: int) -> None:
        """Have another node lead."""

    async def digests(self, index: int, log_first: int) -> msgspec.Struct:
        """Digests of what this node has at an entry (0: the last), to be compared with others'.

        Of the log, those of entries from ``log_first`` on.
        """


class TopicPublisher(Protocol):
    """The topics, for whoever publishes to them."""

    @property
    def payload_bytes_max(self) -> int:
        """The largest payload that is taken."""

    def refusal(self, topic: bytes) -> tuple[DisconnectReason, str] | None:
        """Say why a message may not be published to a topic, and count it; None if it may."""

    async def publish(self, topic: bytes, payload: bytes, *, retain: bool) -> int:
        """Publish with QoS 1; return the offset once it is on disk."""


class KeyAdmin(Confirmed, Protocol):
    """The keys that devices sign with, as the pages see and change them."""

    def keys(self) -> list[Key]:
        """All registered keys, by id, whether or not they are in force."""

    def next_key_id(self) -> int:
        """An id that no key has."""

    def wall_ms(self) -> int:
        """The time of day, in milliseconds since 1970: the clock by which keys expire."""

    async def store_key(self, key: Key) -> None:
        """Register a key or replace the one of its id; durable and in force when it returns."""


class QueueAdmin(QueueView, Confirmed, Protocol):
    """The same, to be changed; whatever is awaited is durable and in force when it returns."""

    async def configure_topic(self, command: TopicConfigured) -> None:
        """Make a topic or change its settings."""

    async def delete_topic(self, topic: bytes) -> None:
        """Delete a topic with its messages, groups and settings."""

    async def make_group(self, topic: bytes, group: bytes, at: str, value: int) -> bool:
        """Make a group; tell whether there was none.

        It begins ``at`` "earliest", "latest", "offset" or "time"; the value is the offset or, in
        milliseconds, the time.
        """

    async def move_group(self, topic: bytes, group: bytes, at: str, value: int) -> None:
        """Have a group go on from somewhere else."""

    async def configure_group(self, command: GroupConfigured) -> None:
        """Change how a group repeats what failed."""

    async def delete_group(self, topic: bytes, group: bytes) -> None:
        """Forget a group."""

    async def redrive(self, topic: bytes, group: bytes, maximum: int) -> int:
        """Send dead letters back to the topic they came from; return how many were sent."""

    async def drop(self, topic: bytes, group: bytes) -> int:
        """Be done with the dead letters of a group; return how many there were."""
