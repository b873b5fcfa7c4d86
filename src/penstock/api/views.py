"""What resources need of a broker beyond what the older pages do; ``node`` implements it.

Everything is called on the event loop, unless it says otherwise.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.core.retained import RetainedMessage
from penstock.core.session import Session
from penstock.model.message import Extras
from penstock.obs.events import Event
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal

EXAMPLES_MAX = 20  # client ids named in an answer


class Audience(NamedTuple):
    """Who gets messages of a topic now."""

    sessions: int
    away: int  # of these
    live: int  # other subscribers
    examples: list[str]  # client ids of some sessions


class Tapped(NamedTuple):
    """Messages that the journal does not keep: topics and payloads."""

    messages: list[tuple[bytes, bytes]]
    skipped: int  # others, which came too fast


class Tap(Protocol):
    """Watches messages that the journal does not keep, until ``leave``."""

    def wall_ms(self) -> int: ...
    def take(self) -> Tapped: ...  # what came since the last time
    def leave(self) -> None: ...


class TopicView(Protocol):
    """What the broker does with messages of a topic."""

    def capture(self, topic: bytes) -> str:
        """Whether QoS 0 is journaled: captured, or why not: off, excluded, reserved."""

    def audience(self, topic: bytes) -> Callable[[], Audience]:
        """Who gets its messages, as a function that counts them, which any thread may call."""

    def has_retained(self, topic: bytes) -> bool: ...

    def tap(
        self, topic_filter: bytes, principal: Principal, is_wanted: Callable[[bytes], bool]
    ) -> Tap:
        """Watch what a filter matches and the journal does not keep."""


class Check(NamedTuple):
    """One thing that publishing depends on."""

    check: str
    is_ok: bool
    text: str


class Draft(NamedTuple):
    """A message to be published."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    marks: int  # flags for the priority and the content type
    extras: Extras | None


class Publishing(Protocol):
    """Publishes messages, or says what would become of them."""

    @property
    def payload_bytes_max(self) -> int: ...

    def wall_ms(self) -> int: ...

    def check(self, principal: Principal, draft: Draft) -> list[Check]:
        """What decides whether a message is accepted; nothing is counted or changed."""

    def refusal(self, principal: Principal, topic: bytes) -> tuple[DisconnectReason, str] | None:
        """Why a message is refused, or None. A refusal is counted."""

    async def publish(self, draft: Draft) -> int:
        """Publish, and return the offset once the message is durable. Raises PenstockError."""


class RetainedAdmin(Protocol):
    """Lists, clears and restores retained messages."""

    def wall_ms(self) -> int: ...

    def walk(self, topic_filter: bytes) -> Iterator[RetainedMessage | None]:
        """Visit those that a filter matches; None: a step in vain. They may change meanwhile."""

    def get(self, topic: bytes) -> RetainedMessage | None: ...

    async def clear(self, messages: Sequence[RetainedMessage]) -> int:
        """Clear those that are still the ones of their topics; return how many. Audited."""

    async def restore(self, messages: Sequence[RetainedMessage]) -> None:
        """Retain messages again. Audited."""

    def audit(self, what: str, topic_filter: str, count: int) -> None:
        """Record a change that is about to be made."""


class Connection(Protocol):
    """A connection, as it is chosen for a page: each of these is cheap, and for any thread."""

    @property
    def name(self) -> bytes: ...  # client id; empty: it gave none
    @property
    def peer(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def backlog(self) -> int: ...  # messages that wait for it
    @property
    def dropped(self) -> int: ...  # messages that gave way

    def facts(self) -> "ConnectionFacts":
        """Look at all of it. Event loop."""


class ConnectionFacts(NamedTuple):
    """What is known of one connection."""

    user: str
    is_encrypted: bool
    is_websocket: bool
    since_ms: int
    seen_ms: int
    idle_s: float
    keep_alive_s: int | None
    output_bytes: int
    bytes_in: int | None
    bytes_out: int | None
    session: Session | None


class Subscribers(NamedTuple):
    """Who gets messages of a topic."""

    sessions: list[Session]
    live: int  # subscribers without a session: RESP, binary clients


class ClientAdmin(Protocol):
    """Connections and sessions of this node."""

    @property
    def node_id(self) -> int: ...
    def wall_ms(self) -> int: ...

    def connected(self) -> Callable[[], Iterable[Connection]]:
        """All connections, unordered. Taking them is cheap; any thread may look at them."""

    def session(self, client_id: bytes) -> Session | None: ...
    def session_ids(self) -> list[bytes]: ...  # unordered, without those that are over; cheap
    def away_ids(self) -> list[bytes]: ...  # of these, those whose client is away
    def ends_ms(self, session: Session) -> int: ...  # when it expires
    def node_of(self, session: Session) -> int: ...  # where its client is, or was last
    def is_elsewhere(self, session: Session) -> bool: ...  # its client is at another node

    def last_end(self, client_id: bytes) -> Event | None: ...  # of its connection, if it is known

    def subscribers(self, topic: bytes) -> Callable[[], "Subscribers"]:
        """Who gets messages of a topic; any thread may sort them out."""

    async def kick(self, client_id: bytes, address: str | None) -> int:
        """End connections of a client; return how many. Audited."""

    async def end_session(self, client_id: bytes) -> None:
        """End a session, with its connection. Audited."""
