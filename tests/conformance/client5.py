"""A client of version 5 that sends exactly what a test tells it to.

What it receives goes through ``packets5.parse``, which is strict. Which reason code ends a
connection is a SHOULD of the standard; closing is the MUST. So our own broker is held to the code,
and a foreign one (``PENSTOCK_TEST_TARGET``) to closing.
"""

import itertools

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Packet, Value, Values
from tests.conformance.wire_client import TARGET, WireClient, shown

__all__ = ["Client5"]

_marker_numbers = itertools.count()


class Client5(WireClient):
    """One blocking TCP connection to the broker, read as version 5."""

    connack: Packet
    """The broker's answer to CONNECT, once there is one."""

    # ── Sending ───────────────────────────────────────────────────────────────────────────────
    def disconnect(self, code: int | None = None, **properties: Values) -> None:
        """Send DISCONNECT, and see the broker close."""
        self.send(v5.disconnect(code, **properties))
        self.expect_close()

    # ── Expecting ─────────────────────────────────────────────────────────────────────────────
    def take(self) -> Packet:
        """The next packet, read and checked."""
        raw = self.receive()
        try:
            return v5.parse(raw)
        except (AssertionError, KeyError, UnicodeDecodeError) as error:
            raise AssertionError(f"{error}: {shown(raw)}") from error

    def expect_connack(self, code: int = 0, *, session_present: bool = False) -> Packet:
        """CONNACK with this code; a refusal is followed by the end."""
        self.connack = self.take()
        assert self.connack.kind == v5.CONNACK, self.connack
        assert self.connack.code == code or (TARGET and self.connack.code >= 0x80 <= code)
        assert self.connack.session_present == session_present
        if code >= 0x80:
            self.expect_close()
        return self.connack

    def expect_refusal(self, code: int) -> Packet | None:
        """CONNECT is refused with this code; a foreign broker may close without a word."""
        raw = self.receive()
        if TARGET and not raw:
            return None
        refusal = v5.parse(raw)
        assert refusal.kind == v5.CONNACK, refusal
        assert not refusal.session_present, "[MQTT-3.2.2-6]"
        assert refusal.code == code or (TARGET and refusal.code >= 0x80), hex(refusal.code)
        self.expect_close()
        return refusal

    def expect_disconnect(self, code: int) -> Packet | None:
        """The broker says why it closes, and closes; a foreign one may close without a word."""
        raw = self.receive()
        if TARGET and not raw:
            return None
        ended = v5.parse(raw)
        assert ended.kind == v5.DISCONNECTED, ended
        assert ended.code == code or (TARGET and ended.code >= 0x80), hex(ended.code)
        assert "session_expiry" not in ended.properties, "[MQTT-3.14.2-2]"
        self.expect_close()
        return ended

    def expect_ack(self, kind: int, packet_id: int, code: int = 0) -> Packet:
        """PUBACK, PUBREC, PUBREL or PUBCOMP with this code; a foreign broker may refuse otherwise."""
        ack = self.take()
        assert (ack.kind, ack.packet_id) == (kind, packet_id), ack
        assert ack.code == code or (TARGET and ack.code >= 0x80 <= code), hex(ack.code)
        return ack

    def expect_publish(  # type: ignore[override]  # version 5 adds properties and returns them
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        **properties: Value | list[Value],
    ) -> Packet:
        """A PUBLISH like this, with exactly these properties; its packet id is the broker's choice."""
        received = self.take()
        named = {k: v if isinstance(v, list) else [v] for k, v in properties.items()}
        actual = (received.topic, received.payload, received.qos, received.retain, received.dup)
        assert (received.kind, *actual) == (v5.PUBLISH, topic, payload, qos, retain, dup), received
        ids = sorted(map(str, named.pop("subscription_id", [])))  # their order says nothing
        rest = {k: v for k, v in received.properties.items() if k != "subscription_id"}
        assert rest == named, received
        assert sorted(map(str, received.properties.get("subscription_id", []))) == ids, received
        return received

    def expect_nothing_from(self, publisher: WireClient) -> None:
        """What ``publisher`` sent so far causes no further packets to this client."""
        topic = f"marker5/{next(_marker_numbers)}/{id(self)}"
        self.subscribe((topic, 0), packet_id=0xFFFF)
        publisher.publish_acknowledged(topic, b"marker", packet_id=0xFFFF)
        self.expect_publish(topic, b"marker")
        self.unsubscribe(topic, packet_id=0xFFFF)

    # ── Whole exchanges ───────────────────────────────────────────────────────────────────────
    def subscribe(
        self,
        *requests: tuple[str | bytes, int],
        packet_id: int = 1,
        **properties: Values,
    ) -> None:
        """Subscribe, and be granted the requested QoS."""
        self.send(v5.subscribe(packet_id, *requests, **properties))
        self.expect_suback(packet_id, *(options & 3 for _, options in requests))

    def expect_suback(self, packet_id: int, *codes: int) -> Packet:
        suback = self.take()
        assert (suback.kind, suback.packet_id) == (v5.SUBACK, packet_id), suback
        assert suback.codes == codes, suback
        return suback

    def unsubscribe(self, *filters: str | bytes, packet_id: int = 1) -> None:
        """Unsubscribe from filters that are there."""
        self.send(v5.unsubscribe(packet_id, *filters))
        self.expect_unsuback(packet_id, *(0 for _ in filters))

    def expect_unsuback(self, packet_id: int, *codes: int) -> Packet:
        unsuback = self.take()
        assert (unsuback.kind, unsuback.packet_id) == (v5.UNSUBACK, packet_id), unsuback
        assert unsuback.codes == codes, unsuback
        return unsuback

    def publish_acknowledged(
        self,
        topic: str | bytes,
        payload: bytes = b"",
        *,
        qos: int = 1,
        packet_id: int = 1,
        retain: bool = False,
        **properties: Values,
    ) -> None:
        """Publish, and complete the exchange of its QoS (QoS 0: a ping)."""
        identifier = packet_id if qos else None
        self.send(
            v5.publish(topic, payload, qos=qos, packet_id=identifier, retain=retain, **properties)
        )
        if qos == 0:
            self.ping()
        elif qos == 1:
            self.expect_accepted(v5.PUBACK, packet_id)
        else:
            self.expect_accepted(v5.PUBREC, packet_id)
            self.send(v5.pubrel(packet_id))
            self.expect_accepted(v5.PUBCOMP, packet_id)

    def expect_accepted(self, kind: int, packet_id: int) -> None:
        """An acknowledgement below 0x80: 0x10 says that nobody subscribes."""
        ack = self.take()
        assert (ack.kind, ack.packet_id) == (kind, packet_id), ack
        assert ack.code < 0x80, ack

    def acknowledge(self, received: Packet) -> None:
        """Complete the exchange of a PUBLISH that came, whatever its QoS."""
        if received.qos == 1:
            self.send(v5.puback(received.packet_id))
        elif received.qos == 2:
            self.send(v5.pubrec(received.packet_id))
            self.expect_ack(v5.PUBREL, received.packet_id)
            self.send(v5.pubcomp(received.packet_id))
