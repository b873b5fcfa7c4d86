"""Publishing by HTTP: one message, admitted as at every door, told where it lies on the disk."""

from penstock.access.admission import Refusal
from penstock.commit.completion import FutureCompletion
from penstock.core.completion import Journaled
from penstock.limits import HTTP_PAYLOAD_BYTES_MAX
from penstock.model.principal import ANYONE
from penstock.node.hub import Hub


class NodeTopicPublisher:
    """Publishes for the HTTP pages; see ``admin.view.TopicPublisher``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    @property
    def payload_bytes_max(self) -> int:
        """The largest payload that is taken."""
        return min(self._hub.limits.packet_bytes_max, HTTP_PAYLOAD_BYTES_MAX)

    def refusal(self, topic: bytes) -> Refusal | None:
        """Say why a message may not be published to a topic, and count it; None if it may."""
        route = self._hub.admission.admit_unsigned(ANYONE, topic)
        return route if isinstance(route, Refusal) else None

    async def publish(self, topic: bytes, payload: bytes, *, retain: bool) -> int:
        """Publish with QoS 1; return the offset once it is on disk. Raises PenstockError."""
        hub, now_ms = self._hub, self._hub.wall_ms()
        waiter = FutureCompletion("the message is not stored")
        hub.counters.messages_in_total[1] += 1
        hub.pipeline.publish(topic, [payload], now_ms, qos=1, retain=retain)
        hub.pipeline.tell_offsets(topic, 1, waiter, now_ms)
        journaled = await waiter.future
        assert isinstance(journaled, Journaled)
        return journaled.offset
