"""Statistics of the broker under ``$SYS``, for any MQTT client.

Published with QoS 0 at a fixed interval, and retained in memory for new subscribers. None is
journaled.
"""

from collections.abc import Callable, Iterator

from penstock.clock import Clock
from penstock.core.broker import Broker
from penstock.core.live import Live
from penstock.core.retained import RetainedMessage
from penstock.delivery.fanout import LiveFanout
from penstock.store.store import Store


class SysTopics:
    """Publishes the statistics."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        fanout: LiveFanout,
        clock: Clock,
        version: str,
        uptime_s: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._store = store
        self._fanout = fanout
        self._clock = clock
        self._version = version
        self._uptime_s = uptime_s
        self._last: dict[bytes, bytes] = {}

    def publish(self) -> None:
        for name, value in self._values():
            topic, payload = b"$SYS/broker/" + name.encode(), str(value).encode()
            if self._last.get(topic) != payload:
                self._last[topic] = payload
                self._publish(topic, payload)

    def _publish(self, topic: bytes, payload: bytes) -> None:
        message = RetainedMessage(topic, payload, 0, self._clock.wall_ms(), 0)
        self._broker.retained.set_ephemeral(message)
        route = self._broker.routes.resolve(topic)
        self._fanout.forward(route.targets, Live.of(topic, [payload]), route.marked)

    def _values(self) -> Iterator[tuple[str, object]]:
        broker, counters = self._broker, self._broker.counters
        yield "version", f"penstock {self._version}"
        yield "uptime", int(self._uptime_s())
        yield "clients/connected", counters.clients_connected
        yield "clients/disconnected", len(broker.away)
        yield "clients/total", counters.clients_connected + len(broker.away)
        yield "messages/received", sum(counters.messages_in_total)
        yield "messages/sent", sum(counters.messages_out_total)
        yield "messages/dropped", sum(counters.drops.values())
        yield "messages/queued", broker.queues.count
        yield "bytes/received", counters.bytes_in_total
        yield "bytes/sent", counters.bytes_out_total
        yield "subscriptions/count", broker.routes.subscription_count
        yield "retained/count", broker.retained.count
        yield "journal/sequence", self._store.next_sequence - 1
