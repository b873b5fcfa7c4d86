"""One direction of a bridge: deliveries of one session become publishes of the other.

**At least once.** A delivery of QoS 1 is acknowledged where it came from when the other side has
acknowledged its publish. Whatever breaks in between, the message is still with the session that it
came from, and comes again. Acknowledgements of a side come in the order of the publishes
[MQTT-4.6.0-2], so a queue of what is in flight is all that is remembered; its length is bounded by
the receive maximum that the bridge announces. QoS 2 is copied as QoS 1.

There is no socket and no clock here.
"""

from collections import deque
from typing import Final

from penstock.bridge.mapping import Direction, Mapping
from penstock.bridge.path import Hops
from penstock.client.errors import RefusedError
from penstock.client.mqtt.properties import NONE
from penstock.client.mqtt.session import VERSION_5, Delivery, MqttSession
from penstock.errors import LocalProtocolError
from penstock.obs.reasons import BridgeDropReason

WINDOW: Final = 100  # messages in flight in each direction


class Traffic:
    """What one direction did since the broker started."""

    __slots__ = ("copied", "drops")

    def __init__(self) -> None:
        self.copied = 0  # acknowledged by the other side, or QoS 0 and sent
        self.drops = dict.fromkeys(BridgeDropReason, 0)


class Forwarding:
    """Copies from one session to the other, for as long as both are connected."""

    def __init__(
        self,
        direction: Direction,
        mapping: Mapping,
        hops: Hops,
        origin: MqttSession,
        target: MqttSession,
        traffic: Traffic,
    ) -> None:
        self._direction = direction
        self._mapping = mapping
        self._hops = hops
        self._origin = origin
        self._target = target
        self._traffic = traffic
        self._window = min(WINDOW, target.limits.receive_maximum)
        self._waiting: deque[Delivery] = deque()  # for room in the window
        self._in_flight: deque[Delivery] = deque()
        self._answered = target.confirmed

    @property
    def in_flight(self) -> int:
        return len(self._in_flight) + len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether to stop reading; brokers of 3.1.1 do not know how much we take."""
        return len(self._waiting) >= WINDOW

    def take(self, delivery: Delivery) -> None:
        """Copy what arrived: at once, or in its turn."""
        if self._waiting or (delivery.qos and len(self._in_flight) >= self._window):
            self._waiting.append(delivery)
        else:
            self._copy(delivery)

    def settle(self) -> None:
        """Acknowledge what the other side has answered since; call it after each ``receive``."""
        refused = self._target.take_refusals().count
        self._traffic.drops[BridgeDropReason.REFUSED] += refused
        count = self._target.confirmed - self._answered
        self._answered = self._target.confirmed
        self._traffic.copied += count
        done = [self._in_flight.popleft() for _ in range(count + refused)]
        if done:
            self._origin.acknowledge(done)
        while self._waiting and len(self._in_flight) < self._window:
            self._copy(self._waiting.popleft())

    def _copy(self, delivery: Delivery) -> None:
        """Publish it, or drop it for a reason that is counted."""
        limits = self._target.limits
        qos = min(delivery.qos, 1, limits.qos_max)
        reason = self._publish(delivery, qos, retain=delivery.retain and limits.has_retain)
        if reason is None and qos:
            self._in_flight.append(delivery)
            return
        if reason is None:
            self._traffic.copied += 1
        else:
            self._traffic.drops[reason] += 1
        self._origin.acknowledge([delivery])

    def _publish(self, delivery: Delivery, qos: int, *, retain: bool) -> BridgeDropReason | None:
        topic = self._mapping.renamed(delivery.topic, self._direction)
        if topic is None:
            return BridgeDropReason.NOT_MAPPED
        properties = self._hops.extended(delivery.properties, self._direction)
        if properties is None:
            return BridgeDropReason.LOOP
        if self._target.version < VERSION_5:
            properties = NONE
        try:
            self._target.publish(topic, delivery.payload, qos, retain=retain, properties=properties)
        except (LocalProtocolError, RefusedError):
            return BridgeDropReason.NOT_TAKEN
        return None
