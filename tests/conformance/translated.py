"""A client that speaks version 5 to the broker and 3.1.1 to the test.

Most of what a test of 3.1.1 claims holds for version 5 as well: matching, order, retained messages,
queues of sessions, wills, exchanges of QoS 1 and 2. Such a test is written once, in the packets of
3.1.1, and run for both versions (the fixture ``version``): here each of its packets becomes the
packet of version 5 that asks for the same, and each answer the packet of 3.1.1 that says the same.
What only version 5 can say is proven in ``tests/conformance/v5``.

Both ways go packet by packet, by the codec of the tests. A packet that is malformed, or ends before
it is whole, goes out as it is.
"""

from tests.conformance import packets5 as v5
from tests.conformance import wire_client as v4
from tests.conformance.packets5 import Packet

__all__ = ["Translated"]

FOR_EVER = 4_294_967_295


class Translated(v4.WireClient):
    """``WireClient`` for a broker that is to serve version 5."""

    def send(self, *packets: bytes) -> None:
        stream, out = b"".join(packets), []
        while stream:
            whole = _whole(stream)
            out.append(_to_version_5(whole) if whole else stream)
            stream = stream[len(whole) :] if whole else b""
        super().send(*out)

    def receive(self) -> bytes:
        raw = super().receive()
        return _to_version_4(v5.parse(raw)) if raw else raw

    def expect_close(self) -> None:
        """Closing is what both versions ask for; version 5 may say why first."""
        received = super().receive()
        if received:
            ended = v5.parse(received)
            assert ended.kind == v5.DISCONNECTED, f"expected the end, received {ended}"
            super().expect_close()


def _whole(stream: bytes) -> bytes:
    """The first packet, if it is whole."""
    length = shift = 0
    for position, digit in enumerate(stream[1:5], 2):
        length |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            return stream[: position + length] if len(stream) >= position + length else b""
    return b""


def _body(whole: bytes) -> bytes:
    return whole[next(i for i, digit in enumerate(whole[1:5], 2) if digit < 0x80) :]


def _to_version_5(whole: bytes) -> bytes:
    """Put in what version 5 asks for: an empty property block, mostly."""
    kind, body = whole[0] >> 4, _body(whole)
    if kind == v5.CONNECT:
        return _connect(whole, body)
    if kind == v5.PUBLISH and len(body) >= 2:
        end = 2 + int.from_bytes(body[:2], "big") + (2 if whole[0] & 0x06 else 0)
        return whole if end > len(body) else v4.packet(whole[0], body[:end], b"\0", body[end:])
    if kind in {v5.SUBSCRIBE, v5.UNSUBSCRIBE} and len(body) >= 2:
        return v4.packet(whole[0], body[:2], b"\0", body[2:])
    return whole


def _connect(whole: bytes, body: bytes) -> bytes:
    """Clean session 0 is a session for ever; level 4 becomes 5, any other stays."""
    if len(body) < 12 or body[6] != 4:
        return whole
    is_clean, has_will = body[7] & 0x02, body[7] & 0x04
    properties = b"\0" if is_clean else v5.block(session_expiry=FOR_EVER)
    end = 12 + int.from_bytes(body[10:12], "big")
    will = b"\0" if has_will else b""
    return v4.packet(
        whole[0], body[:6], b"\x05", body[7:10], properties, body[10:end], will, body[end:]
    )


def _to_version_4(received: Packet) -> bytes:
    """Leave out what 3.1.1 cannot say; a code it does not have stays as it is."""
    if received.kind == v5.CONNACK:
        return v4.connack(session_present=received.session_present, code=received.code)
    if received.kind == v5.PUBLISH:
        assert not set(received.properties) - {"message_expiry"}, received
        return v4.packet(
            0x30 | received.flags,
            v4.string(received.topic),
            received.packet_id.to_bytes(2, "big") if received.qos else b"",
            received.payload,
        )
    if received.kind == v5.SUBACK:
        return v4.suback(received.packet_id, *(min(code, 0x80) for code in received.codes))
    if received.kind == v5.UNSUBACK:
        return v4.unsuback(received.packet_id)
    if received.kind in {v5.PUBACK, v5.PUBREC, v5.PUBREL, v5.PUBCOMP}:
        first_byte = received.kind << 4 | (2 if received.kind == v5.PUBREL else 0)
        refusal = bytes([received.code]) if received.code >= 0x80 else b""
        return v4.packet(first_byte, received.packet_id.to_bytes(2, "big"), refusal)
    assert received.kind == 13, received
    return v4.PINGRESP
