"""Messages that the journal does not keep, for somebody who watches (``api.views.Tap``).

A real subscription, but only to what can match such topics: a watcher of ``#`` costs the traffic
that is journaled nothing. No more is kept than a screen shows; the rest is counted.
"""

from collections.abc import Callable
from typing import Final

from penstock.api.views import Tapped
from penstock.config.schema import Journal
from penstock.core.delivery import Delivery
from penstock.core.live import Live
from penstock.delivery.fanout import LiveFanout
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal

KEPT_MAX: Final = 50  # messages between two looks
JUDGED_MAX: Final = 4_096  # topics whose verdict is remembered


def uncaptured(topic_filter: bytes, journal: Journal) -> list[bytes]:
    """Filters for what a filter matches and the journal does not keep, and maybe for more."""
    if topic_filter.startswith(b"$") or not journal.capture:
        return [topic_filter]
    return [excluded.encode() for excluded in journal.capture_exclude]


class LiveTap:
    """Implements ``core.live.LiveClient`` for one watcher."""

    def __init__(
        self,
        fanout: LiveFanout,
        filters: list[bytes],
        principal: Principal,
        is_wanted: Callable[[bytes], bool],
        wall_ms: Callable[[], int],
    ) -> None:
        self.principal = principal
        self.wall_ms = wall_ms
        self._fanout = fanout
        self._filters = filters
        self._is_wanted = is_wanted
        self._judged: dict[bytes, bool] = {}
        self._kept: list[tuple[bytes, bytes]] = []
        self._skipped = 0
        for topic_filter in filters:
            fanout.listen(topic_filter, self)

    def forward(self, live: Live) -> None:
        for run in live.runs:
            if self._wants(run.topic):
                room = KEPT_MAX - len(self._kept)
                self._kept += [(run.topic, payload) for payload in run.payloads[:room]]
                self._skipped += max(len(run.payloads) - room, 0)

    def _wants(self, topic: bytes) -> bool:
        found = self._judged.get(topic)
        if found is None:
            if len(self._judged) >= JUDGED_MAX:
                self._judged.clear()
            found = self._judged[topic] = self._is_wanted(topic)
        return found

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Messages with a higher QoS: they are in the journal."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """There is no connection to close."""

    def take(self) -> Tapped:
        """What came since the last time."""
        taken = Tapped(self._kept, self._skipped)
        self._kept, self._skipped = [], 0
        self._judged.clear()  # rights may change
        return taken

    def leave(self) -> None:
        for topic_filter in self._filters:
            self._fanout.unlisten(topic_filter, self)
        self._fanout.forget(self)
