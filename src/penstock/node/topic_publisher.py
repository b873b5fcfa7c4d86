"""Publishing by HTTP: one message per request, answered with its offset."""

from penstock.access.admission import Admission, Refusal
from penstock.access.audit import CALLER
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.completion import Journaled
from penstock.limits import HTTP_PAYLOAD_BYTES_MAX
from penstock.model.message import Extras
from penstock.model.mqtt_headers import Headers
from penstock.net.connections import Connections
from penstock.trust.principal import Principal


class NodeTopicPublisher:
    """Publishes for the HTTP pages; see ``admin.view.TopicPublisher``."""

    def __init__(self, admission: Admission, pipeline: Pipeline, connections: Connections) -> None:
        self._admission = admission
        self._pipeline = pipeline
        self._connections = connections

    @property
    def payload_bytes_max(self) -> int:
        return min(self._connections.limits.packet_bytes_max, HTTP_PAYLOAD_BYTES_MAX)

    def refusal(self, principal: Principal, topic: bytes) -> Refusal | None:
        """Why publishing to a topic is refused, counted; None if it is admitted."""
        route = self._admission.admit_unsigned(principal, topic)
        return route if isinstance(route, Refusal) else None

    async def publish(
        self, topic: bytes, payload: bytes, *, retain: bool, headers: Headers, expiry_s: int
    ) -> int:
        """Publish with QoS 1; return the offset once it is on disk. Raises PenstockError."""
        now_ms = self._connections.wall_ms()
        extras = Extras(headers, expires_ms=now_ms + expiry_s * 1000 if expiry_s else 0)
        waiter = FutureCompletion("the message is not stored")
        self._connections.counters.messages_in_total[1] += 1
        author = CALLER.get().author
        self._pipeline.publish(
            topic,
            [payload],
            now_ms,
            qos=1,
            retain=retain,
            author=author,
            extras=[extras] if headers or expiry_s else None,
        )
        self._pipeline.tell_offsets(topic, 1, waiter, now_ms)
        journaled = await waiter.future
        assert isinstance(journaled, Journaled)
        return journaled.offset
