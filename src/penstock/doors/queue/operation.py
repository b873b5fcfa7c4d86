"""What an operation of the queue protocol is, and what it may ask of the connection it came by."""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol

from penstock.access.logins import Credentials, LoginDone, LoginRefusal
from penstock.commit.completion import Callback
from penstock.doors.queue.access import Access
from penstock.doors.queue.disk_reads import DiskReads
from penstock.doors.queue.parts import QueueParts
from penstock.doors.queue.replies import ResponseQueue, Slot
from penstock.doors.queue.topic_filters import TopicFilters
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal

Refused = Callable[[DisconnectReason, str], None]  # what to do if a command is refused


class WaitingRequest(Protocol):
    """A request without an answer until messages or changes come: a Poll, a Changes."""

    def ask(self) -> None: ...  # the client has read: there may be room for an answer again
    def stop_waiting(self) -> None: ...  # answer with what there is
    def leadership_lost(self) -> None: ...
    def rights_changed(self) -> None: ...  # of the user; go on only if this is still allowed
    def leave(self) -> None: ...  # the connection ended


class PushChannel(Protocol):
    """A connection after Subscribe: messages one way, acknowledgements the other."""

    def begin(self) -> None: ...
    def end(self) -> None: ...  # return what the client has and did not acknowledge
    def ask(self) -> None: ...  # there may be room for more messages
    def send(self, frames: bytes) -> None: ...
    def acknowledge(self, leases: Iterable[int]) -> None: ...

    def return_leases(
        self,
        leases: Iterable[int],
        pause_ms: int = 0,
        reason: bytes = b"",
        *,
        is_final: bool = False,
    ) -> None: ...

    def extend(self, leases: Iterable[int], asked_ms: int) -> None: ...
    def topic_deleted(self, topic: bytes) -> None: ...
    def rights_changed(self) -> None: ...
    def refused(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Requester(Protocol):
    """A connection as the handlers of operations see it."""

    door: QueueParts
    replies: ResponseQueue
    disk_reads: DiskReads
    polls: set[WaitingRequest]
    filters: TopicFilters | None  # of the last Changes
    reason: DisconnectReason | None  # why it was closed; None while it is open
    principal: Principal
    owner: int  # of scans

    @property
    def is_ending(self) -> bool: ...  # whether the client will send nothing more
    def is_full(self) -> bool: ...  # the client has much to read; ``ask`` follows
    def next_name(self) -> bytes: ...  # a consumer name that is unique in the cluster
    def when_stored(self, act: Callable[[], None]) -> None: ...  # input blocks until then
    def blocking(self, act: Callable[[object], None], refused: Refused) -> Callback: ...
    def start_push(self, push: PushChannel, slot: Slot) -> None: ...  # once all else is answered
    def log_in(self, credentials: Credentials, done: LoginDone) -> None: ...  # input blocks
    def logged_in(self, principal: Principal) -> None: ...
    def login_failed(self, refusal: LoginRefusal) -> None: ...
    def send(self, data: bytes) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class After(Enum):
    """What a request without an id waits for, of the same client."""

    NOTHING = 0
    MESSAGES = 1  # messages produced before are on disk
    REQUESTS = 2  # all earlier requests are applied


class Operation(NamedTuple):
    """The declaration of one operation: all that the door knows of it."""

    handle: Callable[[Requester, Any, Slot], None]  # answers the slot, now or later
    access: Access  # what the user must be allowed
    after: After = After.NOTHING
    is_read: bool = False  # changes nothing; any node answers it if the client accepts stale data
    at_any_node: bool = False  # concerns the node, not the data: answered even if it does not lead
    before_login: bool = False  # also for clients that have yet to log in
    sees_topics: bool = False  # must see acknowledged messages that are not on disk yet
    on_push: Callable[[PushChannel, Any, int], None] | None = None  # with the request id
