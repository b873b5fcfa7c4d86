"""Publishing by HTTP: one message, admitted as at every door, told where it lies on the disk."""

from penstock.access.envelopes import unsigned_refusal
from penstock.commit.waiter import Waiter
from penstock.limits import HTTP_PAYLOAD_BYTES_MAX
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason


class NodeTopicPublisher:
    """Publishes for the HTTP pages; see ``admin.view.TopicPublisher``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    @property
    def payload_bytes_max(self) -> int:
        """The largest payload that is taken."""
        return min(self._hub.limits.packet_bytes_max, HTTP_PAYLOAD_BYTES_MAX)

    def refusal(self, topic: bytes) -> tuple[DisconnectReason, str] | None:
        """Say why a message may not be published to a topic, and count it; None if it may."""
        return unsigned_refusal(self._hub, topic, 1)

    async def publish(self, topic: bytes, payload: bytes, *, retain: bool) -> int:
        """Publish with QoS 1; return the offset once it is on disk. Raises PenstockError."""
        hub, now_ms = self._hub, self._hub.wall_ms()
        waiter = _Published(hub, "the message is not stored")
        hub.counters.messages_in_total[1] += 1
        hub.pipeline.publish(topic, [payload], now_ms, qos=1, retain=retain)
        hub.pipeline.tell_offsets(topic, 1, waiter, now_ms)
        return int(await waiter.done)


class _Published(Waiter):
    """Somebody who waits for a message to be on disk."""

    def stored(self, offset: int, _now_ms: int) -> None:
        """It is."""
        self.outcome(offset)
