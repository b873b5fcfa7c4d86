"""What all connections of a broker share on the transport side: clocks, limits, bounds, numbers.

``clients`` speak a protocol of the broker, ``http`` are the transports of HTTP connections.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Protocol

from penstock.clock import Clock
from penstock.config.schema import Limits
from penstock.net.budget import Budget
from penstock.net.connection_ids import ConnectionIds
from penstock.net.flusher import Flusher
from penstock.net.incomplete import Incomplete
from penstock.net.meter import Meter
from penstock.net.origin import Origin
from penstock.net.sockets import Sockets
from penstock.net.stalls import StallDetector
from penstock.net.takeovers import Takeovers
from penstock.net.timers import Deadlines
from penstock.net.turns import Turns
from penstock.net.visitors import Visitors
from penstock.obs.counters import Counters
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal

_ORDINARY_HTTP_ENDS = {
    DisconnectReason.CLIENT_DISCONNECT,
    DisconnectReason.CONNECTION_LOST,
    DisconnectReason.HTTP_IDLE,
    DisconnectReason.SERVER_SHUTDOWN,
}


class Backpressure(Protocol):
    """The commit pipeline as connections see it: when it is congested, they stop reading."""

    is_congested: bool

    def when_drained(self, reader: "PausedReader") -> None: ...  # after the next commit


class PausedReader(Protocol):
    """A connection that stopped reading until the pipeline has room again."""

    def resume_reading(self) -> None: ...


class Output(Protocol):
    """What waits to be sent to a client, and what gave way."""

    dropped: int

    @property
    def waiting_bytes(self) -> int: ...


class ConnectedClient(Protocol):
    """A connected client, whatever its protocol."""

    protocol_name: ClassVar[str]
    number: int  # unique in the cluster; 0 as long as it has none
    principal: Principal
    origin: Origin

    @property
    def name(self) -> bytes: ...  # its client id; empty if it has none
    @property
    def peer(self) -> str: ...
    @property
    def last_packet_at(self) -> float: ...
    @property
    def output(self) -> Output: ...
    def deadline(self) -> tuple[float, DisconnectReason]: ...  # when it ends if it stays silent
    def wire_bytes(self) -> tuple[int, int] | None: ...  # received and sent, if that is known
    @property
    def pattern_count(self) -> int: ...  # subscriptions to patterns, which RESP alone has
    def topic_deleted(self, topic: bytes) -> None: ...  # forget offsets of the deleted topic
    def leadership_lost(self) -> None: ...  # stop what only the leader's clients may do
    def become(self, principal: Principal) -> None: ...  # act for somebody from now on
    def principal_changed(self) -> None: ...  # end what is not allowed any more
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...
    def abort(self) -> None: ...  # without writing what waits
    def pause(self) -> None: ...  # take no more input: the broker is stopping
    def forgive(self, stalled_s: float) -> None: ...  # after a stop of the broker


class Connections:
    """Shared by all connections of one broker."""

    __slots__ = (
        "backpressure",
        "budget",
        "clients",
        "clock",
        "counters",
        "deadlines",
        "flusher",
        "http",
        "ids",
        "incomplete",
        "is_stopping",
        "limits",
        "loop",
        "meter_of",
        "monotonic",
        "sockets",
        "stalls",
        "takeovers",
        "throttled_log",
        "turns",
        "visitors",
        "wall_ms",
    )

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        counters: Counters,
        ids: ConnectionIds,
        flusher: Flusher,
        backpressure: Backpressure,
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.monotonic = clock.monotonic
        self.wall_ms = clock.wall_ms
        self.counters = counters
        self.ids = ids
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines()
        self.flusher = flusher
        self.sockets = Sockets(self.loop, flusher)
        self.backpressure = backpressure
        self.incomplete = Incomplete(limits.incomplete_bytes_max)
        self.budget = Budget(limits.outgoing_bytes_max, self.loop.call_soon)
        self.visitors = Visitors(limits)
        self.turns = Turns(self.loop, clock.monotonic)
        self.stalls = StallDetector(self.loop.time, clock.monotonic)
        self.takeovers = Takeovers(get_logger("net"), clock.monotonic)
        self.throttled_log = ThrottledLogger(get_logger("net"), clock=clock.monotonic)
        # a dictionary without values: it takes half as much room as a set
        self.clients: dict[ConnectedClient, None] = {}
        self.http: set[asyncio.Transport] = set()
        self.is_stopping = False
        self.meter_of: Callable[[str], Meter | None] = lambda _user: None  # set by ``Quotas``

    def http_closed(
        self,
        transport: asyncio.Transport,
        reason: DisconnectReason,
        origin: Origin,
        detail: str = "",
    ) -> None:
        self.http.discard(transport)
        if reason in _ORDINARY_HTTP_ENDS:
            self.counters.disconnects[reason] += 1
        else:
            self.counters.refused(reason, peer=origin.peer, detail=detail or "http")
            values = {"reason": reason.value, "peer": origin.peer, "detail": detail or "http"}
            self.throttled_log.info("refused", reason.value, **values)

    @property
    def open_count(self) -> int:
        return len(self.clients) + len(self.http)

    def abort_all(self) -> None:
        for client in list(self.clients):
            client.abort()
        for transport in list(self.http):
            transport.abort()

    def turn(self, now: float) -> None:
        self.deadlines.turn(now)
        self.budget.turn(now)
        self.takeovers.turn(now)
        self.throttled_log.flush()

    def forgive(self, stalled_s: float) -> None:
        self.budget.forgive(stalled_s)
        for client in self.clients:
            client.forgive(stalled_s)
