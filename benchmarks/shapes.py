"""What a workload consists of: the load, the figure that counts, the peers, the target."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = [
    "ANSWERED",
    "BEYOND_REPLY",
    "CLIENT",
    "COST",
    "FIELD",
    "FRAMES",
    "IN_FLUSHES",
    "LATENCY",
    "MEMORY",
    "MOSQUITTO",
    "MQLOAD",
    "RATE",
    "SETTLED",
    "TAIL",
    "Figure",
    "Peer",
    "Target",
    "Workload",
]

MQLOAD = "mqload"
CLIENT = "client"
"""The driver: the generator, or :mod:`benchmarks.queue_client`."""

FRAMES = "FRAMES"
"""Placeholder in a load for the file of signed frames."""

FIELD = "field"
"""The group whose workloads have several peers, and one table."""


class Figure(NamedTuple):
    """One number of a measurement: its key in the generator's answer, and which way is better."""

    key: str
    unit: str
    smaller_is_better: bool = False


class Target(NamedTuple):
    """The target of a figure: a multiple of the peer's, or an absolute value.

    Whether it is a lower or an upper bound follows from the figure.
    """

    bound: float
    absolute: bool = False


class Peer(NamedTuple):
    """A peer of a workload: its name, and its load if different.

    The target is a multiple of the figure of every peer that ``is_goal``; the others are shown
    beside it. A peer of our own kind may have our settings, too.
    """

    name: str
    load: str | None = None
    is_goal: bool = True
    has_settings: bool = False


MOSQUITTO = Peer("mosquitto")
RATE = Figure("delivered_per_s", "msg/s")
ANSWERED = Figure("acked_per_s", "replies/s")
LATENCY = Figure("p50_us", "us p50", smaller_is_better=True)
SETTLED = Figure("settled_per_s", "jobs/s")
BEYOND_REPLY = Figure("beyond_reply_p50_us", "us p50", smaller_is_better=True)
COST = Figure("broker_us_per_message", "us CPU/msg", smaller_is_better=True)
IN_FLUSHES = Figure("p50_flushes", "p50/flush", smaller_is_better=True)
TAIL = Figure("p99_us", "us p99", smaller_is_better=True)
MEMORY = Figure("bytes_per_connection", "B/client", smaller_is_better=True)


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of the table. ``settings`` are those of our side.

    If there is a ``floor`` as well as a target, a figure must reach both. ``beside`` is the load of
    a second generator, which runs all the while and is not measured.
    """

    id: str
    title: str
    load: str
    figure: Figure = RATE
    target: Target | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    group: str = "core"
    peers: tuple[Peer, ...] = (MOSQUITTO,)
    floor: Target | None = None
    driver: str = MQLOAD
    beside: str = ""

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return all targets of the figure."""
        return tuple(bound for bound in (self.target, self.floor) if bound is not None)

    @property
    def is_fire_and_forget(self) -> bool:
        """Whether messages are captured in the background, which may drop some and counts them."""
        if "-P 0" in self.load:
            return False
        if "-m" in self.load or self.driver == CLIENT:
            return "-m resp-pubsub" in self.load
        return "-q" not in self.load

    @property
    def is_flushed(self) -> bool:
        """Whether every reply waits for the disk, which is then part of the figure."""
        return self.figure in (ANSWERED, SETTLED) or self.group in ("queue", "waiting")

    @property
    def is_signed(self) -> bool:
        """Whether frames must be signed first, and the key registered."""
        return FRAMES in self.load

    def of_peer(self, peer: Peer) -> "Workload":
        """Return the same workload for a peer."""
        settings = self.settings if peer.has_settings else {}
        return replace(self, load=peer.load or self.load, settings=settings, driver=MQLOAD)

    def of_broker(self, name: str) -> "Workload":
        """Return the same workload for a broker in our place: by the protocol that it speaks."""
        own = next((peer for peer in self.peers if peer.name == name), None)
        return self if own is None else replace(self, load=own.load or self.load)
