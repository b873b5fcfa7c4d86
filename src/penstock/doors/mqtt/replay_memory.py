"""What replays hold in memory: messages that were read and not sent, live ones that must wait.

All of it is bounded. Messages read ahead, and the ids of topics, are counted for all connections.
Beyond the bound the replay that was served longest ago forgets what it has read, and reads it again
in its turn.
"""

from collections import OrderedDict, deque
from typing import Final, Protocol

from penstock.core.delivery import Delivery
from penstock.core.live import Live, LiveClient
from penstock.core.replay_offers import ReplayOffer
from penstock.core.subscription_options import Marks, is_marked
from penstock.limits import MIB
from penstock.model.message import Message
from penstock.obs.reasons import DisconnectReason
from penstock.store.history import History
from penstock.trust.principal import Principal

COLLECTED_BYTES_MAX: Final = MIB  # live messages that wait for the last page
MEMORY_BYTES_MAX: Final = 64 * MIB  # of all replays
COMMITS_AWAITED: Final = 4  # by a replay of the last messages, which may not be written yet
MESSAGE_BYTES: Final = 300  # rough memory of a message beside its payload


class MarkedClient(LiveClient, Protocol):
    """A connection whose subscriptions may have identifiers."""

    def forward_marked(self, live: Live, marks: Marks) -> None: ...


class LiveCollector:
    """Keeps live messages until the last page was sent, then hands them on."""

    __slots__ = ("_client", "_live", "_marks", "bytes")

    def __init__(self, client: MarkedClient, options: int) -> None:
        """``options`` are those of the subscription."""
        self._client = client
        self._marks = Marks.of([options]) if is_marked(options) else None
        self._live: list[Live] = []
        self.bytes = 0

    @property
    def principal(self) -> Principal:
        return self._client.principal

    @property
    def is_full(self) -> bool:
        return self.bytes > COLLECTED_BYTES_MAX

    def forward(self, live: Live) -> None:
        if self.is_full:
            return  # it is too late: the subscription will leave the routes again
        self.bytes += sum(len(payload) for run in live.runs for payload in run.payloads)
        self._live.append(live)

    def pass_on(self) -> None:
        for live in self._live:
            if self._marks is None:
                self._client.forward(live)
            else:
                self._client.forward_marked(live, self._marks)
        self._live = []

    def deliver(self, deliveries: list[Delivery]) -> None:
        self._client.deliver(deliveries)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self._client.close(reason, detail)


class Reading:
    """How far the journal was read for one replay, and what was read and not sent."""

    __slots__ = (
        "collector",
        "end",
        "history",
        "is_forgotten",
        "is_reading",
        "low",
        "number",
        "offer",
        "unsent",
        "waits_for",
        "waits_left",
    )

    def __init__(self, offer: ReplayOffer, history: History) -> None:
        self.offer = offer
        self.number = offer.number
        self.history = history
        self.low = max(offer.after + 1, 0)  # what is read next
        self.unsent: deque[Message] = deque()
        self.is_reading = False
        self.is_forgotten = False
        self.collector: LiveCollector | None = None  # since the subscription has joined
        self.waits_for = 0  # reading begins when the journal has come to this sequence,
        self.waits_left = COMMITS_AWAITED  # or after as many commits: some of them may fail
        self.end = 0  # history ends there, once the subscription has joined

    @property
    def bytes(self) -> int:
        unsent = sum([len(message.payload) for message in self.unsent])
        return self.history.held_bytes + unsent + MESSAGE_BYTES * len(self.unsent)


class ReplayMemory:
    """Bounds what the replays of all connections have read ahead."""

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[Reading, int] = OrderedDict()
        self.bytes = 0

    def note(self, reading: Reading) -> None:
        """A replay has read. What it sends until it reads again still counts."""
        self.forget(reading)
        self._held[reading] = reading.bytes
        self.bytes += self._held[reading]
        while self.bytes > self._bytes_max and len(self._held) > 1:
            oldest = next(iter(self._held))
            oldest.is_forgotten = True
            self.forget(oldest)

    def served(self, reading: Reading) -> None:
        if reading in self._held:
            self._held.move_to_end(reading)

    def forget(self, reading: Reading) -> None:
        self.bytes -= self._held.pop(reading, 0)
